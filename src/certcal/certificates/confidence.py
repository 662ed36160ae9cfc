"""C2: between which values the smoothed confidence stays while the input moves by up to R.

So does the mean of a map of scores, which never falls. Proof: docs/recalibration.md, "Inside the expectation".
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from certcal.certificates import limits
from certcal.certificates.cells import CellLimits, MeanLimits
from certcal.certificates.intervals import ConfidenceIntervals
from certcal.certificates.looks import share_of_delta, shares_of_alpha
from certcal.certificates.radius import certify_radii
from certcal.errors import InputError
from certcal.inputs import as_probabilities
from certcal.scalars import check_choice, one_or_more
from certcal.settings import PREDICTION_SHARE, Method, RunnerUp, checks
from certcal.smoothing import CELLS, Evidence
from certcal.types import ArrayLike, BoolArray, FloatArray

# The paper's choices, as options of `confidence_bounds` and `evaluate`: its CDF certificate, and alpha for each of C1
# and C2.
PAPER: Mapping[str, Any] = MappingProxyType({"method": Method.CDF, "split_alpha": False})

_LIMITS: dict[Method, Callable[[Evidence, float], MeanLimits | CellLimits]] = {
    Method.STANDARD: limits.hoeffding_limits,
    Method.STANDARD_BERNSTEIN: limits.bernstein_limits,
    Method.CDF: limits.dkw_limits,
    Method.CDF_CP: limits.clopper_pearson_limits,
    Method.CDF_CP_MEAN: limits.combined_limits,
}
# Methods whose limits are of P(score ≥ s) at each threshold. The others know the mean of the score itself alone.
_OF_TAILS = (Method.CDF, Method.CDF_CP)


class StepFunction(Protocol):
    """A function of the score that has one value on each cell of the threshold grid and never falls."""

    @property
    def levels(self) -> FloatArray:
        """Its values, shape (256,)."""


def confidence_bounds(
    evidence: Evidence,
    *,
    radius: float,
    alpha: float,
    method: str = Method.CDF_CP,
    split_alpha: bool = True,
    prediction_share: float = PREDICTION_SHARE,
    runner_up: str = RunnerUp.COMPLEMENT,
    score_map: StepFunction | None = None,
) -> ConfidenceIntervals:
    """Certified intervals for the confidence of every input when it moves by up to `radius` in ℓ2.

    For each input, with probability at least 1 - alpha over the estimation draws, both hold: the smoothed probability
    of the predicted class lies in [lower, upper] at every point within `radius`, and if `certified`, the predicted
    class is the smoothed prediction at all those points. At radius 0 the interval is a plain confidence interval for
    the smoothed confidence at the input itself. The claim is made of each input, not of all of them together.

    Paper: App. A.1, C1 and C2.   Errs: outward, and towards not certified.

    Args:
        evidence: stored draws of a smoothed model.
        radius: R, in the units of the inputs.
        alpha: error probability, in (0, 1), of all looks at the draws together.
        method: "standard" (Hoeffding), "standard-bernstein", "cdf" (DKW), "cdf-cp" (Clopper–Pearson) or "cdf-cp-mean";
            see `Method`.
        split_alpha: one alpha for both certificates. False is the paper's reading: alpha for each, so that both hold
            with probability at least 1 - 2 alpha only.
        prediction_share: of an alpha that is split, the share for the class; the rest is for its confidence. Choose it
            before you look at the draws.
        runner_up: how C1 bounds the second class, "complement" or "bounded"; see `RunnerUp`.
        score_map: a step function h of each draw's score, such as `recalibration.fit_score_map` gives. The confidence
            is then the mean of h over the noise; needs the method "cdf" or "cdf-cp".

    Raises: InputError if an option is out of range or the evidence contradicts itself.
    """
    checks.radius("radius", radius)
    return confidence_bounds_at(
        evidence,
        radii=radius,
        alpha=alpha,
        method=method,
        split_alpha=split_alpha,
        prediction_share=prediction_share,
        runner_up=runner_up,
        score_map=score_map,
    )[0]


def confidence_bounds_at(
    evidence: Evidence,
    *,
    radii: Iterable[float] | float,
    alpha: float,
    method: str = Method.CDF_CP,
    split_alpha: bool = True,
    prediction_share: float = PREDICTION_SHARE,
    runner_up: str = RunnerUp.COMPLEMENT,
    score_map: StepFunction | None = None,
) -> list[ConfidenceIntervals]:
    """The `confidence_bounds` at each of several radii, for little more than the price of one.

    All radii rest on the same event: for each input, with probability at least 1 - alpha, all its intervals hold.

    Paper: App. A.1, C1 and C2.   Errs: outward, and towards not certified.
    """
    distances = [checks.radius("radii", radius) for radius in one_or_more("radii", radii)]
    check_choice("method", method, tuple(Method))
    levels = None
    if score_map is not None and isinstance(evidence, Evidence):  # what is none is refused next
        levels = levels_of(score_map, method, evidence.temperature)
    asked = (alpha, method, split_alpha, prediction_share, runner_up)
    known = (_REMEMBERED.get() or {}).get(id(evidence))
    key = (*distances, *asked, None if levels is None else levels.tobytes())
    if known is not None and key in known:
        return list(known[key])
    certified, found, terms = _event(evidence, *asked)
    made = [_intervals(evidence, found, levels, certified, distance, terms) for distance in distances]
    if score_map is not None:
        made = [replace(own, mapped_by=(score_map,)) for own in made]
    if known is not None:
        known[key] = tuple(made)
    return made


_Known = dict[int, dict[Any, tuple[ConfidenceIntervals, ...]]]
_REMEMBERED: ContextVar[_Known | None] = ContextVar("remembered", default=None)


@contextmanager
def remembered(several: Iterable[Evidence]) -> Iterator[None]:
    """Within this context bounds of these pieces of evidence, which nobody may change meanwhile, are made only once."""
    kept = list(several)  # while they live, no other object has their number
    token = _REMEMBERED.set({id(one): {} for one in kept})
    try:
        yield
    finally:
        _REMEMBERED.reset(token)


def _event(
    evidence: Evidence,
    alpha: float,
    method: str = Method.CDF_CP,
    split_alpha: bool = True,
    prediction_share: float = PREDICTION_SHARE,
    runner_up: str = RunnerUp.COMPLEMENT,
) -> tuple[FloatArray, MeanLimits | CellLimits, dict[str, Any]]:
    """What holds of every input at all radii with probability at least 1 - alpha, and the terms to record with it.

    Its certified radius, and limits of its confidence at the input itself.
    """
    first, second = shares_of_alpha(alpha, split_alpha=split_alpha, prediction_share=prediction_share)
    terms: dict[str, Any] = {
        "alpha": float(alpha),
        "method": Method(check_choice("method", method, tuple(Method))),
        "split_alpha": split_alpha,
        "prediction_share": prediction_share,
        "runner_up": RunnerUp(check_choice("runner_up", runner_up, tuple(RunnerUp))),
    }
    radius = certify_radii(evidence, alpha=first, runner_up=runner_up).radius
    return radius, _LIMITS[terms["method"]](evidence, second), terms


def _intervals(
    evidence: Evidence,
    found: MeanLimits | CellLimits,
    levels: FloatArray | None,
    radius: FloatArray,
    distance: float,
    terms: dict[str, Any],
) -> ConfidenceIntervals:
    shift, estimate = evidence.header.shift(distance), evidence.confidence
    # How far the probabilities of a draw may add up to more than 1: softmax rounds, and models that give probabilities
    # are allowed a thousandth.
    slack = 2.0**-20 if evidence.header.outputs == "logits" else 1e-3
    if levels is None or not isinstance(found, CellLimits):
        lower, upper = found.at(shift)
        other: FloatArray | None = np.minimum(1.0 - lower + slack, 1.0)
    else:
        lower, upper = found.at(shift, levels)
        estimate = evidence.histogram @ levels / evidence.draws
        other = found.other_at(shift, levels) if evidence.header.outputs == "logits" else None
    return ConfidenceIntervals(
        lower=lower,
        upper=upper,
        # Rounding in the sum may leave the estimate of a saturated input just above 1.
        confidence=np.clip(estimate, lower, upper),
        predicted=evidence.selected,
        correct=evidence.correct,
        index=evidence.index,
        content=evidence.content,
        label=evidence.label,
        certified=radius >= distance,
        certified_radius=radius,
        radius=distance,
        delta_share=share_of_delta(evidence),
        temperature=evidence.temperature,
        other=other,
        least=0.0 if levels is None else float(levels[0]),
        drawn=evidence.drawn,
        origin=evidence.header.origin | ({} if levels is None else {"before": after_scores(levels)}),
        **terms,
    )


def levels_of(score_map: StepFunction, method: str, temperature: float) -> FloatArray:
    """The values of a map of scores; an `InputError` if it is none, the method cannot certify it, or its scores differ.

    A map keeps the temperature of the scores that it was fitted to, and deployment divides logits by it.
    """
    if not hasattr(score_map, "levels"):
        wanted = "be a map of scores, from `fit_score_map` (others: `evaluate(recalibration=…)`)"
        raise InputError.expected("score_map", wanted, type(score_map).__name__)
    fitted = getattr(score_map, "divisor", None)
    if fitted not in (None, temperature):
        wanted = f"be fitted at the temperature {temperature:g} of the evidence"
        raise InputError.expected("score_map", wanted, f"one for `evidence.at_temperature({fitted:g})`")
    _check_tails(method)
    return as_levels(score_map.levels)


def after_scores(levels: FloatArray) -> str:
    """By what confidences after a map of scores are known: a digest of its values."""
    return sha256(levels.tobytes()).hexdigest()


def as_levels(levels: ArrayLike) -> FloatArray:
    """The values of a step function on the cells of the grid: 256 of them in [0, 1] that never fall."""
    values = as_probabilities("levels", levels)
    if len(values) != CELLS:
        raise InputError.expected("levels", f"be {CELLS} values, one for each cell of the grid", len(values))
    if (np.diff(values) < 0).any():
        raise InputError.expected("levels", "never fall", f"a fall at index {int(np.argmax(np.diff(values) < 0)) + 1}")
    return values


class TailLimits:
    """Limits of P(score ≥ s) of every input at every threshold, and who is certified: what score maps are fitted to."""

    def __init__(self, evidence: Evidence, *, alpha: float, method: str = Method.CDF_CP, **terms: Any) -> None:
        """Terms as for `confidence_bounds`."""
        _check_tails(check_choice("method", method, tuple(Method)))
        self.evidence = evidence
        self._radius, self._limits, _ = _event(evidence, alpha, method, **terms)

    def certified(self, radius: float) -> BoolArray:
        """Which inputs are certified at a radius, shape (n,)."""
        return np.asarray(self._radius >= checks.radius("radii", radius))

    def at(self, radius: float, rows: BoolArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Lower and upper limits of some inputs within a radius, (rows, 255), in order and some rows at a time."""
        assert isinstance(self._limits, CellLimits)
        return self._limits.tails(self.evidence.header.shift(radius), rows)


def _check_tails(method: str) -> None:
    if method not in _OF_TAILS:
        raise InputError.expected("method", "be 'cdf' or 'cdf-cp' with a map of scores", f"'{method}'")

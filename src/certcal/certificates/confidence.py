"""C2: between which values the smoothed confidence stays while the input moves by up to R."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from certcal.certificates import limits
from certcal.certificates.cells import CellLimits, MeanLimits
from certcal.certificates.intervals import ConfidenceIntervals
from certcal.certificates.looks import share_of_delta
from certcal.certificates.radius import Radii, certify_radii
from certcal.certificates.shares import shares_of_alpha
from certcal.certificates.tails import StepFunction, levels_of
from certcal.scalars import check_choice, one_or_more
from certcal.settings import PREDICTION_SHARE, Method, RunnerUp, checks
from certcal.smoothing import Evidence
from certcal.types import FloatArray

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
    first, second = shares_of_alpha(alpha, split_alpha=split_alpha, prediction_share=prediction_share)
    terms: dict[str, Any] = {
        "alpha": float(alpha),
        "method": Method(check_choice("method", method, tuple(Method))),
        "split_alpha": split_alpha,
        "prediction_share": prediction_share,
        "runner_up": RunnerUp(check_choice("runner_up", runner_up, tuple(RunnerUp))),
    }
    levels = None if score_map is None else levels_of(score_map, terms["method"], evidence.temperature)
    certified = certify_radii(evidence, alpha=first, runner_up=runner_up)
    found = _LIMITS[terms["method"]](evidence, second)
    return [_intervals(evidence, found, levels, certified, distance, terms) for distance in distances]


def _intervals(
    evidence: Evidence,
    found: MeanLimits | CellLimits,
    levels: FloatArray | None,
    radii: Radii,
    distance: float,
    terms: dict[str, Any],
) -> ConfidenceIntervals:
    shift, estimate = evidence.header.shift(distance), evidence.confidence
    # How far the probabilities of a draw may add up to more than 1: softmax rounds, and models that give probabilities
    # are allowed a thousandth.
    slack = 2.0**-20 if evidence.header.outputs == "logits" else 1e-3
    other: FloatArray | None
    if levels is None or not isinstance(found, CellLimits):
        lower, upper = found.at(shift)
        other = np.minimum(1.0 - lower + slack, 1.0)
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
        certified=radii.radius >= distance,
        certified_radius=radii.radius,
        radius=distance,
        delta_share=share_of_delta(evidence),
        temperature=evidence.temperature,
        other=other,
        least=0.0 if levels is None else float(levels[0]),
        **terms,
    )

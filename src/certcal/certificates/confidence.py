"""C2: between which values the smoothed confidence stays while the input moves by up to R."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from certcal.certificates import limits
from certcal.certificates.cells import CellLimits, MeanLimits
from certcal.certificates.looks import share_of_delta
from certcal.certificates.radius import Radii, certify_radii
from certcal.scalars import check_choice, check_flag, check_level, check_number, one_or_more
from certcal.settings import Method, RunnerUp
from certcal.smoothing import Counts, Evidence
from certcal.types import BoolArray, FloatArray

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


@dataclass(frozen=True, eq=False)
class ConfidenceIntervals:
    """Certificates of the n inputs at one radius R: the class stays (C1), its confidence stays in [lower, upper] (C2).

    "Confidence" is the smoothed probability of the predicted class A, bounded both ways, not the largest smoothed
    probability of any class.
    """

    lower: FloatArray  # (n,) bounds of the confidence at every point within R; hold whether or not A is certified
    upper: FloatArray  # (n,)
    confidence: FloatArray  # (n,) its estimate at the input itself, in [lower, upper]
    predicted: Counts  # (n,) class A, chosen by the selection draws
    correct: BoolArray  # (n,) whether A is the label
    certified: BoolArray  # (n,) whether certified_radius ≥ R; an abstained input is not
    certified_radius: FloatArray  # (n,) within which A stays the prediction; NaN where that certificate abstains
    radius: float  # R
    alpha: float  # error probability per input: of both certificates together if split_alpha, of each if not
    method: Method
    split_alpha: bool
    runner_up: RunnerUp = RunnerUp.COMPLEMENT
    delta_share: float = 1.0  # of delta, that a claim about the population may spend at this look at the draws

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def level(self) -> float:
        """With which probability one of an input's two certificates may fail: α, or 2 α in the paper's reading."""
        return self.alpha if self.split_alpha else min(2 * self.alpha, 1.0)

    @property
    def terms(self) -> dict[str, Any]:
        """What `confidence_bounds` was asked, but for the radius."""
        return {name: getattr(self, name) for name in ("alpha", "method", "split_alpha", "runner_up")}

    def select(self, keep: BoolArray | Counts) -> "ConfidenceIntervals":
        """The certificates of some of the inputs, chosen by a mask or by positions."""
        names = ("lower", "upper", "confidence", "predicted", "correct", "certified", "certified_radius")
        return replace(self, **{name: getattr(self, name)[keep] for name in names})


def confidence_bounds(
    evidence: Evidence,
    *,
    radius: float,
    alpha: float,
    method: str = Method.CDF_CP,
    split_alpha: bool = True,
    runner_up: str = RunnerUp.COMPLEMENT,
) -> ConfidenceIntervals:
    """Certified intervals for the confidence of every input when it moves by up to `radius` in ℓ2.

    For each input, with probability at least 1 - alpha over the estimation draws, both hold: the smoothed probability
    of the predicted class lies in [lower, upper] at every point within `radius`, and if `certified`, the predicted
    class is the smoothed prediction at all those points. At radius 0 the interval is a plain confidence interval for
    the smoothed confidence at the input itself. The claim is made of each input, not of all of them together.

    Paper: App. A.1, C1 and C2.   Errs: outward, and towards not certified.

    Args:
        evidence: stored draws of a smoothed model.
        radius: R, in the units of inputs in [0, 1].
        alpha: error probability, in (0, 1), of all looks at the draws together.
        method: "standard" (Hoeffding), "standard-bernstein", "cdf" (DKW), "cdf-cp" (Clopper–Pearson) or "cdf-cp-mean";
            see `Method`.
        split_alpha: one alpha for both certificates, half for each. False is the paper's reading: alpha for each, so
            that both hold with probability at least 1 - 2 alpha only.
        runner_up: how C1 bounds the second class, "complement" or "bounded"; see `RunnerUp`.

    Raises: InputError if an option is out of range or the evidence contradicts itself.
    """
    _check_radius("radius", radius)
    return confidence_bounds_at(
        evidence, radii=radius, alpha=alpha, method=method, split_alpha=split_alpha, runner_up=runner_up
    )[0]


def confidence_bounds_at(
    evidence: Evidence,
    *,
    radii: Iterable[float] | float,
    alpha: float,
    method: str = Method.CDF_CP,
    split_alpha: bool = True,
    runner_up: str = RunnerUp.COMPLEMENT,
) -> list[ConfidenceIntervals]:
    """The `confidence_bounds` at each of several radii, for little more than the price of one.

    All radii rest on the same event: for each input, with probability at least 1 - alpha, all its intervals hold.

    Paper: App. A.1, C1 and C2.   Errs: outward, and towards not certified.
    """
    distances = [_check_radius("radii", radius) for radius in one_or_more("radii", radii)]
    check_flag("split_alpha", split_alpha)
    level = check_level("alpha", alpha)
    terms: dict[str, Any] = {
        "alpha": level,
        "method": Method(check_choice("method", method, tuple(Method))),
        "split_alpha": split_alpha,
        "runner_up": RunnerUp(check_choice("runner_up", runner_up, tuple(RunnerUp))),
    }
    share = level / (2 if split_alpha else 1)
    certified = certify_radii(evidence, alpha=share, runner_up=runner_up)
    limits_here = _LIMITS[terms["method"]](evidence, share)
    return [_intervals(evidence, limits_here, certified, distance, terms) for distance in distances]


def _intervals(
    evidence: Evidence, found: MeanLimits | CellLimits, radii: Radii, distance: float, terms: dict[str, Any]
) -> ConfidenceIntervals:
    lower, upper = found.at(evidence.header.shift(distance))
    return ConfidenceIntervals(
        lower=lower,
        upper=upper,
        # Rounding in the sum may leave the estimate of a saturated input just above 1.
        confidence=np.clip(evidence.confidence, lower, upper),
        predicted=evidence.selected,
        correct=evidence.correct,
        certified=radii.radius >= distance,
        certified_radius=radii.radius,
        radius=distance,
        delta_share=share_of_delta(evidence),
        **terms,
    )


def _check_radius(name: str, radius: float) -> float:
    return check_number(name, radius, "be finite and ≥ 0", lambda number: number >= 0)

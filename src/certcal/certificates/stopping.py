"""When an input needs no more draws."""

from dataclasses import dataclass

import numpy as np
import scipy

from certcal.certificates.confidence import confidence_bounds_at
from certcal.certificates.looks import upper_limits_by_look
from certcal.settings import PREDICTION_SHARE, Method, Record, RunnerUp, checks, setting
from certcal.smoothing import Evidence
from certcal.types import BoolArray

_WIDTH = checks.number("lie in (0, 1]", lambda number: 0 < number <= 1)


@dataclass(frozen=True, kw_only=True)
class StopWhenDecided(Record):
    """Stop an input once every requested radius is decided and its intervals are as narrow as asked.

    A radius is decided when the prediction is certified there, or when the votes rule out that it ever will be: an
    input whose class has no majority is hopeless and stops at the first look. Whatever the rule says, certificates of
    staged evidence stay valid, because alpha covers all looks (`certcal.certificates.looks`).

    Use the radii, alpha and method you will certify with.
    """

    radii: tuple[float, ...] = setting(..., "at which to certify", check=checks.radius)
    alpha: float = setting(..., "error probability per input", check=checks.level)
    width: float = setting(
        1.0, "of the confidence interval at every radius that is certified; 1 asks for nothing", check=_WIDTH
    )
    method: str = setting(Method.CDF_CP, "how confidences are bounded", choices=Method)
    split_alpha: bool = setting(True, "one alpha for both certificates")
    prediction_share: float = setting(PREDICTION_SHARE, "of an alpha that is split", check=checks.level)
    runner_up: str = setting(RunnerUp.COMPLEMENT, "how the second class is bounded", choices=RunnerUp)

    def __call__(self, evidence: Evidence) -> BoolArray:
        """Which inputs need no more draws, shape (n,)."""
        own = evidence.votes[np.arange(len(evidence)), evidence.selected]
        most = upper_limits_by_look(evidence, own, self.alpha)
        # With the runner-up bounded on its own even a class without majority may be certified some day.
        hopeful = np.inf if self.runner_up == RunnerUp.BOUNDED else scipy.special.ndtri(most)
        reachable = evidence.header.sigma * np.broadcast_to(hopeful, most.shape)
        open_inputs = np.zeros(len(evidence), dtype=np.bool_)
        options = {name: value for name, value in vars(self).items() if name != "width"}
        for intervals in confidence_bounds_at(evidence, **options):
            undecided = ~intervals.certified & (reachable > intervals.radius)
            wide = intervals.certified & (intervals.upper - intervals.lower > self.width)
            open_inputs |= undecided | wide
        return ~open_inputs

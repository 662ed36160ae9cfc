"""Evidence that contradicts itself is refused before anything is certified from it."""

import numpy as np

from certcal.blocks import shared_blocks
from certcal.errors import InputError
from certcal.inputs import check_each
from certcal.scalars import check_integer
from certcal.settings import checks
from certcal.smoothing import Evidence
from certcal.types import BoolArray

_ROWS = 1024  # histograms at a time


def check_evidence(evidence: Evidence) -> Evidence:
    """The same evidence, in which every count adds up to the draws of its input."""
    if not isinstance(evidence, Evidence):
        raise InputError.expected("evidence", "be Evidence, such as load_evidence gives", type(evidence).__name__)
    checks.positive("sigma", evidence.header.sigma)
    check_integer("looks", evidence.header.looks, minimum=1)
    n, k, cells = len(evidence), evidence.header.classes, len(evidence.thresholds) - 1
    shapes = {"label": (n,), "selected": (n,), "draws": (n,), "votes": (n, k), "histogram": (n, cells)}
    for name, shape in (shapes | {"score_sum": (n,), "score_square_sum": (n,)}).items():
        found = getattr(evidence, name).shape
        if found != shape:
            raise InputError.expected(f"evidence.{name}", f"have shape {shape}", found)
    if k < 2:
        raise InputError.expected("evidence.votes", "have at least two classes", k)
    _require(evidence.draws >= 1, "draws", "be at least 1")
    _require((evidence.selected >= 0) & (evidence.selected < k), "selected", f"be a class from 0 to {k - 1}")
    for name in ("votes", "histogram"):
        counts = getattr(evidence, name)
        _require(counts.min(axis=1) >= 0, name, "hold counts ≥ 0")
        _require(counts.sum(axis=1) == evidence.draws, name, "add up to `evidence.draws`")
    # Sums and counts describe the same scores. A millionth per draw covers scores summed in another precision.
    slack = 1e-6 * evidence.draws
    ends = np.stack([evidence.thresholds[:-1], evidence.thresholds[1:]], axis=1)
    parts = shared_blocks(len(evidence), lambda part: evidence.histogram[part] @ ends, step=_ROWS)
    least, most = np.concatenate([np.empty((0, 2)), *parts]).T
    total = evidence.score_sum
    _require((total >= least - slack) & (total <= most + slack), "score_sum", "agree with `evidence.histogram`")
    return evidence


def _require(holds: BoolArray, name: str, requirement: str) -> None:
    check_each(f"evidence.{name}", holds, requirement, lambda row: f"otherwise at row {row}")

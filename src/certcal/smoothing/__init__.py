"""Evidence of a smoothed model: drawn once, kept, and certified at any radius and level afterwards."""

from typing import TYPE_CHECKING

from certcal.later import later
from certcal.smoothing.evidence import (
    CELLS,
    Counts,
    Evidence,
    EvidenceHeader,
    cell_middles,
    evidence_digest,
    threshold_grid,
)

if TYPE_CHECKING:
    from certcal.smoothing.collect import collect_evidence
    from certcal.smoothing.job import StoppingRule
    from certcal.smoothing.plan import planned_looks
    from certcal.smoothing.shards import inputs_of
    from certcal.smoothing.sources import Source
    from certcal.smoothing.store import load_evidence, load_so_far, merge_shards, save_evidence

__all__ = [
    "CELLS",
    "Counts",
    "Evidence",
    "EvidenceHeader",
    "Source",
    "StoppingRule",
    "cell_middles",
    "collect_evidence",
    "evidence_digest",
    "inputs_of",
    "load_evidence",
    "load_so_far",
    "merge_shards",
    "planned_looks",
    "save_evidence",
    "threshold_grid",
]

# Sampling needs torch and files need PyArrow; certificates, which only read evidence, should not wait for either.
__getattr__ = later(
    __name__,
    collect="collect_evidence",
    job="StoppingRule",
    plan="planned_looks",
    shards="inputs_of",
    sources="Source",
    store="load_evidence load_so_far merge_shards save_evidence",
)

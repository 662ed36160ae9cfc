"""Evidence of a smoothed model: drawn once, kept, and certified at any radius and level afterwards."""

from certcal.smoothing.collect import StoppingRule, collect_evidence
from certcal.smoothing.evidence import Evidence, EvidenceHeader
from certcal.smoothing.store import load_evidence, merge_shards, save_evidence

__all__ = [
    "Evidence",
    "EvidenceHeader",
    "StoppingRule",
    "collect_evidence",
    "load_evidence",
    "merge_shards",
    "save_evidence",
]

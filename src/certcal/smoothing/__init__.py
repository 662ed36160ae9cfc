"""Evidence of a smoothed model: drawn once, kept, and certified at any radius and level afterwards."""

from typing import TYPE_CHECKING, Any

from certcal.smoothing.evidence import Counts, Evidence, EvidenceHeader

if TYPE_CHECKING:
    from certcal.smoothing.collect import collect_evidence
    from certcal.smoothing.job import StoppingRule
    from certcal.smoothing.sources import Source
    from certcal.smoothing.store import load_evidence, merge_shards, save_evidence

# Sampling needs torch and files need PyArrow; certificates, which only read evidence, should not wait for either.
_LATER = {
    "Source": "sources",
    "StoppingRule": "job",
    "collect_evidence": "collect",
    "load_evidence": "store",
    "merge_shards": "store",
    "save_evidence": "store",
}

__all__ = [
    "Counts",
    "Evidence",
    "EvidenceHeader",
    "Source",
    "StoppingRule",
    "collect_evidence",
    "load_evidence",
    "merge_shards",
    "save_evidence",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)

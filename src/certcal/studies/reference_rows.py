"""The rows of one model's evidence: with the paper's bounds, with ours, and with a map that it chooses by itself."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from certcal.certificates import confidence_bounds_at
from certcal.evaluation import row_at
from certcal.recalibration import choose_map, held_out_maps
from certcal.smoothing import Evidence
from certcal.worstcase import approximate_certified_calibration_error

ALPHA = 0.001  # as in the paper
# How confidences are bounded: by the paper's certificate, where each part has α; and by ours, whose parts share it.
PLAIN = {"paper": {"method": "cdf", "split_alpha": False}, "plain": {"method": "cdf-cp", "split_alpha": True}}
TRACKS = (*PLAIN, "recalibrated")
SPLITS = 2  # random halves: a map is chosen and fitted on one and scored on the other
LOOSE = 1e-3  # what iterative fits may differ by between machines
_SCORES = ("certified_ece", "certified_brier", "ece", "brier", "brier_all", "auroc")


@dataclass(frozen=True)
class ReferenceRow:
    """One model on one track at one radius. Scores are those of `certcal.recalibration.Scores`."""

    entry: str
    track: str
    radius: float
    certified_accuracy: float  # of all inputs, which a map leaves as it is
    certified_ece: float
    certified_brier: float
    ece: float  # clean, like the rest
    brier: float
    brier_all: float  # of all inputs
    auroc: float
    acce: float = float("nan")  # the paper's approximation of the certified ECE from below, by ADMM
    brier_all_before: float = float("nan")  # of the same held-out inputs without the map

    @classmethod
    def of(cls, read: dict[str, Any]) -> "ReferenceRow":
        """A row as JSON holds it, with None for NaN."""
        values: dict[str, Any] = {key: math.nan if value is None else value for key, value in read.items()}
        return cls(**values)

    @property
    def key(self) -> tuple[str, str, float]:
        """What tells rows apart."""
        return self.entry, self.track, self.radius

    @classmethod
    def numbers(cls) -> tuple[str, ...]:
        """The names of its numbers."""
        return tuple(one.name for one in fields(cls) if one.name not in ("entry", "track", "radius"))


def entry_rows(
    name: str, evidence: Evidence, radii: Sequence[float], *, mapped: Sequence[float] = (), approximate: bool = False
) -> list[ReferenceRow]:
    """The rows of an entry on the plain tracks at all radii, and with a map at some; NaN where no input is certified.

    `approximate` adds the paper's ACCE: 16 runs of ADMM for each radius, which takes half a minute.

    Paper: Sec. 5, App. J.   Errs: certified values as `certcal.evaluate` does, the ACCE low.
    """
    found = [row for track in PLAIN for row in _plain(name, track, evidence, radii, approximate=approximate)]
    accuracy = {row.radius: row.certified_accuracy for row in _plain(name, "plain", evidence, mapped)} if mapped else {}
    return found + [_mapped(name, evidence, radius, accuracy[radius]) for radius in mapped]


def _plain(
    name: str, track: str, evidence: Evidence, radii: Sequence[float], *, approximate: bool = False
) -> list[ReferenceRow]:
    rows = []
    for bounds in confidence_bounds_at(evidence, radii=radii, alpha=ALPHA, **PLAIN[track]):  # type: ignore[arg-type]
        row = row_at(bounds, metrics=("certified_accuracy", *_SCORES))
        scores = {own: getattr(row, own) for own in _SCORES}
        if approximate and track == "paper" and bounds.certified.any():
            scores["acce"] = approximate_certified_calibration_error(bounds, method="admm").value
        rows.append(ReferenceRow(name, track, bounds.radius, row.certified_accuracy, **scores))
    return rows


def _mapped(name: str, evidence: Evidence, radius: float, accuracy: float) -> ReferenceRow:
    terms = {"alpha": ALPHA, **PLAIN["plain"]}
    held = held_out_maps(
        evidence,
        lambda part: choose_map(part, radii=radius, **terms).map,  # type: ignore[arg-type]
        radii=radius,
        terms=terms,
        repeats=SPLITS,
    )
    before, after = held.mean(radius)
    scores = {own: getattr(after, own) for own in _SCORES}
    return ReferenceRow(name, "recalibrated", radius, accuracy, **scores, brier_all_before=before.brier_all)

"""The rows of one model's evidence: with the paper's bounds, with ours, and with a map that it chooses by itself."""

import math
import reprlib
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

import numpy as np

from certcal.certificates import confidence_bounds_at
from certcal.errors import InputError
from certcal.evaluation import row_at
from certcal.recalibration import AnyMap, choose_map, held_out_maps, score_bounds, unless_one_decides
from certcal.scalars import check_choice, check_number
from certcal.settings import BRIER_LOSS
from certcal.smoothing import Evidence
from certcal.worstcase import approximate_certified_calibration_error

ALPHA = 0.001  # as in the paper
# How confidences are bounded: by the paper's certificate, where each part has α; and by ours, whose parts share it.
PLAIN = {"paper": {"method": "cdf", "split_alpha": False}, "plain": {"method": "cdf-cp", "split_alpha": True}}
TRACKS = (*PLAIN, "recalibrated", "freer")
FREER_LOSS = 0.05  # by how much maps of the track "freer" may raise the clean Brier score; of the other, entries say
HALVES, SPLITS = 2, 3  # a map is chosen and fitted on one random half and scored on the other; usually so often
LOOSE = 1e-3  # what iterative fits may differ by between machines
_KEY = {"entry", "track", "radius"}
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
    deviation: float = float("nan")  # of the certified ECE after maps of other halves, of which the row has the mean
    maps: float = float("nan")  # share of the halves in which a map was learned; the others keep confidences

    @classmethod
    def of(cls, read: Any, where: str = "row") -> "ReferenceRow":
        """A row as JSON holds it, with None for NaN; a stranger may have written it, somewhere that errors name.

        Raises: InputError if it is no row: every number but the radius is a share.
        """
        own = {one.name: one for one in fields(cls)}
        if not isinstance(read, dict):
            raise InputError.expected(where, "be a table of names and values", reprlib.repr(read))
        missing = [name for name, one in own.items() if one.default is MISSING and name not in read]
        if wrong := [*sorted(read.keys() - own.keys()), *missing]:
            got = f"{'no ' if wrong == missing else ''}{reprlib.repr(wrong[0])}"
            raise InputError.expected(where, f"hold {', '.join(own)}", got)
        if not isinstance(read["entry"], str):
            raise InputError.expected(f"entry of {where}", "be text", reprlib.repr(read["entry"]))
        check_choice(f"track of {where}", read["track"], TRACKS)
        check_number(f"radius of {where}", read["radius"], "be a number ≥ 0", lambda value: value >= 0)
        shares = {name: _share(f"{name} of {where}", read[name]) for name in own.keys() & read.keys() - _KEY}
        return cls(read["entry"], read["track"], float(read["radius"]), **shares)

    @property
    def key(self) -> tuple[str, str, float]:
        """What tells rows apart."""
        return self.entry, self.track, self.radius


def _share(name: str, value: Any) -> float:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return math.nan
    return check_number(name, value, "lie in [0, 1], or be null", lambda share: 0 <= share <= 1)


def entry_rows(
    name: str,
    evidence: Evidence,
    radii: Sequence[float],
    *,
    mapped: Sequence[float] = (),
    freer: Sequence[float] = (),
    fit: Evidence | None = None,
    brier_loss: float = BRIER_LOSS,
    splits: int = SPLITS,
    approximate: bool = False,
) -> list[ReferenceRow]:
    """The rows of an entry on the plain tracks at all radii, and with a map at some; NaN where no input is certified.

    `fit` is evidence of other inputs, which maps are then chosen and fitted on; else that is done on random halves, as
    often as `splits` says. `brier_loss` is by how much a map may raise the clean Brier score of all inputs, as for
    `choose_map`; at the radii `freer` there are rows where it may by `FREER_LOSS`.
    `approximate` adds the paper's ACCE: 16 runs of ADMM for each radius, which takes half a minute.

    Paper: Sec. 5, App. J.   Errs: certified values as `certcal.evaluate` does, the ACCE low.
    """
    tracks = PLAIN if radii else ()
    found = [row for track in tracks for row in _plain(name, track, evidence, radii, approximate=approximate)]
    limits = {(radius, "recalibrated"): brier_loss for radius in mapped}
    limits |= {(radius, "freer"): FREER_LOSS for radius in freer}
    at = sorted({radius for radius, _ in limits})
    accuracy = {row.radius: row.certified_accuracy for row in _plain(name, "plain", evidence, at)} if at else {}
    return found + [
        replace(_mapped(name, evidence, radius, accuracy[radius], fit, limit, splits), track=track)
        for (radius, track), limit in limits.items()
    ]


def _plain(
    name: str, track: str, evidence: Evidence, radii: Sequence[float], *, approximate: bool = False
) -> list[ReferenceRow]:
    rows = []
    taken = as_fixed(evidence) if track == "paper" else evidence
    for bounds in confidence_bounds_at(taken, radii=radii, alpha=ALPHA, **PLAIN[track]):  # type: ignore[arg-type]
        row = row_at(bounds, metrics=("certified_accuracy", *_SCORES))
        scores = {own: getattr(row, own) for own in _SCORES}
        if approximate and track == "paper" and bounds.certified.any():
            scores["acce"] = approximate_certified_calibration_error(bounds, method="admm").value
        rows.append(ReferenceRow(name, track, bounds.radius, row.certified_accuracy, **scores))
    return rows


def as_fixed(evidence: Evidence) -> Evidence:
    """The evidence as the paper takes it: of numbers of draws that were fixed beforehand, other looks not counted.

    Ours counts them: after a look that was not planned, other limits than the paper's would stand here in its name.
    """
    fixed = tuple(np.unique(evidence.draws).tolist())
    return replace(evidence, header=replace(evidence.header, stages=fixed, looks=1))


def _mapped(
    name: str,
    evidence: Evidence,
    radius: float,
    accuracy: float,
    fit: Evidence | None,
    brier_loss: float,
    splits: int,
) -> ReferenceRow:
    terms: dict[str, Any] = {"alpha": ALPHA, **PLAIN["plain"]}

    def choose(part: Evidence) -> AnyMap:
        return unless_one_decides(
            choose_map(part, radii=radius, brier_loss=brier_loss, on_failure="identity", **terms).map
        )

    if fit is None:
        held = held_out_maps(evidence, choose, radii=radius, terms=terms, folds=HALVES, repeats=splits)
        (before, after), deviation = held.mean(radius), held.spread(radius).certified_ece
        maps = 1 - held.without_map / len(held.maps)
    else:
        (plain,) = confidence_bounds_at(evidence, radii=[radius], **terms)
        chosen = choose(fit)
        (moved,) = chosen.certify(evidence, radii=[radius], **terms)
        before, after, deviation = score_bounds(plain), score_bounds(moved), math.nan
        maps = float(chosen.kind != "identity")
    scores = {own: getattr(after, own) for own in _SCORES}
    scores |= {"brier_all_before": before.brier_all, "deviation": deviation, "maps": maps}
    return ReferenceRow(name, "recalibrated", radius, accuracy, **scores)

"""Fitting on one part of the inputs and reporting on another: before and after, over splits, folds and λ."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certcal.certificates import ConfidenceIntervals, confidence_bounds_at
from certcal.errors import InputError
from certcal.evaluation import warn_if_fitted_to
from certcal.recalibration.data import as_intervals
from certcal.recalibration.fitting import recalibrate_bounds
from certcal.recalibration.maps import AnyMap
from certcal.recalibration.scores import Scores, score_bounds, summary
from certcal.scalars import check_integer, guarded, one_or_more
from certcal.settings import CLEAN_WEIGHTS, OnFailure, checks
from certcal.shown import ShownRows
from certcal.smoothing import Evidence
from certcal.types import ArrayLike, FloatArray

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class HeldOutRow:
    """What one map does at one radius to inputs it was not fitted on."""

    split: int
    radius: float
    inputs: int  # held out
    certified: int  # of them, at this radius
    before: Scores
    after: Scores


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut(ShownRows):
    """Maps, what each was fitted on and tested on, and the scores on the latter."""

    maps: tuple[AnyMap, ...]
    fit: tuple[Indices, ...]  # positions of the inputs
    test: tuple[Indices, ...]
    rows: tuple[HeldOutRow, ...]  # splits × radii

    def __repr__(self) -> str:
        radii = sorted({row.radius for row in self.rows})
        return f"HeldOut({len(self.maps)} splits, {self.without_map} without a map, radii {radii})"

    @property
    def without_map(self) -> int:
        """How many parts could not teach a map: there the identity stands, and after is as before."""
        return sum(own.kind == "identity" for own in self.maps)

    @property
    def kept(self) -> int:
        """The split whose map is kept: always the first. A choice among them would look at inputs held out."""
        return 0

    @property
    def map(self) -> AnyMap:
        """The map that is kept, which knows how many splits there were and how many of them taught none."""
        counts = {"splits": len(self.maps), "splits_without_map": self.without_map}
        return self.maps[self.kept].told(counts)

    def of_kept(self, radius: float) -> tuple[Scores, Scores]:
        """Scores of the kept map before and after at one radius, on the inputs held out of its split."""
        row = next(row for row in self._at(radius) if row.split == self.kept)
        return row.before, row.after

    def mean(self, radius: float, *, with_map: bool = False) -> tuple[Scores, Scores]:
        """Scores before and after at one radius, averaged over splits, or those with a map; NaN entries are left out.

        All are NaN if no split has a map.
        """
        rows = self._at(radius, with_map=with_map)
        return summary([row.before for row in rows], np.mean), summary([row.after for row in rows], np.mean)

    def spread(self, radius: float, *, with_map: bool = False) -> Scores:
        """Standard deviations between splits of the scores after the map; they share inputs, so these are no errors.

        NaN for a single split.
        """
        after = [row.after for row in self._at(radius, with_map=with_map)]
        return summary(after, lambda known: np.std(known) if len(known) > 1 else np.nan)

    def as_dicts(self) -> list[dict[str, Any]]:
        """One row per split and radius, with the scores `before_…` and `after_…`."""
        return [
            {name: value for name, value in vars(row).items() if not isinstance(value, Scores)}
            | {
                f"{when}_{name}": value
                for when in ("before", "after")
                for name, value in vars(getattr(row, when)).items()
            }
            for row in self.rows
        ]

    def _at(self, radius: float, *, with_map: bool = False) -> list[HeldOutRow]:
        rows = [row for row in self.rows if row.radius == radius]
        if not rows:
            raise InputError.expected("radius", f"be one of {sorted({row.radius for row in self.rows})}", radius)
        return [row for row in rows if not with_map or self.maps[row.split].kind != "identity"]


def held_out_scores(
    bounds: ConfidenceIntervals | Sequence[ConfidenceIntervals],
    *,
    holdout: float = 0.5,
    folds: int | None = None,
    repeats: int = 20,
    seed: int = 0,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    **fitting: Any,
) -> HeldOut:
    """Maps fitted on random parts of the inputs, scored on the rest: never on what they were fitted on.

    The scores on the rest are certificates for that map on those inputs, of the same standing as without a map, since
    it was fixed without them. Where a part cannot teach a map, the identity is used and says why in `about`.

    Paper: —; docs/recalibration.md.

    Args:
        bounds: certificates of the same inputs at one or several radii, from `confidence_bounds_at`.
        holdout: share of the inputs that is held out.
        folds: instead of one part, hold out each of that many parts in turn.
        repeats: how many random splits, or rounds of folds.
        seed: of the splits.
        n_bins, edges: bins of the calibration errors.
        fitting: weights, clean_weight, method, objective as for `recalibrate_bounds`.
    """
    bins: dict[str, Any] = {"n_bins": n_bins, "edges": edges}
    splits: dict[str, Any] = {"holdout": holdout, "folds": folds, "repeats": repeats, "seed": seed}
    fit = partial(recalibrate_bounds, on_failure=OnFailure.IDENTITY, **bins, **fitting)
    return held_out_maps(as_intervals(bounds), fit, **bins, **splits)


@guarded
def held_out_maps(
    made: Evidence | Sequence[ConfidenceIntervals],
    fit: Callable[[Any], AnyMap],
    *,
    radii: Iterable[float] | float = (),
    terms: Mapping[str, Any] = MappingProxyType({}),
    holdout: float = 0.5,
    folds: int | None = None,
    repeats: int = 20,
    seed: int = 0,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
) -> HeldOut:
    """Maps of any kind that `fit` makes of random parts of the inputs, scored on the rest.

    The same splits and scores as those of `held_out_scores`; for maps that need more than bounds, such as those that
    act on each draw's score, and for maps that are chosen.

    Paper: —; docs/recalibration.md.

    Args:
        made: evidence of all inputs, or their certificates at some radii.
        fit: gives a map for the evidence or certificates of some; it sees nothing of the others.
        radii, terms: at which and how scores are certified, as for `confidence_bounds_at`; certificates have theirs.
        holdout, folds, repeats, seed, n_bins, edges: as for `held_out_scores`.
    """
    if isinstance(made, Evidence):
        distances = one_or_more("radii", radii)
        if "alpha" not in terms:
            raise InputError.expected("terms", "hold an alpha", ", ".join(map(str, terms)) or "none")
        several = confidence_bounds_at(made, radii=distances, **terms)
    else:
        several = list(as_intervals(made))

    def of(part: Indices) -> Any:
        return made.select(part) if isinstance(made, Evidence) else [b.select(part) for b in several]

    def certify(own: AnyMap, part: Indices) -> list[ConfidenceIntervals]:
        if isinstance(made, Evidence):
            return own.certify(of(part), radii=distances, **terms)
        return [own.intervals(b) for b in of(part)]

    maps, rows = [], []
    pairs = split_inputs(len(several[0]), holdout=holdout, folds=folds, repeats=repeats, seed=seed)
    for split, (part, test) in enumerate(pairs):
        maps.append(fit(of(part)))
        if not isinstance(maps[-1], AnyMap):
            raise InputError.expected("fit", "give a map for the evidence of some inputs", type(maps[-1]).__name__)
        judged = of(test)
        warn_if_fitted_to(maps[-1], judged if isinstance(judged, Evidence) else judged[0])
        for plain, mapped in zip((b.select(test) for b in several), certify(maps[-1], test), strict=True):
            before, after = (score_bounds(b, n_bins=n_bins, edges=edges) for b in (plain, mapped))
            rows.append(HeldOutRow(split, plain.radius, len(plain), int(plain.certified.sum()), before, after))
    return HeldOut(tuple(maps), tuple(part for part, _ in pairs), tuple(test for _, test in pairs), tuple(rows))


def split_inputs(
    inputs: int,
    *,
    holdout: float = 0.5,
    folds: int | None = None,
    repeats: int = 20,
    seed: int = 0,
) -> list[tuple[Indices, Indices]]:
    """Random (fit, test) positions: one split per repeat, or one per fold and repeat.

    Parts do not get a fixed share of wrong predictions each: the rest would then tell the fitting part its accuracy.
    """
    check_integer("repeats", repeats, minimum=1)
    rng = np.random.default_rng(check_integer("seed", seed, minimum=0))
    check_integer("inputs", inputs, minimum=2)
    share = checks.inner_share("holdout", holdout)
    if folds is not None:
        check_integer("folds", folds, minimum=2, maximum=inputs)
    held = min(max(round(share * inputs), 1), inputs - 1)
    pairs = []
    for _ in range(repeats):
        order = rng.permutation(inputs)
        parts = [order[:held]] if folds is None else np.array_split(order, folds)
        pairs += [(np.setdiff1d(order, part), np.sort(part)) for part in parts]
    return pairs


@dataclass(frozen=True, eq=False, repr=False)
class TradeOff(ShownRows):
    """The Pareto curve of clean against certified scores over λ, means over splits of inputs not fitted on."""

    radius: float
    clean_weight: FloatArray  # (k,) λ
    scores: tuple[Scores, ...]  # (k,) after the map
    identity: Scores  # without a map

    def of(self, name: str) -> FloatArray:
        """One of the `Scores` along the curve, shape (k,)."""
        return np.array([getattr(own, name) for own in self.scores])

    def as_dicts(self) -> list[dict[str, Any]]:
        """The scores after the map, per weight of clean points; without a map where it is None."""
        pairs = [(None, self.identity), *zip(self.clean_weight.tolist(), self.scores, strict=True)]
        return [{"clean_weight": share} | vars(own) for share, own in pairs]

    def __repr__(self) -> str:
        return f"TradeOff(R = {self.radius:g}, λ = {', '.join(f'{share:g}' for share in self.clean_weight)})"


def trade_off(
    bounds: ConfidenceIntervals | Sequence[ConfidenceIntervals],
    *,
    radius: float | None = None,
    clean_weights: Iterable[float] = CLEAN_WEIGHTS,
    **options: Any,
) -> TradeOff:
    """How clean and certified scores at a radius trade against each other as clean points gain weight.

    Paper: —; docs/recalibration.md.

    Args:
        bounds: certificates at one radius, or at several that maps are fitted to together.
        radius: at which scores are given; the largest of them by default.
        clean_weights: the λ to try.
        options: as for `held_out_scores`; every λ sees the same splits.
    """
    several = as_intervals(bounds)
    usual = max(own.radius for own in several)
    at = usual if radius is None else checks.radius("radius", radius)
    return trade_off_of(
        lambda share: held_out_scores(several, clean_weight=share, **options), at, clean_weights=clean_weights
    )


def trade_off_of(
    held_out: Callable[[float], HeldOut], radius: float, *, clean_weights: Iterable[float] = CLEAN_WEIGHTS
) -> TradeOff:
    """The same curve for maps of any kind: `held_out` fits and scores them for a weight of clean points."""
    shares = [checks.share("clean_weight", share) for share in one_or_more("clean_weights", clean_weights)]
    pairs = [held_out(share).mean(radius) for share in shares]
    return TradeOff(radius, np.array(shares), tuple(after for _, after in pairs), identity=pairs[0][0])

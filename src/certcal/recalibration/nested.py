"""A map of scores, alone or before a map of the mean, that is not kept where the latter alone does better.

The mean of a function of the score is linear in the score's distribution, and a map of the mean is not: neither kind
holds the other. Cross-validation on the fitting inputs decides. Measured: docs/recalibration.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from certcal.errors import InputError
from certcal.recalibration.fitting import isotonic_fit
from certcal.recalibration.heldout import Indices, split_inputs
from certcal.recalibration.inside import ScoreData, fit_outside, fit_score_map, steps_of
from certcal.recalibration.maps import AnyMap, IdentityMap
from certcal.recalibration.score_maps import FullMap
from certcal.recalibration.simplex import as_steps, gram, least_on_simplex, means
from certcal.scalars import guarded
from certcal.settings import TERMS, MapKind
from certcal.smoothing import Evidence, cell_middles
from certcal.types import FloatArray

FOLDS = 5
# How much of the map of scores stands before an isotonic map of the mean; 0 is the latter alone, None the former alone.
WAYS: tuple[float | None, ...] = (None, 1.0, 0.5, 0.0)
_OPTIONS = {"weights", "clean_weight", "n_bins", "edges", "on_failure", *TERMS}


@guarded
def fit_nested(evidence: Evidence, *, radii: Iterable[float] | float, alpha: float, **options: Any) -> AnyMap:
    """The best of a map of scores alone, all or half of it before an isotonic map of the mean, and the latter alone.

    Each is fitted on four fifths of the inputs and judged on the rest, five times, by the certified and clean Brier
    scores that it is fitted to. Of those within one standard error of the best, the first is fitted to all inputs.

    Paper: —; docs/recalibration.md.

    Args:
        evidence: of the inputs to fit on.
        radii, alpha, options: as for `fit_score_map`, without `objective`.
    """
    if unknown := sorted(options.keys() - _OPTIONS):  # nor an objective: maps are compared by their Brier scores
        raise InputError.expected(unknown[0], "be left out here", repr(options[unknown[0]]))
    options |= {"radii": radii, "alpha": alpha}
    alone = fit_score_map(evidence, **options)
    if "reason" in alone.about:
        return IdentityMap(about=alone.about)
    losses = _losses(ScoreData.of(evidence, **{key: value for key, value in options.items() if key != "on_failure"}))
    means = losses.mean(axis=1)
    away = losses - losses[int(np.argmin(means))]
    close = means - means.min() <= away.std(axis=1, ddof=1) / np.sqrt(losses.shape[1])
    way = WAYS[int(np.argmax(close))]
    about = dict(alone.about) | {"before_isotonic": way}
    if way is None:
        return replace(alone, about=about)
    mixed = replace(alone, levels=way * alone.levels + (1 - way) * cell_middles())
    outside = fit_outside(evidence, mixed if way else None, MapKind.ISOTONIC, options)
    return FullMap(mixed, outside, about=about) if way else replace(outside, about=about)  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class _Points:
    """Where inputs are at their worst, for any map of scores: x·v is the mean of the one with steps v."""

    inputs: Indices  # (m,) whose points these are
    x: FloatArray  # (m, 257)
    right: FloatArray  # (m,) 0 or 1
    weight: FloatArray  # (m,) by which an input's loss counts; all weights of an objective sum to the inputs


def _losses(data: ScoreData) -> FloatArray:
    """What each input loses under each way when it is left out of the fit, shape (ways, n)."""
    points = _points(data)
    count = len(data.limits.evidence)
    found, none = np.zeros((len(WAYS), count)), steps_of(cell_middles())
    splits, heaviest = split_inputs(count, folds=min(FOLDS, count), repeats=1), points.weight.max()
    # Every input is left out once, so sums of squares of those that are not are the whole less theirs.
    lost = []  # in units of the heaviest weight
    for _, rest in splits:
        own = _of(points, rest, count)
        lost.append(gram((own.x - own.right[:, None]) * np.sqrt(own.weight / heaviest)[:, None]))
    for (fit, rest), without in zip(splits, lost, strict=True):
        taught, left = (_of(points, part, count) for part in (fit, rest))
        steps = least_on_simplex((sum(lost) - without) * (heaviest / count))
        for place, way in enumerate(WAYS):
            mixed = steps if way is None else as_steps(way * steps + (1 - way) * none)
            value = means(left.x, mixed)
            if way is not None:
                value = np.interp(value, *isotonic_fit(means(taught.x, mixed), taught.right, taught.weight))
            np.add.at(found[place], left.inputs, left.weight * np.square(value - left.right))
    return found


def _points(data: ScoreData) -> _Points:
    """The worst points of all inputs at all radii, and their clean ones."""
    count, parts = len(data.limits.evidence), []
    for radius, weight in data.used:
        rows = data.limits.certified(radius)
        x, right = (np.concatenate(side) for side in zip(*data.worst_rows(radius, rows), strict=True))
        share = np.full(len(x), (1 - data.clean_weight) * weight * count / len(x))
        parts.append(_Points(np.flatnonzero(rows), x, right.astype(np.float64), share))
    tails, right = data.clean_rows()
    clean = np.full(count, data.clean_weight)
    parts.append(_Points(np.arange(count), tails, right.astype(np.float64), clean))
    return _Points(*(np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])))


def _of(points: _Points, part: Indices, count: int) -> _Points:
    """The points of some inputs that count for something."""
    chosen = np.zeros(count, dtype=bool)
    chosen[part] = True
    kept = chosen[points.inputs] & (points.weight > 0)
    return _Points(*(value[kept] for value in vars(points).values()))

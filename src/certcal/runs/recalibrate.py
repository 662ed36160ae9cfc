"""Recalibrate a run: fit a map on one part of its inputs, report before and after on the rest."""

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals, confidence_bounds_at
from certcal.errors import InputError
from certcal.recalibration import (
    MIN_INPUTS,
    HeldOut,
    RecalibrationMap,
    Scores,
    TradeOff,
    held_out_scores,
    save_map,
    trade_off,
)
from certcal.report import Report, evaluate, plot_trade_off
from certcal.runs.certify import radii_of
from certcal.runs.drawing import save_figure
from certcal.runs.evaluate import load_run_evidence, write_results
from certcal.runs.folder import SOURCES, RunFolder

FOLDER = "recalibration"
CLEAN_WEIGHTS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)  # of the trade-off


@dataclass(frozen=True, kw_only=True)
class RecalibrateSettings:
    """How a map is fitted and tested, as for `certcal.recalibration.held_out_scores`."""

    radius: float | None = None  # at which the certified score is made small; by default the largest learnable one
    method: str = "isotonic"
    objective: str = "brier"
    clean_weight: float = 0.5  # 0 makes the certified score least, and the map often constant
    holdout: float = 0.5
    folds: int | None = None  # instead of one part, hold out each of so many parts in turn
    repeats: int = 20
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Recalibration:
    """What came of it."""

    radius: float  # at which the map was fitted
    held_out: HeldOut  # over all splits
    trade_off: TradeOff
    report: Report  # of the first split's held-out part, with the map

    @property
    def map(self) -> RecalibrationMap:
        """The map that is kept: fitted on the first split's fitting part."""
        return self.held_out.maps[0]

    def summary(self) -> tuple[Scores, Scores]:
        """Mean scores on held-out inputs before and after, over the splits."""
        return self.held_out.mean(self.radius)


def recalibrate_run(run: RunFolder, asked: RecalibrateSettings, *, figures: bool = True) -> Recalibration:
    """A map fitted on part of a run's inputs, and what it does to the rest, written to the run's folder.

    Writes recalibration/map.json, scores over random splits, the trade-off of clean against certified scores, and the
    report of the first split's held-out inputs with the map. Nothing is reported on inputs that a map was fitted on.

    Paper: —; docs/recalibration.md.
    """
    evaluation, evidence = run.settings().evaluate, load_run_evidence(run)
    radii = radii_of(evaluation, evidence.header.sigma)
    certifying: dict[str, Any] = {"alpha": evaluation.alpha, "method": evaluation.method, "joint": evaluation.joint}
    wanted = radii if asked.radius is None else (asked.radius,)
    bounds = confidence_bounds_at(evidence, radii=wanted, **certifying)
    options = {key: value for key, value in vars(asked).items() if key not in ("radius", "clean_weight")}
    options |= {"n_bins": evaluation.n_bins, "stratify": True}
    own, held = _fit(bounds, asked, options)
    report = evaluate(
        evidence.select(held.test[0]),
        radii=sorted({*radii, own.radius}),
        delta=evaluation.delta,
        population=evaluation.population,
        n_bins=evaluation.n_bins,
        recalibration=held.maps[0],
        **certifying,
    )
    curve = trade_off(own, clean_weights=sorted({*CLEAN_WEIGHTS, asked.clean_weight}), **options)
    result = Recalibration(own.radius, held, curve, report)
    _write(run, result, asked, figures=figures)
    return result


def _fit(
    bounds: list[ConfidenceIntervals], asked: RecalibrateSettings, options: dict[str, Any]
) -> tuple[ConfidenceIntervals, HeldOut]:
    """The largest radius at which every split teaches a map, or else at which the first does; and the maps there."""
    falling = sorted(bounds, key=lambda one: -one.radius)
    tried = [(own, held_out_scores(own, clean_weight=asked.clean_weight, **options)) for own in falling]
    for all_of_them in (True, False):
        for own, held in tried:
            if not (all_of_them and held.without_map) and held.maps[0].kind != "identity":
                return own, held
    counts = ", ".join(
        f"{int((own.certified & ~own.correct).sum())} of {int(own.certified.sum())} at R = {own.radius:g}"
        for own in reversed(falling)
    )
    raise InputError(
        f"No map can be learned: it takes {MIN_INPUTS} certified inputs to fit on, right and wrong ones among them, "
        f"and certified and wrong are {counts}. The confidences stay as they are; try more inputs or a smaller holdout."
    )


def _write(run: RunFolder, result: Recalibration, asked: RecalibrateSettings, *, figures: bool) -> None:
    inner = RunFolder(run.path / FOLDER)
    inner.create()
    with run.writing():
        inner.write_json(SOURCES, run.sources())  # whence title, facts and class names of the page
        write_results(result.report, inner.path, figures=figures)
        save_map(result.map, inner.path / "map.json")
        inner.write_json("held_out.json", describe(result, asked))
        if figures:
            save_figure(inner, "trade_off", lambda ax: plot_trade_off(result.trade_off, ax=ax))
        run.log(f"recalibrate: {result.map.kind} map for R = {result.radius:g}, {asked.repeats} splits")


def describe(result: Recalibration, asked: RecalibrateSettings) -> dict[str, Any]:
    """The held-out scores as plain data."""
    before, after = result.summary()
    rows = [row for row in result.held_out.rows if row.radius == result.radius]
    spread = {
        key: {f.name: _plain(np.nanstd([getattr(getattr(row, key), f.name) for row in rows])) for f in fields(Scores)}
        for key in ("before", "after")
    }
    return {
        "radius": result.radius,
        "settings": asdict(asked),
        "map": result.map.kind,
        "splits": len(rows),
        "splits_without_map": result.held_out.without_map,
        "fitted_on": len(result.held_out.fit[0]),
        "held_out": len(result.held_out.test[0]),
        "before": {key: _plain(value) for key, value in asdict(before).items()},
        "after": {key: _plain(value) for key, value in asdict(after).items()},
        "spread": spread,
        "trade_off": {
            name: [_plain(value) for value in getattr(result.trade_off, name)]
            for name in ("clean_weight", *(f.name for f in fields(Scores)))
        },
    }


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)

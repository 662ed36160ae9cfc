"""Recalibrate a run: fit a map on one part of its inputs, report before and after on the rest."""

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from certcal.certificates import ConfidenceIntervals, confidence_bounds_at
from certcal.errors import InputError
from certcal.evaluation import Report, evaluate
from certcal.files import plain, sealed
from certcal.recalibration import (
    MIN_INPUTS,
    AnyMap,
    HeldOut,
    MapKind,
    OnFailure,
    Scores,
    TradeOff,
    fit_inside,
    held_out_evidence,
    held_out_scores,
    recalibrate_bounds,
    save_map,
    split_inputs,
    trade_off_of,
)
from certcal.report import plot_trade_off, recalibration_section
from certcal.runs.drawing import save_figure
from certcal.runs.evaluate import load_run_bounds, load_run_evidence, write_into
from certcal.runs.folder import SOURCES, RunFolder
from certcal.runs.results import Results
from certcal.scalars import guarded
from certcal.settings import CLEAN_WEIGHTS, RecalibrateSettings
from certcal.smoothing import Evidence


@dataclass(frozen=True, eq=False)
class Recalibration:
    """What came of it."""

    radii: tuple[float, ...]  # at which the map was fitted
    held_out: HeldOut  # over all splits
    trade_off: TradeOff  # at the largest of them
    report: Report  # of the kept split's held-out part, with the map
    asked: RecalibrateSettings
    folder: Path  # where it is written

    @property
    def map(self) -> AnyMap:
        """The map that is kept: fitted on the first split."""
        return self.held_out.maps[self.held_out.kept]

    @property
    def radius(self) -> float:
        """The largest radius that the map was fitted for."""
        return max(self.radii)

    def summary(self) -> tuple[Scores, Scores]:
        """Mean scores on held-out inputs before and after, over the splits, at the largest radius."""
        return self.held_out.mean(self.radius)

    def as_dict(self) -> dict[str, Any]:
        """The held-out scores as plain data."""
        held, curve = self.held_out, self.trade_off
        return {
            "radii": list(self.radii),
            "settings": asdict(self.asked),
            "map": self.map.kind,
            "splits": len(held.fit),
            "splits_without_map": held.without_map,
            "fitted_on": len(held.fit[held.kept]),
            "held_out": len(held.test[held.kept]),
            "scores": [_scores(held, radius) for radius in self.radii],
            "trade_off": {"radius": curve.radius, "clean_weight": plain(curve.clean_weight)}
            | {one.name: plain(curve.of(one.name)) for one in fields(Scores)},
        }


@guarded
def recalibrate_run(run: RunFolder, asked: RecalibrateSettings, *, figures: bool = True) -> Recalibration:
    """A map fitted on part of a run's inputs, and what it does to the rest, written to the run's folder.

    Writes recalibration/map.json, scores over random splits, the trade-off of clean against certified scores, and the
    report of the inputs held out of that map's split. Nothing is reported on inputs that a map was fitted on.

    Paper: —; docs/recalibration.md.
    """
    with run.steady():
        evaluation, made = run.settings().evaluate, _certificates(run)
    wanted = made.radii if asked.radii is None else asked.radii
    own = _radii_that_teach(made.at(wanted), asked, n_bins=evaluation.n_bins)
    scores = _scoring(made, own, asked, n_bins=evaluation.n_bins)
    held = scores(asked.clean_weight)
    weights = asked.radius_weights or (1.0,) * len(own)
    fitted = tuple(one.radius for one, weight in zip(own, weights, strict=True) if weight > 0)
    report = evaluate(
        **made.of_inputs(held.test[held.kept], sorted({*made.radii, *fitted})),
        delta=evaluation.delta,
        population=evaluation.population,
        n_bins=evaluation.n_bins,
        recalibration=None if held.maps[held.kept].kind == "identity" else held.maps[held.kept],
    )
    curve = trade_off_of(scores, max(fitted), clean_weights=sorted({*CLEAN_WEIGHTS, asked.clean_weight}))
    result = Recalibration(fitted, held, curve, report, asked, run.path / "recalibration")
    _write(run, result, figures=figures)
    return result


@dataclass(frozen=True, eq=False)
class _Certificates:
    """The certificates of a run, from evidence or given, at any of the radii they have."""

    evidence: Evidence | None
    given: tuple[ConfidenceIntervals, ...]  # without evidence
    radii: tuple[float, ...]
    terms: dict[str, Any]

    def at(self, radii: Iterable[float]) -> list[ConfidenceIntervals]:
        """Those at some radii."""
        if self.evidence is not None:
            return confidence_bounds_at(self.evidence, radii=radii, **self.terms)
        by_radius = {own.radius: own for own in self.given}
        for radius in radii:
            if radius not in by_radius:
                there = ", ".join(f"{one:g}" for one in by_radius)
                raise InputError.expected("radii", f"be some of those that the run has bounds at ({there})", radius)
        return [by_radius[radius] for radius in radii]

    def of_inputs(self, kept: Any, radii: list[float]) -> dict[str, Any]:
        """What `evaluate` takes for some of the inputs."""
        if self.evidence is not None:
            return {"evidence": self.evidence.select(kept), "radii": radii, **self.terms}
        return {"evidence": [own.select(kept) for own in self.at(radii)]}


def _certificates(run: RunFolder) -> _Certificates:
    asked = run.settings().evaluate
    if run.bounds.is_file():
        given = load_run_bounds(run)
        radii = tuple(own.radius for own in given) if asked.radii is None else asked.radii
        return _Certificates(None, given, radii, {})
    evidence = load_run_evidence(run)
    return _Certificates(evidence, (), asked.radii_at(evidence.header.sigma), asked.terms)


def _scoring(
    made: _Certificates, own: list[ConfidenceIntervals], asked: RecalibrateSettings, *, n_bins: int
) -> Callable[[float], HeldOut]:
    """Fits maps on parts of the inputs and scores them on the rest, for a weight of clean points."""
    splits = {name: getattr(asked, name) for name in ("holdout", "folds", "repeats", "seed")}
    fitting: dict[str, Any] = {"weights": asked.radius_weights, "objective": asked.objective, "n_bins": n_bins}
    if not asked.inside:
        kind = asked.method or MapKind.ISOTONIC
        return lambda share: held_out_scores(own, clean_weight=share, method=kind, **fitting, **splits)
    if made.evidence is None:
        raise InputError.expected("inside", "be left out where a run has bounds but no draws", "it")
    evidence, radii = made.evidence, [one.radius for one in own]

    def fit(part: Evidence, share: float) -> AnyMap:
        return fit_inside(
            part,
            radii=radii,
            outside=asked.method,
            clean_weight=share,
            on_failure=OnFailure.IDENTITY,
            **fitting,
            **made.terms,
        )

    return lambda share: held_out_evidence(
        evidence, lambda part: fit(part, share), radii=radii, terms=made.terms, n_bins=n_bins, **splits
    )


def _radii_that_teach(
    bounds: list[ConfidenceIntervals], asked: RecalibrateSettings, *, n_bins: int
) -> list[ConfidenceIntervals]:
    """The certificates that maps are fitted to.

    Those of all radii that were asked for; or else of the largest at which the fitting part of the kept split teaches a
    map. Nothing here looks at the inputs held out of that split: the report on them is of a map fixed without them.
    """
    splits = {name: getattr(asked, name) for name in ("holdout", "folds", "repeats", "seed")}
    fitting: dict[str, Any] = {"weights": asked.radius_weights, "n_bins": n_bins}
    part = split_inputs(len(bounds[0]), **splits)[0][0]
    falling = sorted(bounds, key=lambda one: -one.radius)
    choices = [bounds] if asked.radii is not None else [[one] for one in falling]
    own = _first_that_teaches([[one.select(part) for one in choice] for choice in choices], asked, fitting)
    if own is None:
        counts = ", ".join(
            f"{int((one.certified & ~one.correct).sum())} of {int(one.certified.sum())} at R = {one.radius:g}"
            for one in (one.select(part) for one in reversed(falling))
        )
        raise InputError(
            f"No map can be learned: it takes {MIN_INPUTS} certified inputs to fit on, right and wrong ones among "
            f"them, and of the {len(part)} inputs to fit on, certified and wrong are {counts}. It takes more inputs "
            "with wrong predictions among them: certify more (a larger --limit) or harder ones, or hold out fewer "
            "(--holdout 0.2); --on-failure identity keeps the confidences as they are."
        )
    return choices[own]


def _first_that_teaches(
    choices: list[list[ConfidenceIntervals]], asked: RecalibrateSettings, fitting: dict[str, Any]
) -> int | None:
    """Which choice of radii teaches a map, the first of them; where none does, one for the identity if it may be."""
    for place, own in enumerate(choices):
        found = recalibrate_bounds(own, clean_weight=asked.clean_weight, on_failure=OnFailure.IDENTITY, **fitting)
        if found.kind != "identity":
            return place
    if asked.on_failure != OnFailure.IDENTITY:
        return None
    return next((n for n, own in enumerate(choices) if all(one.certified.any() for one in own)), 0)


def _write(run: RunFolder, result: Recalibration, *, figures: bool) -> None:
    inner, sources = RunFolder(result.folder), run.sources()
    inner.create()
    section = recalibration_section(
        result.held_out, result.trade_off, result.radii, population=result.report.population
    )
    results = Results(inner, result.report, time.perf_counter(), recorded=sources)
    with run.writing(), inner.change() as change:
        write_into(change, results, figures=figures, recalibration=section)
        change.write_json(SOURCES, sealed(sources))  # whence title, facts and class names of the page
        save_map(_with_origin(result), change.place("map.json"))
        change.write_json("held_out.json", result.as_dict())
        if figures:
            save_figure(change, "trade_off", lambda ax: plot_trade_off(result.trade_off, ax=ax))
    at = ", ".join(f"{radius:g}" for radius in result.radii)
    run.log(f"recalibrate: {result.map.kind} map for R = {at}, {len(result.held_out.fit)} splits")


def _with_origin(result: Recalibration) -> AnyMap:
    """The kept map with what deployment has to match, and the split that it was fitted on."""
    report, own = result.report, result.report.bounds[0]
    origin: dict[str, Any] = {"alpha": report.alpha, "certificate": str(report.method), "norm": str(own.norm)}
    if report.evidence is None:  # the network as it is, run once and without noise
        origin |= {"sigma": 0.0}
    else:
        origin |= {"sigma": report.evidence.header.sigma, "model": report.evidence.header.model}
    split = {"split": result.held_out.kept, "seed": result.asked.seed}
    return replace(result.map, about=dict(result.map.about) | origin | split)  # type: ignore[type-var]


def _scores(held: HeldOut, radius: float) -> dict[str, Any]:
    """Means before and after over the splits, and standard deviations after, at one radius."""
    before, after = held.mean(radius)
    named = {"before": before, "after": after, "spread": held.spread(radius)}
    return {"radius": radius} | {name: plain(asdict(scores)) for name, scores in named.items()}

"""Recalibrate a run: fit a map on one part of its inputs, report before and after on the rest."""

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from certcal.certificates import ConfidenceIntervals, confidence_bounds_at
from certcal.errors import InputError, several
from certcal.evaluation import Report, evaluate
from certcal.files import plain, sealed
from certcal.progress import Progress
from certcal.recalibration import (
    AnyMap,
    Candidate,
    Choice,
    HeldOut,
    Scores,
    TradeOff,
    choose_map,
    fit_nested,
    hangs_on_one,
    held_out_maps,
    save_map,
    split_inputs,
    trade_off_of,
    unless_one_decides,
)
from certcal.report import plot_choice, plot_trade_off, recalibration_section
from certcal.runs.drawing import save_figure
from certcal.runs.evaluate import load_run_bounds, load_run_evidence, terms_of, write_into
from certcal.runs.folder import MAP, SOURCES, RunFolder, Tell
from certcal.runs.results import Results
from certcal.runs.switch import Change
from certcal.runs.teaching import radii_that_teach
from certcal.scalars import exactly, guarded
from certcal.settings import CLEAN_WEIGHTS, EvaluateSettings, MapKind, Objective, OnFailure, RecalibrateSettings
from certcal.smoothing import Evidence


@dataclass(frozen=True, eq=False)
class Recalibration:
    """What came of it."""

    radii: tuple[float, ...]  # at which the map was fitted
    held_out: HeldOut  # over all splits
    compared: TradeOff | Choice  # over weights of clean points, or over the kinds of map that one was chosen from
    report: Report  # of the kept split's held-out part, with the map
    asked: RecalibrateSettings
    folder: Path  # where it is written
    unfinished: str | None = None  # how far the run is, if it is not finished

    @property
    def map(self) -> AnyMap:
        """The map that is kept: fitted on the first split."""
        return self.held_out.map

    @property
    def radius(self) -> float:
        """The largest radius that the map was fitted for."""
        return max(self.radii)

    def as_dict(self) -> dict[str, Any]:
        """The held-out scores as plain data."""
        held, other = self.held_out, self.compared
        return {
            "radii": list(self.radii),
            "settings": asdict(self.asked),
            "map": self.map.kind,
            "splits": len(held.fit),
            "splits_without_map": held.without_map,
            "fitted_on": len(held.fit[held.kept]),
            "held_out": len(held.test[held.kept]),
            "scores": [_scores(held, radius) for radius in self.radii],  # over all splits
            "scores_with_map": [_scores(held, radius, with_map=True) for radius in self.radii],
            **({"choice": other.as_dict()} if isinstance(other, Choice) else {"trade_off": _curve(other)}),
        }


@guarded
def recalibrate_run(
    run: RunFolder,
    asked: RecalibrateSettings,
    *,
    figures: bool = True,
    progress: bool | None = None,
    tell: Tell = lambda text: None,
) -> Recalibration:
    """A map fitted on part of a run's inputs, and what it does to the rest, written to the run's folder.

    Writes recalibration/map.json, scores over random splits, the trade-off of clean against certified scores, and the
    report of the inputs held out of that map's split. Nothing is reported on inputs that a map was fitted on.
    `tell` gets a line on what is done; `progress` is as for `certify_run`.

    Paper: —; docs/recalibration.md.
    """
    with run.steady():
        made = _Certificates.of(run)
    own = radii_that_teach(made.at(asked.radii or made.radii), asked, n_bins=made.asked.n_bins)
    weights = asked.radius_weights or (1.0,) * len(own)
    fitted = tuple(one.radius for one, weight in zip(own, weights, strict=True) if weight > 0)
    splits, times = len(split_inputs(len(own[0]), **asked.splits)), 1 if asked.automatic else 1 + len(_shares(asked))
    if (run.path / "recalibration" / MAP).is_file():
        tell(f"this replaces the map of an earlier call, {run.path / 'recalibration' / MAP}")
    what = "choosing among many ways to make a map" if asked.automatic else "fitting maps"
    tell(f"{what}, for {several(splits, 'random split')} of {several(len(own[0]))}")
    with Progress(splits, times, show=progress, doing="fitting", unit="maps", done="fitted") as bar:
        held, compared = _fit(made, own, asked, max(fitted), bar)
    report = made.report(held.test[held.kept], sorted({*made.radii, *fitted}), held.map)
    result = Recalibration(fitted, held, compared, report, asked, run.path / "recalibration")
    return replace(result, unfinished=_write(run, result, made.evidence, figures=figures))


@dataclass(frozen=True, eq=False)
class _Certificates:
    """The certificates of a run, from evidence or given, at any of the radii they have."""

    asked: EvaluateSettings
    evidence: Evidence | None
    given: tuple[ConfidenceIntervals, ...]  # without evidence
    radii: tuple[float, ...]
    terms: dict[str, Any]

    @classmethod
    def of(cls, run: RunFolder) -> "_Certificates":
        """Those of a run, as it was last evaluated."""
        asked = run.settings().evaluate
        if run.bounds.is_file():
            given = load_run_bounds(run)
            return cls(asked, None, given, asked.radii or tuple(own.radius for own in given), {})
        evidence = load_run_evidence(run, asked.at_temperature)
        return cls(asked, evidence, (), asked.radii_at(evidence.header.sigma), terms_of(asked, evidence))

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

    def report(self, kept: Any, radii: list[float], own: AnyMap) -> Report:
        """The evaluation of some of the inputs, with a map."""
        names = ("delta", "population", "n_bins", "claim")
        asked: dict[str, Any] = {name: getattr(self.asked, name) for name in names}
        asked["recalibration"] = None if own.kind == "identity" else own
        if self.evidence is not None:
            return evaluate(self.evidence.select(kept), radii=radii, **asked, **self.terms)
        return evaluate([one.select(kept) for one in self.at(radii)], **asked)


def _fit(
    made: _Certificates, own: list[ConfidenceIntervals], asked: RecalibrateSettings, radius: float, bar: Progress
) -> tuple[HeldOut, TradeOff | Choice]:
    """Maps of parts of the inputs, scored on the rest, and what they were compared with at the largest radius."""
    if asked.inside and made.evidence is None:
        raise InputError.expected("inside", "be left out where a run has bounds but no draws", "it")
    splits = asked.splits | {"n_bins": made.asked.n_bins}
    fitting: dict[str, Any] = {"weights": asked.radius_weights, "n_bins": made.asked.n_bins}
    source: Evidence | list[ConfidenceIntervals] = own
    if made.evidence is not None and (asked.automatic or asked.inside):
        source, radii = made.evidence, [one.radius for one in own]
        fitting |= {"radii": radii, **made.terms}
        splits |= {"radii": radii, "terms": made.terms}

    def held_out(make: Callable[[Any], AnyMap]) -> HeldOut:
        def fit(part: Any) -> AnyMap:
            found = make(part)
            bar.drew(1)
            return found

        return held_out_maps(source, fit, **splits)

    if asked.automatic:
        limits: dict[str, Any] = {"auroc_loss": asked.auroc_loss, "brier_loss": asked.brier_loss}
        choices: list[Choice] = []

        def choose(part: Any) -> AnyMap:
            found = choose_map(part, seed=asked.seed, on_failure="identity", **fitting, **limits)
            if hangs_on_one(found.map):
                found = replace(found, map=unless_one_decides(found.map), chosen=Candidate())
            choices.append(found)
            return found.map

        held = held_out(choose)
        return held, choices[held.kept]

    def scores(share: float) -> HeldOut:
        way: Callable[[Any], AnyMap]
        if asked.inside and asked.method is None and asked.objective in (None, Objective.BRIER):
            way = partial(fit_nested, clean_weight=share, on_failure=OnFailure.IDENTITY, **fitting)
        elif asked.inside:
            way = partial(Candidate(asked.objective or Objective.BRIER, asked.method, share).fit, **fitting)
        else:
            mean = Candidate(None, asked.method or MapKind.ISOTONIC, share)
            way = partial(mean.fit, objective=asked.objective, **fitting)
        return held_out(lambda part: unless_one_decides(way(part)))

    return scores(asked.weight), trade_off_of(scores, radius, clean_weights=_shares(asked))


def _shares(asked: RecalibrateSettings) -> list[float]:
    """The weights of clean points that are compared."""
    return sorted({*CLEAN_WEIGHTS, asked.weight})


def _write(run: RunFolder, result: Recalibration, whole: Evidence | None, *, figures: bool) -> str | None:
    """Everything; returns how far the run is, if it is not finished."""
    inner, sources = RunFolder(result.folder), run.sources()
    inner.create()
    section = recalibration_section(result.held_out, result.compared, result.radii, population=result.report.population)
    results = Results(inner, result.report, time.perf_counter(), recorded=sources, whole=whole)
    with inner.change() as change:
        write_into(change, results, figures=figures, recalibration=section)
        change.write_json(SOURCES, sealed(sources))  # whence title, facts and class names of the page
        save_map(_with_origin(result), change.place(MAP))
        change.write_json("held_out.json", result.as_dict())
        if figures:
            _draw(change, result.compared)
    at = ", ".join(map(exactly, result.radii))
    run.log(f"recalibrate: {result.map.kind} map for R = {at}, {len(result.held_out.fit)} splits")
    return results.unfinished


def _draw(into: Change, compared: TradeOff | Choice) -> None:
    if isinstance(compared, TradeOff):
        save_figure(into, "trade_off", lambda ax: plot_trade_off(compared, ax=ax))
    else:
        draws = [lambda ax, name=name: plot_choice(compared, name, ax=ax) for name in ("auroc", "brier_all")]
        save_figure(into, "choice", *draws)


def _with_origin(result: Recalibration) -> AnyMap:
    """The kept map with what deployment has to match, and the split that it was fitted on."""
    report, own = result.report, result.report.bounds[0]
    origin: dict[str, Any] = {"alpha": report.alpha, "certificate": str(report.method), "norm": str(own.norm)}
    if report.evidence is None:  # the network as it is, run once and without noise
        origin |= {"sigma": 0.0}
    else:
        origin |= {name: getattr(report.evidence.header, name) for name in ("sigma", "model", "units")}
    split = {"split": result.held_out.kept, "seed": result.asked.seed}
    return replace(result.map, about=dict(result.map.about) | origin | split)  # type: ignore[type-var]


def _scores(held: HeldOut, radius: float, **which: bool) -> dict[str, Any]:
    """Means before and after over the splits, and standard deviations after, at one radius."""
    means, spread = held.mean(radius, **which), held.spread(radius, **which)
    named = dict(zip(("before", "after"), means, strict=True)) | {"spread": spread}
    return {"radius": radius} | {name: plain(asdict(scores)) for name, scores in named.items()}


def _curve(curve: TradeOff) -> dict[str, Any]:
    """The trade-off as plain data."""
    scores = {one.name: plain(curve.of(one.name)) for one in fields(Scores)}
    return {"radius": curve.radius, "clean_weight": plain(curve.clean_weight)} | scores

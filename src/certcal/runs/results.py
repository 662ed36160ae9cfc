"""What a run folder shows of an evaluation: certificates, metrics, tables, figures and the page."""

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from certcal.certificates import Radii, write_certification_log
from certcal.evaluation import Report, reliability_at
from certcal.files import plain, printable
from certcal.report import (
    acceptance,
    answer,
    caveats,
    default_view,
    explanation,
    groups_section,
    guarantee,
    model_card,
    more_tables,
    operating_data,
    operating_section,
    page_data,
    render_page,
    to_csv,
    to_latex,
    to_markdown,
    wanted_acceptance,
)
from certcal.runs.advice import advise
from certcal.runs.attack_files import Kept, kept_attacks
from certcal.runs.drawing import write_figures
from certcal.runs.facts import Sources, doubts, facts, how_far, provenance, title
from certcal.runs.folder import RunFolder, save_bounds
from certcal.runs.pictures import Pictures
from certcal.runs.switch import Change
from certcal.smoothing import Evidence


@dataclass(frozen=True, eq=False)
class Results:
    """An evaluation and what else the run's folder says, each read once; the methods write what follows from them."""

    run: RunFolder
    report: Report
    start: float  # of the command, in seconds
    recorded: Sources | None = None  # of the sampling, where it is not in the folder yet
    images: bool = True  # whether the page may show inputs
    altered: tuple[str, ...] = ()  # files of the folder that were not as certcal wrote them
    whole: Evidence | None = None  # of the run, where the report is of some of its inputs

    @cached_property
    def sources(self) -> Sources:
        """What is recorded of the sampling."""
        return self.run.sources() if self.recorded is None else self.recorded

    @cached_property
    def attacks(self) -> Kept:
        """What attacks found."""
        return kept_attacks(self.run, self.report.evidence)

    @cached_property
    def title(self) -> str:
        """Data, model and noise in one line."""
        return title(self.run, self.report, self.sources)

    @cached_property
    def circumstances(self) -> dict[str, Any]:
        """Versions, machine and time of this command, as of when it is first asked for."""
        return provenance(seconds=time.perf_counter() - self.start)

    @property
    def page(self) -> Path:
        """Where the page is."""
        return self.run.path / "report.html"

    @property
    def card(self) -> Path:
        """Where the section for a model card is, if it was asked for."""
        return self.run.path / "card.md"

    def write(
        self, change: Change, *, figures: bool, recalibration: Mapping[str, Any] | None = None, card: bool = False
    ) -> None:
        """Everything. Figures and a card of another evaluation do not stay; nor do any that are not asked for."""
        report = self.report
        self._write_certificates(change)
        change.drop("tables/")
        for name, text in more_tables(report).items():
            change.write(f"tables/{name}", text)
        change.write("tables/radii.csv", to_csv(report))
        change.write("tables/radii.md", to_markdown(report))
        change.write("tables/radii.tex", to_latex(report))
        change.drop("figures/")
        change.drop(self.card.name)
        if card:
            change.write(self.card.name, self._card())
        if figures:
            write_figures(change, report)
            self.attacks.write_figures(change, self._shown_radius)
        change.write_json("metrics.json", self.metrics)
        change.write(self.page.name, self._page(recalibration))

    def _card(self) -> str:
        """The section for a model card."""
        model, data = (self.sources.get(part, {}) for part in ("model", "data"))
        shape = data.get("shape") or []
        return model_card(
            self.report,
            model=model.get("name") or printable(self.run.path.name),
            data=data.get("name") or printable(self.run.path.name),
            task="image-classification" if len(shape) == 3 and shape[0] in (1, 3) else "other",
            facts=facts(self.report, self.sources, self.circumstances),
            doubts=[*filter(None, [self.unfinished]), *doubts(self.sources)],
        )

    def _page(self, recalibration: Mapping[str, Any] | None) -> str:
        """The page that people read."""
        report = self.report
        evidence = report.evidence if report.recalibration is None and self.images else None
        pictures, told = None if evidence is None else Pictures.of(self.run, evidence), doubts(self.sources)
        page = page_data(
            report,
            title=self.title,
            created=str(self.circumstances["date"]),
            facts=facts(report, self.sources, self.circumstances),
            classes=self.sources.get("data", {}).get("classes"),
            sections={
                "preview": self.unfinished,
                "checks": {"scan": []} | self.sources["checks"] | {"warnings": told} if told else None,
                "advice": advise(report, self.run),
                "recalibration": recalibration,
                "operating": operating_section(report),
                "groups": groups_section(report),
                "attack": self.attacks.page(self._shown_radius, {**report.terms, "n_bins": len(report.bins)}),
            },
        )
        if pictures is not None and evidence is not None:
            shown = page["views"][page["default_view"]]["top"]
            first = [view["top"][:4] for view in page["views"]]
            page["images"] = pictures.thumbnails(one["index"] for some in (shown, *first) for one in some)
            index = shown[0]["index"] if shown else int(evidence.index[0])
            radius, sandwich = self._shown_radius, self.attacks.sandwich
            worst = None if sandwich is None else sandwich.moved_at(radius)
            page["strip"] = pictures.strip(index, radius=radius, sigma=evidence.header.sigma, worst=worst)
        return render_page(page)

    def _write_certificates(self, change: Change) -> None:
        """One row per input and radius as Parquet, and of a smoothed model the radii as a log in the field's format."""
        first = self.report.bounds[0]
        file = change.place("certificates.parquet")
        if self.run.bounds.is_file() and self.run.settings().evaluate.radii is None:  # all that there are
            shutil.copyfile(self.run.bounds, file)
        else:
            save_bounds(self.report.bounds, file)
        if self.report.evidence is None:  # the field's logs are of smoothed models
            return
        inputs = (first.index, first.label, first.predicted, first.certified_radius)
        radii = Radii(*inputs, alpha=None, runner_up=first.runner_up)
        write_certification_log(change.place("certificates.tsv"), radii)

    @property
    def unfinished(self) -> str | None:
        """How far the run is, if it is not finished."""
        return how_far(self.report.evidence if self.whole is None else self.whole, self.sources)

    @property
    def _shown_radius(self) -> float:
        return self.report[default_view(self.report)].radius

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The evaluation as plain data: what metrics.json holds."""
        report, shown = self.report, default_view(self.report)
        own, rows = report.recalibration, range(len(report))
        return {
            "title": self.title,
            "answer": answer(report, shown),
            "guarantee": guarantee(report, shown),
            "guarantees": [guarantee(report, position) for position in rows],
            "explanation": explanation(report, shown),
            "caveats": caveats(report),
            "inputs": report.inputs,
            "population": str(report.population),
            **report.terms,
            "delta": report.delta,
            "failures_allowed": report.failures,
            "claim": str(report.claim),
            "claims": [row.claim for row in report],
            "bins": report.bins.edges.tolist(),
            "norm": str(report.bounds[0].norm),
            "domain": str(report.bounds[0].domain),
            **_of_draws(report.evidence),
            "average_certified_radius": report.average_certified_radius,
            "recalibration": None if own is None else {"kind": own.kind} | dict(own.about),
            "rows": plain(report.as_dicts()),
            "further": plain([dict(row.further) for row in report]),
            "threshold": report.threshold,
            "acceptance": [acceptance(report, position) or None for position in rows],
            "accept_accuracy": report.accept_accuracy,
            "accept_from": [_accept_from(report, position) for position in rows],
            "operating": [operating_data(report, position) for position in rows],
            "groups": plain([[table.as_dict() for table in tables] for tables in report.groups]) or None,
            "per_bin": [_per_bin(report, position) for position in rows],
            "sampling": {key: value for key, value in self.sources.items() if key != "checks"},
            "checks": self.sources.get("checks"),
            "attack": self.attacks.metrics() or None,
            "provenance": self.circumstances,
        }


def _of_draws(evidence: Evidence | None) -> dict[str, Any]:
    """What metrics.json says of the draws; nothing without them."""
    if evidence is None:
        return {}
    header = evidence.header
    return {
        "sigma": header.sigma,
        "seed": header.seed,
        "draws": int(evidence.draws.sum()),
        "looks": header.looks,
        "stages": list(header.stages),
        "inputs_at_other_looks": int((~header.planned(evidence.draws)).sum()),
        "model": header.model,
        "precision": header.precision,
    }


def _accept_from(report: Report, position: int) -> dict[str, Any] | None:
    """The least threshold for the accuracy that is wanted of those accepted, with its point; None if none is wanted."""
    if not (words := wanted_acceptance(report, position)):
        return None
    point, wanted = report.least_threshold(position), report.accept_accuracy
    reached = point is not None and wanted is not None and point.accuracy >= wanted
    return {"reached": reached, "best": None if point is None else plain(vars(point)), "words": words}


def _per_bin(report: Report, position: int) -> dict[str, Any] | None:
    curves, worst = reliability_at(report, position), report[position].worst
    if curves is None or worst is None:
        return None
    named = {
        name: {key: plain(getattr(curve, key)) for key in ("count", "confidence", "accuracy")}
        for name, curve in zip(("clean", "worst"), curves, strict=True)
    }
    signs = [] if worst.signs is None else worst.signs.tolist()
    return {"radius": report[position].radius, **named, "signs": signs}

"""Every table and figure of the paper by name, each with what it is drawn from and the function that draws it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from certcal.errors import InputError
from certcal.evaluation import Outcome, Rounding, select
from certcal.report import (
    ace_tables,
    attack_diagrams,
    comparison_markdown,
    comparison_table,
    percent,
    plot_changes,
    prepare_changes,
)
from certcal.runs import RunFolder, kept_attacks, save_figure
from certcal.scalars import guarded
from certcal.smoothing import load_evidence
from certcal.studies import curves
from certcal.studies.study import load_study, paper_table
from certcal.studies.trials import as_outcome


@dataclass(frozen=True)
class Exhibit:
    """A table or figure of the paper."""

    name: str
    place: str  # in the paper
    shows: str
    source: str  # what `--from` names
    draw: Callable[[Sequence[Path]], str | curves.Panels]  # from these folders, a table or a figure
    each: bool = False  # drawn for each of them, not for all together


@guarded
def draw_exhibit(name: str, sources: Sequence[Path], into: RunFolder) -> Exhibit:
    """Draw a table or figure of the paper from stored results into a folder.

    Paper: all of its tables and figures.
    Raises: InputError if there is none of that name, or its sources are missing.
    """
    own = EXHIBITS.get(name)
    if own is None:
        raise InputError.expected("exhibit", f"be one of {', '.join(EXHIBITS)}", repr(name))
    if bool(own.source) != bool(sources):
        wanted = f"name {own.source}" if own.source else "be left out: it is drawn from nothing"
        raise InputError.expected("from", wanted, ", ".join(map(str, sources)) or "nothing")
    into.create()
    parts = [[one] for one in sources] if own.each else [sources]
    for number, part in enumerate(parts, 1):
        drawn, label = own.draw(part), f"{name}-{number}" if len(parts) > 1 else name
        if isinstance(drawn, str):
            into.write(f"{label}.md", drawn)
        else:
            save_figure(into, label, *drawn)
    return own


def stored_outcomes(folder: Path) -> list[Outcome]:
    """What came of the models of a study, as its folder keeps it."""
    try:
        rows = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError.expected("from", "be a folder of `certcal reproduce`", f"{folder} ({error})") from error
    return [as_outcome(row) for row in rows if "failed" not in row]


def _training_table(study: str, sources: Sequence[Path]) -> str:
    """The table of selected models, as the paper selects them."""
    outcomes, about = [one for folder in sources for one in stored_outcomes(folder)], load_study(study).about
    radii = [radius for radius in about.radii if any(one.radius == radius for one in outcomes)]
    table = comparison_table([select(outcomes, radius=radius) for radius in radii], paper_table(about.paper),
                             methods=list(dict.fromkeys(one.method for one in outcomes)))  # fmt: skip
    return f"# {about.title}\n\n{comparison_markdown(table)}\n"


def _baselines(sources: Sequence[Path]) -> str:
    """Certified accuracy, CCE and CBS of every baseline at every radius."""
    found = [one for folder in sources for one in stored_outcomes(folder) if one.model == one.baseline]
    radii = sorted({one.radius for one in found})
    known = {(one.model, one.radius): one for one in found}
    parts = (("CA", "certified_accuracy", Rounding.DOWN), ("CCE", "certified_ece", Rounding.UP),
             ("CBS", "certified_brier", Rounding.UP))  # fmt: skip
    lines = ["| baseline | " + " | ".join(f"{label} {radius:g}" for label, *_ in parts for radius in radii) + " |"]
    lines.append("|---|" + "---:|" * (len(parts) * len(radii)))
    for model in dict.fromkeys(one.model for one in found):
        values = [(getattr(known[model, radius], key), side) for _, key, side in parts for radius in radii]
        cells = ["—" if value != value else percent(value, side).removesuffix(" %") for value, side in values]
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _changes(sources: Sequence[Path], *, best: bool = False, without: Sequence[str] = ()) -> curves.Panels:
    """What fine-tuning changes around each baseline, or around the most accurate one at each radius."""
    outcomes = [one for folder in sources for one in stored_outcomes(folder) if one.method not in without]
    starts = [one for one in outcomes if one.model == one.baseline and one.certified_ece == one.certified_ece]
    if best:
        by_accuracy = sorted(starts, key=lambda one: one.certified_accuracy)
        starts = sorted({one.radius: one for one in by_accuracy}.values(), key=lambda one: one.radius)
    own = [prepare_changes(outcomes, baseline=one.model, radius=one.radius) for one in starts]
    draws: list[Any] = [lambda ax, one=one: plot_changes(one, ax=ax) for one in own if len(one.accuracy)]
    if not draws:
        raise InputError.expected("from", "hold fine-tuned models", ", ".join(map(str, sources)))
    return draws


def _attacks(sources: Sequence[Path], *, figure: bool) -> str | curves.Panels:
    """AdaECE under the four attacks as a table, or the reliability diagrams."""
    run = RunFolder.existing(sources[0])
    ace = kept_attacks(run, load_evidence(run.evidence)).ace
    if ace is None:
        raise InputError.expected("from", "be a run that `certcal attack --family ace` attacked", str(sources[0]))
    return list(attack_diagrams(None, ace, radius=0.0)["ace_reliability"]) if figure else ace_tables(ace)["md"]


_STUDY, _RUNS, _RUN = "a folder of `certcal reproduce`", "run folders, one for each σ", "a run folder"
_ATTACKED, _CIFAR = "runs attacked with `certcal attack --family ace`", "CIFAR-10"


def _listed() -> list[Exhibit]:
    def table(study: str, place: str) -> Exhibit:
        shows = f"certified calibration per training method, {study}"
        return Exhibit(f"table-{study}", place, shows, _STUDY, partial(_training_table, study))

    both = ("Finetuned AT",)
    return [
        Exhibit("figure-motivation", "Fig. 1", "certified confidences and the worst case", _RUN, curves.motivation),
        Exhibit("table-attacks", "Table 1", "AdaECE under (η, ω)-ACE", _ATTACKED, partial(_attacks, figure=False),
                each=True),
        Exhibit("figure-brier-imagenet", "Fig. 2", "CBS over R, ImageNet", _RUNS, curves.brier),
        Exhibit("figure-acce-imagenet", "Fig. 3", "ADMM, dECE, Brier and exact, ImageNet", _RUNS,
                curves.approximations),
        Exhibit("figure-training-effect", "Fig. 4", "fine-tuning the best baseline at each R", _STUDY,
                partial(_changes, best=True, without=both)),
        table("cifar10", "Table 2"),
        Exhibit("figure-pathological", "App. B.1", "calibration is not accuracy", "", curves.pathological),
        Exhibit("figure-attack-reliability", "App. B.2", "reliability under the attacks", _ATTACKED,
                partial(_attacks, figure=True), each=True),
        Exhibit("figure-widths", "App. C", "widths of Standard, CDF and cdf-cp", _RUNS, curves.widths),
        Exhibit("figure-admm-lagrangian", "App. G.1", "parts of ADMM's Lagrangian", _RUN, curves.lagrangian),
        Exhibit("figure-admm-constraints", "App. G.1", "ADMM's distance to its constraints", _RUN, curves.constraints),
        Exhibit("figure-admm-assignment", "App. G.1", "ADMM's assignment over its steps", _RUN, curves.assignment),
        Exhibit("figure-initialisation", "App. G.3", "ADMM and dECE by where they start", _RUNS, curves.starts),
        Exhibit("figure-search", "App. G.3", "best of ADMM, dECE and Brier", _RUNS, curves.best_of_search),
        Exhibit("figure-single-admm", "App. G.3", "one setting of ADMM against the best dECE", _RUNS,
                curves.single_admm),
        Exhibit("figure-acce-cifar10", "App. G.3", f"ADMM, dECE, Brier and exact, {_CIFAR}", _RUNS,
                curves.approximations),
        Exhibit("figure-brier-cifar10", "App. H", f"CBS over R, {_CIFAR}", _RUNS, curves.brier),
        Exhibit("figure-brier-same-inputs", "App. H", "CBS over R of inputs certified at all of them", _RUNS,
                partial(curves.brier, same_inputs=True)),
        Exhibit("table-baselines-cifar10", "App. I.2", f"baselines, {_CIFAR}", _STUDY, _baselines),
        Exhibit("table-baselines-imagenet", "App. I.2", "baselines, ImageNet", _STUDY, _baselines),
        Exhibit("figure-fine-tuning", "App. I.4", "fine-tuning every baseline", _STUDY,
                partial(_changes, without=both)),
        Exhibit("table-ablation", "App. I.5", "with AT fine-tuned", _STUDY, partial(_training_table, "cifar10")),
        Exhibit("figure-fine-tuning-with-at", "App. I.5", "fine-tuning every baseline, AT too", _STUDY, _changes),
        table("fashion-mnist", "App. J.1"),
        table("svhn", "App. J.2"),
        table("cifar100", "App. J.3"),
        table("imagenet", "App. J.4"),
        Exhibit("figure-trade-off", "App. K", "rank correlations of CA, ACR, CBS and CCE", _STUDY, curves.trade_off),
    ]  # fmt: skip


EXHIBITS = {one.name: one for one in _listed()}

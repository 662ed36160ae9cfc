"""Every table and figure of the paper by name, each with what it is drawn from and the function that draws it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from certcal.errors import InputError
from certcal.evaluation import Outcome, select
from certcal.report import (
    INCORRECT,
    ace_tables,
    attack_diagrams,
    comparison_markdown,
    comparison_table,
    plot_changes,
    prepare_changes,
)
from certcal.runs import RunFolder, kept_attacks, save_figure
from certcal.scalars import did_you_mean, guarded
from certcal.smoothing import load_evidence
from certcal.studies import curves
from certcal.studies.pack import FOLDER
from certcal.studies.paper import baselines_table, paper_table, worked_example
from certcal.studies.ranked import each_once, enough, trade_off
from certcal.studies.stored import PACK, RUN, TRACK, Model, Source
from certcal.studies.study import load_study, study_names

ByData = Mapping[str, Sequence[Outcome]]  # what came of models, by their data set
_STUDY = "a folder of `certcal reproduce`, or a reference pack"
_RUNS, _RUN = (
    "runs or evidence files, one for each σ, or a reference pack",
    "a run, an evidence file or a reference pack",
)
PAIRED = ", each beside a baseline of its settings and seed, with as many draws; of each baseline one seed"
_ATTACKED = "runs attacked with `certcal attack --family ace`"


@dataclass(frozen=True)
class Exhibit:
    """A table or figure of the paper."""

    name: str
    place: str  # in the paper
    shows: str
    source: str  # what `--from` names
    draw: Callable[[Any], str | curves.Panels]  # from outcomes, models or an attacked run, a table or a figure
    data: str = ""  # the data set that it is about; of others it shows any
    every: bool = False  # drawn from the evidence of every model, not of one for each σ
    paired: bool = False  # shows models beside what they were fine-tuned from


@dataclass(frozen=True)
class DrawnExhibit:
    """What was drawn, and where it is."""

    exhibit: Exhibit
    files: tuple[Path, ...]
    text: str  # of tables
    notes: tuple[str, ...]  # what to know of the sources


@guarded
def draw_exhibit(name: str, sources: Sequence[str | Path], into: RunFolder) -> DrawnExhibit:
    """Draw a table or figure of the paper from stored results into a folder.

    Args:
        sources: run folders, folders of studies, reference packs or evidence files, or names below runs/.

    Paper: all of its tables and figures.
    Raises: InputError if there is none of that name, or its sources are missing, too many or about other data.
    """
    own = EXHIBITS.get(name)
    if own is None:
        got = f"{name!r}{did_you_mean(name, EXHIBITS)}"
        raise InputError.expected("exhibit", f"be one of {', '.join(EXHIBITS)}", got)
    given = ", ".join(map(str, sources)) or "nothing"
    if bool(own.source) != bool(sources):
        wanted = f"name {own.source}" if own.source else "be left out: it is drawn from nothing"
        raise InputError.expected("from", wanted, given)
    if own.source == _RUN and len(sources) > 1:
        raise InputError.expected("from", f"name {own.source}, once", given)
    found = [Source.found(one) for one in sources]
    notes = [note for one in found if (note := one.check_data(own.data))]
    parts, kept = _parts(own, found, notes), _Kept()
    for number, part in enumerate(parts, 1):
        drawn, label = own.draw(part), f"{name}-{number}" if len(parts) > 1 else name
        if isinstance(drawn, str):
            kept.write(f"{label}.md", drawn + "".join(f"\n{note}\n" for note in notes))
        else:
            save_figure(kept, label, *drawn)
    into.create()
    with into.change() as change:
        for file, content in kept.files.items():
            change.write(file, content)
    text = "\n".join(one for one in kept.files.values() if isinstance(one, str))
    return DrawnExhibit(own, tuple(into.path / file for file in kept.files), text, tuple(notes))


class _Kept(RunFolder):
    """A folder in memory: what is refused on the way leaves nothing behind."""

    def __init__(self) -> None:
        super().__init__(Path())
        self.files: dict[str, str | bytes] = {}

    def write(self, name: str, content: str | bytes) -> None:
        self.files[name] = content


def _parts(own: Exhibit, sources: Sequence[Source], notes: list[str]) -> Sequence[Any]:
    """What an exhibit is drawn from, for each of its files; notes get what was taken of a pack."""
    if own.source == _ATTACKED:
        if other := next((one for one in sources if one.kind != RUN), None):
            raise InputError.expected("from", f"name {_ATTACKED}", f"{other.path}, {other.kind}")
        return [one.path for one in sources]
    if own.source == _STUDY and not own.every:
        outcomes: dict[str, list[Outcome]] = {}
        for one in sources:
            for data, made in one.outcomes(own.data, paired=own.paired).items():
                outcomes.setdefault(data, []).extend(made)
                if one.kind == PACK:
                    told = f"rows of track {TRACK} of {len({row.model for row in made})} models on {data}"
                    how = PAIRED if own.paired else f", of one seed: {one.how_made(data)}"
                    notes.append(f"From {one.path}: {told}{how}.")
        return [outcomes]
    models: list[Model] = []
    ranked: dict[Path, list[Model]] = {}
    for one in sources:
        chosen = one.models(own.data, every=own.every or (own.source == _RUN and one.kind == PACK))
        if one.kind == PACK and own.every:
            chosen = ranked[one.path] = each_once(chosen)
        elif one.kind == PACK:
            more = ""
            if own.source == _RUN:
                chosen, why = _first(chosen)
                more = f", {why}; another with --from {one.path / FOLDER}/NAME.parquet"
            notes.append(f"From {one.path}: {', '.join(model.name for model in chosen)}{more}.")
        models += chosen
    if own.every:
        models, left_out = enough(models)
        for path, own_models in ranked.items():
            count = sum(any(one is kept for kept in models) for one in own_models)
            notes.append(f"From {path}: {count} models of one seed.")
        notes += left_out
    return [models]


def _first(models: Sequence[Model]) -> tuple[list[Model], str]:
    """The first model on a data set that the paper has results of, or else the first, and which of both it is."""
    papers = [name for name in study_names() if load_study(name).about.paper]
    if own := [one for one in models if one.data in papers][:1]:
        return own, "its first on data of the paper"
    return list(models[:1]), "its first"


def _training_table(study: str, found: ByData, *, title: str, without: Sequence[str] = ()) -> str:
    """The table of selected models, as the paper selects them, without methods that it has in another one."""
    outcomes = [one for one in _together(found) if one.method not in without]
    about, theirs = load_study(study).about, paper_table(load_study(study).about.paper) or {}
    radii = [radius for radius in about.radii if any(one.radius == radius for one in outcomes)]
    if not radii:
        shown = ", ".join(f"{radius:g}" for radius in about.radii)
        raise InputError.expected("from", f"hold models that were evaluated at R = {shown}", "none")
    printed = {key: {method: line for method, line in own.items() if method not in without}
               if isinstance(own, dict) else own for key, own in theirs.items()}  # fmt: skip
    methods = list(dict.fromkeys(one.method for one in outcomes))
    chosen = [select(outcomes, radius=radius) for radius in radii]
    table = comparison_table(chosen, printed, methods=methods, outcomes=outcomes)
    return f"# {title}\n\n{comparison_markdown(table)}\n"


def _together(found: ByData) -> list[Outcome]:
    return [one for own in found.values() for one in own]


def _changes(found: ByData, *, best: bool = False, without: Sequence[str] = ()) -> curves.Panels:
    """What fine-tuning changes around each baseline that was, or around the most accurate one at each radius."""
    tuned_by = (one.method for one in _together(found) if one.model != one.baseline and one.method not in without)
    methods = sorted(set(tuned_by))  # each with one colour and marker in all panels

    def panel(data: str, own: Any, ax: Any) -> Any:
        plot_changes(own, ax=ax, methods=methods)
        ax.set_title(f"{data}\n{ax.get_title()}" if data else ax.get_title())
        return ax

    draws: curves.Panels = []
    for data, made in found.items():
        outcomes = [one for one in made if one.method not in without]
        tuned = {(one.baseline, one.radius) for one in outcomes if one.model != one.baseline}
        starts = [one for one in outcomes if one.model == one.baseline and (one.model, one.radius) in tuned]
        starts = [one for one in starts if one.certified_ece == one.certified_ece]
        if best:
            by_accuracy = sorted(starts, key=lambda one: one.certified_accuracy)
            starts = sorted({one.radius: one for one in by_accuracy}.values(), key=lambda one: one.radius)
        changes = [prepare_changes(outcomes, baseline=one.model, radius=one.radius) for one in starts]
        draws += [partial(panel, data, one) for one in changes if len(one.accuracy)]
    if not draws:
        raise InputError.expected("from", "hold baselines and models that were fine-tuned from them", "none")
    return draws


def _attacks(folder: Path, *, figure: bool) -> str | curves.Panels:
    """AdaECE under the four attacks as a table, or the reliability diagrams."""
    run = RunFolder.existing(folder)
    ace = kept_attacks(run, load_evidence(run.evidence)).ace
    if ace is None:
        raise InputError.expected("from", "be a run that `certcal attack --family ace` attacked", str(folder))
    return list(attack_diagrams(None, ace, radius=0.0)["ace_reliability"]) if figure else ace_tables(ace)["md"]


def _pathological(models: Sequence[Model]) -> curves.Panels:
    """Accuracy and calibration error say nothing of each other: three data sets of one confidence each."""

    def draw(ax: Any) -> Any:
        for place, (z, accuracy) in enumerate(((0.5, 1.0), (0.5, 0.0), (1.0, 1.0)), 1):
            ax.plot([z, accuracy], [place, place], color=INCORRECT)
            ax.plot(accuracy, place, "o", markerfacecolor="none", markeredgecolor="black", markersize=9)
            ax.plot(z, place, "o", color="black", markersize=5)
        ax.set_yticks([1, 2, 3], ["accuracy 1, ECE 0.5", "accuracy 0, ECE 0.5", "accuracy 1, ECE 0"])
        ax.set(xlabel="confidence (dot) and accuracy (circle)", ylim=(0.5, 3.5), xlim=(-0.05, 1.05))
        return ax

    return [draw]


def _listed() -> list[Exhibit]:
    both = ("Finetuned AT",)

    def table(study: str, place: str, *, without: Sequence[str] = (), name: str = "", shows: str = "") -> Exhibit:
        told = f"certified calibration per training method, {study}"
        title = f"Like the paper's {place}: {told}{f', {shows}' if shows else ''}"
        draw = partial(_training_table, study, title=title, without=without)
        return Exhibit(name or f"table-{study}", place, shows or told, _STUDY, draw, study)

    return [
        Exhibit("figure-motivation", "Fig. 1", "certified confidences and the worst case", _RUN, curves.motivation),
        Exhibit("table-attacks", "Table 1", "AdaECE under (η, ω)-ACE", _ATTACKED, partial(_attacks, figure=False)),
        Exhibit("figure-brier-imagenet", "Fig. 2", "CBS over R, ImageNet", _RUNS, curves.brier, "imagenet"),
        Exhibit("figure-acce-imagenet", "Fig. 3", "ADMM, dECE, Brier and exact, ImageNet", _RUNS,
                curves.approximations, "imagenet"),
        Exhibit("figure-training-effect", "Fig. 4", "fine-tuning the best baseline at each R", _STUDY,
                partial(_changes, best=True, without=both), paired=True),
        table("cifar10", "Table 2", without=both),
        Exhibit("figure-pathological", "App. B.1", "calibration is not accuracy", "", _pathological),
        Exhibit("figure-attack-reliability", "App. B.2", "reliability under the attacks", _ATTACKED,
                partial(_attacks, figure=True)),
        Exhibit("figure-widths", "App. C", "widths of Standard, CDF and cdf-cp", _RUNS, curves.widths),
        Exhibit("table-worked-example", "App. E.2", "the worst case of two inputs", "", worked_example),
        Exhibit("figure-admm-lagrangian", "App. G.1", "parts of ADMM's Lagrangian", _RUN, curves.lagrangian),
        Exhibit("figure-admm-constraints", "App. G.1", "ADMM's distance to its constraints", _RUN, curves.constraints),
        Exhibit("figure-admm-assignment", "App. G.1", "ADMM's assignment over its steps", _RUN, curves.assignment),
        Exhibit("figure-initialisation", "App. G.3", "ADMM and dECE by where they start", _RUNS, curves.starts),
        Exhibit("figure-search", "App. G.3", "best of ADMM, dECE and Brier", _RUNS, curves.best_of_search),
        Exhibit("figure-single-admm", "App. G.3", "one setting of ADMM against the best dECE", _RUNS,
                curves.single_admm),
        Exhibit("figure-acce-cifar10", "App. G.3", "ADMM, dECE, Brier and exact, CIFAR-10", _RUNS,
                curves.approximations, "cifar10"),
        Exhibit("figure-brier-cifar10", "App. H", "CBS over R, CIFAR-10", _RUNS, curves.brier, "cifar10"),
        Exhibit("figure-brier-same-inputs", "App. H", "CBS over R of inputs certified at all of them", _RUNS,
                partial(curves.brier, same_inputs=True)),
        Exhibit("table-baselines-cifar10", "App. I.2", "baselines, CIFAR-10", _STUDY,
                partial(baselines_table, "cifar10"), "cifar10"),
        Exhibit("table-baselines-imagenet", "App. I.2", "baselines, ImageNet", _STUDY,
                partial(baselines_table, "imagenet"), "imagenet"),
        Exhibit("figure-fine-tuning", "App. I.4", "fine-tuning every baseline", _STUDY,
                partial(_changes, without=both), paired=True),
        table("cifar10", "App. I.5", name="table-ablation", shows="with AT fine-tuned"),
        Exhibit("figure-fine-tuning-with-at", "App. I.5", "fine-tuning every baseline, AT too", _STUDY, _changes,
                paired=True),
        table("fashion-mnist", "App. J.1"),
        table("svhn", "App. J.2"),
        table("cifar100", "App. J.3"),
        table("imagenet", "App. J.4"),
        Exhibit("figure-trade-off", "App. K", "rank correlations of CA, ACR, CBS and CCE", _STUDY, trade_off,
                every=True),
    ]  # fmt: skip


EXHIBITS = {one.name: one for one in _listed()}

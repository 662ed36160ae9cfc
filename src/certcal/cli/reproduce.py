"""`certcal reproduce`: the paper's training results from a recipe, its numbers beside ours."""

from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from certcal.cli import options as o
from certcal.cli.declare import Part, takes
from certcal.cli.exhibits import draw_one, paper_like, show_list
from certcal.cli.screen import print_json, show_path, tell, wide_console
from certcal.cli.train import name_failures, show_dry_run, study_changes
from certcal.errors import InputError
from certcal.files import printable
from certcal.scalars import did_you_mean
from certcal.settings import Beside, Cluster, MachineSettings, PlaceSettings, Sections, StudyShare, parse_changes

if TYPE_CHECKING:
    from certcal.studies import Reproduction, Study, Trial


_which = o.option_under("What to run")


@takes(
    share=StudyShare,
    machine=Part(MachineSettings, only=("device",)),
    place=PlaceSettings,
    beside=Beside,
    cluster=Cluster,
)
def reproduce(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="A study by name, or a TOML file; or a table or figure of the paper, with --from.",
            show_default=False,
        ),
    ] = None,
    *,
    baseline: Annotated[list[str] | None, _which("--baseline", "Only this baseline; repeatable.", "NAME")] = None,
    only: Annotated[list[str] | None, _which("--only", "Only this method; repeatable.", "METHOD")] = None,
    weights: Annotated[
        list[str] | None, _which("--weights", "Checkpoint of a baseline; repeatable.", "NAME=FILE")
    ] = None,
    assignments: o.Assignments = None,
    given: Sections,
    trust: o.Trust = False,
    source: Annotated[
        list[str] | None,
        _which(
            "--from",
            "What a table or figure of the paper is drawn from: a run, a study, a reference pack or an evidence file; "
            "repeatable.",
            "PATH",
        ),
    ] = None,
    into: Annotated[
        str | None, o.output("--into", "Run folder, or a name below runs/; else reproduce-RECIPE.", "RUN")
    ] = None,
    list_: Annotated[
        bool, o.output("--list", "List the studies, and the paper's tables and figures, and stop.")
    ] = False,
    show: Annotated[bool, o.output("--show", "Print the recipe and stop.")] = False,
    dry_run: Annotated[
        bool, o.output("--dry-run", "List the models and what the first takes to train, and stop.")
    ] = False,
    json: o.Json = False,
) -> None:
    """Train baselines, fine-tune them by every method, certify all of them and select the best, as the paper does.

    The same command goes on with an interrupted one. It leaves a table in the paper's layout, with the paper's numbers
    beside it, and figures.

    [dim]Examples:[/dim] certcal reproduce --list · certcal reproduce digits · certcal reproduce fashion-mnist --dry-run
    """
    from certcal.runs import RunFolder, check_factories
    from certcal.studies import EXHIBITS, load_study, run_study, study_names, study_text, study_trials

    if list_:
        show_list(json=json)
        return
    if recipe is None:
        raise InputError("Missing RECIPE: see which there are with `certcal reproduce --list`.")
    if recipe in EXHIBITS:
        words = {"baseline": baseline, "only": only, "weights": weights, "set": assignments, "trust": trust}
        words |= {"show": show, "dry-run": dry_run} | dict.fromkeys(
            (key for own in given.values() for key in own), True
        )
        others = [f"--{key.replace('_', '-')}" for key, value in words.items() if value]
        draw_one(recipe, source or [], into or recipe, others=others, json=json)
        return
    if not recipe.endswith(".toml") and recipe not in study_names():
        wanted = f"be one of {', '.join(study_names())}, a TOML file, or a table or figure that --list names"
        got = f"{recipe!r}{did_you_mean(recipe, (*study_names(), *EXHIBITS))}"
        raise InputError.expected("recipe", wanted, got)
    if show:
        print(printable(study_text(recipe)))
        return
    if source:
        raise InputError.expected("from", "be left out for a study", ", ".join(source))
    where, share = o.engine_of(given), StudyShare(**given.pop("share"))
    changes = study_changes(given, assignments)
    study = load_study(
        recipe,
        changes,
        baselines=tuple(baseline or ()),
        methods=tuple(only or ()),
        weights=dict(_pair(text) for text in weights or []),
        sample=share.sample,
    )
    with suppress(InputError):  # what is no study without them has nothing to differ from
        if told := _changed(load_study(recipe), parse_changes(assignments or [])):
            study = study.but_for(told)
    name = recipe.rsplit("/", 1)[-1].removesuffix(".toml")
    folder = RunFolder.named(into or f"reproduce-{name}").path
    like = RunFolder.named(share.like).path if share.like else None
    stages = study_trials(study, folder, like=like)
    trials = [one for first, tuned in stages for one in (first, *tuned)]
    named = changes.get("model", {}).get("name")
    check_factories([one.recipe.model for one in trials], folder, named=named, trust=trust)
    if dry_run:
        _show_plan(study, stages, json=json)
        return
    result = run_study(
        study,
        folder,
        engine=where,
        **given["beside"],
        minutes=share.minutes,
        quote=share.quote,
        like=like,
        progress=True,
        tell=tell,
    )
    _show_result(result, json=json)
    if result.results.left:
        tell(
            f"Stopped after {share.minutes:g} minutes with {result.results.left} models left: the same command goes on."
        )
    name_failures(result.results.failures)


def _pair(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise InputError.expected("weights", "be NAME=FILE", repr(text))
    return name, path


def _changed(study: "Study", changes: Sections) -> str:
    """Settings of a study that were changed, with what they come to: its table would pass for that of the study."""
    known = {part: own if isinstance(own, dict) else vars(own) for part, own in vars(study).items() if part in changes}
    said = [(part, key, one) for part in known if part != "machine" for key, one in changes[part].items()]
    return ", ".join(
        f"{part}.{key} = {one}" + (f" (not {known[part][key]})" if known[part].get(key) is not None else "")
        for part, key, one in said
        if key not in ("device", "download", "root") and known[part].get(key) != one
    )


def _show_plan(study: "Study", stages: "list[tuple[Trial, list[Trial]]]", *, json: bool) -> None:
    from certcal.runs import estimate_training
    from certcal.studies import check_data

    counts = {first.name: [first.method, *(one.method for one in tuned)] for first, tuned in stages}
    if json:
        print_json({name: {method: own.count(method) for method in own} for name, own in counts.items()})
        return
    console = wide_console()
    console.print(Text(study.about.title, "bold"))
    for name, own in counts.items():
        told = ", ".join(f"{own.count(method)} {method}" for method in dict.fromkeys(own))
        console.print(Text.assemble((f"{name}  ", "cyan"), told), soft_wrap=True)
    total = sum(map(len, counts.values()))
    console.print(f"\n{total} models to train and certify. The first of them:\n")
    recipe = stages[0][0].recipe
    check_data(one for first, tuned in stages for one in (first, *tuned))
    show_dry_run(recipe, lambda: estimate_training(recipe), json=False)
    if total > 1:
        console.print(
            f"This is for training one model of {total}. With an adversary a step takes longer, and every model has to "
            f"be certified too.{f' The whole study: {study.about.cost}.' if study.about.cost else ''}",
            style="dim",
        )


def _show_result(result: "Reproduction", *, json: bool) -> None:
    from certcal.report import comparison_cells, reading

    if json:
        print_json(asdict(result.comparison) | {"held_out": result.held_out and asdict(result.held_out)})
        return
    console = wide_console()
    console.print()
    console.print(paper_like(comparison_cells(result.comparison), result.title))
    console.print()
    console.print(Text(reading(result.comparison), "dim"))
    if result.held_out:
        console.print()
        console.print(paper_like(comparison_cells(result.held_out), f"{result.title}, chosen on held-out images"))
        console.print()
        console.print(Text(reading(result.held_out, held_out=True), "dim"))
    show_path(console, "\nTable:   ", result.folder / "table.md")
    show_path(console, "Figures: ", result.folder / "figures")

"""`certcal reproduce`: the paper's training results from a recipe, its numbers beside ours."""

import tomllib
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from certcal.cli import options as o
from certcal.cli.declare import Part, takes
from certcal.cli.screen import new_table, print_json, show_path, tell, wide_console
from certcal.cli.train import name_failures, show_dry_run, study_changes
from certcal.errors import InputError
from certcal.files import printable
from certcal.settings import Beside, Cluster, MachineSettings, PlaceSettings, Sections, StudyShare

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
        str | None, typer.Argument(metavar="RECIPE", help="A study by name, or a TOML file.", show_default=False)
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
        list[str] | None, _which("--from", "What a table or figure of the paper is drawn from; repeatable.", "FOLDER")
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
    from certcal.studies import EXHIBITS, draw_exhibit, load_study, run_study, study_text, study_trials

    if list_:
        _show_list(json=json)
        return
    if recipe is None:
        raise InputError("Missing RECIPE: see which there are with `certcal reproduce --list`.")
    if show:
        print(printable(study_text(recipe)))
        return
    if recipe in EXHIBITS:
        place = RunFolder.named(into or recipe)
        draw_exhibit(recipe, [RunFolder.named(one).path for one in source or []], place)
        show_path(wide_console(), f"{EXHIBITS[recipe].shows}: ", place.path)
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
    name = recipe.rsplit("/", 1)[-1].removesuffix(".toml")
    folder = RunFolder.named(into or f"reproduce-{name}").path
    like = RunFolder.named(share.like).path if share.like else None
    stages = study_trials(study, folder, like=like)
    trials = [one for first, tuned in stages for one in (first, *tuned)]
    named = changes.get("model", {}).get("name")
    check_factories([one.recipe.model for one in trials], folder, named=named, trust=trust)
    if dry_run:
        _show_plan(study.about.title, stages, json=json)
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
    _show_result(study, result, json=json)
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


def _show_list(*, json: bool) -> None:
    from certcal.studies import EXHIBITS, study_names, study_text

    about = {name: tomllib.loads(study_text(name))["about"] for name in study_names()}
    known = {one.name: {"place": one.place, "shows": one.shows, "from": one.source} for one in EXHIBITS.values()}
    if json:
        print_json({"studies": about, "exhibits": known})
        return
    table = new_table("study", "", "size")
    table.columns[0].no_wrap = True  # a name is there to be typed
    for name, one in about.items():
        table.add_row(Text(name, "bold"), one["title"], Text(one["cost"], "dim"))
    wide_console().print(table)
    table = new_table("table or figure", "in the paper", "", "drawn with --from")
    table.columns[0].no_wrap = True
    for name, own in known.items():
        table.add_row(Text(name, "bold"), own["place"], own["shows"], Text(own["from"] or "nothing", "dim"))
    wide_console().print(table)


def _show_plan(title: str, stages: "list[tuple[Trial, list[Trial]]]", *, json: bool) -> None:
    from certcal.runs import estimate_training

    counts = {first.name: [first.method, *(one.method for one in tuned)] for first, tuned in stages}
    if json:
        print_json({name: {method: own.count(method) for method in own} for name, own in counts.items()})
        return
    console = wide_console()
    console.print(Text(title, "bold"))
    for name, own in counts.items():
        told = ", ".join(f"{own.count(method)} {method}" for method in dict.fromkeys(own))
        console.print(Text.assemble((f"{name}  ", "cyan"), told), soft_wrap=True)
    total = sum(map(len, counts.values()))
    console.print(f"\n{total} models to train and certify. The first of them:\n")
    recipe = stages[0][0].recipe
    show_dry_run(recipe, lambda: estimate_training(recipe), json=False)


def _show_result(study: "Study", result: "Reproduction", *, json: bool) -> None:
    from certcal.report import comparison_cells, reading

    if json:
        print_json(asdict(result.comparison))
        return
    (metric, method, *radii), *rows = comparison_cells(result.comparison)
    table = new_table(metric, method, numbers=radii, title=study.about.title, no_wrap=True)
    last = ""
    for row in rows:
        if row[0] != last:
            table.add_section()
        table.add_row("" if row[0] == last else row[0], *map(_bold, row[1:]))
        last = row[0]
    console = wide_console()
    console.print()
    console.print(table)
    console.print()
    console.print(Text(reading(result.comparison), "dim"))
    show_path(console, "\nTable:   ", result.folder / "table.md")
    show_path(console, "Figures: ", result.folder / "figures")


def _bold(cell: str) -> Text:
    """A cell whose part between asterisks is bold."""
    before, *inner = cell.split("**")
    return Text.assemble(before, (inner[0], "bold"), inner[1]) if len(inner) == 2 else Text(cell)

"""`certcal reproduce`: the paper's training results from a recipe, its numbers beside ours."""

import tomllib
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from certcal.cli import options as o
from certcal.cli.declare import Part, takes
from certcal.cli.screen import new_table, print_json, show_path, tell, wide_console
from certcal.cli.train import name_failures, show_dry_run, study_changes
from certcal.errors import InputError
from certcal.files import printable
from certcal.scalars import did_you_mean
from certcal.settings import Beside, Cluster, MachineSettings, PlaceSettings, Sections, StudyShare

if TYPE_CHECKING:
    from certcal.report import Comparison
    from certcal.studies import Reproduction, Study, Trial


_LETTERS = "abcdefgh"  # for what tables and figures are drawn from
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
        _show_list(json=json)
        return
    if recipe is None:
        raise InputError("Missing RECIPE: see which there are with `certcal reproduce --list`.")
    if recipe in EXHIBITS:
        words = {"baseline": baseline, "only": only, "weights": weights, "set": assignments, "trust": trust}
        words |= {"show": show, "dry-run": dry_run} | dict.fromkeys(
            (key for own in given.values() for key in own), True
        )
        others = [f"--{key.replace('_', '-')}" for key, value in words.items() if value]
        _draw(recipe, source or [], into or recipe, others=others, json=json)
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


def _draw(name: str, sources: list[str], into: str, *, others: list[str], json: bool) -> None:
    """Draw a table or figure of the paper, and say where it is."""
    from certcal.runs import RunFolder
    from certcal.studies import draw_exhibit

    if others:
        wanted = f"be a study with {others[0]}: a table or figure takes only --from, --into and --json"
        raise InputError.expected("recipe", wanted, repr(name))
    place = RunFolder.named(into)
    drawn = draw_exhibit(name, sources, place)
    for note in () if drawn.text and not json else drawn.notes:  # a table says so itself
        tell(note)
    if json:
        print_json({"name": name, "folder": str(place.path), "files": [str(path) for path in drawn.files]})
        return
    if drawn.text:
        print(printable(drawn.text))
    for path in drawn.files:
        show_path(wide_console(), "", path)


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
    console = wide_console()
    console.print(table)
    sources = list(dict.fromkeys(one.source for one in EXHIBITS.values() if one.source))
    table = new_table("table or figure", "in the paper", "", "from")
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for one in EXHIBITS.values():
        letter = _LETTERS[sources.index(one.source)] if one.source else "—"
        table.add_row(Text(one.name, "bold"), one.place, one.shows, Text(letter, "dim"))
    console.print()
    console.print(table)
    console.print("\nWhat --from names:", style="dim")
    for letter, source in zip(_LETTERS, sources, strict=False):
        console.print(Text(f"{letter}  {source}", "dim"))
    console.print("—  nothing: leave --from out", style="dim")


def _show_plan(study: "Study", stages: "list[tuple[Trial, list[Trial]]]", *, json: bool) -> None:
    from certcal.runs import estimate_training

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
    show_dry_run(recipe, lambda: estimate_training(recipe), json=False)
    if total > 1:
        console.print(
            f"This is for training one model of {total}. With an adversary a step takes longer, and every model has to "
            f"be certified too.{f' The whole study: {study.about.cost}.' if study.about.cost else ''}",
            style="dim",
        )


def _show_result(result: "Reproduction", *, json: bool) -> None:
    from certcal.report import reading

    if json:
        print_json(asdict(result.comparison) | {"held_out": result.held_out and asdict(result.held_out)})
        return
    console = wide_console()
    console.print()
    console.print(_table(result.comparison, result.title))
    console.print()
    console.print(Text(reading(result.comparison), "dim"))
    if result.held_out:
        console.print()
        console.print(_table(result.held_out, f"{result.title}, chosen on held-out images"))
        console.print()
        console.print(Text(reading(result.held_out, held_out=True), "dim"))
    show_path(console, "\nTable:   ", result.folder / "table.md")
    show_path(console, "Figures: ", result.folder / "figures")


def _table(comparison: "Comparison", title: str) -> Table:
    """Names whole; where the screen is narrow, the paper's number stands below ours."""
    from certcal.report import comparison_cells

    (metric, method, *radii), *rows = comparison_cells(comparison)
    table, last = new_table(metric, method, numbers=radii, title=title), ""
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for row in rows:
        if row[0] != last:
            table.add_section()
        table.add_row("" if row[0] == last else row[0], *map(_bold, row[1:]))
        last = row[0]
    return table


def _bold(cell: str) -> Text:
    """A cell whose part between asterisks is bold."""
    before, *inner = cell.split("**")
    return Text.assemble(before, (inner[0], "bold"), inner[1]) if len(inner) == 2 else Text(cell)

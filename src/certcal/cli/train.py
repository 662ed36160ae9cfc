"""`certcal train` and `certcal sweep`: weights for smoothing, from a recipe or from options."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from certcal.cli import options as o
from certcal.cli.declare import Part, takes
from certcal.cli.screen import complain, in_percent, new_table, print_json, show_path, tell, wide_console
from certcal.errors import InputError, several
from certcal.files import plain
from certcal.progress import in_words
from certcal.settings import (
    Beside,
    Cluster,
    DataSettings,
    MachineSettings,
    ModelSettings,
    ObjectiveSettings,
    PlaceSettings,
    Sections,
    TrainRecipe,
    TrainSettings,
    ValidationSettings,
    load_recipe,
    merged,
    options_of,
    parse_changes,
)

if TYPE_CHECKING:
    from certcal.evaluation import Outcome
    from certcal.studies import Failure
    from certcal.training import TrainCost, TrainResult

_LEARN = "What to learn"
_START = {"weights": ("--weights", "Weights to start from, to fine-tune.")}


@takes(
    model=Part(ModelSettings, only=("name", "weights", "mean", "std"), panel=_LEARN, words=_START),
    data=Part(DataSettings, only=("name", "split", "root", "download", "class_names"), panel=_LEARN),
    objective=ObjectiveSettings,
    train=TrainSettings,
    validation=ValidationSettings,
    machine=MachineSettings,
)
def train(
    run: o.RunName,
    *,
    recipe: o.Recipe = None,
    assignments: o.Assignments = None,
    given: Sections,
    trust: o.Trust = False,
    dry_run: Annotated[bool, o.output("--dry-run", "Show the settings and what it will take, and stop.")] = False,
    json: o.Json = False,
) -> None:
    """Train a model for smoothing, or fine-tune one, and leave its weights in a run folder.

    The same command goes on with an interrupted run, to the same weights as if it had not been interrupted.

    [dim]Example:[/dim] certcal train mine --model lenet --data fashion-mnist --objective noise --sigma 0.5 --epochs 90

    [dim]Again, with what the folder remembers:[/dim] certcal train mine
    """
    from certcal import runs
    from certcal.training import leave_group

    o.name_files(given)
    folder = runs.RunFolder.named(run)
    remembered = folder.path / runs.TRAIN
    changes = merged(given, parse_changes(assignments or []))
    settings = load_recipe(recipe or (remembered if remembered.is_file() else None), changes)
    if given["train"].get("epsilon") and "steps" not in options_of(settings.objective.name):  # of an adversary
        wanted = f"be left out for the objective {settings.objective.name!r}, which has no adversary"
        raise InputError.expected("epsilon", wanted, settings.train.epsilon)
    runs.check_factories([settings.model], folder.path, named=changes.get("model", {}).get("name"), trust=trust)
    if dry_run:
        show_dry_run(settings, lambda: runs.estimate_training(settings, folder), json=json)
        return
    result = runs.train_run(folder, settings, progress=True, tell=tell)
    leave_group()
    if result.first:
        _show_trained(result, runs.next_command(folder, settings), json=json)


@takes(machine=Part(MachineSettings, only=("device",)), place=PlaceSettings, beside=Beside, cluster=Cluster)
def sweep(
    run: o.RunName,
    *,
    recipe: o.Recipe = None,
    assignments: o.Assignments = None,
    given: Sections,
    trust: o.Trust = False,
    dry_run: Annotated[bool, o.output("--dry-run", "List the trials and stop.")] = False,
    json: o.Json = False,
) -> None:
    """Train and certify a model for each combination of settings that a recipe sweeps over, or for a sample.

    The same command goes on with an interrupted sweep. One table holds what came of each trial. With --per-device 4
    four trials run at once here; with --engine ray they run on a cluster that shares the run folder.

    [dim]Examples:[/dim] certcal sweep grid --recipe brier-act.toml · certcal sweep grid --engine ray --workers 4
    """
    from certcal.runs import RunFolder, check_factories
    from certcal.studies import load_sweep, run_sweep, sweep_trials

    folder, where = RunFolder.named(run), o.engine_of(given)
    remembered, changes = folder.path / "sweep.toml", study_changes(given, assignments)
    settings = load_sweep(recipe or (remembered if remembered.is_file() else None), changes)
    trials = sweep_trials(settings, folder.path)
    named = changes.get("model", {}).get("name")
    check_factories([one.recipe.model for one in trials], folder.path, named=named, trust=trust)
    if dry_run:
        if json:
            print_json([{"name": one.name, "settings": one.settings} for one in trials])
        for one in () if json else trials:
            wide_console().print(Text(f"{one.name}  {one.settings}"), soft_wrap=True)
        return
    results = run_sweep(settings, folder.path, engine=where, **given["beside"], progress=True, tell=tell)
    if json:
        print_json(results.rows)
    else:
        _show_outcomes(results.outcomes, folder.path)
    name_failures(results.failures)


def study_changes(given: Sections, assignments: list[str] | None) -> Sections:
    """What was given beside a recipe; models are certified on the device that they are trained on."""
    return merged({"machine": given["machine"], "certify": given["machine"]}, parse_changes(assignments or []))


def name_failures(failures: "list[Failure]") -> None:
    """Say which models are missing and why, and exit with 1 if there are any."""
    for one in failures:
        complain(f"Failed: {one.model}" + f" ({one.settings})" * bool(one.settings) + f": {one.failed}")
    if failures:
        raise typer.Exit(1)


def _show_trained(result: "TrainResult", command: str, *, json: bool) -> None:
    if json:
        print_json(plain({"weights": str(result.weights), "history": result.history, "next": command}))
        return
    console = wide_console()
    last = result.history[-1]
    done = f"{several(len(result.history), 'epoch')}, {sum(row['seconds'] for row in result.history):.1f} s of steps, "
    console.print(Text.assemble(done, f"loss {last['loss']:.4f}"))
    show_path(console, "Weights: ", result.weights)
    show_path(console, "Log:     ", result.weights.with_name("log.csv"))
    show_path(console, "\nCertify it, on inputs that it was not trained on:\n", command)
    console.print("With --n 1000 for a first look: 100,000 draws of each input take a while.", style="dim")


def show_dry_run(recipe: TrainRecipe, estimate: "Callable[[], TrainCost]", *, json: bool) -> None:
    """Show the settings, then what some steps, which may take a while, say of the time."""
    if json:
        cost = estimate()
        print_json({"recipe": asdict(recipe), "cost": asdict(cost) | {"seconds": cost.seconds}})
        return
    console = wide_console()
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column()
    for section, values in asdict(recipe).items():
        shown = ", ".join(f"{key} {_brief(value)}" for key, value in values.items() if value not in (None, {}))
        table.add_row(section, Text(shown))
    console.print(table)
    tell("some steps are timed")
    cost = estimate()
    of = f"{several(cost.epochs, 'epoch')} of {several(cost.steps, 'step')}"
    console.print(Text(f"\n{cost.parameters:,} parameters, {several(cost.inputs, 'image')}, {of}."))
    console.print(
        Text(f"{cost.seconds_per_step:.3g} s per step on {cost.device}: about {in_words(cost.seconds)}.", "bold")
    )


def _show_outcomes(outcomes: "list[Outcome]", folder: Path) -> None:
    console = wide_console()
    for radius in sorted({one.radius for one in outcomes}):
        numbers = ("certified accuracy", "CCE", "CBS")
        table = new_table("trial", "settings", numbers=numbers, title=f"R = {radius:g}")
        for one in outcomes:
            if one.radius == radius:
                errors = (in_percent(score, "up") for score in (one.certified_ece, one.certified_brier))
                table.add_row(one.model, one.settings, in_percent(one.certified_accuracy, "down"), *errors)
        console.print(table)
        console.print()
    show_path(console, "Table: ", folder / "results.csv")


def _brief(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)

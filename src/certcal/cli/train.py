"""`certcal train` and `certcal sweep`: weights for smoothing, from a recipe or from options."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from certcal.cli import options as o
from certcal.cli.screen import complain, print_json, tell, wide_console

if TYPE_CHECKING:
    from certcal.evaluation import Outcome
    from certcal.runs.recipes import TrainRecipe
    from certcal.studies import Failure
    from certcal.training import TrainResult
    from certcal.training.cost import TrainCost

HELP = """Train a model for smoothing, or fine-tune one, and leave its weights in a run folder.

The same command goes on with an interrupted run, to the same weights as if it had not been interrupted.

[dim]Example:[/dim] certcal train mine --model lenet --data fashion-mnist --objective noise --sigma 0.5 --epochs 90

[dim]Again, with what the folder remembers:[/dim] certcal train mine
"""
SWEEP_HELP = """Train and certify a model for each combination of settings that a recipe sweeps over, or for a sample.

The same command goes on with an interrupted sweep. One table holds what came of each trial. With --engine ray trials
run side by side on a cluster that shares the run folder.

[dim]Examples:[/dim] certcal sweep grid --recipe brier-act.toml · certcal sweep grid --engine ray --workers 4
"""

_learn, _run = o.group("What to learn"), o.group("Where to run")
Recipe = Annotated[Path | None, o.group("Options")("--recipe", "TOML file with settings; options win.", "FILE")]
Assignments = Annotated[
    list[str] | None, o.group("Options")("--set", "Any other setting, as train.momentum=0.8.", "SECTION.KEY=VALUE")
]
Device = Annotated[str | None, _run("--device", "cpu, cuda, … (default: a GPU if there is one).", "NAME")]
Engine = Annotated[str | None, _run("--engine", "Where trials run, local or ray (default: local).", "NAME")]
Workers = Annotated[int | None, _run("--workers", "Ray: trials at a time (default: all that fit).")]
RayAddress = Annotated[
    str | None, _run("--ray-address", "Ray: host:port (default: RAY_ADDRESS, or a local one).", "ADDRESS")
]
GpusPerWorker = Annotated[float | None, _run("--gpus-per-worker", "Ray: GPUs of each trial (default: 1 on cuda).")]
DryRun = Annotated[bool, o.group("Output")("--dry-run", "Show the settings and what it will take, and stop.")]


def add_to(app: typer.Typer) -> None:
    """Give the verbs to the command."""
    app.command("train", help=HELP)(train)
    app.command("sweep", help=SWEEP_HELP)(sweep)


def train(
    run: o.RunName,
    recipe: Recipe = None,
    model: Annotated[str | None, _learn("--model", "A known network, or package.module:factory.", "NAME")] = None,
    init: Annotated[str | None, _learn("--init", "Weights to start from, to fine-tune.", "FILE")] = None,
    data: Annotated[
        str | None, _learn("--data", "Training data: a known name, a .npz file or a folder of class folders.", "NAME")
    ] = None,
    root: Annotated[str | None, _learn("--root", "Folder to look for data in.", "FOLDER")] = None,
    download: Annotated[bool | None, _learn("--download", "Fetch the data if it is missing.")] = None,
    objective: Annotated[
        str | None,
        _learn(
            "--objective", "What to minimise: noise, smoothadv, certified-brier, cce-act, … (docs/training.md).", "NAME"
        ),
    ] = None,
    sigma: Annotated[float | None, _learn("--sigma", "Noise the model will be smoothed with.")] = None,
    epsilon: Annotated[float | None, _learn("--epsilon", "Radius of the adversary in training.")] = None,
    epochs: Annotated[int | None, _learn("--epochs", "Passes over the data (default: 150).")] = None,
    batch_size: Annotated[int | None, _learn("--batch-size", "Over all devices together (default: 256).")] = None,
    learning_rate: Annotated[float | None, _learn("--learning-rate", "At the start (default: 0.1).")] = None,
    augment: Annotated[str | None, _learn("--augment", "none, flip or crop-flip (default: none).", "NAME")] = None,
    seed: Annotated[int | None, _learn("--seed", "Of weights, order and noise (default: 0).")] = None,
    validate_every: Annotated[
        int | None, _learn("--validate-every", "Epochs between certified metrics of held-out training data.")
    ] = None,
    device: Device = None,
    devices: Annotated[int | None, _run("--devices", "Devices of each node (default: 1).")] = None,
    nodes: Annotated[int | None, _run("--nodes", "Nodes (default: 1).")] = None,
    precision: Annotated[str | None, _run("--precision", "float32 or bfloat16 (default: float32).", "NAME")] = None,
    checkpoint_every: Annotated[
        int | None, _run("--checkpoint-every", "Steps between checkpoints (default: every 10 minutes and epoch).")
    ] = None,
    tensorboard: Annotated[bool | None, _run("--tensorboard", "Write curves for TensorBoard too.")] = None,
    assignments: Assignments = None,
    dry_run: DryRun = False,
    json: o.Json = False,
) -> None:
    """Train into the run folder."""
    from certcal.runs import RunFolder
    from certcal.runs.recipes import load_recipe, merged, parse_changes
    from certcal.runs.train import TRAIN, next_command, train_run
    from certcal.runs.train import dry_run as estimate
    from certcal.training.fabric import leave_group

    folder = RunFolder.named(run)
    remembered = folder.path / TRAIN
    given = {
        "model": o.given(name=model, weights=init),
        "data": o.given(name=data, root=root, download=download),
        "objective": o.given(name=objective),
        "train": o.given(
            sigma=sigma, epsilon=epsilon, epochs=epochs, batch_size=batch_size, learning_rate=learning_rate,
            augment=augment, seed=seed,
        ),
        "validation": o.given(every=validate_every),
        "engine": o.given(
            device=device, devices=devices, nodes=nodes, precision=precision, checkpoint_steps=checkpoint_every,
            tensorboard=tensorboard,
        ),
    }  # fmt: skip
    changes = merged(given, parse_changes(assignments or []))
    settings = load_recipe(recipe or (remembered if remembered.is_file() else None), changes)
    if dry_run:
        _show_dry_run(settings, estimate(settings), json=json)
        return
    result = train_run(folder, settings, progress=True, tell=tell)
    leave_group()
    if result.first:
        _show_trained(result, next_command(folder, settings), json=json)


def sweep(
    run: o.RunName,
    recipe: Recipe = None,
    device: Device = None,
    engine: Engine = None,
    workers: Workers = None,
    ray_address: RayAddress = None,
    gpus_per_worker: GpusPerWorker = None,
    assignments: Assignments = None,
    dry_run: Annotated[bool, o.group("Output")("--dry-run", "List the trials and stop.")] = False,
    json: o.Json = False,
) -> None:
    """Run a sweep into the folder."""
    from certcal.runs import RunFolder
    from certcal.runs.recipes import merged, parse_changes
    from certcal.studies import load_sweep, run_sweep, sweep_trials

    folder = RunFolder.named(run)
    where = o.engine_of(engine, workers=workers, address=ray_address, gpus=gpus_per_worker)
    remembered = folder.path / "sweep.toml"
    given = {"engine": o.given(device=device), "certify": o.given(device=device)}
    changes = merged(given, parse_changes(assignments or []))
    settings = load_sweep(recipe or (remembered if remembered.is_file() else None), changes)
    if dry_run:
        listed = [{"name": one.name, "settings": one.settings} for one in sweep_trials(settings, folder.path)]
        print_json(listed) if json else _show_trials(listed)
        return
    results = run_sweep(settings, folder.path, engine=where, progress=True, tell=tell)
    if json:
        print_json(results.rows)
    else:
        _show_outcomes(results.outcomes, folder.path)
    name_failures(results.failures)


def name_failures(failures: "list[Failure]") -> None:
    """Say which models are missing and why, and exit with 1 if there are any."""
    for one in failures:
        complain(f"Failed: {one.model}" + f" ({one.settings})" * bool(one.settings) + f": {one.failed}")
    if failures:
        raise typer.Exit(1)


def _show_trained(result: "TrainResult", command: str, *, json: bool) -> None:
    if json:
        rows = [{key: o.plain(value) for key, value in row.items()} for row in result.history]
        print_json({"weights": str(result.weights), "history": rows, "next": command})
        return
    console = wide_console()
    last = result.history[-1]
    done = f"{len(result.history)} epochs, {sum(row['seconds'] for row in result.history):.1f} s of steps, "
    console.print(Text.assemble(done, f"loss {last['loss']:.4f}"))
    console.print(Text.assemble("Weights: ", (str(result.weights), "bold")), soft_wrap=True)
    console.print(Text.assemble("Log:     ", (str(result.weights.with_name("log.csv")), "bold")), soft_wrap=True)
    console.print(Text.assemble("\nCertify it:\n", (command, "bold")), soft_wrap=True)
    console.print("With --n 1000 for a first look: 100,000 draws of each input take a while.", style="dim")


def _show_dry_run(recipe: "TrainRecipe", cost: "TrainCost", *, json: bool) -> None:
    from dataclasses import asdict

    if json:
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
    told = f"\n{cost.parameters:,} parameters, {cost.inputs:,} images, {cost.epochs} epochs of {cost.steps} steps."
    console.print(Text(told))
    console.print(
        Text(f"{cost.seconds_per_step:.3g} s per step on {cost.device}: about {clock(cost.seconds)}.", "bold")
    )


def _show_trials(listed: list[dict[str, str]]) -> None:
    console = wide_console()
    for one in listed:
        console.print(Text(f"{one['name']}  {one['settings']}"), soft_wrap=True)


def _show_outcomes(outcomes: "list[Outcome]", folder: Path) -> None:
    console = wide_console()
    for radius in sorted({one.radius for one in outcomes}):
        table = Table(box=None, pad_edge=False, header_style="dim", title=f"R = {radius:g}", title_justify="left")
        for heading in ("trial", "settings", "certified accuracy", "CCE", "CBS"):
            table.add_column(heading, justify="left" if heading in ("trial", "settings") else "right")
        for one in outcomes:
            if one.radius == radius:
                scores = (o.percent_down(one.certified_accuracy), o.percent_up(one.certified_ece))
                table.add_row(one.model, one.settings, *scores, o.percent_up(one.certified_brier))
        console.print(table)
        console.print()
    console.print(Text.assemble("Table: ", (str(folder / "results.csv"), "bold")), soft_wrap=True)


def clock(seconds: float) -> str:
    """A time span for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _brief(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)

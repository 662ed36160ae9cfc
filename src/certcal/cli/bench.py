"""`certcal bench`: what sampling a model costs on this machine, and so how long a run will take."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from certcal.cli import options as o
from certcal.cli.screen import print_json
from certcal.errors import InputError

HELP = """Measure draws per second of a model on this machine, beside its bare forward passes, and estimate a run.

[dim]Example:[/dim] certcal bench --model resnet110 --shape 3,32,32 --inputs 500 --n 100000
"""


def add_to(app: typer.Typer) -> None:
    """Give the verb to the command."""
    app.command("bench", help=HELP)(bench)


def bench(
    model: Annotated[str, typer.Option("--model", help="A known network, or package.module:factory.")] = "lenet",
    shape: Annotated[str, typer.Option("--shape", help="Channels, height and width of the inputs.")] = "1,28,28",
    classes: Annotated[int, typer.Option("--classes", help="Classes of the model.")] = 10,
    inputs: Annotated[int, typer.Option("--inputs", help="Inputs of the run to estimate.")] = 1000,
    n: Annotated[int, typer.Option("--n", help="Draws per input of the run to estimate.")] = 100_000,
    device: o.Device = None,
    precision: o.Precision = None,
    batch_size: o.BatchSize = None,
    fuse: o.Fuse = None,
    json: o.Json = False,
) -> None:
    """Measure and print."""
    from certcal.runs.cost import measure_cost

    size = o.numbers("shape", shape, int, "three whole numbers") or ()
    if len(size) != 3 or size[1] != size[2] or min(size) < 1:
        raise InputError.expected("shape", "be channels, height and the same width, as 3,32,32", repr(shape))
    for name, value in (("inputs", inputs), ("n", n)):
        if value < 1:
            raise InputError.expected(name, "be an integer ≥ 1", value)
    options = o.given(device=device, precision=precision, batch_size=batch_size, fuse=fuse)
    cost = measure_cost(model, channels=size[0], size=size[1], classes=classes, **options)
    seconds = inputs * n / cost.draws_per_second
    if json:
        print_json(vars(cost) | {"inputs": inputs, "n": n, "estimated_seconds": seconds})
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_row("model", Text(f"{model} on {cost.device}, {cost.precision}"))
    table.add_row("bare forward passes", f"{cost.forwards_per_second:,.0f} /s")
    table.add_row(
        "draws with evidence", f"{cost.draws_per_second:,.0f} /s, {cost.ratio:.2f} × the time of the forwards"
    )
    table.add_row("a run", f"{inputs:,} inputs × {n:,} draws: about {_clock(seconds)}")
    table.add_row("exact worst case", f"{1000 * cost.worst_case_seconds:.1f} ms for 10,000 inputs")
    Console(highlight=False).print(table)


def _clock(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"

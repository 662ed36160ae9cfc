"""`certcal bench`: what sampling a model costs on this machine, and so how long a run will take."""

from rich.table import Table
from rich.text import Text

from certcal.cli import options as o
from certcal.cli.declare import Part, takes
from certcal.cli.screen import Screen, print_json
from certcal.progress import in_words
from certcal.settings import BenchSettings, CertifySettings, Sections


@takes(bench=BenchSettings, sampling=Part(CertifySettings, only=("device", "precision", "batch_size", "fuse")))
def bench(*, given: Sections, json: o.Json = False) -> None:
    """Measure draws per second of a model on this machine, beside its bare forward passes, and estimate a run.

    [dim]Example:[/dim] certcal bench --model resnet110 --shape 3,32,32 --inputs 500 --n 100000
    """
    from certcal.runs import measure_cost

    asked = BenchSettings(**given["bench"])
    channels, size, _ = asked.shape
    cost = measure_cost(asked.model, channels=channels, size=size, classes=asked.classes, **given["sampling"])
    seconds = asked.inputs * asked.n / cost.draws_per_second
    if json:
        print_json(vars(cost) | {"inputs": asked.inputs, "n": asked.n, "estimated_seconds": seconds})
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_row("model", Text(f"{asked.model} on {cost.device}, {cost.precision}"))
    table.add_row("bare forward passes", f"{cost.forwards_per_second:,.0f} /s")
    table.add_row(
        "draws with evidence", f"{cost.draws_per_second:,.0f} /s, {cost.ratio:.2f} × the time of the forwards"
    )
    table.add_row("a run", f"{asked.inputs:,} inputs × {asked.n:,} draws: about {in_words(seconds)}")
    table.add_row("exact worst case", f"{1000 * cost.worst_case_seconds:.1f} ms for 10,000 inputs")
    Screen(highlight=False).print(table)

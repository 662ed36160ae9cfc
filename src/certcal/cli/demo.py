"""`certcal demo`: the whole way on scikit-learn's digits."""

from typing import Annotated

import typer

from certcal.cli import options as o
from certcal.cli.screen import show_results, tell


def demo(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run folder, or a name below runs/.")] = "demo",
    json: o.Json = False,
) -> None:
    """Train a small model on digits under noise, certify it and write the report, in under two minutes.

    [dim]Example:[/dim] certcal demo
    """
    from certcal.runs import RunFolder, demo_run

    show_results(demo_run(RunFolder.named(run), tell=tell, progress=True), as_json=json)

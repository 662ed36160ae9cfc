"""`certcal demo`: the whole way on scikit-learn's digits."""

from typing import Annotated

import typer

from certcal.cli import options as o
from certcal.cli.screen import print_metrics, show_report, tell


def demo(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run folder, or a name below runs/.")] = "demo",
    json: o.Json = False,
) -> None:
    """Train a small model on digits under noise, certify it and write the report, in under two minutes.

    [dim]Example:[/dim] certcal demo
    """
    from certcal.runs import RunFolder
    from certcal.runs.demo import demo_run
    from certcal.runs.facts import title

    folder = RunFolder.named(run)
    report = demo_run(folder, tell=tell, progress=True)
    if json:
        print_metrics(folder)
    else:
        show_report(report, title(folder, report, folder.sources()), folder.path / "report.html")

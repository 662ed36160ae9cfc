"""What people see in the terminal."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from certcal.report import Report

_SHOWN = ("radius", "certified", "certified_accuracy", "ece", "certified_ece", "joint_ece", "brier", "certified_brier")


def complain(text: str) -> None:
    """An error, in red where there is colour, on standard error."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text(text, style="red"))


def tell(text: str, *, quiet: bool = False) -> None:
    """A line on what is happening, on standard error."""
    if not quiet:
        Console(stderr=True, highlight=False, soft_wrap=True).print(Text(text, style="dim"))


def print_json(content: Any) -> None:
    """A result for machines."""
    json.dump(content, sys.stdout, indent=1, ensure_ascii=False, allow_nan=False)
    print()


def show_report(report: "Report", heading: str, page: Path | None) -> None:
    """The table over radii, the guarantee in words and where the page is."""
    from certcal.report import explanation, guarantee
    from certcal.report.content import default_view
    from certcal.report.tables import cells, columns

    console = Console(highlight=False)
    shown = default_view(report)
    wanted = [place for place, column in enumerate(columns(report)) if _is_shown(column.key)]
    table = Table(title=heading, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for place in wanted:
        table.add_column(columns(report)[place].label, justify="right", vertical="bottom")
    for position, line in enumerate(cells(report)):
        table.add_row(*(line[place] for place in wanted), style="bold" if position == shown else None)
    console.print()
    console.print(table)
    console.print()
    console.print(Panel(guarantee(report, shown), border_style="cyan", title="guarantee", title_align="left"))
    console.print(Text(explanation(report, shown), style="dim"))
    if page is not None:
        console.print(f"\nReport: [bold]{page}[/bold]", soft_wrap=True)


def _is_shown(key: str) -> bool:
    return key in _SHOWN or key.startswith("approximate_")

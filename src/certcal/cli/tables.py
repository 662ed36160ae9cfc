"""The tables of options in docs/command_line.md, from the commands themselves.

`python -m certcal.cli.tables docs/command_line.md` writes them again.
"""

import re
import sys
from pathlib import Path
from typing import Any

import typer

BLOCK = re.compile(r"(<!-- options of (\w+): (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_tables(text: str) -> str:
    """A text whose tables between `<!-- options of VERB: PANEL -->` and `<!-- end -->` are up to date."""
    return BLOCK.sub(lambda block: f"{block[1]}{table(block[2], block[3])}{block[4]}", text)


def table(verb: str, panel: str) -> str:
    """The options that a verb's help shows under a heading, as Markdown."""
    from certcal.cli.app import app

    command: Any = typer.main.get_command(app)
    options = [one for one in command.commands[verb].params if getattr(one, "rich_help_panel", None) == panel]
    rows = [f"| `{_written(one)}` | {one.help} |" for one in options]
    return "\n".join(["", "| option | |", "|---|---|", *rows, "", ""])  # Markdown wants empty lines around a table


def _written(option: Any) -> str:
    names = "/".join([*option.opts, *option.secondary_opts])
    return names if option.is_flag else f"{names} {option.metavar}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")

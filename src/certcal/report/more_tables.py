"""Tables beside the one over radii: further metrics, operating points and groups."""

from collections.abc import Callable, Sequence

from certcal.evaluation import GroupTable, Report
from certcal.files import csv_text
from certcal.report.groups import disparity_lines, group_cells
from certcal.report.operating import further_lines, operating_data
from certcal.report.tables import latex_text, markdown_text
from certcal.scalars import exactly, guarded

_FURTHER = ("metric", "clean", "certified", "guaranteed")
_APART = ("clean", "certified", "guaranteed", "above", "below")


@guarded
def more_tables(report: Report) -> dict[str, str]:
    """Texts by file name: CSV with every digit, Markdown and LaTeX rounded to the cautious side.

    Paper: —; docs/command_line.md.
    """
    further = [[exactly(row.radius), label, *values] for row in report for label, _, *values in further_lines(row)]
    keys = list(dict.fromkeys(key for row in report for key in row.further))
    values = [[row.radius, *(row.further.get(key) for key in keys)] for row in report]
    made = {"further.csv": csv_text(["radius", *keys], values), **_rounded("further", _FURTHER, further, "rlrrr")}
    operating = [(row.radius, operating_data(report, position)) for position, row in enumerate(report)]
    if shown := [(radius, points) for radius, points in operating if points]:
        lines = [[radius, *point] for radius, points in shown for point in zip(*points.values(), strict=True)]
        made["operating.csv"] = csv_text(["radius", *shown[0][1]], lines)
    return made | _groups([table for tables in report.groups for table in tables])


def _groups(tables: Sequence[GroupTable]) -> dict[str, str]:
    """The groups of each column at each radius, and the largest differences between them; nothing without groups."""
    if not tables:
        return {}
    groups = [(table, group.as_dict()) for table in tables for group in table.groups]
    exact = [[table.column, table.radius, *own.values()] for table, own in groups]
    apart = [
        [table.column, table.radius, own.metric, own.clean, own.certified, own.joint, *own.between]
        for table in tables
        for own in table.disparities
    ]
    (_, *labels), _ = group_cells(tables[0], narrow=False)
    at = [([exactly(table.radius), table.column], table) for table in tables]
    lines = [[*start, *line] for start, table in at for line in group_cells(table, narrow=False)[1]]
    between = [[*start, *line] for start, table in at for line in disparity_lines(table)]
    return {
        "groups.csv": csv_text(["column", "radius", *groups[0][1]], exact),
        **_rounded("groups", ["column", "group", *labels], lines, "rll" + "r" * len(labels)),
        "disparities.csv": csv_text(["column", "radius", "metric", *_APART], apart),
        **_rounded("disparities", ["column", "difference in", *_APART], between, "rllrrrll"),
    }


def _in_latex(text: str) -> str:
    """A user's text, with what LaTeX reads as a command in words of its own."""
    return "".join(f"\\{one}" if one in "_&#$%{}" else {"\\": "/", "~": "-", "^": "-"}.get(one, one) for one in text)


def _in_markdown(text: str) -> str:
    """A user's text on one line, with what Markdown or HTML would read as their own."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _rounded(name: str, heads: Sequence[str], lines: Sequence[Sequence[str]], sides: str) -> dict[str, str]:
    """The lines in Markdown and LaTeX; columns on the left hold words, which users may have chosen."""

    def made(way: Callable[[str], str]) -> list[list[str]]:
        return [[way(cell) if side == "l" else cell for cell, side in zip(line, sides, strict=True)] for line in lines]

    return {
        f"{name}.md": markdown_text(["R", *heads], made(_in_markdown), sides=sides),
        f"{name}.tex": latex_text(["$R$", *heads], made(_in_latex), sides=sides),
    }

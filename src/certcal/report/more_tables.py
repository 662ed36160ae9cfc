"""Tables beside the one over radii: further metrics, operating points and groups."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from certcal.errors import InputError
from certcal.evaluation import Report
from certcal.files import csv_text
from certcal.report.groups import disparity_lines, group_lines
from certcal.report.operating import further_lines
from certcal.report.tables import latex_text, markdown_text
from certcal.scalars import exactly, guarded

_FURTHER = ("metric", "clean", "certified", "guaranteed")


@guarded
def more_tables(report: Report, operating: Sequence[Mapping[str, Any] | None]) -> dict[str, str]:
    """Texts by file name: CSV with every digit, Markdown and LaTeX rounded to the cautious side.

    `operating` has the operating points of each row, from `operating_data`.

    Paper: —; docs/command_line.md.
    """
    right = isinstance(operating, Sequence) and len(operating) == len(report)
    if not (right and all(isinstance(one, Mapping | None) for one in operating)):
        raise InputError.expected("operating", "be what `operating_data` gives, for each row", type(operating).__name__)
    radii = [exactly(row.radius) for row in report]
    further = [[at, *line] for at, row in zip(radii, report, strict=True) for line in further_lines(row)]
    keys = list(dict.fromkeys(key for row in report for key in row.further))
    values = [[row.radius, *(row.further.get(key) for key in keys)] for row in report]
    made = {"further.csv": csv_text(["radius", *keys], values), **_rounded("further", _FURTHER, further, "rlrrr")}
    shown = [(row.radius, points) for row, points in zip(report, operating, strict=True) if points]
    if shown:
        lines = [[at, *point] for at, points in shown for point in zip(*points.values(), strict=True)]
        made["operating.csv"] = csv_text(["radius", *shown[0][1]], lines)
    if report.groups:
        groups = [(table, group.as_dict()) for tables in report.groups for table in tables for group in table.groups]
        heads = ["column", "radius", *groups[0][1]]
        made["groups.csv"] = csv_text(heads, [[table.column, table.radius, *own.values()] for table, own in groups])
        lines = [
            [exactly(table.radius), table.column, *line]
            for tables in report.groups
            for table in tables
            for line in group_lines(table)[1]
        ]
        labels = group_lines(report.groups[0][0])[0]
        made |= _rounded("groups", ["column", "group", *labels[1:]], lines, "rll" + "r" * (len(labels) - 1))
        made |= _disparities(report)
    return made


_APART = ("clean", "certified", "guaranteed", "above", "below")


def _disparities(report: Report) -> dict[str, str]:
    """The largest differences between groups."""
    tables = [table for several in report.groups for table in several]
    exact = [
        [table.column, table.radius, own.metric, own.clean, own.certified, own.joint, *own.between]
        for table in tables
        for own in table.disparities
    ]
    lines = [[exactly(table.radius), table.column, *line] for table in tables for line in disparity_lines(table)]
    return {
        "disparities.csv": csv_text(["column", "radius", "metric", *_APART], exact),
        **_rounded("disparities", ["column", "difference in", *_APART], lines, "rllrrrll"),
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

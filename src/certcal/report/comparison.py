"""The table of selected models in the paper's layout, the paper's numbers beside ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from certcal.evaluation import Rounding, Selection, percent
from certcal.report.tables import markdown_text
from certcal.scalars import guarded

# Certified errors that models are selected by: our name, the paper's, the field of `Selection` and that of `Outcome`.
SCORES = (("CCE", "ACCE", "ece", "certified_ece"), ("CBS", "CBS", "brier", "certified_brier"))


@dataclass(frozen=True)
class Line:
    """One method and metric over the radii, in percent; None where nothing was selected or printed."""

    metric: str
    method: str
    values: tuple[str | None, ...]  # ours, certified errors rounded up
    paper: tuple[float | None, ...]
    best: tuple[bool, ...]  # whether ours is the least of all methods


@dataclass(frozen=True)
class Comparison:
    """The whole table."""

    radii: tuple[float, ...]
    accuracy: tuple[str, ...]  # range of certified accuracies compared, ours
    paper_accuracy: tuple[str | None, ...]
    lines: tuple[Line, ...]
    has_paper: bool


@guarded
def comparison_table(
    selections: Sequence[Selection],
    paper: Mapping[str, Any] | None,
    *,
    methods: Sequence[str] = (),
    margin: float = 3.0,
) -> Comparison:
    """Selected models per metric and method over radii, the methods in the order given.

    Paper: Sec. 5.   Errs: certified errors are rounded up.
    """
    radii, theirs, lines = tuple(one.radius for one in selections), paper or {}, []
    for name, theirs_name, selected, score in SCORES:
        found = [
            {method: getattr(model, score) for method, model in getattr(one, selected).items()} for one in selections
        ]
        printed = theirs.get(theirs_name, {})
        for method in dict.fromkeys([*methods, *(method for own in found for method in own), *printed]):
            values = tuple(
                percent(own[method], Rounding.UP, 2).removesuffix(" %") if method in own else None for own in found
            )
            best = tuple(method in own and own[method] == min(own.values()) for own in found)
            lines.append(Line(name, method, values, _at(radii, theirs, printed.get(method)), best))
    highest = [100 * one.best_accuracy for one in selections]
    accuracies = tuple("—" if one == 0 else f"{max(one - margin, 0):.1f}–{one:.1f}" for one in highest)
    ranges = tuple(None if ends is None else f"{ends[0]}–{ends[1]}" for ends in _at(radii, theirs, theirs.get("CA")))
    return Comparison(radii, accuracies, ranges, tuple(lines), bool(paper))


def _at(radii: Sequence[float], paper: Mapping[str, Any], line: Sequence[Any] | None) -> tuple[Any, ...]:
    """A line of the paper's table at our radii; None where it has nothing."""
    found = {} if line is None else dict(zip(map(float, paper["radii"]), line, strict=True))
    return tuple(found.get(radius) for radius in radii)


def comparison_cells(table: Comparison, *, bold: tuple[str, str] = ("**", "**")) -> list[list[str]]:
    """The table as text: a header and rows of metric, method and a cell for each radius."""
    head = ["metric", "method", *(f"R = {radius:g}" for radius in table.radii)]
    accuracy = [_beside(own, theirs) for own, theirs in zip(table.accuracy, table.paper_accuracy, strict=True)]
    rows = [head, ["CA", "", *accuracy]]
    for line in table.lines:
        cells = []
        for value, theirs, best in zip(line.values, line.paper, line.best, strict=True):
            own = "—" if value is None else f"{bold[0]}{value}{bold[1]}" if best else value
            cells.append(_beside(own, None if theirs is None else f"{theirs:.2f}"))
        rows.append([line.metric, line.method, *cells])
    return rows


def comparison_markdown(table: Comparison) -> str:
    """The table as Markdown, with a line on how to read it."""
    head, *rows = comparison_cells(table)
    text = markdown_text(head, rows, sides="ll" + "r" * len(table.radii))
    return f"{text}\n{reading(table)}"


def reading(table: Comparison) -> str:
    """How to read the table."""
    own = (
        "In percent. Of all models within 3 points of the best certified accuracy (CA) at R, the least certified "
        "calibration error (CCE, exact) and certified Brier score (CBS) of each method; least of all in bold. "
        "A dash: no model of the method comes within these points, or no input is certified at R."
    )
    return own + " In brackets: the paper, whose ACCE approximates the CCE from below." * table.has_paper


def _beside(own: str, theirs: str | None) -> str:
    return own if theirs is None else f"{own} ({theirs})"

"""The table of selected models in the paper's layout, the paper's numbers beside ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from certcal.evaluation import Rounding, Selection
from certcal.report.tables import percent

SCORES = (("CCE", "ece", "certified_ece", "ACCE"), ("CBS", "brier", "certified_brier", "CBS"))


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
    radii = tuple(one.radius for one in selections)
    printed = {float(radius): place for place, radius in enumerate((paper or {}).get("radii", []))}
    lines = []
    for metric, field, score, theirs in SCORES:
        own = dict.fromkeys(name for one in selections for name in getattr(one, field))
        for method in dict.fromkeys([*methods, *own, *(paper or {}).get(theirs, {})]):
            found = [getattr(one, field).get(method) for one in selections]
            least = [min((getattr(o, score) for o in getattr(one, field).values()), default=None) for one in selections]
            row = (paper or {}).get(theirs, {}).get(method)
            lines.append(
                Line(
                    metric,
                    method,
                    tuple(None if one is None else _percent(getattr(one, score)) for one in found),
                    tuple(row[printed[radius]] if row and radius in printed else None for radius in radii),
                    tuple(
                        one is not None and getattr(one, score) == low for one, low in zip(found, least, strict=True)
                    ),
                )
            )
    ranges = [(paper or {}).get("CA", [])[printed[r]] if r in printed else None for r in radii]
    return Comparison(
        radii,
        tuple(_range(one.best_accuracy, margin) for one in selections),
        tuple(None if one is None else f"{one[0]}–{one[1]}" for one in ranges),
        tuple(lines),
        bool(paper),
    )


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
    lines = [head, ["---"] * len(head), *rows]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{text}\n\n{reading(table)}"


def reading(table: Comparison) -> str:
    """How to read the table."""
    own = (
        "In percent. Of all models within 3 points of the best certified accuracy (CA) at R, the least certified "
        "calibration error (CCE, exact) and certified Brier score (CBS) of each method; least of all in bold. "
        "A dash: no model of the method comes within these points, or no input is certified at R."
    )
    return own + " In brackets: the paper, whose ACCE approximates the CCE from below." * table.has_paper


def _range(best: float, margin: float) -> str:
    """From which certified accuracy to which models are compared; a dash where none has any."""
    return "—" if best == 0 else f"{max(100 * best - margin, 0):.1f}–{100 * best:.1f}"


def _percent(value: float) -> str:
    return percent(value, Rounding.UP, 2).removesuffix(" %")


def _beside(own: str, theirs: str | None) -> str:
    return own if theirs is None else f"{own} ({theirs})"

"""The table of selected models in the paper's layout, the paper's numbers beside ours."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from certcal.evaluation import Outcome, Rounding, Selection
from certcal.report.tables import markdown_text, percent


@dataclass(frozen=True)
class Score:
    """A certified error that models are selected by."""

    name: str
    selected: Callable[[Selection], Mapping[str, Outcome]]  # the best of each method at a radius
    value: Callable[[Outcome], float]
    printed: str  # its name in the paper's table

    def cell(self, chosen: Selection, method: str) -> tuple[str | None, bool]:
        """A method's error in percent, rounded up, and whether it is the least of all methods."""
        found = self.selected(chosen)
        if method not in found:
            return None, False
        own, least = self.value(found[method]), min(map(self.value, found.values()))
        return percent(own, Rounding.UP, 2).removesuffix(" %"), own == least


SCORES = (
    Score("CCE", lambda chosen: chosen.ece, lambda model: model.certified_ece, "ACCE"),
    Score("CBS", lambda chosen: chosen.brier, lambda model: model.certified_brier, "CBS"),
)


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
    radii, theirs, lines = tuple(one.radius for one in selections), paper or {}, []
    for score in SCORES:
        own, printed = (name for one in selections for name in score.selected(one)), theirs.get(score.printed, {})
        for method in dict.fromkeys([*methods, *own, *printed]):
            values, best = zip(*(score.cell(chosen, method) for chosen in selections), strict=True)
            lines.append(Line(score.name, method, values, _at(radii, theirs, printed.get(method)), best))
    accuracies = tuple(_range(one.best_accuracy, margin) for one in selections)
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


def _range(best: float, margin: float) -> str:
    """From which certified accuracy to which models are compared; a dash where none has any."""
    return "—" if best == 0 else f"{max(100 * best - margin, 0):.1f}–{100 * best:.1f}"


def _beside(own: str, theirs: str | None) -> str:
    return own if theirs is None else f"{own} ({theirs})"

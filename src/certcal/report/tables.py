"""The rows of an evaluation as tables: CSV with every digit, Markdown and LaTeX rounded to the cautious side."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from enum import StrEnum
from typing import Any

from certcal.report.evaluation import Report, Row
from certcal.report.options import APPROXIMATIONS


class Rounding(StrEnum):
    """To which side a shown value may move."""

    UP = "up"  # certified errors
    DOWN = "down"  # certified accuracies, and approximations from below
    NEAREST = "nearest"  # estimates, which claim nothing


_MODES = {Rounding.UP: ROUND_CEILING, Rounding.DOWN: ROUND_FLOOR, Rounding.NEAREST: ROUND_HALF_EVEN}


@dataclass(frozen=True)
class Column:
    """One column of the table over radii."""

    key: str  # the key in `Row.as_dict`
    label: str
    help: str
    rounding: Rounding = Rounding.NEAREST
    digits: int | None = None  # after the point; None shows whole numbers and radii as they are
    percent: bool = False

    def show(self, value: float | None) -> str:
        """The value as text, rounded to the column's side; a dash where there is none."""
        if value is None or math.isnan(value):
            return "—"
        if self.digits is None:
            return exactly(value)
        return (percent if self.percent else number)(value, self.rounding, self.digits)


def exactly(value: float) -> str:
    """Every digit of a radius or a count: what is said of R is proven at that R, not at a rounded one."""
    short = format(value, ".6g")
    return str(int(value)) if value == int(value) else short if float(short) == value else repr(float(value))


def percent(value: float, rounding: Rounding, digits: int = 2) -> str:
    """A share as text in percent, rounded to one side."""
    return f"{_rounded(100 * _exact(value, rounding), digits, rounding)} %"


def number(value: float, rounding: Rounding, digits: int = 4) -> str:
    """A number as text, rounded to one side."""
    return _rounded(_exact(value, rounding), digits, rounding)


def _exact(value: float, rounding: Rounding) -> Decimal:
    # What is rounded down is a share k / N, the float nearest to it: 191 / 200 is 95.5 %, though its float lies below.
    # What is rounded up is a bound that the float itself states.
    return Decimal(repr(value)) if rounding is Rounding.DOWN else Decimal(value)


def _rounded(value: Decimal, digits: int, rounding: Rounding) -> str:
    return str(value.quantize(Decimal(1).scaleb(-digits), rounding=_MODES[rounding]))


_UP, _DOWN = Rounding.UP, Rounding.DOWN
_PERCENT: dict[str, Any] = {"digits": 2, "percent": True}
_AGAIN = "allowing for the certificates of the set that may fail"
_COLUMNS = (
    Column("radius", "R", "how far each input may move, in ℓ2, in the units of inputs in [0, 1]"),
    Column("inputs", "inputs", "how many inputs the errors and scores of this row are about"),
    Column("certified", "certified", "inputs whose prediction is proven to stay within R"),
    Column(
        "certified_accuracy", "certified accuracy", "share of all inputs, right and certified at R", _DOWN, **_PERCENT
    ),
    Column("joint_accuracy", "joint accuracy", f"certified accuracy, {_AGAIN}", _DOWN, **_PERCENT),
    Column("ece", "ECE", "expected calibration error of the estimated confidences, without an attack", **_PERCENT),
    Column(
        "certified_ece", "certified ECE", "the largest ECE of any confidences within the certificates", _UP, **_PERCENT
    ),
    Column("joint_ece", "joint ECE", f"certified ECE, {_AGAIN}", _UP, **_PERCENT),
    Column("adaptive_ece", "AdaECE", "calibration error with equally filled bins, without an attack", **_PERCENT),
    Column("brier", "Brier", "Brier score of the predicted class, without an attack", digits=4),
    Column("certified_brier", "certified Brier", "the largest Brier score within the certificates", _UP, 4),
    Column("joint_brier", "joint Brier", f"certified Brier score, {_AGAIN}", _UP, 4),
    Column("mean_width", "mean width", "mean width of the certified confidence intervals", _UP, 4),
    Column(
        "population_ece", "population ECE", "bound for what all inputs are a random sample of, R by R", _UP, **_PERCENT
    ),
)
_APPROXIMATE = {
    "admm": ("ACCE (ADMM)", "the paper's approximation of the certified ECE, from below"),
    "dece": ("ACCE (dECE)", "the dECE ascent's approximation of the certified ECE, from below"),
    "brier": ("ACCE (Brier)", "the ECE at the confidences that are worst for the Brier score, from below"),
}


_RECALIBRATED = (
    Column("before_certified_ece", "certified ECE before", "certified ECE without the map", _UP, **_PERCENT),
    Column("before_certified_brier", "certified Brier before", "certified Brier score without the map", _UP, 4),
    Column("before_brier", "Brier before", "without an attack, without the map", digits=4),
    Column("before_auroc", "AUROC before", "how well confidences tell right from wrong, without the map", digits=3),
    Column("auroc", "AUROC", "how well they do with the map; 0.5 if it is constant", digits=3),
    Column("levels", "levels", "distinct confidences with the map"),
)


def columns(report: Report) -> tuple[Column, ...]:
    """The columns that a report's rows fill."""
    asked = [name for name in APPROXIMATIONS if any(name in row.approximations for row in report.rows)]
    approximate = tuple(Column(f"approximate_{name}", *_APPROXIMATE[name], _DOWN, 2, True) for name in asked)
    return _COLUMNS + approximate + (_RECALIBRATED if report.recalibration is not None else ())


def cells(report: Report) -> list[list[str]]:
    """The table as text, rounded outward, one list per row."""
    return [[column.show(_value(row, column)) for column in columns(report)] for row in report.rows]


def to_csv(report: Report) -> str:
    """The table with every digit, as CSV."""
    shown = columns(report)
    return csv_text([column.key for column in shown], [[_value(row, one) for one in shown] for row in report.rows])


def to_markdown(report: Report) -> str:
    """The table in Markdown, rounded outward."""
    return markdown_text([column.label for column in columns(report)], cells(report))


def to_latex(report: Report) -> str:
    """The table as a LaTeX tabular with booktabs rules, rounded outward."""
    return latex_text(["$R$" if column.key == "radius" else column.label for column in columns(report)], cells(report))


def csv_text(heads: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """A head and lines of values as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([heads, *lines])
    return text.getvalue()


def markdown_text(heads: Sequence[str], lines: Sequence[Sequence[str]], *, sides: str = "") -> str:
    """A head and lines of texts as a table in Markdown; `sides` has an l or r per column, r if it is empty."""
    rules = [{"l": ":---", "r": "---:"}[side] for side in sides or "r" * len(heads)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (heads, rules, *lines))


def latex_text(heads: Sequence[str], lines: Sequence[Sequence[str]], *, sides: str = "") -> str:
    """A head, in LaTeX, and lines of texts as a LaTeX tabular with booktabs rules; `sides` as for Markdown."""
    body = "".join(
        " & ".join(cell.replace(" %", r"\,\%").replace("—", "--") for cell in line) + " \\\\\n" for line in lines
    )
    start, end = f"\\begin{{tabular}}{{{sides or 'r' * len(heads)}}}\n\\toprule", "\\bottomrule\n\\end{tabular}\n"
    return f"{start}\n{' & '.join(heads)} \\\\\n\\midrule\n{body}{end}"


def _value(row: Row, column: Column) -> float | None:
    return row.as_dict().get(column.key)

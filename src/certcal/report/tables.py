"""The rows of an evaluation as tables: CSV with every digit, Markdown and LaTeX rounded to the cautious side."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from certcal.evaluation import METRICS, Before, Given, Metric, Report, Rounding, number, percent
from certcal.files import csv_text
from certcal.scalars import exactly
from certcal.settings import Approximation


@dataclass(frozen=True)
class Column:
    """One column of the table over radii."""

    key: str  # the key in `Row.as_dict`
    label: str
    help: str
    rounding: Rounding = Rounding.NEAREST
    digits: int | None = None  # after the point; None shows whole numbers and radii as they are
    percent: bool = False
    main: bool = False  # among the few that are shown first

    def show(self, value: float | None) -> str:
        """The value as text, rounded to the column's side; a dash where there is none."""
        return "—" if value is None else shown(self, value)


def shown(look: Column | Metric, value: float) -> str:
    """A value as text, rounded to the side of its column or metric; a dash where it is none."""
    if math.isnan(value):
        return "—"
    if look.digits is None:
        return exactly(value)
    return (percent if look.percent else number)(value, look.rounding, look.digits)


def complement(level: float) -> str:
    """1 − level in percent, rounded down at the third digit that counts of the level."""
    if level < 1e-9:
        return f"1 − {small_chance(level)}"
    return f"{(100 * (1 - Decimal(small_chance(level)))).normalize():f} %"


def small_chance(level: float) -> str:
    """A probability with three digits that count, rounded up."""
    value = Decimal(repr(level))
    rounded = value.quantize(Decimal((0, (1,), value.adjusted() - 2)), rounding=ROUND_CEILING)
    return repr(float(rounded))


def small(value: float) -> str:
    """A small number with one digit that counts, rounded up."""
    return number(value, Rounding.UP, max(4, -math.floor(math.log10(value))))


_APPROXIMATE = {
    "admm": ("ACCE (ADMM)", "the paper's approximation of the certified ECE, from below"),
    "dece": ("ACCE (dECE)", "the dECE ascent's approximation of the certified ECE, from below"),
    "brier": ("ACCE (Brier)", "the ECE at the confidences that are worst for the Brier score, from below"),
}


def columns(report: Report) -> tuple[Column, ...]:
    """The columns that a report's rows fill, as their metrics are declared."""
    asked = [name for name in map(str, Approximation) if any(name in row.approximations for row in report)]
    mapped = report.recalibration is not None
    return (
        *(column_of(name) for name in _named(Given.ALWAYS)),
        *(Column(f"approximate_{name}", *_APPROXIMATE[name], Rounding.DOWN, 2, True, True) for name in asked),
        *(column_of(name, before=True) for name, one in METRICS.items() if mapped and one.before is Before.SHOWN),
        *(column_of(name) for name in _named(Given.WITH_MAP) if mapped),
    )


def _named(given: Given) -> list[str]:
    return [name for name, one in METRICS.items() if one.given is given and one.table]


def column_of(name: str, *, before: bool = False) -> Column:
    """The column of a metric; before a map, if there is one."""
    own = METRICS[name]
    look = own.rounding, own.digits, own.percent
    if before:
        return Column(f"before_{name}", f"{own.label} before", f"{own.help}, without the map", *look)
    return Column(name, own.label, own.help, *look, own.main)


def cells(report: Report) -> list[list[str]]:
    """The table as text, rounded outward, one list per row."""
    shown = columns(report)
    return [[column.show(row.get(column.key)) for column in shown] for row in report.as_dicts()]


def main_cells(report: Report, *more: str) -> tuple[list[str], list[list[str]]]:
    """Labels and rows of the few columns that are shown first, and of more of them by name."""
    shown = columns(report)
    kept = [place for place, column in enumerate(shown) if column.main or column.key in more]
    return [shown[place].label for place in kept], [[line[place] for place in kept] for line in cells(report)]


def to_csv(report: Report) -> str:
    """The table with every digit, as CSV."""
    shown = columns(report)
    return csv_text(
        [column.key for column in shown], [[row.get(one.key) for one in shown] for row in report.as_dicts()]
    )


def to_markdown(report: Report) -> str:
    """The table in Markdown, rounded outward."""
    return markdown_text([column.label for column in columns(report)], cells(report))


def to_latex(report: Report) -> str:
    """The table as a LaTeX tabular with booktabs rules, rounded outward."""
    return latex_text(["$R$" if column.key == "radius" else column.label for column in columns(report)], cells(report))


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

"""The rows of an evaluation as tables: CSV with every digit, Markdown and LaTeX rounded to the cautious side."""

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal

from certcal.evaluation import METRICS, Before, Look, Report, Rounding, number
from certcal.files import csv_text
from certcal.settings import Approximation


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


def columns(report: Report) -> dict[str, Look]:
    """The columns that a report's rows fill, by their keys in `Row.as_dict`, as their metrics are declared."""
    asked = [name for name in map(str, Approximation) if any(name in row.approximations for row in report)]
    found = _shown(with_map=False)
    for name in asked:
        found[f"approximate_{name}"] = Look(*_APPROXIMATE[name], Rounding.DOWN, 2, percent=True, main=True)
    if report.recalibration is not None:
        for name, own in METRICS.items():
            if own.before is Before.SHOWN:
                before, without = f"{own.label} before", f"{own.help}, without the map"
                found[f"before_{name}"] = replace(own, label=before, help=without, main=False)
        found |= _shown(with_map=True)
    return found


def _shown(*, with_map: bool) -> dict[str, Look]:
    return {name: own for name, own in METRICS.items() if own.with_map == with_map and own.table}


def cells(report: Report) -> list[list[str]]:
    """The table as text, rounded outward, one list per row."""
    shown = columns(report).items()
    return [[own.show(row.get(key)) for key, own in shown] for row in report.as_dicts()]


def main_cells(report: Report, *more: str) -> tuple[list[str], list[list[str]]]:
    """Labels and rows of the few columns that are shown first, and of more of them by name."""
    shown = {key: own for key, own in columns(report).items() if own.main or key in more}
    lines = [[own.show(row.get(key)) for key, own in shown.items()] for row in report.as_dicts()]
    return [own.label for own in shown.values()], lines


def to_csv(report: Report) -> str:
    """The table with every digit, as CSV."""
    keys = list(columns(report))
    return csv_text(keys, [[row.get(key) for key in keys] for row in report.as_dicts()])


def to_markdown(report: Report) -> str:
    """The table in Markdown, rounded outward."""
    return markdown_text([own.label for own in columns(report).values()], cells(report))


def to_latex(report: Report) -> str:
    """The table as a LaTeX tabular with booktabs rules, rounded outward."""
    heads = ["$R$" if key == "radius" else own.label for key, own in columns(report).items()]
    return latex_text(heads, cells(report))


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

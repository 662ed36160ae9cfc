"""The paper's own numbers, and its tables that are made of them: baselines, and the worked example of the program."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from certcal.evaluation import Outcome, Rounding, percent
from certcal.report import markdown_text
from certcal.worstcase import certified_calibration_error

BUILT_IN, PAPER = files("certcal.studies") / "built_in", "paper"
# What tables of baselines show: the paper's name and ours, the value and the side it is rounded to.
_SHOWN = (
    ("CA", "CA", "certified_accuracy", Rounding.DOWN),
    ("ACCE", "CCE", "certified_ece", Rounding.UP),
    ("CBS", "CBS", "certified_brier", Rounding.UP),
)


def paper_table(data: str, part: str = "training") -> dict[str, Any] | None:
    """The paper's numbers for a data set, in percent: of training, baselines or attacks; None if it has none."""
    found: dict[str, Any] = tomllib.loads((BUILT_IN / f"{PAPER}.toml").read_text(encoding="utf-8"))[part]
    return found.get(data)


def baselines_table(data: str, found: Mapping[str, Sequence[Outcome]]) -> str:
    """Certified accuracy, CCE and CBS of every baseline at every radius, with the paper's in brackets."""
    starts = [one for made in found.values() for one in made if one.model == one.baseline]
    theirs = dict(paper_table(data, "baselines") or {})
    printed = theirs.pop("radii", [])
    radii = sorted({one.radius for one in starts} | set(printed))
    known = {(one.model.lower(), one.radius): one for one in starts}
    names = {one.model.lower(): re.sub(r"-t(\d+)$", r"-T\1", one.model) for one in starts}  # T, as the paper has it
    shared = names.keys() & {name.lower() for name in theirs}
    names |= {name.lower(): name for name in theirs}

    def cell(name: str, radius: float, key: str, own: str, side: Rounding) -> str:
        value = getattr(known.get((name, radius)), own, np.nan)
        paper = theirs.get(names[name], {}).get(key, [])
        quoted = paper[printed.index(radius)] if paper and radius in printed else np.nan
        value, quoted = (np.nan if key == "CA" and one == 0 else one for one in (value, quoted))  # nothing is certified
        told = ["" if value != value else percent(value, side).removesuffix(" %")]
        told += [] if quoted != quoted else [f"({quoted:.2f})"]
        return " ".join(filter(None, told)) or "—"

    heads = ["baseline", *(f"{label} {radius:g}" for _, label, *_ in _SHOWN for radius in radii)]
    lines = [
        [shown, *(cell(name, radius, key, own, side) for key, _, own, side in _SHOWN for radius in radii)]
        for name, shown in names.items()
    ]
    text = markdown_text(heads, lines, sides="l" + "r" * (len(heads) - 1))
    brackets = " In brackets: the paper, whose ACCE approximates the CCE from below." * bool(theirs)
    told = " None of ours is one of the paper's baselines." * bool(theirs and starts and not shared)
    return f"{text}\nIn percent. A dash: nothing is certified there, or it is not known.{brackets}{told}\n"


def worked_example(_: Any) -> str:
    """The data of the worked example, and the worst case within its bounds."""
    labels, lower, clean, upper, correct = ("C_A", "C_B"), (0.1, 0.5), (0.23, 0.78), (0.6, 0.9), (1, 0)
    worst = certified_calibration_error(lower, upper, correct, n_bins=3)
    rows = [
        [str(place + 1), "C_A", labels[place], *(f"{own[place]:g}" for own in (lower, clean, upper, worst.confidence))]
        for place in range(2)
    ]
    heads = ["n", "prediction", "label", "l", "confidence", "u", "at the worst case"]
    text = markdown_text(heads, rows, sides="lllrrrr")
    told = f"The certified calibration error with three bins is {worst.value:.4f}, exact: no confidences in [l, u] have"
    return f"{text}\n{told} more.\n"

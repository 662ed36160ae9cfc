"""Why a guaranteed error is as high as it is and what to do about it, as the page and the screen say it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from certcal.evaluation import Gap, Rounding
from certcal.report.tables import exactly, percent

LEAST = 0.005  # a gain that is worth a line


def advice_section(
    gaps: Sequence[Gap], *, sigma: float, draws: int, run: str, recalibrated: Mapping[float, float] | None = None
) -> dict[str, Any]:
    """The page's section on what makes up the guaranteed error, for each radius; all of it estimates.

    `recalibrated` are guaranteed errors, by radius, that a map left on inputs it was not fitted on.
    """
    return {"views": [_view(gap, sigma, draws, run, (recalibrated or {}).get(gap.radius)) for gap in gaps]}


def _view(gap: Gap, sigma: float, draws: int, run: str, mapped: float | None) -> dict[str, Any]:
    if math.isnan(gap.guaranteed):
        told = "Nothing is certified here: choose a smaller radius, or a model trained under this noise."
        return {"title": "What to do", "lead": told, "rows": []}
    rows = [
        _row("the adversary", gap.adversary, f"R is {gap.radius / sigma:.2g} σ", _nearer(gap)),
        _row("sampling error", gap.sampling, f"{draws:,} draws", _more_draws(gap, draws, run)),
        _row("the model's own miscalibration", gap.clean, "also without an attack", _recalibrate(gap, run, mapped)),
        _row("inputs without a certificate", gap.uncertified, "they count as the adversary likes", None),
    ]
    rows = [row for row in rows if row["points"] != "0.0" or row["gain"]]
    rows += [row for row in (_temperature(gap, run),) if row]
    largest = max(rows[:4], key=lambda row: row["size"])
    steps = sorted((row for row in rows if row["gain"]), key=lambda row: row["worth"], reverse=True)
    most = "Most" if 2 * largest["size"] > gap.guaranteed else "The largest part"
    whole = percent(gap.guaranteed, Rounding.UP)
    lead = f"{most} of the guaranteed {whole} is {largest['cause']} ({largest['points']} points)."
    if steps:
        lead += f" What would help most: {steps[0]['action']}, about {steps[0]['gain']}."
    return {"title": "Why it is this high, and what to do", "lead": lead, "rows": rows}


def _row(cause: str, size: float, why: str, step: tuple[str, str, float] | None) -> dict[str, Any]:
    action, command, worth = step or ("", "", 0.0)
    gain = f"−{100 * worth:.1f} points" if worth >= LEAST else ""
    return {
        "cause": cause, "size": size, "points": f"{abs(100 * size):.1f}" if size > -5e-4 else f"{100 * size:.1f}",
        "why": why, "action": action if gain else "", "command": command if gain else "", "gain": gain, "worth": worth,
    }  # fmt: skip


def _nearer(gap: Gap) -> tuple[str, str, float]:
    half = exactly(gap.radius / 2)
    return f"ask for half the radius, R = {half}, or train with a larger σ", "", gap.guaranteed - gap.half_radius


def _more_draws(gap: Gap, draws: int, run: str) -> tuple[str, str, float]:
    command = f"certcal certify {run} --n {10 * draws}"
    return "ten times the draws", command, gap.guaranteed - gap.ten_times_draws


def _recalibrate(gap: Gap, run: str, mapped: float | None) -> tuple[str, str, float] | None:
    if mapped is None or math.isnan(mapped):
        return None
    command = f"certcal recalibrate {run} --radii {exactly(gap.radius)}"
    return "recalibrate the confidences", command, gap.guaranteed - mapped


def _temperature(gap: Gap, run: str) -> dict[str, Any] | None:
    value, foreseen = min((("0.25", gap.sharper), ("2", gap.softer)), key=lambda pair: pair[1])
    worth = gap.guaranteed - foreseen
    if worth < LEAST:
        return None
    how = f"logits divided by {value} before smoothing"
    command = f"certcal certify {run}-t --temperature {value} … (a new run)"
    return _row("the temperature", 0.0, "an estimate as if there were two classes", (how, command, worth)) | {
        "points": ""
    }

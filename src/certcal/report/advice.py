"""Why a guaranteed error is as high as it is and what to do about it, as the page and the screen say it."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from certcal.evaluation import Gap, Rounding, percent
from certcal.scalars import exactly

LEAST, WORTH = 0.005, 0.01  # gains that are worth a line, and a step of their own
NOTHING = "no prediction is proven to stay within this radius: it is too far for this model and this noise."
Step = tuple[str, str]  # what to do, and the command that does it


def advice_section(
    gaps: Sequence[Gap],
    *,
    sigma: float,
    draws: int,
    more: Step,
    tempered: Callable[[str], Step],
    recalibrate: str,
    recalibrated: Mapping[float, float],
) -> dict[str, Any]:
    """The page's section on what makes up the guaranteed error, for each radius; all of it estimates.

    `more` is the way to more draws, `tempered` that to another temperature, `recalibrate` that for a map.
    `recalibrated` are guaranteed errors, by radius, that a map left on inputs it was not fitted on.
    """

    def view(gap: Gap) -> dict[str, Any]:
        if math.isnan(gap.guaranteed):
            return {"why": NOTHING, "next": "choose a smaller radius, or a model that was trained under this noise.",
                    "command": "", "rows": []}  # fmt: skip
        nearer = f"ask for half the radius, R = {exactly(gap.radius / 2)}, which lessens all parts"
        mapped = recalibrated.get(gap.radius)
        map_it = "recalibrate the confidences", f"{recalibrate} --radii {exactly(gap.radius)}"
        return _view(gap, [
            _row("the adversary", gap.adversary, f"R is {gap.radius / sigma:.2g} σ",
                 (nearer, "", gap.guaranteed - gap.half_radius)),
            _row("sampling error", gap.sampling, f"{draws:,} draws", (*more, gap.guaranteed - gap.more_draws)),
            _row("the model's own miscalibration", gap.clean, "also without an attack",
                 None if mapped is None else (*map_it, gap.guaranteed - mapped)),
            _uncertified(gap, sigma),
        ], _temperature(gap, tempered))  # fmt: skip

    return {"views": [view(gap) for gap in gaps]}


def _view(gap: Gap, parts: list[dict[str, Any]], further: list[dict[str, Any]]) -> dict[str, Any]:
    """The parts at one radius, which is the largest, and the step that would help most."""
    rows = [row for row in parts if row["points"] != "0.0" or row["gain"]] + further
    largest = max(parts, key=lambda row: row["size"])
    steps = [row for row in rows if row["worth"] >= LEAST]
    # A smaller radius is another question: what lowers the answer to this one comes first.
    best = max(steps, key=lambda row: (row["command"] != "" and row["worth"] > WORTH, row["worth"]), default=None)
    most = "most" if 2 * largest["size"] > gap.guaranteed else "the largest part"
    whole = percent(gap.guaranteed, Rounding.UP)
    why = f"{most} of the guaranteed {whole} is {largest['cause']}: {largest['points']} points ({largest['why']})."
    step, command = "no step known here would lower it by half a point.", ""
    if best is not None:
        step, command = f"{best['action']} (about {best['gain']}).", best["command"]
    elif largest["gain"]:  # inputs without a certificate
        step = f"{largest['action']} ({largest['gain']})."
    return {"why": why, "next": step, "command": command, "rows": rows}


def _row(cause: str, size: float, why: str, step: tuple[str, str, float] | None) -> dict[str, Any]:
    action, command, worth = step or ("", "", 0.0)
    gain = f"−{100 * worth:.1f} points" if worth >= LEAST else ""
    return {
        "cause": cause, "size": size, "points": f"{abs(100 * size):.1f}" if size > -5e-4 else f"{100 * size:.1f}",
        "why": why, "action": action if gain else "", "command": command if gain else "", "gain": gain, "worth": worth,
    }  # fmt: skip


def _uncertified(gap: Gap, sigma: float) -> dict[str, Any]:
    """How much more training would gain is not foreseen, but it is at most this part: never the step named first."""
    row = _row("inputs without a certificate", gap.uncertified, "they count as the adversary likes", None)
    if gap.uncertified < LEAST:
        return row
    action = (
        f"train under this noise, so that fewer predictions may flip: certcal train --objective noise --sigma {sigma:g}"
    )
    return row | {"action": action, "gain": f"up to −{row['points']} points"}


def _temperature(gap: Gap, tempered: Callable[[str], Step]) -> list[dict[str, Any]]:
    value, foreseen = min((("0.25", gap.sharper), ("2", gap.softer)), key=lambda pair: pair[1])
    worth = gap.guaranteed - foreseen
    if worth < LEAST:
        return []
    row = _row("the temperature", 0.0, "a rough estimate, as if there were two classes", (*tempered(value), worth))
    return [row | {"points": ""}]

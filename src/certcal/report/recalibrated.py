"""What a recalibration did to inputs that no map was fitted on, as the page shows it."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from certcal.errors import several
from certcal.evaluation import Look, Rounding, number, percent
from certcal.recalibration import (
    AnyMap,
    Candidate,
    Choice,
    HeldOut,
    RecalibrationMap,
    ScoreMap,
    Scores,
    TemperedMap,
    TradeOff,
    caution_about,
)
from certcal.report.content import plotted
from certcal.scalars import exactly
from certcal.settings import Population

BRIER_RISES = 0.01, 0.02, 0.05  # that a reader may find a smaller error worth
LIMITED = "auroc", "brier_all"  # scores of all inputs that a choice has limits for
NARROW = 0.002  # width of a step that is told as one confidence
GUESS, ELSEWHERE = ": take it for a guess.", ", so on other inputs it may do much worse."  # how a caution ends

# By the field of `Scores`; rounded to the nearest: unlike certified values, means over splits bound nothing.
SCORES = {
    "certified_ece": Look("certified ECE, certified inputs", digits=2, percent=True),
    "certified_brier": Look("certified Brier score, certified inputs", digits=4),
    "ece": Look("ECE without an attack, certified inputs", digits=2, percent=True),
    "brier_all": Look("Brier score without an attack, all inputs", digits=4),
    "auroc": Look("AUROC: telling right from wrong, all inputs", digits=4),
    "refinement": Look("refinement: Brier left by the best map, all inputs", digits=4),
    "levels": Look("distinct confidences or steps, all inputs", digits=0),
}

# Maps that act before the mean over the noise.
KINDS = {
    "score": "of each draw's score",
    "full": "of each draw's score, then of their mean",
    "tempered": "with a temperature of the logits",
}


def score_rows(held: HeldOut, radius: float, *, first: bool = True) -> list[list[str]]:
    """Label, means over splits before and after, and standard deviation between splits after, of each held-out score.

    They are of the splits that kept a map, if some did: `without_map` has the mean with the others. Those of all inputs
    are the same at other radii, and stand only first.
    """
    found = [*held.mean(radius, with_map=_some(held)), held.spread(radius, with_map=_some(held))]
    return [
        [own.label, *(own.show(getattr(scores, key)) for scores in found)]
        for key, own in SCORES.items()
        if first or not own.label.endswith("all inputs")
    ]


def _better(row: Sequence[str]) -> int:
    """The column of a row with the better score, before (1) or after (2); 0 where they look alike or none is better."""
    label, before, after, _ = row
    if before == after or "—" in (before, after) or label == SCORES["levels"].label:
        return 0
    rises = float(after.split()[0]) > float(before.split()[0])
    return 2 if rises == (label == SCORES["auroc"].label) else 1


def _some(held: HeldOut) -> bool:
    """Whether some splits kept a map and others none."""
    return 0 < held.without_map < len(held.maps)


def splits_shown(held: HeldOut) -> str:
    """Over which splits the means are."""
    splits = len(held.maps)
    if _some(held):
        return f"the {splits - held.without_map} of {splits} splits that kept a map"
    return "one split" if splits == 1 else f"{splits} splits"


def recalibration_section(
    held: HeldOut, compared: TradeOff | Choice, radii: Sequence[float], *, population: str = Population.CERTIFIED
) -> dict[str, Any]:
    """The recalibration part of `page_data`: the kept map, scores over splits, and the trade-off of both scores."""
    kept, graph = held.map, np.linspace(0, 1, 401)
    about = lead(held, radii)
    if population == Population.ALL:
        about += " The guarantee counts inputs whose class is not certified too, as far from right as they can be."
    over = f"{without_map(held, radii)} The table is over {splits_shown(held)}." if _some(held) else ""
    if over and isinstance(compared, TradeOff):
        over += " In the trade-off all count."
    caution, of_each = caution_about(kept), [score_rows(held, own, first=own == radii[0]) for own in radii]
    return {
        "radius": max(radii),
        "lead": [about, chosen_because(compared, held)] if isinstance(compared, Choice) else [about],
        "caution": f"This bound holds for these inputs. {caution.removesuffix(GUESS)}{ELSEWHERE}" if caution else "",
        "warnings": [told for told in warnings(held, max(radii)) if told != caution],
        "over": over,
        "tables": [
            {"radius": exactly(radius), "rows": rows, "better": [_better(row) for row in rows]}
            for radius, rows in zip(radii, of_each, strict=True)
        ],
        **(_choice(compared) if isinstance(compared, Choice) else _curve(compared, kept)),
        "map": {"x": plotted(graph), "y": plotted(mapped(kept).transform(graph)), **_of(kept)},
    }


def _curve(curve: TradeOff, kept: AnyMap) -> dict[str, Any]:
    names = "certified_brier", "brier_all", "auroc", "levels"
    found: dict[str, Any] = {"radius": exactly(curve.radius), "chosen": kept.about.get("clean_weight")}
    found |= {"clean_weight": curve.clean_weight.tolist()} | {name: plotted(curve.of(name)) for name in names}
    return {"curve": found, "identity": {name: plotted(getattr(curve.identity, name)) for name in names[:2]}}


def _choice(choice: Choice) -> dict[str, Any]:
    points = [
        {"name": one.name, "allowed": choice.allows(own), "chosen": one == choice.chosen, **_point(own)}
        for one, own in choice.tried
    ]
    found = {"radius": exactly(choice.radius), "points": points, "untouched": _point(choice.untouched)}
    found |= {"limits": {name: plotted(choice.limits[name]) for name in LIMITED}}
    return {"choice": found | {"best": {name: plotted(choice.pareto(name)) for name in LIMITED}}}


def _point(scores: Scores) -> dict[str, Any]:
    return {name: plotted(getattr(scores, name)) for name in ("certified_ece", "auroc", "brier_all")}


def chosen_because(choice: Choice, held: HeldOut | None = None) -> str:
    """Among how many maps the choice was made, by what rule and on which inputs, and what became of it on others."""
    reason = choice.map.about.get("reason", "")
    if choice.chosen == Candidate() and reason not in ("", choice.nothing_better):  # as too few inputs teach
        return f"None is kept of {several(len(choice.tried), 'way')} to make a map.{'' if held else f' {reason}'}"
    rise = f"at most {choice.brier_loss:g} above theirs" if choice.brier_loss else "no higher than theirs"
    flat = f"{several(len(choice.refused), 'map')} that came to a single confidence when fitted to all of these inputs"
    return (
        f"Chosen among {len(choice.tried)} ways to make a map, on four parts of the inputs to fit on: "
        f"“{choice.chosen.name}”, which has the least certified ECE of those with an AUROC at most "
        f"{choice.auroc_loss:g} below that of the untouched confidences and a clean Brier score of all inputs "
        f"{rise}{f', but for {flat}' if choice.refused else ''}. Other inputs can pass these limits, as the best of "
        "many looks better than it is"
        f"{_lost(held, choice.radius) if held else ''}.{_for_more(choice)}"
    )


def _lost(held: HeldOut, radius: float) -> str:
    """The scores that have limits, before and after the kept map, on the inputs held out of it."""
    both = held.of_kept(radius)
    auroc, brier = (" to ".join(SCORES[key].show(getattr(own, key)) for own in both) for key in LIMITED)
    return f": on those held out of this choice AUROC goes from {auroc} and the Brier score from {brier}"


def _for_more(choice: Choice) -> str:
    """What a higher clean Brier score would buy, on the same parts: the limit may cost more than a reader thinks."""
    least, told = choice.within()[1].certified_ece, []
    for rise in BRIER_RISES:
        found = choice.within(brier_loss=max(rise, choice.brier_loss))[1].certified_ece
        if found < least - 0.005:
            told.append(f"{percent(found, Rounding.NEAREST)} with --brier-loss {rise:g}")
            least = found
    now = percent(choice.within()[1].certified_ece, Rounding.NEAREST)
    more = f" On the parts to fit on it has a certified ECE of {now}; a larger limit would give {', '.join(told)}."
    return more if told else ""


def map_name(kept: AnyMap) -> str:
    """The kind of a map in words, with the temperature of the logits before it."""
    own = kept.then if isinstance(kept, TemperedMap) else kept
    told = "no map" if own.kind == "identity" else f"{own.kind} map"
    return told if kept.divisor is None else f"{told} at temperature {kept.divisor:g}"


def _of(kept: AnyMap) -> dict[str, str]:
    """What the drawn map is of, and how its figure is explained."""
    if kept.stages[0] is None:
        return {"of": "confidence", "told": ""}  # as the page says by itself
    then = (
        ""
        if kept.stages[1].kind == "identity"
        else f", and then goes through a map of the mean ({kept.stages[1].kind})"
    )
    return {"of": "score", "told": f"From the score of each draw to what is averaged over the draws{then}."}


def mapped(kept: AnyMap) -> ScoreMap | RecalibrationMap:
    """The map that is drawn: that of the scores where there is one."""
    inside, outside = kept.stages
    return inside if isinstance(inside, ScoreMap) else outside


def lead(held: HeldOut, radii: Sequence[float]) -> str:
    """What was fitted on which inputs, and on which the scores are."""
    kept, splits = held.map, len(held.fit)
    fitted, tested = len(held.fit[held.kept]), len(held.test[held.kept])
    if kept.kind == "identity":
        of_this = "On the split of this page nothing" if _some(held) else "Nothing"
        why = "" if "chosen" in kept.about else f"{of_this} could be learned, so "
        return f"{why}{'c' if why else 'C'}onfidences stay as they are. {kept.about.get('reason', '')}".strip()
    kind = KINDS.get(kept.kind, f"kind: {kept.kind}")
    weights = kept.about.get("weights", [1.0])
    shares = "" if len(set(weights)) == 1 else f", weighted {' : '.join(f'{weight:.3g}' for weight in weights)},"
    random = "one random split" if splits == 1 else f"{splits} random splits"
    return (
        f"The map ({kind}) was fitted for {listed(radii)}{shares} on {fitted:,} inputs, and this page is "
        f"about the {tested:,} others. The table below repeats that over {random}: mean before and after, "
        "always on inputs held out of the fitting. Predictions are the same before and after. "
        f"{confidences_after(kept)}"
    ).strip()


def confidences_after(kept: AnyMap) -> str:
    """Which confidences the map can give, attacked or not: its steps, or its range rounded outward."""
    inside, outside = kept.stages
    if inside is None and outside.kind == "identity":
        return ""
    low, high = outside.transform([0.0, 1.0] if inside is None else inside.levels[[0, -1]]).tolist()
    if outside.bands is None:
        return f"After the map all confidences lie in {_outward(low, high, 3)}."
    bands = [own for own in outside.bands.tolist() if low <= own[1] and own[0] <= high]
    if any(last - first > NARROW for first, last in bands):
        return f"After the map all confidences lie in {_joined([_outward(first, last, 3) for first, last in bands])}."
    middles = [sum(own) / 2 for own in bands]
    digits = next((own for own in range(3, 9) if len({round(one, own) for one in middles}) == len(bands)), 9)
    many = f"{'is' if len(bands) == 1 else 'are'} {several(len(bands), 'confidence')}"
    return f"After the map there {many}: {_joined([number(one, Rounding.NEAREST, digits) for one in middles])}."


def _outward(low: float, high: float, digits: int) -> str:
    """A range rounded outward, but for the last bit of floats: 0.9 is no more than 0.900."""
    ends = math.floor(round(low * 10**digits, 6)), math.ceil(round(high * 10**digits, 6))
    return "–".join(f"{end / 10**digits:.{digits}f}" for end in ends)


def without_map(held: HeldOut, radii: Sequence[float]) -> str:
    """The certified ECE over all splits, where some have no map; nothing where all have one, or none has."""
    if not _some(held):
        return ""
    means = (
        (radius, [SCORES["certified_ece"].show(own.certified_ece) for own in held.mean(radius)]) for radius in radii
    )
    told = ", ".join(f"{' → '.join(both)} at R = {exactly(radius)}" for radius, both in means)
    splits = f"{several(len(held.maps), 'split')}, {held.without_map} of them without a map"
    return f"{splits}, where confidences stay as they are: certified ECE {told}."


def listed(radii: Sequence[float]) -> str:
    """R = 0.1, 0.25 and 0.5."""
    return f"R = {_joined([exactly(radius) for radius in radii])}"


def _joined(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def warnings(held: HeldOut, radius: float) -> list[str]:
    """What has to be said of the kept map: that it was taught by too little, or no longer tells right from wrong."""
    kept, (before, after) = held.map, held.of_kept(radius)
    told = [caution] if (caution := caution_about(kept)) else []
    lost = after.auroc < 0.5 + (before.auroc - 0.5) / 2
    if after.levels < 2:
        flat = "The confidences come to one value, or nearly"
        if lost:
            flat = "The map is constant, or nearly, and no longer tells right from wrong"
        elif after.auroc == after.auroc:
            flat += "; AUROC does not see it, as their order within a step stays"
        told.append(f"{flat}: take a larger clean weight or a smaller radius.")
    elif lost:
        told.append("The map tells right from wrong far less well: look at the AUROC.")
    return told

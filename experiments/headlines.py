"""What maps come to on inputs that they have not seen: the least errors, what smaller ones cost, and fresh images."""

import math

from certcal.studies import ReferenceRow
from certcal.studies.reference_rows import FREER_LOSS
from experiments.pack_table import POINT, Table, down, markdown, up

HEADLINE = (
    "The least CCE after a map, of models of seed 0 whose CA, here by cdf-cp, reaches the range that the paper "
    "compares. A map is chosen and fitted on one random half of the inputs and scored on the other, each in turn, for "
    "{splits} splits. The row has the mean, ± the deviation between halves, which share inputs. Most maps have three "
    "[steps](recalibration.md#steps): after them a model answers one of three confidences. They may raise the mean of "
    f"the clean Brier score of all inputs by {100 * POINT:g} point{{limits}}. “Chosen on” says which images chose "
    "models, how many those are, and their range of CCE: the row is the least of them on the test inputs, and the "
    "least of many errs low.{seeds}"
)
FREER = (
    f"What a smaller error costs: maps that may raise the clean Brier score by {100 * FREER_LOSS:g} points, in the "
    "mean of parts of the inputs they are fitted on, for a few models:"
)
UNSEEN = (
    "Images that no choice saw: 2,000 images choose and fit the map, and 2,000 others score it, of the same model. "
    "The limit on the clean Brier score was kept on parts of the former; on the latter it may be exceeded, as the last "
    "column shows:"
)
CLEAN = "clean Brier of all, without → with it"


def headline(table: Table) -> str:
    """Per radius the least certified error after a map of any model that is at least as accurate as the paper's."""
    found = table.headlines
    lines = [
        [*_about(table, radius, row), "; ".join(where), f"{_error(row)} ({_best(table, 'ACCE', radius)})",
         _seeds(table, row), f"{up(row.certified_brier)} ({_best(table, 'CBS', radius)})", _clean(row)]
        for radius, row, where in _together(table)
    ]  # fmt: skip
    if not lines:
        some = table.paper and any(row.track == "recalibrated" for row in table.rows)
        return "No model here is as accurate as those that the paper compares.\n" if some else ""
    heads = ["R", "model", "CA (cdf-cp)", "chosen on", "CCE with a map (the paper's best ACCE)", "seeds 1 and 2",
             "CBS (the paper's best)", CLEAN]  # fmt: skip
    led = [table.entries[row.entry] for row in found.values()]
    limits, splits = sorted({f"{100 * one.brier_loss:g}" for one in led}), sorted({str(one.splits) for one in led})
    told = " The same settings with other seeds stand beside it:"
    told = told if {one.train_seed for one in table.models.values()} != {0} else " One seed each:"
    without = [f"{radius:g}" for radius in table.paper["radii"] if (radius, False) not in found]
    none = f"\nAt R = {', '.join(without)} no such model is as accurate as the paper's.\n" if without else ""
    less = f"{100 * POINT:g}" not in limits
    held = f"; the choice allows {' or '.join(limits)} on its own inputs, as the best of many looks better there"
    told = HEADLINE.format(limits=held if less else "", splits=" or ".join(splits), seeds=told)
    return f"{told}\n\n{markdown(heads, lines, 2)}{none}"


def _together(table: Table) -> list[tuple[float, ReferenceRow, list[str]]]:
    """Per radius and model, which images chose it, out of how many."""
    chosen: dict[tuple[float, str], tuple[float, ReferenceRow, list[str]]] = {}
    for (radius, honest), row in table.headlines.items():
        errors = [one.certified_ece for one in table.candidates(radius, held_out=honest)]
        among = f" ({len(errors)}: {up(min(errors))}–{up(max(errors))})" if len(errors) > 1 else " (the only one)"
        where = f"{'held-out' if honest else 'test'} images{among}"
        chosen.setdefault((radius, row.entry), (radius, row, []))[2].append(where)
    return list(chosen.values())


def freer(table: Table) -> str:
    """Models at least as accurate as the paper's after maps with a larger limit on the clean Brier score."""
    lines = []
    for place, radius in enumerate(table.paper.get("radii", ())):
        for row in table.at("freer", radius).values():
            if 100 * row.certified_accuracy >= table.paper["CA"][place][0]:
                before, after = up(table.at("plain", radius)[row.entry].certified_ece), _error(row)
                lines.append([*_about(table, radius, row), f"{before} → {after}", up(row.certified_brier), _clean(row)])
    heads = ["R", "model", "CA (cdf-cp)", "CCE, without → with the map", "CBS with it", CLEAN]
    return f"{FREER}\n\n{markdown(heads, lines, 2)}" if lines else ""


def unseen(table: Table) -> str:
    """Maps on inputs that took no part in any choice: fitted to one entry's inputs, scored on those of another."""
    lines = []
    for one in table.entries.values():
        for radius in one.mapped if one.fitted_on else ():
            plain, mapped = (table.at(track, radius).get(one.name) for track in ("plain", "recalibrated"))
            if plain is None or mapped is None:
                continue
            errors = [
                " → ".join(up(getattr(row, key)) for row in (plain, mapped))
                for key in ("certified_ece", "certified_brier")
            ]
            lines.append([*_about(table, radius, mapped), *errors, _clean(mapped)])
    heads = ["R", "model", "CA (cdf-cp)", "CCE, without → with the map", "CBS, without → with it", CLEAN]
    return f"{UNSEEN}\n\n{markdown(heads, lines, 2)}" if lines else ""


def _error(row: ReferenceRow) -> str:
    """The certified error, with the deviation between maps where there are several."""
    told = up(row.certified_ece)
    told = told if math.isnan(row.deviation) else f"{told} ± {100 * row.deviation:.2f}"
    return f"{told}, a map in {row.maps:.0%} of halves" if row.maps < 1 else told


def _seeds(table: Table, row: ReferenceRow) -> str:
    return " / ".join(up(one.certified_ece) for one in table.with_seeds(row)[1:]) or "—"


def _about(table: Table, radius: float, row: ReferenceRow) -> list[str]:
    network = table.entries[row.entry].network
    other = f", {network}" if network != table.network else ""
    return [f"{radius:g}", table.short(row.entry) + other, down(row.certified_accuracy)]


def _best(table: Table, name: str, radius: float) -> str:
    place = table.paper["radii"].index(radius)
    return f"{min(line[place] for line in table.paper[name].values()):.2f}"


def _clean(row: ReferenceRow) -> str:
    return " → ".join(f"{100 * value:.2f}" for value in (row.brier_all_before, row.brier_all))

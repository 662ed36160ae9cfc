"""What maps come to on inputs that they have not seen: the least errors, what smaller ones cost, and fresh images."""

import math
import statistics

from certcal.studies import ReferenceRow
from certcal.studies.reference_rows import FREER_LOSS
from experiments.directions import outside
from experiments.pack_table import POINT, Table, down, mapped, mark, markdown, up

HEADLINE = (
    "The least CCE after a map, of any method and network, among models of seed 0 whose CA, here by cdf-cp, reaches "
    "the range that the paper compares. Left out are models trained again, and models not run with every seed that the "
    "data set has, such as those on other inputs. “Test” is the least of all these; “held-out” the least, on the test "
    "images too, of those that held-out training images chose by their certified error or Brier score. The least of "
    "many estimates tends to be too small. “Certified (wrong)” counts the inputs certified, and those predicted wrong "
    "among them; here each map learns from about half of both."
)
LIMIT = (
    "Over {splits} splits in halves, a map may raise the mean clean Brier score of all inputs by "
    f"at most {100 * POINT:g} point{{limits}}; rows above that are not listed.{{seeds}}"
)
FREER = (
    f"What a smaller error costs: maps that may raise the clean Brier score by {100 * FREER_LOSS:g} points, in the "
    "mean of parts of the inputs they are fitted on, for a few models:"
)
UNSEEN = (
    "Images that no choice saw: {fit} images choose and fit the map, and {own} others score it, of the same model. "
    "There the clean Brier score may rise by more than the limit of the images that chose, {limits} points:"
)
CLEAN = "clean Brier of all, without → with the map"
ABOUT = ["R", "model", "CA (cdf-cp)", "certified (wrong)"]
MISSES = "‡"  # behind a seed whose accuracy or clean Brier score misses what models of seed 0 are held to
SEEDS = "seeds 1 and 2"
PLACE = "[Seeds](reproduction_tables.md#seeds)"


def headline(table: Table) -> str:
    """Per radius the least certified error after a map of any model that is at least as accurate as the paper's."""
    found = table.headlines
    lines = [
        [*_about(table, radius, row), f"{'held-out' if honest else 'test'}: {_among(table, radius, honest=honest)}",
         f"{_error(row)} ({_best(table, 'ACCE', radius)})", _seeds(table, row),
         f"{mapped(row, 'certified_brier')} ({_best(table, 'CBS', radius)})", _clean(row)]
        for (radius, honest), row in found.items()
    ]  # fmt: skip
    if not lines:
        some = table.paper and any(row.track == "recalibrated" for row in table.rows)
        return "No model here is as accurate as those that the paper compares.\n" if some else ""
    heads = [*ABOUT, "chosen on: least of", "CCE with a map (the paper's best ACCE)",
             SEEDS, "CBS (the paper's best)", CLEAN]  # fmt: skip
    led = [table.entries[row.entry] for row in found.values()]
    limits, splits = sorted({f"{100 * one.brier_loss:g}" for one in led}), sorted({str(one.splits) for one in led})
    told = " Beside it are the same settings with other seeds:"
    told = told if {one.train_seed for one in table.models.values()} != {0} else " One seed each:"
    without = [f"{radius:g}" for radius in table.paper["radii"] if (radius, False) not in found]
    none = f"\nAt R = {', '.join(without)} no such model is as accurate as the paper's.\n" if without else ""
    high = dict.fromkeys(f"{radius:g}" for (radius, _), row in found.items()
                         if outside(table, radius, row.certified_accuracy) > 0)  # fmt: skip
    none += (
        f"\nAt R = {', '.join(high)} the CA of these models is above the range that the paper compares.\n"
        if high
        else ""
    )
    if any(MISSES in cell for line in lines for cell in line):
        none += f"\n{MISSES}: of this seed the CA, not rounded, is below the range, or the map costs more than "
        none += f"{100 * POINT:g} point: {PLACE}.\n"
    less = f"{100 * POINT:g}" not in limits
    held = f", and of the inputs it is chosen on by {' or '.join(limits)}"
    told = LIMIT.format(limits=held if less else "", splits=" or ".join(splits), seeds=told)
    return f"{HEADLINE}\n\n{told}\n\n{markdown(heads, lines, 2)}{none}"


def _among(table: Table, radius: float, *, honest: bool) -> str:
    """How many models the least was taken of, and their median."""
    rows = sorted(table.candidates(radius, held_out=honest), key=lambda row: row.certified_ece)
    if len(rows) == 1:
        return "the only one"
    median = up(statistics.median(row.certified_ece for row in rows))
    return f"{len(rows)} (median {median})"


def freer(table: Table) -> str:
    """Models at least as accurate as the paper's after maps with a larger limit on the clean Brier score."""
    lines = []
    for place, radius in enumerate(table.paper.get("radii", ())):
        for row in table.at("freer", radius).values():
            if 100 * row.certified_accuracy >= table.paper["CA"][place][0]:
                error = f"{up(table.at('plain', radius)[row.entry].certified_ece)} → {_error(row)}"
                lines.append([*_about(table, radius, row), error, mapped(row, "certified_brier"), _clean(row)])
    heads = [*ABOUT, "CCE, without → with the map", "CBS with it", CLEAN]
    return f"{FREER}\n\n{markdown(heads, lines, 2)}" if lines else ""


def unseen(table: Table) -> str:
    """Maps on inputs that took no part in any choice: fitted to one entry's inputs, scored on those of another."""
    lines, fit, scored = [], set(), set()
    for one in table.entries.values():
        for radius in one.mapped if one.fitted_on in table.inputs else ():
            before, after = (table.at(track, radius).get(one.name) for track in ("plain", "recalibrated"))
            if before is None or after is None:
                continue
            errors = [
                f"{up(getattr(before, key))} → {mapped(after, key)}" for key in ("certified_ece", "certified_brier")
            ]
            lines.append([*_about(table, radius, after), *errors, _clean(after)])
            fit.add(table.inputs[one.fitted_on])
            scored.add(table.inputs[one.name])
    heads = [*ABOUT, "CCE, without → with the map", "CBS, without → with the map", CLEAN]
    counts = (" or ".join(f"{count:,}" for count in sorted(own)) for own in (fit, scored))
    limits = sorted({f"{100 * one.brier_loss:g}" for one in table.entries.values() if one.fitted_on})
    told = UNSEEN.format(**dict(zip(("fit", "own"), counts, strict=True)), limits=" or ".join(limits))
    return f"{told}\n\n{markdown(heads, lines, 2)}" if lines else ""


def _error(row: ReferenceRow) -> str:
    """The certified error, with the deviation between maps where there are several."""
    told = mapped(row)
    return told if math.isnan(row.deviation) else f"{told} ± {100 * row.deviation:.2f}"


def _seeds(table: Table, row: ReferenceRow) -> str:
    return " / ".join(mapped(one) + MISSES * _misses(table, one) for one in table.with_seeds(row)[1:]) or "—"


def _misses(table: Table, row: ReferenceRow) -> bool:
    """Whether a training of another seed is less accurate than the paper's, or its map costs more than a point."""
    least = table.paper["CA"][table.paper["radii"].index(row.radius)][0]
    return 100 * row.certified_accuracy < least or row.brier_all - row.brier_all_before > POINT


def _about(table: Table, radius: float, row: ReferenceRow) -> list[str]:
    network = table.entries[row.entry].network
    other = f", {network}" if network != table.network else ""
    name = table.short(row.entry).removesuffix("-seed0") + other + table.fewer(row.entry)
    return [f"{radius:g}", name, down(row.certified_accuracy), table.certified(row.entry, radius)]


def _best(table: Table, name: str, radius: float) -> str:
    place = table.paper["radii"].index(radius)
    return f"{min(line[place] for line in table.paper[name].values()):.2f}"


def _clean(row: ReferenceRow) -> str:
    return f"{100 * row.brier_all_before:.2f} → {100 * row.brier_all:.2f}{mark(row)}"

"""Whether methods order as in the paper, and what each changes of the baseline that it starts from."""

import statistics
from collections import Counter, defaultdict

from certcal.evaluation import Outcome, select
from certcal.studies import ReferenceRow
from experiments.pack_table import Table, down, markdown, up

METHODS = ("Finetuned AT", "Brier-ACT", "ACCE-ACT", "ACCE-ACT*", "CCE-ACT", "Certified Brier")
WITHIN = 0.03  # of the best certified accuracy, as the paper selects
CLOSE = 1.5  # points between methods that no direction is read off: seeds differ by as much
SAME, OTHER, ELSE = "as in the paper", "**not as in the paper**", "; from another baseline"
DIRECTIONS = (
    "Whether a method is better than AT, as the paper has it: differences of the models selected, in points of CCE by "
    f"the paper's bounds, beside the paper's of ACCE. Differences below {CLOSE:g} points count as too small to tell"
    "{seeds}."
)
TUNED = (
    "Models of other baselines differ by their baselines too. So this is what fine-tuning changes of its own baseline: "
    "points of CCE by the paper's bounds and, in brackets, of CA. Each model is compared with the baseline of its own "
    "seed; numbers are means over the number of seeds given, and † marks a single one. Per method it is the setting "
    "that the paper's selection takes among those of this baseline. Baselines are those within 3 points of the best CA "
    "at R."
)


def directions(table: Table) -> str:
    """Whether methods order as in the paper, said plainly."""
    lines = [
        [f"{radius:g}", f"{method} − AT", f"{ours:+.2f}", f"{paper:+.2f}", verdict + unlike]
        for radius, method, ours, paper, verdict, unlike in compared(table)
    ]
    if not lines:
        return ""
    heads = ["R", "methods", "ours", "the paper", "direction"]
    return f"{DIRECTIONS.format(seeds=_apart_by_seeds(table))}\n\n{markdown(heads, lines, 2)}"


def _apart_by_seeds(table: Table) -> str:
    """How far seeds of the same settings are apart, in words."""
    apart = []
    for radius in sorted({row.radius for row in table.rows}):
        for rows in _by_settings(table, radius).values():
            if len({table.entries[row.entry].train_seed for row in rows}) > 1:
                errors = [100 * row.certified_ece for row in rows]
                apart.append(max(errors) - min(errors))
    if not apart:
        return "; one seed each"
    more = sum(gap > CLOSE for gap in apart) / len(apart)
    return (
        f": seeds of the same settings are {statistics.median(apart):.2f} points apart in the median, and {more:.0%} "
        f"of settings by more than {CLOSE:g}"
    )


def compared(table: Table) -> list[tuple[float, str, float, float, str, str]]:
    """Radius, method, our and the paper's difference to AT, the verdict, and in what else the models differ."""
    found = []
    for radius in sorted({row.radius for row in table.rows}):
        rows = table.at("paper", radius)
        best = {entry.method: entry.name for entry in table.selected(radius, "ece")}
        own = {method: rows[name].certified_ece for method, name in best.items()}
        for method in ("Brier-ACT", "ACCE-ACT"):
            theirs = [table.theirs("ACCE", one, radius) for one in (method, "AT")]
            if method in own and "AT" in own and None not in theirs:
                ours, paper = 100 * (own[method] - own["AT"]), theirs[0] - theirs[1]
                verdict = SAME if ours * paper > 0 else OTHER
                if min(abs(ours), abs(paper)) < CLOSE:
                    verdict = f"{'the paper’s' if abs(paper) < CLOSE else 'ours'} is too small to tell"
                found.append((radius, method, ours, paper, verdict, _unlike(table, best[method], best["AT"])))
    return found


def _unlike(table: Table, name: str, plain: str) -> str:
    """In what else two models differ."""
    baseline, draws = table.entries[name].baseline.lower(), [table.draws[name], table.draws[plain]]
    other = "" if table.short(plain).startswith(f"{baseline}-") else ELSE
    return other + (f"; draws differ: {draws[0]} and {draws[1]}" if draws[0] != draws[1] else "")


def tuned(table: Table) -> str:
    """Changes of the certified calibration error and accuracy, per radius and baseline."""
    names = sorted({one.baseline for one in table.models.values() if one.baseline and one.network == table.network})
    lines = []
    for radius in table.paper.get("radii", ()):
        stems = _by_settings(table, radius)
        starts = {name: stems[own] for name in names if (own := f"{table.data}-{name.lower()}") in stems}
        best = max((_mean(rows, "certified_accuracy") for rows in starts.values()), default=0.0)
        for name, start in starts.items():
            if _mean(start, "certified_accuracy") < best - WITHIN:
                continue
            settings = _selected(table, stems, name, radius)
            pairs = {method: _pairs(table, stems[stem], start) for method, stem in settings.items()}
            most = max(map(_seeds, pairs.values()), default=0)
            if not most:  # nothing is fine-tuned from it that can be compared
                continue
            told = [str(most), down(_mean(start, "certified_accuracy")), up(_mean(start, "certified_ece"))]
            cells = [_change(pairs.get(method), most) for method in METHODS]
            lines.append([f"{radius:g}", name.lower(), *told, *cells])
    if not lines:
        return ""
    return f"{TUNED}\n\n{markdown(['R', 'baseline', 'seeds', 'its CA', 'its CCE', *METHODS], lines, 2)}"


Pairs = list[tuple[int | None, float, float]]  # seed, change of the error, change of the accuracy


def _pairs(table: Table, rows: list[ReferenceRow], starts: list[ReferenceRow]) -> Pairs:
    """What each model changes of the baseline that it was fine-tuned from."""
    found = []
    for row in rows:
        own = table.entries[row.entry]
        same = [one for one in starts if table.entries[one.entry].train_seed == own.train_seed]
        if same:  # of baselines trained again, the one of the same session, else the first
            start = max(same, key=lambda one: (table.entries[one.entry].commit == own.commit, -len(one.entry)))
            change = row.certified_ece - start.certified_ece, row.certified_accuracy - start.certified_accuracy
            found.append((own.train_seed, *change))
    return found


def _seeds(pairs: Pairs) -> int:
    return len({seed for seed, _, _ in pairs})


def _change(pairs: Pairs | None, most: int) -> str:
    if not pairs:
        return "—"
    error, accuracy = (100 * statistics.fmean(pair[place] for pair in pairs) for place in (1, 2))
    return f"{error:+.2f} ({accuracy:+.1f}){' †' if _seeds(pairs) == 1 < most else ''}"


def _by_settings(table: Table, radius: float) -> dict[str, list[ReferenceRow]]:
    """Rows by the paper's bounds of all trainings with the same settings, on the paper's number of inputs.

    Of as many draws as most have: fewer draws would pass for larger errors of the baseline.
    """
    found = defaultdict(list)
    own = {name: row for name, row in table.at("paper", radius).items() if table.inputs[name] == table.usual}
    usual = Counter(table.draws[name] for name in own).most_common(1)[0][0] if own else ""
    for name, row in own.items():
        if row.certified_accuracy > 0 and table.draws[name] == usual:
            found[name.rpartition("-seed")[0]].append(row)
    return found


def _selected(table: Table, stems: dict[str, list[ReferenceRow]], baseline: str, radius: float) -> dict[str, str]:
    """Per method the settings with the least error of seed 0, of those near the best accuracy from this baseline."""
    made = [
        Outcome(table.entries[row.entry].method, stem, radius, row.certified_accuracy, row.certified_ece,
                row.certified_brier)
        for stem, rows in stems.items() for row in rows
        if table.entries[row.entry].baseline == baseline and row.entry.endswith("-seed0")
    ]  # fmt: skip
    return {method: one.model for method, one in select(made, radius=radius).ece.items()} if made else {}


def _mean(rows: list[ReferenceRow], name: str) -> float:
    return statistics.fmean(getattr(row, name) for row in rows)

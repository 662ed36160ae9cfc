"""What stands beside the rows of a pack: published logs, approximations, rank correlations, seeds, unseen images."""

import json
import re
from functools import partial
from itertools import combinations
from pathlib import Path

from scipy.stats import spearmanr

from certcal.studies import Entry, ReferenceRow
from certcal.studies.ranked import FEWEST, each_once, trade_off_values
from certcal.studies.stored import Model
from experiments.pack_table import Table, down, epochs_of, mapped, markdown, seed_in, stem_of, up

WEAK = 0.3  # rank correlations nearer to 0 tell nothing
RESULTS = Path(__file__).resolve().parent / "results"
KEYS = (("certified_accuracy", down), ("certified_ece", up), ("certified_brier", up))


def published(table: Table) -> str:
    """Certified accuracies of our baselines beside those in published logs of the same training, run in full."""
    path = RESULTS / f"published-{table.data}.json"
    if not path.is_file():
        return ""
    lines, ours, inputs = [], set(), set()
    for log in json.loads(path.read_text(encoding="utf-8")):
        name = f"{table.data}-{log['baseline']}-seed0".lower()
        for radius, theirs in log["certified_accuracy"].items():
            own = table.at("paper", float(radius)).get(name)
            if own is not None and theirs > 0:
                inputs.add(f"{log['inputs']:,}")
                ours.add(f"{epochs_of(table.entries[name]) or '?'} epochs and {table.draws[name]} draws")
                apart = f"{100 * (own.certified_accuracy - theirs):+.1f}"
                lines.append([log["baseline"], radius, f"{100 * theirs:.1f}", f"{100 * own.certified_accuracy:.1f}",
                              apart, log["repository"], log["commit"][:7]])  # fmt: skip
    told = (
        f"Certified accuracy of the baselines, of {' or '.join(sorted(ours))}, beside that in the logs of "
        f"{' or '.join(sorted(inputs))} inputs that Cohen et al. (noise) and Salman et al. (SmoothAdv) published. "
        "Theirs are of 90 and of 150 epochs and of 100,000 draws (noted when they were read):"
    )
    heads = ["baseline", "R", "published CA", "our CA", "difference", "logs", "at"]
    return f"{told}\n\n{markdown(heads, lines, 1)}"


def approximations(table: Table) -> str:
    """What the paper's ways to the certified calibration error find of the exact value."""
    path = RESULTS / f"approximations-{table.data}.json"
    if not path.is_file():
        return ""
    made = json.loads(path.read_text(encoding="utf-8"))
    names = {"exact": "exact", "admm": "ADMM", "dece": "dECE", "brier": "Brier"}
    lines = [
        [f"{row['radius']:g}", f"{row['inputs']:,}", up(row["exact"])]
        + [f"{100 * row[key]:.2f}" for key in names if key != "exact"]
        for row in made["rows"]
    ]
    most = max(row["inputs"] for row in made["rows"])
    told = (
        f"The CCE of up to {most:,} certified inputs of {made['entry']} by the Standard "
        "certificate, exact and by the paper's approximations from below, with the settings of the paper's figure:"
    )
    return f"{told}\n\n{markdown(['R', 'inputs', *names.values()], lines, 1)}"


def correlations(table: Table) -> str:
    """Rank correlations over the models of the table between robustness and calibration."""
    lines = []
    models = each_once([
        Model(one.name, one.data, partial(table.pack.evidence, one), one.train_seed)
        for one in table.models.values()
        if one.network == table.network and not one.train_seed and not one.name.endswith("-again")
    ])  # fmt: skip
    for radius, own in trade_off_values(models).items() if len(models) >= FEWEST else ():
        if radius in table.paper["radii"]:
            pairs = [f"{spearmanr(own[one], own[other]).statistic:+.2f}" for one, other in combinations(own, 2)]
            lines.append([f"{radius:g}", str(len(own["CA"])), *pairs])
    if not lines:
        return ""
    told = (
        "Spearman's rank correlations over models of seed 0, by the paper's bounds (ACR: average certified radius), as "
        "`certcal reproduce figure-trade-off` draws them. Fine-tunings of one baseline are alike: this is a hint only."
    )
    heads = ["R", "models", *(f"{one}, {other}" for one, other in combinations(("CA", "ACR", "CBS", "CCE"), 2))]
    return f"{told}\n\n{markdown(heads, lines, 1)}\n{harmony([(line[0], *map(float, line[3:5])) for line in lines])}\n"


def harmony(found: list[tuple[str, float, float]]) -> str:
    """Whether more accurate models are better calibrated, of radii with the correlations of CA with CBS and CCE."""
    sides: dict[str, list[str]] = {"harmonise": [], "compete": [], "are too weakly related to tell": []}
    for radius, *both in found:
        harmonise, compete = max(both) <= -WEAK, min(both) >= WEAK
        sides["harmonise" if harmonise else "compete" if compete else "are too weakly related to tell"].append(radius)
    told = ", ".join(f"at R = {', '.join(radii)} they {words}" for words, radii in sides.items() if radii)
    return (
        "In the paper, CA harmonises with CBS and ACCE at small radii and competes with them at large ones. Here "
        f"{told} (correlations of both beyond ±{WEAK:g} count)."
    )


def spread(table: Table) -> str:
    """How far apart trainings with the same settings are, of the models that are selected at each radius."""
    lines = []
    leading = sorted({(radius, row.entry) for (radius, _), row in table.headlines.items()})
    for radius in sorted({row.radius for row in table.rows}):
        rows, others = table.at("paper", radius), table.at("recalibrated", radius)
        quoted = {one.name: one for score in ("ece", "brier") for one in table.selected(radius, score)}
        quoted |= {name: table.entries[name] for at, name in leading if at == radius}
        for name, one in quoted.items():
            stem = _usual_inputs(name)
            seeds = sorted(other for other in rows if stem_of(other) == stem)
            if len(seeds) > 1:
                numbers = " / ".join(seed_in(other) + table.fewer(other) for other in seeds)
                told = (" / ".join(shown(getattr(rows[other], key)) for other in seeds) for key, shown in KEYS)
                after = " / ".join(_with_map(others.get(other)) for other in seeds)
                lines.append([f"{radius:g}", one.method, table.short(stem), numbers, *told, after])
    if not lines:
        return ""
    told = (
        "The spread over seeds: the models selected on the test inputs, of seed 0, and the same settings trained from "
        "the start with other seeds, as far as they are run; some also with seed 0 again (“0 again”): sums on a GPU "
        "and changes of the code make that in effect another seed. In brackets: by how many points the map raises the "
        "clean Brier score; of other seeds, and of models that are no headline, it can be more than one. Fewer draws "
        "give larger errors:"
    )
    heads = ["R", "method", "model", "seeds", "CA", "CCE", "CBS", "cdf-cp and a map: CCE"]
    return f"{told}\n\n{markdown(heads, lines, 3)}\n{_with_seeds(table)}\n"


def quoted_models(table: Table) -> list[Entry]:
    """The models that stand on either page: selected on test inputs or held-out images, and those of headlines."""
    names = {row.entry for row in table.headlines.values()}
    for radius in {row.radius for row in table.rows}:
        for score in ("ece", "brier"):
            names |= {one.name for one in (*table.selected(radius, score), *table.chosen_held_out(radius, score))}
    return [one for name, one in table.entries.items() if name in names]


def _with_seeds(table: Table) -> str:
    """How many of the models quoted have three seeds, and what the others are."""
    stems = dict.fromkeys(_usual_inputs(one.name) for one in quoted_models(table))
    counts = {
        stem: len({one.train_seed for one in table.models.values() if stem_of(one.name) == stem}) for stem in stems
    }
    fewer = {stem: count for stem, count in counts.items() if count < 3}
    done = f"{len(counts) - len(fewer)} of {len(counts)} models quoted, by either choice, have three seeds."
    if not fewer:
        return done
    names = ", ".join(f"{table.short(stem)} ({count})" for stem, count in fewer.items())
    seconds = sum((3 - count) * _seconds(table, stem) for stem, count in fewer.items())
    return (
        f"{done} With fewer seeds, in brackets: {names}. As seed 0 took beside other models on the same "
        f"device, the missing ones would take {seconds / 60:.0f} minutes."
    )


def _usual_inputs(name: str) -> str:
    """The settings of an entry; of one on other inputs those of the same model on the paper's, which have seeds."""
    return re.sub(r"-\d+(-other)?-inputs", "", stem_of(name))


def _with_map(row: ReferenceRow | None) -> str:
    if row is None:
        return "—"
    return f"{mapped(row)} ({100 * (row.brier_all - row.brier_all_before):+.2f})"


def _seconds(table: Table, stem: str) -> float:
    """How long the first training with these settings took, certified too."""
    one = next((one for one in table.models.values() if stem_of(one.name) == stem and not one.train_seed), None)
    return (one.train_seconds or 0.0) + (one.certify_seconds or 0.0) if one else 0.0

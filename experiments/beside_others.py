"""What stands beside the rows of a pack: published logs, approximations, rank correlations, seeds, unseen images."""

import json
import re
from itertools import combinations
from pathlib import Path

from scipy.stats import spearmanr

from experiments.pack_table import Table, down, markdown, up

RESULTS = Path(__file__).resolve().parent / "results"
KEYS = (("certified_accuracy", down), ("certified_ece", up), ("certified_brier", up))


def published(table: Table) -> str:
    """Certified accuracies of our baselines beside those in published logs of the same training, run in full."""
    path = RESULTS / f"published-{table.data}.json"
    if not path.is_file():
        return ""
    lines = []
    for log in json.loads(path.read_text(encoding="utf-8")):
        name = f"{table.data}-{log['baseline']}-seed0".lower()
        for radius, theirs in log["certified_accuracy"].items():
            own = table.at("paper", float(radius)).get(name)
            if own is not None and theirs > 0:
                apart = f"{100 * (own.certified_accuracy - theirs):+.1f}"
                lines.append([log["baseline"], radius, f"{100 * theirs:.1f}", f"{100 * own.certified_accuracy:.1f}",
                              apart, log["repository"], log["commit"][:7]])  # fmt: skip
    told = (
        "Certified accuracy of the baselines beside that in the published logs of Cohen et al. (noise) and Salman et "
        "al. (SmoothAdv, m = 2, T = 2), which trained 150 epochs (90 the former) and certified with 100,000 draws:"
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
        [f"{row['radius']:g}", f"{row['inputs']:,}", *(f"{100 * row[key]:.2f}" for key in names)]
        for row in made["rows"]
    ]
    told = (
        f"The certified calibration error of up to 2000 certified inputs of {made['entry']} by the Standard "
        "certificate, exact and by the paper's approximations, all from below, with the settings of the paper's figure:"
    )
    return f"{told}\n\n{markdown(['R', 'inputs', *names.values()], lines, 1)}"


def correlations(table: Table) -> str:
    """Rank correlations over the models of the table between robustness and calibration."""
    lines = []
    for radius in sorted({row.radius for row in table.rows}):
        rows = [row for row in table.at("paper", radius).values() if row.certified_accuracy > 0]
        if len(rows) < 5:
            continue
        own = {"CA": [row.certified_accuracy for row in rows], "ACR": [table.mean_radius[row.entry] for row in rows],
               "CBS": [row.certified_brier for row in rows], "CCE": [row.certified_ece for row in rows]}  # fmt: skip
        pairs = [f"{spearmanr(own[one], own[other]).statistic:+.2f}" for one, other in combinations(own, 2)]
        lines.append([f"{radius:g}", str(len(rows)), *pairs])
    if not lines:
        return ""
    told = "Spearman's rank correlations over the models (ACR: average certified radius); few models, so a hint only:"
    heads = ["R", "models", *(f"{one}, {other}" for one, other in combinations(("CA", "ACR", "CBS", "CCE"), 2))]
    return f"{told}\n\n{markdown(heads, lines, 1)}"


def spread(table: Table) -> str:
    """How far apart trainings with the same settings are, of the models that are quoted at each radius."""
    lines, counts = [], {}
    for radius in sorted({row.radius for row in table.rows}):
        rows = table.at("paper", radius)
        quoted = {one.name: one for score in ("ece", "brier") for one in table.selected(radius, score)}
        for name, one in quoted.items():
            stem = re.sub("-2000(-other)?-inputs", "", name.rpartition("-seed")[0])  # seeds have the paper's 500
            seeds = sorted(other for other in rows if stem and other.rpartition("-seed")[0] == stem)
            counts[stem] = len({table.entries[other].train_seed for other in seeds})
            if len(seeds) > 1:
                numbers = " / ".join(other.rpartition("-seed")[2].replace("-", " ") for other in seeds)
                told = (" / ".join(shown(getattr(rows[other], key)) for other in seeds) for key, shown in KEYS)
                draws = " / ".join(table.draws[other] for other in seeds)
                lines.append([f"{radius:g}", one.method, stem, numbers, *told, draws])
    if not lines:
        return ""
    told = (
        "The spread over seeds: models quoted above, of seed 0, and the same settings trained from the start with the "
        "seeds 1 and 2, as far as they are run; of two baselines also with seed 0 again (“0 again”): sums on a GPU and "
        "changes of the code make that in effect another seed. Fewer draws give larger errors:"
    )
    heads = ["R", "method", "model", "seeds", "CA", "CCE", "CBS", "draws"]
    fewer = ", ".join(f"{stem.removeprefix(f'{table.data}-')} ({count})" for stem, count in counts.items() if count < 3)
    done = sum(count == 3 for count in counts.values())
    left = f" With fewer seeds, in brackets: {fewer}." if fewer else ""
    return f"{told}\n\n{markdown(heads, lines, 3)}\n{done} of {len(counts)} models quoted have three seeds.{left}\n"


def unseen(table: Table) -> str:
    """Maps on inputs that took no part in any choice: fitted to one entry's inputs, scored on those of another."""
    lines = []
    for one in table.entries.values():
        for radius in one.mapped if one.fitted_on else ():
            plain, mapped = (table.at(track, radius)[one.name] for track in ("plain", "recalibrated"))
            errors = [up(getattr(row, key)) for key in ("certified_ece", "certified_brier") for row in (plain, mapped)]
            clean = [f"{100 * value:.2f}" for value in (mapped.brier_all_before, mapped.brier_all)]
            told = [str(table.inputs[one.name]), down(mapped.certified_accuracy), *errors, *clean]
            lines.append([f"{radius:g}", one.name, *told])
    if not lines:
        return ""
    told = (
        "On images that no choice saw, with the map that the 2,000 images of the same model choose. Its limit, a point "
        "of the clean Brier score of all inputs, is one in the mean of maps of halves of those images, each scored on "
        "the other half; on these images it may be passed:"
    )
    heads = ["R", "model", "inputs", "CA", "CCE", "with the map", "CBS", "with the map", "clean Brier of all",
             "with the map"]  # fmt: skip
    return f"{told}\n\n{markdown(heads, lines, 2)}"

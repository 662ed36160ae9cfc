"""What stands beside the rows of a pack: published logs, approximations, rank correlations, seeds, unseen images."""

import json
import re
from itertools import combinations
from pathlib import Path

from scipy.stats import spearmanr

from certcal.studies import ReferenceRow
from experiments.pack_table import Table, down, markdown, up

RESULTS = Path(__file__).resolve().parent / "results"
FEWEST = 8  # models that rank correlations are told of
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
        [f"{row['radius']:g}", f"{row['inputs']:,}", up(row["exact"])]
        + [f"{100 * row[key]:.2f}" for key in names if key != "exact"]
        for row in made["rows"]
    ]
    told = (
        f"The certified calibration error of up to 2000 certified inputs of {made['entry']} by the Standard "
        "certificate, exact and by the paper's approximations from below, with the settings of the paper's figure:"
    )
    return f"{told}\n\n{markdown(['R', 'inputs', *names.values()], lines, 1)}"


def correlations(table: Table) -> str:
    """Rank correlations over the models of the table between robustness and calibration."""
    lines = []
    for radius in sorted({row.radius for row in table.rows}):
        rows = list(table.comparable(radius).values())
        if len(rows) < FEWEST:
            continue
        own = {"CA": [row.certified_accuracy for row in rows], "ACR": [table.mean_radius[row.entry] for row in rows],
               "CBS": [row.certified_brier for row in rows], "CCE": [row.certified_ece for row in rows]}  # fmt: skip
        pairs = [f"{spearmanr(own[one], own[other]).statistic:+.2f}" for one, other in combinations(own, 2)]
        lines.append([f"{radius:g}", str(len(rows)), *pairs])
    if not lines:
        return ""
    told = (
        "Spearman's rank correlations over models of one network, on the same inputs (ACR: average certified radius). "
        "Seeds and fine-tunings of one baseline are alike, so this is a hint only:"
    )
    heads = ["R", "models", *(f"{one}, {other}" for one, other in combinations(("CA", "ACR", "CBS", "CCE"), 2))]
    return f"{told}\n\n{markdown(heads, lines, 1)}"


def spread(table: Table) -> str:
    """How far apart trainings with the same settings are, of the models that are quoted at each radius."""
    lines, counts = [], {}
    leading = sorted({(radius, row.entry) for (radius, _), row in table.headlines.items()})
    for radius in sorted({row.radius for row in table.rows}):
        rows, mapped = table.at("paper", radius), table.at("recalibrated", radius)
        quoted = {one.name: one for score in ("ece", "brier") for one in table.selected(radius, score)}
        quoted |= {name: table.entries[name] for at, name in leading if at == radius}
        for name, one in quoted.items():
            stem = re.sub("-2000(-other)?-inputs", "", name.rpartition("-seed")[0])  # seeds have the paper's 500
            seeds = sorted(other for other in rows if stem and other.rpartition("-seed")[0] == stem)
            counts[stem] = len({table.entries[other].train_seed for other in seeds})
            if len(seeds) > 1:
                numbers = " / ".join(other.rpartition("-seed")[2].replace("-", " ") for other in seeds)
                told = (" / ".join(shown(getattr(rows[other], key)) for other in seeds) for key, shown in KEYS)
                after = " / ".join(_with_map(mapped.get(other)) for other in seeds)
                draws = " / ".join(table.draws[other] for other in seeds)
                lines.append([f"{radius:g}", one.method, table.short(stem), numbers, *told, after, draws])
    if not lines:
        return ""
    told = (
        "The spread over seeds: the models quoted above, of seed 0, and the same settings trained from the start with "
        "the seeds 1 and 2, as far as they are run; some also with seed 0 again (“0 again”): sums on a GPU and changes "
        "of the code make that in effect another seed. In brackets: by how many points the map raises the clean Brier "
        "score; of other seeds, and of models that are no headline, it can be more than one. Fewer draws give larger "
        "errors:"
    )
    heads = ["R", "method", "model", "seeds", "CA", "CCE", "CBS", "cdf-cp and a map: CCE", "draws"]
    fewer = {stem: count for stem, count in counts.items() if count < 3}
    names = ", ".join(f"{table.short(stem)} ({count})" for stem, count in fewer.items())
    seconds = sum((3 - count) * _seconds(table, stem) for stem, count in fewer.items())
    left = (
        f" With fewer seeds, in brackets: {names}. Training and certifying the missing ones took {seconds / 60:.0f} "
        "minutes with seed 0, beside other models on the same device."
    )
    done = f"{len(counts) - len(fewer)} of {len(counts)} models quoted have three seeds."
    return f"{told}\n\n{markdown(heads, lines, 3)}\n{done}{left if fewer else ''}\n"


def _with_map(row: ReferenceRow | None) -> str:
    if row is None:
        return "—"
    return f"{up(row.certified_ece)} ({100 * (row.brier_all - row.brier_all_before):+.2f})"


def _seconds(table: Table, stem: str) -> float:
    one = table.entries[f"{stem}-seed0"]
    return (one.train_seconds or 0.0) + (one.certify_seconds or 0.0)

"""What stands beside the rows of a pack: published logs, the paper's approximations, rank correlations."""

import json
from itertools import combinations
from pathlib import Path

from scipy.stats import spearmanr

from experiments.pack_table import Table, markdown

RESULTS = Path(__file__).resolve().parent / "results"
KEYS = ("certified_accuracy", "certified_ece", "certified_brier")


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
    """How far apart two trainings with the same settings are."""
    lines = []
    for name, again in ((one.removesuffix("-again"), one) for one in table.entries if one.endswith("-again")):
        for radius in sorted({row.radius for row in table.rows if row.entry == again and name in table.entries}):
            rows = [table.at("paper", radius)[one] for one in (name, again)]
            if all(row.certified_accuracy > 0 for row in rows):
                pairs = [f"{100 * getattr(row, key):.2f}" for key in KEYS for row in rows]
                lines.append([name, f"{radius:g}", *pairs])
    if not lines:
        return ""
    told = (
        "The spread: the same settings and seed trained again, after the noise of training was drawn in another way, "
        "so in effect another seed:"
    )
    heads = ["entry", "R", *(f"{one}, {when}" for one in ("CA", "CCE", "CBS") for when in ("first", "again"))]
    return f"{told}\n\n{markdown(heads, lines, 1)}"

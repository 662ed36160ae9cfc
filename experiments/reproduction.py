"""Write docs/reproduction.md: the paper's numbers, ours from the reference pack, their difference, and what is not run.

    python -m experiments.reproduction

Every number comes from reference/, experiments/results, bench/results or the paper's tables in paper.toml.
"""

import json
import math
import re
import statistics
from pathlib import Path

from certcal.errors import several
from certcal.studies import Entry, Pack, load_study, paper_table, study_names, study_trials
from experiments.beside_others import approximations, correlations, published, spread, unseen
from experiments.pack_table import Table, down, markdown, up

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reproduction.md"
ACE = {"standard": "ace_table-cifar10-preact-resnet18", "adversarial": "ace_table-cifar10-preact-resnet18-adversarial"}
SCORES = (("CCE", "ACCE", "certified_ece", "ece"), ("CBS", "CBS", "certified_brier", "brier"))
HEAD = """# Reproduction

<!-- written by `python -m experiments.reproduction`; a test compares it with the files it is made from -->

The paper's tables, and beside them ours, from the evidence in [the reference pack](reference_pack.md). `certcal
reference recompute reference` makes every number of ours again. Theirs is the ACCE, an approximation of the certified
calibration error (CCE) from below; ours is exact. All in percent; certified accuracy (CA) is rounded down and certified
errors up.
"""
SELECTED = (
    "Ours are, per method, the least error among entries of seed 0 within 3 points of the best CA at R, selected on "
    "the inputs reported on, as in the paper; so the least of many errs low. ADMM's ACCE is the paper's approximation "
    "from our bounds. A map is chosen and fitted on one half of the inputs and scored on the other, each half in turn, "
    "or fitted on other images and scored on all, as the last table says."
)
IN_SHORT = (
    "In short, the certified calibration error of the models selected. By the paper's own bounds ours is exact, where "
    "the paper's is approximate from below; cdf-cp has sharper bounds from the same draws:"
)
HEADLINE = (
    "On inputs that the map has not seen, the least CCE of models at least as accurate as the paper's, whose clean "
    "Brier score of all inputs the map raises by at most a point:"
)
FREER = (
    "What a smaller error costs: maps that may raise the clean Brier score by 5 points instead of one, in the mean of "
    "halves of the inputs they are fitted on; the last columns are of inputs that they have not seen:"
)
NETWORKS = (
    "The networks, PreAct-ResNet-18, are ours, trained for fewer epochs than the paper's. The directions under the "
    "strongest attacks differ; [attacks](attacks.md) says why."
)
SPEEDS = "All of a study as the paper ran it, on one H200 at the speeds of [Measured](measured.md):"
NOT_RUN = (
    "The recipes of the short schedules are in `experiments/recipes`; entries of Fashion-MNIST before commit 8f825f1 "
    "had the same 40 epochs, and how their learning rate fell was not recorded. "
    "Baselines of the pack were trained for the epochs listed, not the paper's 150. Of Fashion-MNIST, all seven "
    "baselines are run, and four settings of each of six methods from the three baselines that the paper's bands "
    "select. Those from the one with σ = 0.12 start from that baseline trained again, but for Finetuned AT 04. Models "
    "of seed 1 at the commit 799b5a7 start from baselines of seed 1 trained again. Which quoted models lack a seed "
    "stands below the spread over seeds; they take about twelve minutes of an H200, one after another, and the paper's "
    "whole grids with three seeds about two hours. Two baselines, not quoted, are certified with the 10,000 draws of "
    "screening, and some inputs of a quoted one (s0.50-e0.50-m2-T10). ACCE-ACT* takes the mean: with the paper's "
    "sum it diverged in 6 of 6 trials. Of CIFAR-10, ResNet-110 is trained for 20 epochs with noise and with SmoothAdv "
    "at two σ, and fine-tuned for 3 epochs by one setting of Brier-ACT and of ACCE-ACT; "
    "PreAct-ResNet-18 with SmoothAdv for 120 epochs, in ten minutes, and with consistent copies for 110, in four, then "
    "fine-tuned for 6 on the certificate. These two are certified with 30,000 draws, the others with 10,000. A "
    "certified ECE of 15 % within the paper's band of accuracy, our aim, is reached with a map that raises the clean "
    "Brier score by three points, and not with one that raises it by one. At σ = 0.35, which would "
    "certify more at large radii, consistent copies (90 epochs) certified 51 % of 500 held-out training images at R = "
    "0.5 with 1,000 draws, below the band; no evidence of that model was kept."
)
HEADS = ["R", "metric", "method", "CA", "paper", "ours, paper's bounds", "difference", "ours, cdf-cp",
         "ours, cdf-cp and a map", "ADMM's ACCE", "draws", "seed"]  # fmt: skip


def overview(tables: list[Table]) -> str:
    """What is run of each data set, and the least certified error among models as accurate as the paper's."""
    lines = []
    for table in tables:
        best = [line for radius in table.paper.get("radii", ()) if (line := least(table, radius))]
        found = ", ".join(f"{line[5]} at R = {line[0]} ({line[4]})" for line in best) or "—"
        seeds = ", ".join(map(str, sorted({one.train_seed for one in table.models.values()})))
        lines.append([table.data, str(len(table.models)), seeds, found])
    run = {table.data for table in tables}
    lines += [[name, "not run", "—", "—"] for name in study_names() if name not in run]
    heads = [
        "data",
        "models",
        "seeds",
        "certified ECE with a map, of models as accurate as the paper's (its best ACCE)",
    ]
    return markdown(heads, lines, 1)


def training(table: Table) -> str:
    """What there is to say of a data set, from the short to the long."""
    bands = ", ".join(f"{low}–{high} at R = {radius:g}" for radius, (low, high) in
                      zip(table.paper.get("radii", ()), table.paper.get("CA", ()), strict=True))  # fmt: skip
    compared = f"The paper compares models with a CA of {bands}." if bands else "It is not in the paper."
    every = (in_short, headline, freer, unseen, chosen, missed, directions, spread, honest, published, approximations,
             correlations, sources)  # fmt: skip
    return f"{compared} {SELECTED}\n\n" + "\n".join(part for one in every if (part := one(table)))


def chosen(table: Table) -> str:
    """The selected models of each method at each radius."""
    lines = [
        table.line(radius, name, theirs, score, entry)
        for radius in sorted({row.radius for row in table.rows})
        for name, theirs, score, field in SCORES
        for entry in (*table.selected(radius, field), *table.others(radius))
    ]
    return markdown(HEADS, lines, 3)


def in_short(table: Table) -> str:
    """Per radius the range over the methods that the paper has too: theirs, ours by its bounds, by ours, with a map."""
    lines = []
    for radius in table.paper.get("radii", ()):
        found = [one for one in table.selected(radius, "ece") if table.theirs("ACCE", one.method, radius) is not None]
        theirs = [f"{table.theirs('ACCE', one.method, radius):.2f}" for one in found]
        ours = [
            [up(rows[one.name].certified_ece) for one in found if one.name in rows]
            for rows in (table.at(track, radius) for track in ("paper", "plain", "recalibrated"))
        ]
        if found:
            lines.append([f"{radius:g}", ", ".join(one.method for one in found), *map(_range, (theirs, *ours))])
    if not lines:
        return ""
    heads = ["R", "methods", "the paper's ACCE", "ours, its bounds", "ours, cdf-cp", "ours, cdf-cp and a map"]
    return f"{IN_SHORT}\n\n{markdown(heads, lines, 2)}"


def _range(values: list[str]) -> str:
    return "–".join(dict.fromkeys((min(values, key=float), max(values, key=float)))) if values else "—"


def headline(table: Table) -> str:
    """Per radius the least certified error after a map of any model that is at least as accurate as the paper's."""
    lines = [line for radius in table.paper.get("radii", ()) if (line := least(table, radius))]
    if not lines:
        some = table.paper and any(row.track == "recalibrated" for row in table.rows)
        return "No model here is as accurate as those that the paper compares.\n" if some else ""
    heads = ["R", "model", "inputs", "CA", "paper's best ACCE", "our CCE", "paper's best CBS", "our CBS",
             "clean Brier at R, no map", "with the map", "clean Brier of all, no map", "with the map"]  # fmt: skip
    return f"{HEADLINE}\n\n{markdown(heads, lines, 2)}"


def least(table: Table, radius: float) -> list[str]:
    """The least CCE after a map at R that raises the clean Brier score by a point at most; empty where none does."""
    place = table.paper["radii"].index(radius)
    low, found = table.paper["CA"][place][0], []
    for row in table.at("recalibrated", radius).values():
        raised = row.brier_all - row.brier_all_before
        if 100 * row.certified_accuracy >= low and raised <= 0.01 and not table.entries[row.entry].train_seed:
            found.append(row)
    if not found:
        return []
    best = min(found, key=lambda row: row.certified_ece)
    # Halves are scored on other inputs than the row without a map is.
    at_radius = table.at("plain", radius)[best.entry].brier if table.entries[best.entry].fitted_on else math.nan
    theirs = [f"{min(line[place] for line in table.paper[name].values()):.2f}" for name in ("ACCE", "CBS")]
    told = (at_radius, best.brier, best.brier_all_before, best.brier_all)
    return [f"{radius:g}", best.entry, str(table.inputs[best.entry]), down(best.certified_accuracy), theirs[0],
            up(best.certified_ece), theirs[1], up(best.certified_brier),
            *("—" if value != value else f"{100 * value:.2f}" for value in told)]  # fmt: skip


def freer(table: Table) -> str:
    """Models at least as accurate as the paper's after maps with a larger limit on the clean Brier score."""
    lines = []
    for place, radius in enumerate(table.paper.get("radii", ())):
        for row in table.at("freer", radius).values():
            if 100 * row.certified_accuracy >= table.paper["CA"][place][0]:
                theirs = min(line[place] for line in table.paper["ACCE"].values())
                clean = (f"{100 * value:.2f}" for value in (row.brier_all_before, row.brier_all))
                lines.append([f"{radius:g}", row.entry, down(row.certified_accuracy), f"{theirs:.2f}",
                              up(table.at("plain", radius)[row.entry].certified_ece), up(row.certified_ece),
                              up(row.certified_brier), *clean])  # fmt: skip
    heads = ["R", "model", "CA", "paper's best ACCE", "our CCE, no map", "with the map", "our CBS with the map",
             "clean Brier of all, no map", "with the map"]  # fmt: skip
    return f"{FREER}\n\n{markdown(heads, lines, 2)}" if lines else ""


def missed(table: Table) -> str:
    """What the paper's approximation misses of the exact value, from the same bounds."""
    gaps = [100 * (row.certified_ece - row.acce) for row in table.rows if not math.isnan(row.acce)]
    if not gaps:
        return ""
    return (
        f"From the same bounds, ADMM's ACCE is below the exact CCE by {statistics.median(gaps):.2f} points in the "
        f"median of {several(len(gaps), 'row')}, and by {min(gaps):.2f} to {max(gaps):.2f}.\n"
    )


def directions(table: Table) -> str:
    """Whether methods order as in the paper, said plainly."""
    told = []
    for radius in sorted({row.radius for row in table.rows}):
        rows = table.at("paper", radius)
        best = {entry.method: entry.name for entry in table.selected(radius, "ece")}
        own = {method: rows[name].certified_ece for method, name in best.items()}
        for method in ("Brier-ACT", "ACCE-ACT"):
            theirs = [table.theirs("ACCE", one, radius) for one in (method, "AT")]
            if method in own and "AT" in own and None not in theirs:
                ours, paper = 100 * (own[method] - own["AT"]), theirs[0] - theirs[1]
                agrees = "as in the paper" if ours * paper > 0 else "**not as in the paper**"
                apart = f"{ours:+.2f} points of CCE (paper {paper:+.2f} of ACCE)"
                draws = list(dict.fromkeys(table.draws[best[one]] for one in (method, "AT")))
                unlike = f" Draws differ: {draws[0]} and {draws[1]}." if len(draws) > 1 else ""
                told.append(f"- R = {radius:g}: {method} − AT is {apart}, {agrees}.{unlike}")
    return "Directions:\n\n" + "\n".join(told) + "\n" if told else ""


def honest(table: Table) -> str:
    """The models that held-out training images choose, at the radii they are chosen for."""
    lines = [
        table.line(radius, name, theirs, score, entry)
        for entry in table.entries.values()
        for name, theirs, score, field in SCORES
        for radius in sorted({row.radius for row in table.rows if row.entry == entry.name})
        if re.search(rf"held-out training images:[^;]*\b{field} at {radius:g}(,|;|$)", entry.chosen)
        and table.at("paper", radius)[entry.name].certified_accuracy > 0
    ]
    if not lines:
        return ""
    told = "Chosen on held-out training images instead, the test inputs unseen (those of them that the pack holds):"
    once = [list(line) for line in dict.fromkeys(map(tuple, lines))]  # models of one method may come to the same
    return f"{told}\n\n{markdown(HEADS, sorted(once, key=lambda line: (float(line[0]), line[1], line[2])), 3)}"


def sources(table: Table) -> str:
    """What each entry is, and what it took."""
    lines = [
        [one.name, one.method, one.settings or "—", _fitted(one), one.device, one.commit,
         f"{one.train_seconds or 0:.0f} s", f"{one.certify_seconds or 0:.0f} s"] for one in table.entries.values()
    ]  # fmt: skip
    heads = ["entry", "method", "settings", "maps fitted on", "device", "commit", "training", "certification"]
    told = "Wall times are of models that ran beside others on the same device."
    return f"{markdown(heads, lines, 6)}\n{told}\n"


def _fitted(entry: Entry) -> str:
    if entry.fitted_on:
        return f"{entry.fitted_on}, clean Brier + {100 * entry.brier_loss:g} at most"
    return "halves" if entry.mapped else "—"


def attacks() -> str:
    """Table 1 on CIFAR-10."""
    told = paper_table("attacks") or {}
    lines = []
    for how, name in ACE.items():
        rows = json.loads((ROOT / "experiments" / "results" / f"{name}.json").read_text(encoding="utf-8"))["paper"]
        for row in rows:
            if row["epsilon"] in (0.0, 8 / 255):
                key = f"{row['eta']} {row['omega']}" if row["epsilon"] else "none"
                paper, ours = told[how][key], 100 * row["adaptive_ece"]
                lines.append([how, key.replace("yhat", "ŷ"), f"{paper:.2f}", f"{ours:.2f}", f"{ours - paper:+.2f}"])
    return markdown(["training", "attack (η, ω)", "paper", "ours", "difference"], lines, 2)


def costs() -> str:
    """What full runs would take, from measured speeds of one H200."""
    speeds = {name: json.loads((ROOT / "bench" / "results" / f"{name}-gpu.json").read_text(encoding="utf-8"))["figures"]
              for name in ("training", "smoothing")}  # fmt: skip
    note = next(one["note"] for one in speeds["training"] if "smoothadv" in one["note"])
    batch, draws, steps, seconds = (float(found) for found in re.search(
        r"batch (\d+), (\d+) draws, T = (\d+).*smoothadv (\d+) ms", note).groups())  # fmt: skip
    passes = batch * draws * (steps + 1) / (seconds / 1000)  # forward and backward, ResNet-110, per second
    rate = next(one["value"] for one in speeds["smoothing"] if re.match("ResNet-110.*per second", one["name"]))
    lines = []
    for name, images, inputs in (("cifar10", 50_000, 10_000), ("cifar100", 50_000, 500), ("svhn", 73_257, 500)):
        every = [one.recipe for first, tuned in study_trials(load_study(name), Path("x")) for one in (first, *tuned)]
        work = sum(one.train.epochs * images * one.objective.draws * (one.objective.steps + 1) for one in every)
        certify = len(every) * inputs * every[0].certify.n / rate
        lines.append([name, str(len(every)), f"{work / passes / 3600:,.0f} h", f"{certify / 3600:,.0f} h"])
    every = [one for first, tuned in study_trials(load_study("imagenet"), Path("x")) for one in (first, *tuned)]
    lines.append(["imagenet", str(len(every)), "not measured", "not measured"])
    return markdown(["study", "models", "training", "certification"], lines, 1)


def page() -> str:
    """The whole page."""
    pack = Pack.read(ROOT / "reference")
    found = [Table(pack, data) for data in dict.fromkeys(one.data for one in pack.entry)]
    found.sort(key=lambda one: not one.paper)
    parts = [HEAD, overview(found)]
    for table in found:
        methods = sorted({one.method for one in table.models.values()})
        parts.append(f"## {table.data}\n\n{len(table.models)} models ({', '.join(methods)}). {training(table)}")
    parts.append(f"## Table 1, CIFAR-10, ε = 8/255: AdaECE under attack\n\n{attacks()}\n{NETWORKS}\n")
    parts.append(f"## What is not run, and what it would take\n\n{SPEEDS}\n\n{costs()}\n{NOT_RUN}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

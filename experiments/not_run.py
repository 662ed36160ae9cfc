"""Table 1 of the paper, and what is not run of the others: what it would take, and what to know of what is run."""

import json
import re
import statistics
from pathlib import Path
from typing import Any

from certcal.studies import load_study, paper_table, study_trials
from experiments.pack_table import Table, markdown

ROOT = Path(__file__).resolve().parents[1]
ACE = {"standard": "ace_table-cifar10-preact-resnet18", "adversarial": "ace_table-cifar10-preact-resnet18-adversarial"}
FULL = "100,000"  # draws, the paper's
NETWORKS = (
    "The networks, PreAct-ResNet-18, are ours, trained for fewer epochs than the paper's; [attacks](attacks.md) says "
    "what follows. The paper's table has ImageNet too, which is not run."
)
SPEEDS = (
    "All of a study as the paper ran it, on one H200: at the speeds of [Measured](measured.md), fashion-mnist at the "
    "mean times of the pack's models:"
)
FINE_TUNED = """\
- Of {data}, {run} of {every} baselines are run. Of {settings} settings of each of {methods} methods the pack has
  what was selected, fine-tuned from {tuned}.{left}"""
SETTINGS = 4  # of each method are tried (--sample)
NOT_RUN = """\
- Baselines were trained for the epochs [listed](reproduction_tables.md), not the paper's 150. The recipes are in
  `experiments/recipes`. The schedule of the learning rate of Fashion-MNIST's entries before commit 8f825f1 was not
  recorded.
{tuned}
- Models fine-tuned from the baseline with σ = 0.12 start from that baseline trained again, but for Finetuned AT 04.
  Those of seed 1 at commit 799b5a7, and of seeds 1 and 2 at commit eb847ff, start from baselines of that seed trained
  again, which are not in the pack. The baseline with σ = 0.5 and ε = 0.5 is trained again with seed 0, for all draws at
  one planned look.
- ACCE-ACT* takes the mean: with the paper's sum it diverged in all trials.
- Of CIFAR-10, ResNet-110 is trained for {trained} epochs with noise and with SmoothAdv at two σ, and fine-tuned for
  {finetuned} by one setting of Brier-ACT and of ACCE-ACT. PreAct-ResNet-18 stands beside it: with SmoothAdv, and with
  consistent copies, then fine-tuned on the certificate. One seed each.
"""


def not_run(tables: list[Table]) -> str:
    """What whole studies would take, and in what those here differ."""
    (images,) = (table for table in tables if table.data == "cifar10")
    epochs: dict[bool, set[str]] = {False: set(), True: set()}  # of models that were fine-tuned, and of the others
    for one in images.models.values():
        if one.network == images.network:
            epochs[bool(one.baseline)].add(one.settings.partition(" ")[0])
    told = NOT_RUN.format(
        tuned=fine_tuned(tables[0]),
        trained=" or ".join(sorted(epochs[False])),
        finetuned=" or ".join(sorted(epochs[True])),
    )
    return f"{SPEEDS}\n\n{costs(tables[0])}\n{told}{few_draws(tables)}"


def fine_tuned(table: Table) -> str:
    """The baselines that models are fine-tuned from, and those that are selected without; what these would take."""
    known = {one.baseline.lower() for one in table.models.values() if one.baseline}
    selected = {
        table.short(one.name).removesuffix("-seed0")
        for radius in table.paper["radii"] for one in table.selected(radius, "ece") if one.method == "AT"
    }  # fmt: skip
    every = [one for one in table.models.values() if one.baseline and one.train_seconds and one.certify_seconds]
    spent = statistics.fmean(one.train_seconds + one.certify_seconds for one in every)
    methods = len({one.method for one in every})
    models = SETTINGS * methods
    left = "".join(
        f"\n  Nothing is fine-tuned from {name}, which is selected too, so differences to AT are large\n"
        f"  there: {models} models, {models * spent / 60:.0f} minutes at the mean times of the others."
        for name in sorted(selected - known)
    )
    found = {table.short(one.name).removesuffix("-seed0") for one in table.models.values()}
    paper = {one.name.lower() for one in load_study(table.data).baseline}
    return FINE_TUNED.format(
        data=table.data, tuned=", ".join(sorted(known)), left=left,
        run=len(paper & found), every=len(paper), settings=SETTINGS, methods=methods,
    )  # fmt: skip


def attacks() -> str:
    """Table 1 on CIFAR-10."""
    told = paper_table("cifar10", "attacks") or {}
    lines = []
    for how, name in ACE.items():
        rows = json.loads((ROOT / "experiments" / "results" / f"{name}.json").read_text(encoding="utf-8"))["paper"]
        for row in rows:
            if row["epsilon"] in (0.0, 8 / 255):
                key = f"{row['eta']} {row['omega']}" if row["epsilon"] else "none"
                paper, ours = told[how][key], 100 * row["adaptive_ece"]
                lines.append([how, key.replace("yhat", "ŷ"), f"{paper:.2f}", f"{ours:.2f}", f"{ours - paper:+.2f}"])
    told = markdown(["training", "attack (η, ω)", "paper", "ours", "difference"], lines, 2)
    start = {line[0]: line for line in lines if line[1] == "none"}
    moves = {
        (line[0], line[1]): [float(line[place]) - float(start[line[0]][place]) for place in (2, 3)]
        for line in lines
        if line[1] != "none"
    }
    unlike = [f"{how} ({attack})" for (how, attack), (paper, ours) in moves.items() if paper * ours < 0]
    clean = start["adversarial"]
    return (
        f"{told}\nAgainst no attack, AdaECE moves the other way than in the paper under {len(unlike)} of {len(moves)} "
        f"attacks: {', '.join(unlike)}. The adversarially trained network has {clean[3]} without an attack, the "
        f"paper's {clean[2]}.\n{NETWORKS}\n"
    )


def costs(fashion: Table) -> str:
    """What full runs would take, from measured speeds of one H200, and from the pack's times."""
    speeds = {name: json.loads((ROOT / "bench" / "results" / f"{name}-gpu.json").read_text(encoding="utf-8"))["figures"]
              for name in ("training", "smoothing")}  # fmt: skip
    note = next(one["note"] for one in speeds["training"] if "smoothadv" in one["note"])
    batch, draws, steps, seconds = (float(found) for found in re.search(
        r"batch (\d+), (\d+) draws, T = (\d+).*smoothadv (\d+) ms", note).groups())  # fmt: skip
    passes = batch * draws * (steps + 1) / (seconds / 1000)  # forward and backward, ResNet-110, per second
    rate = {
        network: next(one["value"] for one in speeds["smoothing"] if re.match(f"{network}.*per second", one["name"]))
        for network in ("ResNet-110", "ResNet-50")
    }
    lines = []
    for name, images, inputs in (("cifar10", 50_000, 10_000), ("cifar100", 50_000, 500), ("svhn", 73_257, 500)):
        every = _models_of(name)
        work = sum(one.train.epochs * images * one.objective.draws * (one.objective.steps + 1) for one in every)
        certify = len(every) * inputs * every[0].certify.n / rate["ResNet-110"]
        lines.append([name, str(len(every)), f"{work / passes / 3600:,.0f} h", f"{certify / 3600:,.0f} h"])
    every = _models_of("imagenet")
    certify = len(every) * 500 * every[0].certify.n / rate["ResNet-50"]
    lines.append(["imagenet", str(len(every)), "not measured", f"{certify / 3600:,.0f} h"])
    every, known = _models_of(fashion.data), [one for one in fashion.models.values() if one.train_seconds]
    spent = sum(one.train_seconds / int(one.settings.split()[0]) for one in known) / len(known)  # an epoch
    certify = statistics.fmean(one.certify_seconds for one in known)
    work = sum(one.train.epochs for one in every) * spent
    lines.append([fashion.data, str(len(every)), f"{work / 3600:,.0f} h", f"{len(every) * certify / 3600:,.0f} h"])
    return markdown(["study", "models", "training", "certification"], lines, 1)


def _models_of(study: str) -> list[Any]:
    """The recipes of all models of a study."""
    return [one.recipe for first, tuned in study_trials(load_study(study), Path("x")) for one in (first, *tuned)]


def few_draws(tables: list[Table]) -> str:
    """Which entries have fewer draws than the paper's."""
    named = [
        f"{name} ({table.draws[name]})" for table in tables if table.paper for name in table.models
        if table.draws[name] != FULL
    ]  # fmt: skip
    return f"- Certified with fewer draws than {FULL}, for some inputs or all: {', '.join(named)}.\n"

"""Table 1 of the paper, and what is not run of the others: what it would take, and what to know of what is run."""

import json
import math
import re
import statistics
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from certcal.errors import several
from certcal.studies import load_study, paper_table, study_trials
from experiments.every_setting import room
from experiments.pack_table import FULL, Table, epochs_of, markdown, stem_of

ROOT = Path(__file__).resolve().parents[1]
ACE = {"standard": "ace_table-cifar10-preact-resnet18", "adversarial": "ace_table-cifar10-preact-resnet18-adversarial"}
NETWORKS = (
    "The networks, PreAct-ResNet-18, are ours, trained for {epochs} epochs; [attacks](attacks.md) says what follows. "
    "The paper's table has ImageNet too, which is not run."
)
SPEEDS = (
    "All models of a study on one {device}: its baselines and the methods that the paper's table of that data has, and "
    "beside them the study's other methods. At the speeds of [Measured](measured.md), fashion-mnist at the mean times "
    "of the pack's models:"
)
NOTED = "(noted when it was run)"  # behind what no file records
RECIPE = ROOT / "experiments" / "recipes"
SAMPLE = 4  # settings of each method that are tried, where the recipe of a short study does not say


def not_run(tables: list[Table]) -> str:
    """What whole studies would take, and in what those here differ."""
    first, others = tables[0], [table for table in tables[1:] if table.paper]
    count, place = len(fewer(tables)), "reproduction_tables.md#certified-with-fewer-draws"
    told = [
        "Baselines were trained for the epochs [listed](reproduction_tables.md#where-each-comes-from), not for the "
        f"{load_study(first.data).train['epochs']} of the study. The recipes are in `experiments/recipes`. The "
        f"schedule of the learning rate of Fashion-MNIST's entries before commit 8f825f1 was not recorded {NOTED}.",
        fine_tuned(first), starts(first), again(first), as_mean(first.data), *map(what_is_run, others),
        f"{several(count, 'entry', 'entries')} of the paper's data with [fewer draws]({place}) than {FULL}, for some "
        "inputs or all."
        if count else "",
    ]  # fmt: skip
    lines = "".join(f"- {line}\n" for line in told if line)
    device = Counter(one.device for one in first.models.values()).most_common(1)[0][0]
    return f"{SPEEDS.format(device=device)}\n\n{costs(first)}\n{lines}"


def fine_tuned(table: Table) -> str:
    """The baselines that models are fine-tuned from, and those that are selected without; what these would take."""
    known = {one.baseline.lower() for one in table.models.values() if one.baseline}
    selected = {
        table.short(stem_of(one.name))
        for radius in table.paper["radii"] for one in table.selected(radius, "ece") if one.method == "AT"
    }  # fmt: skip
    every = [one for one in table.models.values() if one.baseline and one.train_seconds and one.certify_seconds]
    spent = statistics.fmean(one.train_seconds + one.certify_seconds for one in every) if every else math.nan
    methods, settings = len({one.method for one in every}), _sample(table.data)
    left = "".join(
        f" Nothing is fine-tuned from {name}, which is selected too: {settings * methods} models, "
        f"{settings * methods * spent / 60:.0f} minutes at the mean times of the others."
        for name in sorted(selected - known)
    )
    found = {table.short(stem_of(one.name)) for one in table.models.values()}
    paper = {one.name.lower() for one in load_study(table.data).baseline}
    tuned = ", ".join(sorted(known))
    return (
        f"Of {table.data}, {len(paper & found)} of {len(paper)} baselines are run. Of {settings} settings of each of "
        f"{several(methods, 'method')} the pack has what was selected, fine-tuned from {tuned}.{left}"
        f"{room(table)}"
    )


def _sample(data: str) -> int:
    """How many settings of each method the short study of a data set tried."""
    path = RECIPE / f"{data}-short.toml"
    found = re.search(r"--sample (\d+)", path.read_text(encoding="utf-8")) if path.is_file() else None
    return int(found[1]) if found else SAMPLE


def starts(table: Table) -> str:
    """How many fine-tuned models have a baseline of their seed and commit in the pack, and which have none."""
    tuned, none = [one for one in table.models.values() if one.baseline], Counter[tuple[str, int | None]]()
    for one in tuned:
        stem = f"{table.data}-{one.baseline}".lower()
        commits = {other.commit for other in table.models.values()
                   if stem_of(other.name) == stem and other.train_seed == one.train_seed}  # fmt: skip
        none.update([] if one.commit in commits else [(one.baseline.lower(), one.train_seed)])
    if not none:
        return ""
    names = defaultdict(list)
    for (name, seed), count in sorted(none.items(), key=str):
        names[name].append(f"{count} of seed {seed}")
    listed = "; ".join(f"{name}, {', '.join(counts)}" for name, counts in names.items())
    return (
        f"Of {len(tuned)} fine-tuned models, {len(tuned) - none.total()} have a baseline of their seed and commit in "
        f"the pack. The others, here by baseline, may start from a training of it that the pack has not: {listed}."
    )


def again(table: Table) -> str:
    """Which models the pack has of two trainings with one seed."""
    names = dict.fromkeys(
        table.short(stem_of(one.name)) for one in table.models.values() if one.name.endswith("-again")
    )
    return f"Trained twice with one seed, to other weights: {', '.join(names)}." if names else ""


def as_mean(data: str) -> str:
    """Where the study takes the mean in ACCE-ACT*, that it does."""
    methods = {one.name: one.objective for one in load_study(data).method}
    if methods.get("ACCE-ACT*", {}).get("reduction") != "mean":
        return ""
    return f"ACCE-ACT* takes the mean: with the paper's sum it diverged in all trials {NOTED}."


def what_is_run(table: Table) -> str:
    """The methods that are run of a data set, by network, with σ and epochs, in a line."""
    told = []
    for network in sorted({one.network for one in table.models.values()}, key=lambda one: one != table.network):
        own = [one for one in sorted(table.models.values(), key=table.place) if one.network == network]
        parts = []
        for method, epochs in dict.fromkeys((one.method, epochs_of(one)) for one in own):
            sigmas = sorted({table.sigma[one.name] for one in own if (one.method, epochs_of(one)) == (method, epochs)})
            parts.append(f"{method} at σ = {' and '.join(f'{one:g}' for one in sigmas)} ({epochs or '?'} epochs)")
        told.append(f"{network} by {', '.join(parts)}")
    seeds = ", ".join(sorted({"?" if one.train_seed is None else str(one.train_seed) for one in table.models.values()}))
    return f"What is run of {table.data}, with seed {seeds}: {'; '.join(told)}."


def attacks() -> str:
    """Table 1 on CIFAR-10."""
    told = paper_table("cifar10", "attacks") or {}
    lines, epochs = [], []
    for how, name in ACE.items():
        made = json.loads((ROOT / "experiments" / "results" / f"{name}.json").read_text(encoding="utf-8"))
        epochs.append(str(made["settings"]["epochs"]))
        for row in made["paper"]:
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
        f"paper's {clean[2]}.\n{NETWORKS.format(epochs=' and '.join(epochs))}\n"
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
        lines.append([name])
        for every in _models_of(name):
            work = sum(one.train.epochs * images * one.objective.draws * (one.objective.steps + 1) for one in every)
            certify = sum(inputs * one.certify.n for one in every) / rate["ResNet-110"]
            lines[-1] += [str(len(every)), f"{work / passes / 3600:,.0f} h", f"{certify / 3600:,.0f} h"]
    lines.append(["imagenet"])
    for every in _models_of("imagenet"):
        certify = sum(500 * one.certify.n for one in every) / rate["ResNet-50"]
        lines[-1] += [str(len(every)), "not measured", f"{certify / 3600:,.0f} h"]
    known = [(one.train_seconds / epochs, one.certify_seconds) for one in fashion.models.values()
             if one.train_seconds and one.certify_seconds and (epochs := epochs_of(one))]  # fmt: skip
    epoch, certify = (statistics.fmean(times) for times in zip(*known, strict=True))
    lines.append([fashion.data])
    for every in _models_of(fashion.data):
        work = epoch * sum(one.train.epochs for one in every)
        lines[-1] += [str(len(every)), f"{work / 3600:,.0f} h", f"{len(every) * certify / 3600:,.0f} h"]
    heads = ["study", "the paper's models", "training", "certification", "other models", "training", "certification"]
    return markdown(heads, lines, 1)


def _models_of(study: str) -> tuple[list[Any], list[Any]]:
    """The recipes of a study's baselines and of methods in the paper's table of that data; those of other methods."""
    loaded: tuple[list[Any], list[Any]] = [], []
    paper = (paper_table(study) or {}).get("ACCE", {})
    for first, tuned in study_trials(load_study(study), Path("x")):
        loaded[0].append(first.recipe)
        for one in tuned:
            loaded[one.method not in paper].append(one.recipe)
    return loaded


def few_draws(tables: list[Table]) -> str:
    """Which entries have fewer draws than the paper's, in lines."""
    lines = [[f"`{name}`", draws] for name, draws in fewer(tables).items()]
    return f"Fewer than {FULL}, for some inputs or all:\n\n{markdown(['entry', 'draws'], lines, 1)}"


def fewer(tables: list[Table]) -> dict[str, str]:
    """The draws of entries that have fewer than the paper's."""
    every = {name: table.draws[name] for table in tables if table.paper for name in table.models}
    return {name: draws for name, draws in every.items() if draws != FULL}

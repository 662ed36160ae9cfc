"""Write docs/reproduction.md: the paper's numbers, ours from the reference pack, their difference, and what is not run.

    python -m experiments.reproduction

Every number comes from reference/, experiments/results, bench/results or the paper's tables in paper.toml.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from certcal.evaluation import Outcome, Rounding, select
from certcal.report import percent
from certcal.studies import Entry, Pack, ReferenceRow, load_study, paper_table, study_trials

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
    "Ours are, per method, the least error among entries of the pack within 3 points of the best CA at R, selected on "
    "the inputs reported on, as in the paper; so the least of many errs low. A map is chosen and fitted on one half of "
    "the inputs and scored on the other."
)
NETWORKS = (
    "The networks, PreAct-ResNet-18, are ours, trained for fewer epochs than the paper's. The directions under the "
    "strongest attacks differ; [attacks](attacks.md) says why."
)
SPEEDS = "All of a study as the paper ran it, on one H200 at the speeds of [Measured](measured.md):"
NOT_RUN = (
    "Baselines of the pack were trained for the epochs listed, not the paper's 150. Further baselines, settings and "
    "seeds of Fashion-MNIST are not run yet: a single seed says nothing of the spread. No ResNet-110 was trained."
)
HEADS = ["R", "metric", "method", "CA", "paper", "ours, paper's bounds", "difference", "ours, cdf-cp",
         "ours, cdf-cp and a map", "draws", "seed"]  # fmt: skip


class Table:
    """The rows of a pack that are about one data set."""

    def __init__(self, pack: Pack, data: str) -> None:
        self.entries = {one.name: one for one in pack.entry if one.data == data}
        self.rows = [row for row in pack.rows() if row.entry in self.entries]
        self.draws = {one.name: int(pack.evidence(one).draws.max()) for one in self.entries.values()}
        self.data, self.paper = data, paper_table(data) or {}

    def at(self, track: str, radius: float) -> dict[str, ReferenceRow]:
        """Rows of a track and radius, by entry."""
        return {row.entry: row for row in self.rows if (row.track, row.radius) == (track, radius)}

    def theirs(self, name: str, method: str, radius: float) -> Any:
        """The paper's number; None where it has none."""
        line = self.paper.get(name, {}).get(method)
        return None if line is None else dict(zip(map(float, self.paper["radii"]), line, strict=True)).get(radius)

    def selected(self, radius: float, score: str) -> Iterator[Entry]:
        """Per method the entry that the paper's selection takes on the test inputs, by the paper's bounds."""
        own = {row.entry: row for row in self.at("paper", radius).values() if row.certified_accuracy > 0}
        made = [
            Outcome(self.entries[name].method, name, radius, row.certified_accuracy, row.certified_ece,
                    row.certified_brier) for name, row in own.items()
        ]  # fmt: skip
        if made:
            yield from (self.entries[one.model] for one in getattr(select(made, radius=radius), score).values())

    def line(self, radius: float, name: str, theirs: str, score: str, entry: Entry) -> list[str]:
        """Theirs, ours with the paper's bounds, with ours, with a map; and where it comes from."""
        rows = [self.at(track, radius).get(entry.name) for track in ("paper", "plain", "recalibrated")]
        ours = [None if row is None else getattr(row, score) for row in rows]
        paper, first = self.theirs(theirs, entry.method, radius), rows[0]
        apart = "—" if paper is None or ours[0] is None else f"{100 * ours[0] - paper:+.2f}"
        accuracy = "—" if first is None else _down(first.certified_accuracy)
        quoted = "—" if paper is None else f"{paper:.2f}"
        about = [f"{self.draws[entry.name]:,}", str(entry.train_seed)]
        return [f"{radius:g}", name, entry.method, accuracy, quoted, _up(ours[0]), apart, *map(_up, ours[1:]), *about]


def _up(value: float | None) -> str:
    return "—" if value is None or value != value else percent(value, Rounding.UP).removesuffix(" %")


def _down(value: float) -> str:
    return percent(value, Rounding.DOWN).removesuffix(" %")


def markdown(heads: list[str], lines: list[list[str]], left: int) -> str:
    """A table, its first columns to the left."""
    rule = ["---"] * left + ["---:"] * (len(heads) - left)
    return "".join(f"| {' | '.join(line)} |\n" for line in (heads, rule, *lines))


def training(table: Table) -> str:
    """The selected models of each method at each radius, then what each entry took."""
    radii = sorted({row.radius for row in table.rows})
    lines = [
        table.line(radius, name, theirs, score, entry)
        for radius in radii
        for name, theirs, score, field in SCORES
        for entry in table.selected(radius, field)
    ]
    bands = ", ".join(f"{low}–{high} at R = {radius:g}" for radius, (low, high) in
                      zip(table.paper.get("radii", ()), table.paper.get("CA", ()), strict=True))  # fmt: skip
    compared = f"The paper compares models with a CA of {bands}." if bands else "It is not in the paper."
    parts = (headline(table), markdown(HEADS, lines, 3), directions(table), honest(table), sources(table))
    return f"{compared} {SELECTED}\n\n" + "\n".join(part for part in parts if part)


def headline(table: Table) -> str:
    """Per radius the least certified error after a map of any model that is at least as accurate as the paper's."""
    lines = []
    for radius, (low, _) in zip(table.paper.get("radii", ()), table.paper.get("CA", ()), strict=True):
        rows = [
            row for row in table.at("recalibrated", radius).values()
            if 100 * row.certified_accuracy >= low and row.brier_all <= row.brier_all_before + 0.01
        ]  # fmt: skip
        if rows:
            best = min(rows, key=lambda row: row.certified_ece)
            theirs = [min(line[table.paper["radii"].index(radius)] for line in table.paper[name].values())
                      for name in ("ACCE", "CBS")]  # fmt: skip
            clean = [f"{100 * value:.2f}" for value in (best.brier_all_before, best.brier_all)]
            lines.append([f"{radius:g}", best.entry, _down(best.certified_accuracy), f"{theirs[0]:.2f}",
                          _up(best.certified_ece), f"{theirs[1]:.2f}", _up(best.certified_brier), *clean])  # fmt: skip
    heads = ["R", "model", "CA", "paper's best ACCE", "our CCE", "paper's best CBS", "our CBS", "clean Brier, no map",
             "with the map"]  # fmt: skip
    told = (
        "On held-out halves after a map, the least CCE of models at least as accurate as those that the paper "
        "compares, whose clean Brier score the map raises by at most a point:"
    )
    return f"{told}\n\n{markdown(heads, lines, 2)}" if lines else ""


def directions(table: Table) -> str:
    """Whether methods order as in the paper, said plainly."""
    told = []
    for radius in sorted({row.radius for row in table.rows}):
        rows = table.at("paper", radius)
        own = {entry.method: rows[entry.name].certified_ece for entry in table.selected(radius, "ece")}
        for method in ("Brier-ACT", "ACCE-ACT"):
            theirs = [table.theirs("ACCE", one, radius) for one in (method, "AT")]
            if method in own and "AT" in own and None not in theirs:
                ours, paper = 100 * (own[method] - own["AT"]), theirs[0] - theirs[1]
                agrees = "as in the paper" if ours * paper > 0 else "**not as in the paper**"
                apart = f"{ours:+.2f} points of CCE (paper {paper:+.2f} of ACCE)"
                told.append(f"- R = {radius:g}: {method} − AT is {apart}, {agrees}.")
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
    return f"{told}\n\n{markdown(HEADS, sorted(lines, key=lambda line: (float(line[0]), line[1], line[2])), 3)}"


def sources(table: Table) -> str:
    """What each entry is, and what it took."""
    lines = [
        [one.name, one.method, one.settings or "—", one.device, one.commit, f"{one.train_seconds or 0:.0f} s",
         f"{one.certify_seconds or 0:.0f} s"] for one in table.entries.values()
    ]  # fmt: skip
    heads = ["entry", "method", "settings", "device", "commit", "training", "certification"]
    told = "Wall times are of models that ran beside others on the same device."
    return f"{markdown(heads, lines, 5)}\n{told}\n"


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
    parts = [HEAD]
    for table in sorted(found, key=lambda one: not one.paper):
        methods = sorted({one.method for one in table.entries.values()})
        parts.append(f"## {table.data}\n\n{len(table.entries)} models ({', '.join(methods)}). {training(table)}")
    parts.append(f"## Table 1, CIFAR-10, ε = 8/255: AdaECE under attack\n\n{attacks()}\n{NETWORKS}\n")
    parts.append(f"## What is not run, and what it would take\n\n{SPEEDS}\n\n{costs()}\n{NOT_RUN}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

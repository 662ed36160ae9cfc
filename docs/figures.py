"""Draws the figures of the documentation into docs/images.

The tutorial's own code makes the model and the evidence, so that the figures show what its reader has.
"""

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import certcal

DOCS = Path(__file__).parent.resolve()
CORRECT, INCORRECT, NEUTRAL = "#1b7a8c", "#d1495b", "#8a8f98"
# The same bytes for the same picture: no dates, no random identifiers.
plt.rcParams |= {"svg.hashsalt": "certcal", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}


def run_tutorial() -> dict[str, Any]:
    """What the tutorial's blocks define, and its figure beside ours."""
    names: dict[str, Any] = {}
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for block in re.findall(r"```python\n(.*?)```", (DOCS / "tutorial.md").read_text(), flags=re.DOTALL):
                exec(block, names)
        finally:
            os.chdir(here)
    save(names["figure"], "tutorial")
    return names


def draw_certificate(evidence: certcal.Evidence) -> None:
    """One input: its confidence under noise, and how far it can move with the radius."""
    radii = np.linspace(0, 0.6, 61)
    chosen = int(np.argmin(np.abs(evidence.confidence - 0.9)))
    one = evidence.select(np.array([chosen]))
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.7), layout="constrained")

    share = one.histogram[0].reshape(64, 4).sum(axis=1) / one.draws[0]
    edges = one.thresholds[::4]
    left.stairs(share / np.diff(edges), edges, fill=True, color=CORRECT, alpha=0.45)
    left.axvline(one.confidence[0], color="black", linewidth=1.4)
    left.annotate(
        f"confidence {one.confidence[0]:.2f}: the mean", (one.confidence[0], 0.86), xytext=(-8, 0), ha="right",
        xycoords=("data", "axes fraction"), textcoords="offset points",
    )  # fmt: skip
    left.set(xlabel="probability of the predicted class", ylabel="density, log scale", xlim=(0, 1), yscale="log")
    left.set_title(f"{one.draws[0]:,} noisy copies of one input".replace(",", " "))

    for method, style in (("cdf-cp", {}), ("cdf", {"linestyle": "--"}), ("standard", {"linestyle": ":"})):
        own = certcal.certificates.confidence_bounds_at(one, radii=radii, alpha=0.001, method=method)
        lower, upper = (np.array([getattr(bounds, side)[0] for bounds in own]) for side in ("lower", "upper"))
        if method == "cdf-cp":
            right.fill_between(radii, lower, upper, color=CORRECT, alpha=0.3, linewidth=0)
        for side in (lower, upper):
            right.plot(radii, side, color=CORRECT, linewidth=1.3, label=method if side is lower else None, **style)
    radius = own[0].certified_radius[0]
    right.axvline(radius, color=INCORRECT, linewidth=1.2)
    right.annotate(f"class certified\nup to R = {radius:.2f}", (radius, 0.04), xytext=(-6, 0), ha="right",
                   xycoords=("data", "axes fraction"), textcoords="offset points", color=INCORRECT)  # fmt: skip
    right.plot(0, one.confidence[0], "o", color="black", markersize=4)
    right.set(xlabel="R, how far the input may move", ylabel="confidence", ylim=(0, 1.01), xlim=(-0.01, 0.6))
    right.set_title("where its confidence provably stays")
    right.legend(frameon=False, loc="lower left")
    save(figure, "certificate")


def draw_small_worst_case() -> None:
    """Twelve inputs and five bins: where the worst case sends each of them."""
    rng = np.random.default_rng(4)
    clean = np.sort(rng.uniform(0.3, 0.95, 12))
    lower = np.maximum(clean - rng.uniform(0.1, 0.28, 12), 0.0)
    upper = np.minimum(clean + rng.uniform(0.05, 0.2, 12), 1.0)
    correct = rng.random(12) < clean
    worst = certcal.certified_calibration_error(lower, upper, correct, n_bins=5)
    before = certcal.expected_calibration_error(clean, correct, n_bins=5)

    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    place = np.arange(12)
    for edge in np.arange(6) / 5:
        axes.axhline(edge, color=NEUTRAL, linewidth=0.7, linestyle=(0, (4, 4)))
    colours = np.where(correct, CORRECT, INCORRECT)
    axes.bar(place, upper - lower, 0.62, lower, color=colours, alpha=0.32)
    axes.plot(place, clean, "o", color="white", markeredgecolor="black", markersize=5, label="as the model is")
    axes.hlines(worst.confidence, place - 0.31, place + 0.31, color="black", linewidth=2.2, label="at the worst case")
    for x, start, end in zip(place, clean, worst.confidence, strict=True):
        if abs(end - start) > 0.05:
            axes.annotate("", (x, end), (x, start), arrowprops={"arrowstyle": "->", "color": "black", "shrinkA": 4})
    for box, text in ((CORRECT, "correct"), (INCORRECT, "incorrect")):
        axes.bar(0, 0, color=box, alpha=0.32, label=text)
    for row, sign in enumerate(worst.signs):
        if (worst.bins == row).any():
            text = "under-confident" if sign > 0 else "over-confident"
            axes.text(11.6, row / 5 + 0.1, text, va="center", color=CORRECT if sign > 0 else INCORRECT)
    axes.set(xlim=(-0.6, 13.6), ylim=(0, 1.01), ylabel="confidence, in five bins", xticks=[], xlabel="twelve inputs")
    axes.set_title(f"ECE {before:.0%} without attack, {worst.value:.0%} at the worst case")
    axes.legend(frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.46, -0.06))
    save(figure, "small_worst_case")


def save(figure: Any, name: str) -> None:
    figure.savefig(DOCS / "images" / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    draw_certificate(run_tutorial()["evidence"])
    draw_small_worst_case()

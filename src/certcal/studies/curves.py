"""Figures of the paper that are drawn from evidence: curves over the radius, ADMM's convergence, rank correlations."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals, average_certified_radius, confidence_bounds_at
from certcal.errors import InputError
from certcal.evaluation import evaluate, reliability_at, row_at
from certcal.report import INCORRECT, plot_certified_boxes, plot_reliability, prepare_boxes
from certcal.runs import RunFolder
from certcal.smoothing import Evidence, load_evidence
from certcal.worstcase import Solution, certified_calibration_error
from certcal.worstcase import approximate_certified_calibration_error as approximate

Panels = list[Callable[[Any], Any]]  # of a figure, side by side: each draws on matplotlib's axes
Solvers = dict[str, Callable[[ConfidenceIntervals], Solution]]

ALPHA = 0.001
PAPER: dict[str, Any] = {"alpha": ALPHA, "method": "standard", "split_alpha": False}  # Sec. 5.1 and 5.2
# App. G.3: one setting of ADMM for all; the grid of 16; and the dECE.
ONE_ADMM: dict[str, Any] = {
    "confidence_rates": 0.001, "assignment_rates": 0.001, "rho_factors": 1.004, "gradient_clip": 1.0, "steps": 3000
}  # fmt: skip
GRID: dict[str, Any] = {"steps": 3000}
DECE: dict[str, Any] = {"steps": 1000}
MOST = 2000  # certified inputs, as the paper takes


def _radii(evidence: Evidence) -> list[float]:
    """The paper's radii up to four σ, where nothing is certified any more."""
    known = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0)
    return [radius for radius in known if radius <= 4 * evidence.header.sigma]


def _each(sources: Sequence[Path]) -> Iterator[tuple[str, Evidence]]:
    """The evidence of run folders, by the name of its σ."""
    for folder in sources:
        own = load_evidence(RunFolder.existing(folder).evidence)
        yield f"σ = {own.header.sigma:g}", own


def _certified(bounds: Sequence[ConfidenceIntervals]) -> list[ConfidenceIntervals]:
    """Those at radii at which something is certified, each cut to the certified inputs."""
    return [own.select(np.flatnonzero(own.certified)[:MOST]) for own in bounds if own.certified.any()]


def brier(sources: Sequence[Path], *, same_inputs: bool = False) -> Panels:
    """Certified Brier scores over R, one curve for each σ; of the same inputs at all radii, if so asked."""

    def draw(ax: Any) -> Any:
        for label, evidence in _each(sources):
            bounds = confidence_bounds_at(evidence, radii=_radii(evidence), **PAPER)
            bounds = [own for own in bounds if own.certified.any()]
            if same_inputs:
                bounds = [own.select(bounds[-1].certified) for own in bounds]
            _curve(ax, label, bounds, [row_at(own, metrics=("certified_brier",)).certified_brier for own in bounds])
        return _finish(ax, "R", "certified Brier score")

    return [draw]


_METHODS: Solvers = {
    "exact": certified_calibration_error,
    "ADMM": lambda bounds: approximate(bounds, method="admm", **ONE_ADMM),
    "dECE": lambda bounds: approximate(bounds, method="dece", **DECE),
    "Brier": lambda bounds: approximate(bounds, method="brier"),
}


def approximations(sources: Sequence[Path]) -> Panels:
    """The paper's approximations of the certified calibration error and the exact value over R, a panel for each σ."""

    def panel(label: str, evidence: Evidence, ax: Any) -> Any:
        bounds = _certified(confidence_bounds_at(evidence, radii=_radii(evidence), **PAPER))
        for method, solve in _METHODS.items():
            _curve(ax, method, bounds, [solve(own).value for own in bounds], "k--" if method == "exact" else "o-")
        return _finish(ax, "R", "calibration error", title=label)

    return [partial(panel, *one) for one in _each(sources)]


def widths(sources: Sequence[Path]) -> Panels:
    """Mean widths of the confidence intervals over R for each certificate, a panel for each σ."""

    def panel(label: str, evidence: Evidence, ax: Any) -> Any:
        for method, split in (("standard", False), ("cdf", False), ("cdf-cp", True)):
            bounds = confidence_bounds_at(
                evidence, radii=_radii(evidence), alpha=ALPHA, method=method, split_alpha=split
            )
            _curve(ax, method, bounds, [float((own.upper - own.lower).mean()) for own in bounds])
        return _finish(ax, "R", "mean width of the interval", title=label)

    return [partial(panel, *one) for one in _each(sources)]


def starts(sources: Sequence[Path]) -> Panels:
    """What ADMM and the dECE reach from the clean and from the Brier confidences."""
    ways: Solvers = {
        f"{label}, {start}": partial(approximate, method=label.lower(), starts=start, **settings)
        for label, settings in (("ADMM", ONE_ADMM), ("dECE", DECE))
        for start in ("clean", "brier")
    }
    return [partial(_side_by_side, sources, ways)]


def best_of_search(sources: Sequence[Path]) -> Panels:
    """The best of ADMM's grid of 16 runs, of the dECE's starts and of the Brier confidences, and the exact value."""
    return [partial(_side_by_side, sources, _METHODS | {"ADMM": partial(approximate, method="admm", **GRID)})]


def single_admm(sources: Sequence[Path]) -> Panels:
    """One setting of ADMM against the best of the dECE's starts."""
    return [partial(_side_by_side, sources, {key: _METHODS[key] for key in ("ADMM", "dECE")})]


def _side_by_side(sources: Sequence[Path], ways: Solvers, ax: Any) -> Any:
    """What each way finds for every run at four radii."""
    shown: dict[str, list[float]] = {key: [] for key in ways}
    ticks: list[str] = []
    for label, evidence in _each(sources):
        radii = [evidence.header.sigma * step for step in (0.25, 0.5, 1.0, 2.0)]
        for own in _certified(confidence_bounds_at(evidence, radii=radii, **PAPER)):
            ticks.append(f"{label}\nR = {own.radius:g}")
            for key, solve in ways.items():
                shown[key].append(solve(own).value)
    width = 0.8 / len(shown)
    for place, (key, values) in enumerate(shown.items()):
        ax.bar(np.arange(len(values)) + (place - (len(shown) - 1) / 2) * width, values, width, label=key)
    ax.set_xticks(range(len(ticks)), ticks, fontsize=7)
    ax.set_ylabel("calibration error")
    ax.legend(frameon=False)
    return ax


def _admm(sources: Sequence[Path]) -> dict[str, Any]:
    """Every step of one run of ADMM at R = σ, on at most 2000 certified inputs."""
    if len(sources) != 1:
        raise InputError.expected("from", "name one run folder", f"{len(sources)} of them")
    _, evidence = next(_each(sources))
    (own,) = _certified(confidence_bounds_at(evidence, radii=[evidence.header.sigma], **PAPER)) or (None,)
    if own is None:
        raise InputError.expected("from", "hold inputs that are certified at R = σ", str(sources[0]))
    return dict(approximate(own, method="admm", starts="clean", diagnostics=True, **ONE_ADMM).stats)


def lagrangian(sources: Sequence[Path]) -> Panels:
    """The Lagrangian, its parts, and the relaxed and projected error over ADMM's steps."""
    history = _admm(sources)["history"]
    keys = ("lagrangian", "relaxed_error", "projected_error", "box", "sphere", "confidence", "unique", "valid")
    return [partial(_steps, history, [key]) for key in keys]


def constraints(sources: Sequence[Path]) -> Panels:
    """How far ADMM is from each constraint over its steps, in ℓ1 and ℓ∞."""
    history = _admm(sources)["history"]
    kinds = ("confidence", "binary", "unique", "valid")
    return [partial(_steps, history, [f"{one}_distance_1", f"{one}_distance_inf"]) for one in kinds]


def assignment(sources: Sequence[Path]) -> Panels:
    """The first 150 entries of ADMM's assignment at some of its steps."""
    taken = _admm(sources)["snapshots"]

    def panel(step: int, ax: Any) -> Any:
        entries = np.asarray(taken[step]).reshape(-1)[:150]
        ax.bar(np.arange(len(entries)), entries, 1.0)
        return _finish(ax, "entry of a", "value", bottom=None, title=f"step {step}")

    return [partial(panel, step) for step in taken]


def _steps(history: dict[str, Any], keys: Sequence[str], ax: Any) -> Any:
    for key in keys:
        ax.plot(np.asarray(history[key])[:, 0], label=key.replace("_", " "))
    return _finish(ax, "step", "", bottom=None)


def trade_off(sources: Sequence[Path]) -> Panels:
    """Spearman correlations over all models of a study between CA, ACR, CBS and CCE, over R."""
    from scipy.stats import spearmanr

    table = trade_off_values(sources)

    def draw(ax: Any) -> Any:
        for one, other in combinations(("CA", "ACR", "CBS", "CCE"), 2):
            line = [
                spearmanr(values[one], values[other]).statistic
                if min(np.ptp(values[one]), np.ptp(values[other])) > 0
                else np.nan
                for values in table.values()
            ]
            ax.plot(list(table), line, "o-", markersize=3.5, label=f"{one} and {other}")
        ax.axhline(0, color="grey", linewidth=0.8)
        ax.set_ylim(-1.05, 1.05)
        return _finish(ax, "R", "rank correlation", bottom=None)

    return [draw]


def trade_off_values(sources: Sequence[Path]) -> dict[float, dict[str, list[float]]]:
    """Per radius the four metrics of all models that certify any input there, from the evidence below a study."""
    paths = sorted(path for folder in sources for path in Path(folder).rglob("evidence.parquet"))
    if len(paths) < 3:
        raise InputError.expected("from", "hold the evidence of at least three models", f"{len(paths)}")
    table: dict[float, dict[str, list[float]]] = {}
    for path in paths:
        evidence = load_evidence(path)
        for bounds in confidence_bounds_at(evidence, radii=_radii(evidence)[1:], alpha=ALPHA, method="cdf"):
            row = row_at(bounds, metrics=("certified_accuracy", "certified_brier", "certified_ece"))
            if bounds.certified.any():
                values = table.setdefault(bounds.radius, {key: [] for key in ("CA", "ACR", "CBS", "CCE")})
                values["CA"].append(row.certified_accuracy)
                values["ACR"].append(average_certified_radius(bounds.certified_radius, bounds.correct))
                values["CBS"].append(row.certified_brier)
                values["CCE"].append(row.certified_ece)
    return {radius: values for radius, values in sorted(table.items()) if len(values["CA"]) > 2}


def motivation(sources: Sequence[Path]) -> Panels:
    """Certified confidences as boxes, and reliability without an attack and at the worst case, at R = σ / 2."""
    _, evidence = next(_each(sources))
    report = evaluate(evidence, radii=[evidence.header.sigma / 2], alpha=ALPHA)
    found = reliability_at(report, 0)
    if found is None:
        raise InputError.expected("from", "hold inputs that are certified at R = σ / 2", str(sources[0]))
    clean, worst = found
    at_worst = f"worst case: ECE {worst.error:.1%}"
    return [
        lambda ax: plot_certified_boxes(prepare_boxes(report, 0), ax=ax),
        lambda ax: plot_reliability(clean, ax=ax, title=f"clean: ECE {clean.error:.1%}"),
        lambda ax: plot_reliability(worst, ax=ax, title=at_worst, colour=INCORRECT, interval=False),
    ]


def pathological(sources: Sequence[Path]) -> Panels:
    """Accuracy and calibration error say nothing of each other: three data sets of one confidence each."""

    def draw(ax: Any) -> Any:
        for place, (z, accuracy) in enumerate(((0.5, 1.0), (0.5, 0.0), (1.0, 1.0)), 1):
            ax.plot([z, accuracy], [place, place], color=INCORRECT)
            ax.plot(accuracy, place, "o", markerfacecolor="none", markeredgecolor="black", markersize=9)
            ax.plot(z, place, "o", color="black", markersize=5)
        ax.set_yticks([1, 2, 3], ["accuracy 1, ECE 0.5", "accuracy 0, ECE 0.5", "accuracy 1, ECE 0"])
        ax.set(xlabel="confidence (dot) and accuracy (circle)", ylim=(0.5, 3.5), xlim=(-0.05, 1.05))
        return ax

    return [draw]


def _curve(
    ax: Any, label: str, bounds: Sequence[ConfidenceIntervals], values: Sequence[float], style: str = "o-"
) -> None:
    ax.plot([own.radius for own in bounds], values, style, markersize=3.5, label=label)


def _finish(ax: Any, x: str, y: str, *, bottom: float | None = 0.0, title: str = "") -> Any:
    ax.set(xlabel=x, ylabel=y, title=title)
    if bottom is not None:
        ax.set_ylim(bottom=bottom)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize=8)
    return ax

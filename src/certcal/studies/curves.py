"""Figures of the paper that are drawn from evidence: curves over the radius, ADMM's convergence, rank correlations."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals, confidence_bounds_at
from certcal.errors import InputError, several
from certcal.evaluation import evaluate, reliability_at, row_at
from certcal.report import INCORRECT, plot_certified_boxes, plot_reliability, prepare_boxes
from certcal.smoothing import Evidence
from certcal.studies.boards import draws_of
from certcal.studies.reference_rows import as_fixed
from certcal.studies.stored import Model
from certcal.worstcase import Solution, certified_calibration_error
from certcal.worstcase import approximate_certified_calibration_error as approximate

Panels = list[Callable[[Any], Any]]  # of a figure, side by side: each draws on matplotlib's axes
Solvers = dict[str, Callable[[ConfidenceIntervals], Solution]]

ALPHA = 0.001
# App. G.3: one setting of ADMM for all; the grid of 16; and the dECE.
ONE_ADMM: dict[str, Any] = {
    "confidence_rates": 0.001, "assignment_rates": 0.001, "rho_factors": 1.004, "gradient_clip": 1.0, "steps": 3000
}  # fmt: skip
GRID: dict[str, Any] = {"steps": 3000}
DECE: dict[str, Any] = {"steps": 1000}
STANDARD = "standard certificate"
EXACT = "exact"
MOST = 2000  # certified inputs, as the paper takes


def paper_radii(evidence: Evidence) -> list[float]:
    """The paper's radii up to four σ, where nothing is certified any more."""
    known = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0)
    return [radius for radius in known if radius <= 4 * evidence.header.sigma]


def _each(models: Sequence[Model]) -> Iterator[tuple[str, str, Evidence]]:
    """The data set and evidence of models, each with a label: its σ, and its name where others have that σ too."""
    read = [(one, one.read()) for one in models]
    sigmas = Counter((one.data, evidence.header.sigma) for one, evidence in read)
    for one, evidence in read:
        label = f"σ = {evidence.header.sigma:g}"
        yield one.data, label if sigmas[one.data, evidence.header.sigma] == 1 else f"{one.name}, {label}", evidence


def _about(evidence: Evidence) -> str:
    return f"{several(len(evidence))}, {draws_of(evidence)} draws"


def _title(data: str, label: str, evidence: Evidence, *more: str) -> str:
    """Lines on what a panel shows, none wider than it."""
    return "\n".join((joined(data, label), _about(evidence), *more))


def joined(*parts: str) -> str:
    """Parts that are not empty, with commas."""
    return ", ".join(filter(None, parts))


def paper_bounds(evidence: Evidence, radii: Sequence[float], method: str = "standard") -> list[ConfidenceIntervals]:
    """The paper's bounds: α for each part, and draws as if their number had been fixed. Sec. 5.1 and 5.2: standard."""
    fixed = as_fixed(evidence)
    return list(confidence_bounds_at(fixed, radii=radii, alpha=ALPHA, method=method, split_alpha=False))


def _certified(bounds: Sequence[ConfidenceIntervals]) -> list[ConfidenceIntervals]:
    """Those at radii at which something is certified, each cut to the certified inputs."""
    return [own.select(np.flatnonzero(own.certified)[:MOST]) for own in bounds if own.certified.any()]


def brier(models: Sequence[Model], *, same_inputs: bool = False) -> Panels:
    """Certified Brier scores over R, one curve for each σ, a panel for each data set.

    They are of the same inputs at all radii, if so asked.
    """

    def panel(data: str, own: Sequence[tuple[str, Evidence]], ax: Any) -> Any:
        for label, evidence in own:
            bounds = paper_bounds(evidence, paper_radii(evidence))
            bounds = [one for one in bounds if one.certified.any()]
            if same_inputs:
                bounds = [one.select(bounds[-1].certified) for one in bounds]
            scores = [row_at(one, metrics=("certified_brier",)).certified_brier for one in bounds]
            _curve(ax, f"{label}: {_about(evidence)}", bounds, scores)
        return finish(ax, "R", "certified Brier score", title=joined(data, STANDARD))

    found: dict[str, list[tuple[str, Evidence]]] = {}
    for data, label, evidence in _each(models):
        found.setdefault(data, []).append((label, evidence))
    return [partial(panel, *one) for one in found.items()]


_METHODS: Solvers = {
    EXACT: certified_calibration_error,
    "ADMM": lambda bounds: approximate(bounds, method="admm", **ONE_ADMM),
    "dECE": lambda bounds: approximate(bounds, method="dece", **DECE),
    "Brier": lambda bounds: approximate(bounds, method="brier"),
}


def approximations(models: Sequence[Model]) -> Panels:
    """The paper's approximations of the certified calibration error and the exact value over R, a panel for each σ."""

    def panel(data: str, label: str, evidence: Evidence, ax: Any) -> Any:
        bounds = _certified(paper_bounds(evidence, paper_radii(evidence)))
        for method, solve in _METHODS.items():
            _curve(ax, method, bounds, [solve(own).value for own in bounds], "k--" if method == EXACT else "o-")
        return finish(ax, "R", "calibration error", title=_title(data, label, evidence, STANDARD))

    return [partial(panel, *one) for one in _each(models)]


def widths(models: Sequence[Model]) -> Panels:
    """Mean widths of the confidence intervals over R for each certificate, a panel for each σ."""

    def panel(data: str, label: str, evidence: Evidence, ax: Any) -> Any:
        ours = confidence_bounds_at(evidence, radii=paper_radii(evidence), alpha=ALPHA, method="cdf-cp")
        theirs = {method: paper_bounds(evidence, paper_radii(evidence), method) for method in ("standard", "cdf")}
        for method, bounds in (theirs | {"cdf-cp": list(ours)}).items():
            _curve(ax, method, bounds, [float((own.upper - own.lower).mean()) for own in bounds])
        return finish(ax, "R", "mean width of the interval", title=_title(data, label, evidence))

    return [partial(panel, *one) for one in _each(models)]


def starts(models: Sequence[Model]) -> Panels:
    """What ADMM and the dECE reach from the clean and from the Brier confidences."""
    ways: Solvers = {
        f"{label}, from {told}": partial(approximate, method=label.lower(), starts=start, **settings)
        for label, settings in (("ADMM", ONE_ADMM), ("dECE", DECE))
        for start, told in (("clean", "clean"), ("brier", "Brier"))
    }
    return _side_by_side(models, ways)


def best_of_search(models: Sequence[Model]) -> Panels:
    """The best of ADMM's grid of 16 runs, of the dECE's starts and of the Brier confidences, and the exact value."""
    ways = {key: solve for key, solve in _METHODS.items() if key != EXACT}
    return _side_by_side(models, ways | {"ADMM": partial(approximate, method="admm", **GRID)})


def single_admm(models: Sequence[Model]) -> Panels:
    """One setting of ADMM against the best of the dECE's starts."""
    return _side_by_side(models, {key: _METHODS[key] for key in ("ADMM", "dECE")})


def _side_by_side(models: Sequence[Model], ways: Solvers) -> Panels:
    """What each way finds at four radii, and the exact value, a panel for each model."""

    def panel(data: str, label: str, evidence: Evidence, ax: Any) -> Any:
        radii = [evidence.header.sigma * step for step in (0.25, 0.5, 1.0, 2.0)]
        bounds = _certified(paper_bounds(evidence, radii))
        width = 0.8 / len(ways)
        for place, (key, solve) in enumerate(ways.items()):
            shift = (place - (len(ways) - 1) / 2) * width
            ax.bar(np.arange(len(bounds)) + shift, [solve(own).value for own in bounds], width, label=key)
        for place, own in enumerate(bounds):
            _exact(ax, own, place - 0.45, place + 0.45, label=EXACT if place == 0 else "")
        ax.set_xticks(range(len(bounds)), [f"{own.radius:g}" for own in bounds])
        return finish(ax, "R", "calibration error", title=_title(data, label, evidence, STANDARD))

    return [partial(panel, *one) for one in _each(models)]


def _exact(ax: Any, bounds: ConfidenceIntervals, left: float, right: float, *, label: str = EXACT) -> None:
    """The exact value as a dashed line."""
    ax.plot([left, right], [certified_calibration_error(bounds).value] * 2, "k--", label=label)


def _admm(models: Sequence[Model]) -> tuple[str, ConfidenceIntervals, dict[str, Any]]:
    """What a figure is about, and every step of one run of ADMM at R = σ, on at most 2000 certified inputs."""
    data, label, evidence = next(_each(models))
    (own,) = _certified(paper_bounds(evidence, [evidence.header.sigma])) or (None,)
    if own is None:
        raise InputError.expected("from", "hold inputs that are certified at R = σ", models[0].name)
    found = approximate(own, method="admm", starts="clean", diagnostics=True, **ONE_ADMM)
    about = joined(data, f"{label} = R", _about(evidence), f"{len(own.lower):,} certified")
    return about, own, dict(found.stats)


# What is called how in ADMM's history: the title of a panel and what its axis shows.
_PARTS = {
    "lagrangian": ("augmented Lagrangian", "value"),
    "relaxed_error": ("calibration error, relaxed assignment", "calibration error"),
    "projected_error": ("calibration error, rounded assignment", "calibration error"),
    "box": ("its part for: assignment in [0, 1]", "value"),
    "sphere": ("its part for: assignment on the sphere", "value"),
    "confidence": ("its part for: confidences within bounds", "value"),
    "unique": ("its part for: one bin for each input", "value"),
    "valid": ("its part for: bins that confidences can reach", "value"),
}
_CONSTRAINTS = {
    "confidence": "confidences within bounds",
    "binary": "assignment 0 or 1",
    "unique": "one bin for each input",
    "valid": "bins that confidences can reach",
}


def lagrangian(models: Sequence[Model]) -> Panels:
    """The Lagrangian, its parts, and the relaxed and projected error over ADMM's steps."""
    about, bounds, found = _admm(models)

    def panel(key: str, ax: Any) -> Any:
        values, (title, label) = np.asarray(found["history"][key])[:, 0], _PARTS[key]
        ax.plot(values, linewidth=0.8)
        if label == "calibration error":
            _exact(ax, bounds, 0, len(values) - 1)
        return _step(ax, about, label, title=title)

    return [partial(panel, key) for key in _PARTS]


def constraints(models: Sequence[Model]) -> Panels:
    """How far ADMM is from each constraint over its steps, in ℓ1 and ℓ∞."""
    about, _, found = _admm(models)

    def panel(key: str, ax: Any) -> Any:
        for norm, label in (("1", "‖·‖₁"), ("inf", "‖·‖∞")):
            ax.plot(np.asarray(found["history"][f"{key}_distance_{norm}"])[:, 0], linewidth=0.8, label=label)
        ax.set_yscale("log")
        ax.set_ylim(bottom=max(ax.get_ylim()[0], 1e-4))  # less is rounding, where it starts
        return _step(ax, about, "distance", title=_CONSTRAINTS[key])

    return [partial(panel, key) for key in _CONSTRAINTS]


def assignment(models: Sequence[Model]) -> Panels:
    """The first 150 entries of ADMM's assignment at some of its steps."""
    about, _, found = _admm(models)

    def panel(step: int, entries: Any, ax: Any) -> Any:
        ax.bar(np.arange(len(entries)), entries, 1.0)
        return _step(ax, about, "value", x="entry of the assignment, input by input", title=f"step {step}")

    return [partial(panel, step, np.asarray(own).reshape(-1)[:150]) for step, own in found["snapshots"].items()]


def _step(ax: Any, about: str, y: str, *, x: str = "step", title: str) -> Any:
    """A panel of ADMM's steps; above all panels, what they are about."""
    ax.figure.suptitle(about)
    return finish(ax, x, y, bottom=None, title=title)


def motivation(models: Sequence[Model]) -> Panels:
    """Certified confidences as boxes, and reliability without an attack and at the worst case, at R = σ / 2."""
    data, label, evidence = next(_each(models))
    radius = evidence.header.sigma / 2
    report = evaluate(evidence, radii=[radius], alpha=ALPHA)
    found = reliability_at(report, 0)
    if found is None:
        raise InputError.expected("from", "hold inputs that are certified at R = σ / 2", models[0].name)
    clean, worst = found

    def boxes(ax: Any) -> Any:
        plot_certified_boxes(prepare_boxes(report, 0), ax=ax)
        ax.set_title(_title(data, f"{label}, R = {radius:g}", evidence, "cdf-cp"))
        return ax

    at_worst = f"worst case at R = {radius:g}: ECE {worst.error:.1%}"
    return [
        boxes,
        lambda ax: plot_reliability(clean, ax=ax, title=f"clean: ECE {clean.error:.1%}"),
        lambda ax: plot_reliability(worst, ax=ax, title=at_worst, colour=INCORRECT, interval=False),
    ]


def _curve(
    ax: Any, label: str, bounds: Sequence[ConfidenceIntervals], values: Sequence[float], style: str = "o-"
) -> None:
    ax.plot([own.radius for own in bounds], values, style, markersize=3.5, label=label)


def finish(ax: Any, x: str, y: str, *, bottom: float | None = 0.0, title: str = "") -> Any:
    """The axes with their labels, and a legend if there is anything to name."""
    ax.set(xlabel=x, ylabel=y, title=title)
    if bottom is not None:
        ax.set_ylim(bottom=bottom)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize=8)
    return ax

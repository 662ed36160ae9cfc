"""Figures of the paper that are drawn from evidence: curves over the radius, ADMM's convergence, rank correlations."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals, average_certified_radius, confidence_bounds_at
from certcal.errors import InputError, several
from certcal.evaluation import evaluate, reliability_at, row_at
from certcal.report import INCORRECT, plot_certified_boxes, plot_reliability, prepare_boxes
from certcal.smoothing import Evidence
from certcal.studies.boards import draws_of
from certcal.studies.ranked import FEWEST, by_data
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
MOST = 2000  # certified inputs, as the paper takes


def _radii(evidence: Evidence) -> list[float]:
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
    """Two lines on what a panel shows."""
    return f"{_joined(data, label)}\n{_joined(_about(evidence), *more)}"


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _paper(evidence: Evidence, radii: Sequence[float], method: str = "standard") -> list[ConfidenceIntervals]:
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
            bounds = _paper(evidence, _radii(evidence))
            bounds = [one for one in bounds if one.certified.any()]
            if same_inputs:
                bounds = [one.select(bounds[-1].certified) for one in bounds]
            scores = [row_at(one, metrics=("certified_brier",)).certified_brier for one in bounds]
            _curve(ax, f"{label}: {_about(evidence)}", bounds, scores)
        return _finish(ax, "R", "certified Brier score", title=_joined(data, STANDARD))

    found: dict[str, list[tuple[str, Evidence]]] = {}
    for data, label, evidence in _each(models):
        found.setdefault(data, []).append((label, evidence))
    return [partial(panel, *one) for one in found.items()]


_METHODS: Solvers = {
    "exact": certified_calibration_error,
    "ADMM": lambda bounds: approximate(bounds, method="admm", **ONE_ADMM),
    "dECE": lambda bounds: approximate(bounds, method="dece", **DECE),
    "Brier": lambda bounds: approximate(bounds, method="brier"),
}


def approximations(models: Sequence[Model]) -> Panels:
    """The paper's approximations of the certified calibration error and the exact value over R, a panel for each σ."""

    def panel(data: str, label: str, evidence: Evidence, ax: Any) -> Any:
        bounds = _certified(_paper(evidence, _radii(evidence)))
        for method, solve in _METHODS.items():
            _curve(ax, method, bounds, [solve(own).value for own in bounds], "k--" if method == "exact" else "o-")
        return _finish(ax, "R", "calibration error", title=_title(data, label, evidence, STANDARD))

    return [partial(panel, *one) for one in _each(models)]


def widths(models: Sequence[Model]) -> Panels:
    """Mean widths of the confidence intervals over R for each certificate, a panel for each σ."""

    def panel(data: str, label: str, evidence: Evidence, ax: Any) -> Any:
        ours = confidence_bounds_at(evidence, radii=_radii(evidence), alpha=ALPHA, method="cdf-cp")
        theirs = {method: _paper(evidence, _radii(evidence), method) for method in ("standard", "cdf")}
        for method, bounds in (theirs | {"cdf-cp": list(ours)}).items():
            _curve(ax, method, bounds, [float((own.upper - own.lower).mean()) for own in bounds])
        return _finish(ax, "R", "mean width of the interval", title=_title(data, label, evidence))

    return [partial(panel, *one) for one in _each(models)]


def starts(models: Sequence[Model]) -> Panels:
    """What ADMM and the dECE reach from the clean and from the Brier confidences."""
    ways: Solvers = {
        f"{label}, {start}": partial(approximate, method=label.lower(), starts=start, **settings)
        for label, settings in (("ADMM", ONE_ADMM), ("dECE", DECE))
        for start in ("clean", "brier")
    }
    return _side_by_side(models, ways)


def best_of_search(models: Sequence[Model]) -> Panels:
    """The best of ADMM's grid of 16 runs, of the dECE's starts and of the Brier confidences, and the exact value."""
    return _side_by_side(models, _METHODS | {"ADMM": partial(approximate, method="admm", **GRID)})


def single_admm(models: Sequence[Model]) -> Panels:
    """One setting of ADMM against the best of the dECE's starts."""
    return _side_by_side(models, {key: _METHODS[key] for key in ("ADMM", "dECE")})


def _side_by_side(models: Sequence[Model], ways: Solvers) -> Panels:
    """What each way finds at four radii, a panel for each model."""

    def panel(data: str, label: str, evidence: Evidence, ax: Any) -> Any:
        radii = [evidence.header.sigma * step for step in (0.25, 0.5, 1.0, 2.0)]
        bounds = _certified(_paper(evidence, radii))
        width = 0.8 / len(ways)
        for place, (key, solve) in enumerate(ways.items()):
            shift = (place - (len(ways) - 1) / 2) * width
            ax.bar(np.arange(len(bounds)) + shift, [solve(own).value for own in bounds], width, label=key)
        ax.set_xticks(range(len(bounds)), [f"{own.radius:g}" for own in bounds])
        return _finish(ax, "R", "calibration error", title=_title(data, label, evidence, STANDARD))

    return [partial(panel, *one) for one in _each(models)]


def _admm(models: Sequence[Model]) -> tuple[str, dict[str, Any]]:
    """What a figure is about, and every step of one run of ADMM at R = σ, on at most 2000 certified inputs."""
    data, label, evidence = next(_each(models))
    (own,) = _certified(_paper(evidence, [evidence.header.sigma])) or (None,)
    if own is None:
        raise InputError.expected("from", "hold inputs that are certified at R = σ", models[0].name)
    found = approximate(own, method="admm", starts="clean", diagnostics=True, **ONE_ADMM)
    return f"{_title(data, f'{label} = R', evidence)}, {len(own.lower):,} certified", dict(found.stats)


def lagrangian(models: Sequence[Model]) -> Panels:
    """The Lagrangian, its parts, and the relaxed and projected error over ADMM's steps."""
    title, found = _admm(models)
    keys = ("lagrangian", "relaxed_error", "projected_error", "box", "sphere", "confidence", "unique", "valid")
    return _steps(found["history"], [[key] for key in keys], title)


def constraints(models: Sequence[Model]) -> Panels:
    """How far ADMM is from each constraint over its steps, in ℓ1 and ℓ∞."""
    title, found = _admm(models)
    kinds = ("confidence", "binary", "unique", "valid")
    return _steps(found["history"], [[f"{one}_distance_1", f"{one}_distance_inf"] for one in kinds], title)


def assignment(models: Sequence[Model]) -> Panels:
    """The first 150 entries of ADMM's assignment at some of its steps."""
    about, found = _admm(models)
    taken = found["snapshots"]

    def panel(title: str, step: int, ax: Any) -> Any:
        entries = np.asarray(taken[step]).reshape(-1)[:150]
        ax.bar(np.arange(len(entries)), entries, 1.0)
        return _finish(ax, "entry of a", "value", bottom=None, title=_joined(title, f"step {step}"))

    return [partial(panel, "" if place else about, step) for place, step in enumerate(taken)]


def _steps(history: dict[str, Any], panels: Sequence[Sequence[str]], title: str) -> Panels:
    """Columns of the history over the steps; the first panel says what all are about."""

    def panel(title: str, keys: Sequence[str], ax: Any) -> Any:
        for key in keys:
            ax.plot(np.asarray(history[key])[:, 0], label=key.replace("_", " "))
        return _finish(ax, "step", "", bottom=None, title=title)

    return [partial(panel, "" if place else title, keys) for place, keys in enumerate(panels)]


def trade_off(models: Sequence[Model]) -> Panels:
    """Spearman correlations over all models of a data set between CA, ACR, CBS and CCE, over R."""
    from scipy.stats import spearmanr

    def panel(data: str, count: int, table: dict[float, dict[str, list[float]]], ax: Any) -> Any:
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
        title = _joined(data, several(count, "model"), "cdf certificate")
        return _finish(ax, "R", "rank correlation", bottom=None, title=title, legend_below=True)

    return [partial(panel, data, len(own), trade_off_values(own)) for data, own in by_data(models).items()]


def trade_off_values(models: Sequence[Model]) -> dict[float, dict[str, list[float]]]:
    """Per radius the four metrics of all models that certify any input there, where that are enough."""
    table: dict[float, dict[str, list[float]]] = {}
    for one in models:
        evidence = one.read()
        for bounds in _paper(evidence, _radii(evidence)[1:], "cdf"):
            row = row_at(bounds, metrics=("certified_accuracy", "certified_brier", "certified_ece"))
            if bounds.certified.any():
                values = table.setdefault(bounds.radius, {key: [] for key in ("CA", "ACR", "CBS", "CCE")})
                values["CA"].append(row.certified_accuracy)
                values["ACR"].append(average_certified_radius(bounds.certified_radius, bounds.correct))
                values["CBS"].append(row.certified_brier)
                values["CCE"].append(row.certified_ece)
    return {radius: values for radius, values in sorted(table.items()) if len(values["CA"]) >= FEWEST}


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


def _finish(ax: Any, x: str, y: str, *, bottom: float | None = 0.0, title: str = "", legend_below: bool = False) -> Any:
    ax.set(xlabel=x, ylabel=y, title=title)
    if bottom is not None:
        ax.set_ylim(bottom=bottom)
    if ax.get_legend_handles_labels()[0]:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.13), "ncols": 3} if legend_below else {}
        ax.legend(frameon=False, fontsize=8, **below)
    return ax

"""Rank correlations of certified metrics over models: every one once, of data sets that have enough of them."""

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from certcal.certificates import average_certified_radius
from certcal.errors import InputError, several
from certcal.evaluation import row_at
from certcal.studies.curves import Panels, finish, joined, paper_bounds, paper_radii
from certcal.studies.stored import Model

METRICS = ("CA", "ACR", "CBS", "CCE")

FEWEST = 8  # of fewer models a rank correlation says next to nothing


def by_data(models: Sequence[Model]) -> dict[str, list[Model]]:
    """The models of each data set."""
    return {data: [one for one in models if one.data == data] for data in dict.fromkeys(one.data for one in models)}


def each_once(models: Sequence[Model]) -> list[Model]:
    """The models without those that came before, on other inputs: the same weights would count twice."""
    first: dict[tuple[str, str], Model] = {}
    for one in models:
        first.setdefault((one.data, one.read().header.model), one)
    return list(first.values())


def enough(models: Sequence[Model]) -> tuple[list[Model], list[str]]:
    """The models of data sets that have enough of them, and what was left out.

    Raises: InputError if no data set has enough.
    """
    counts = {data: len(own) for data, own in by_data(models).items()}
    few = {data: count for data, count in counts.items() if count < FEWEST}
    if len(few) == len(counts):
        wanted = f"hold the evidence of at least {FEWEST} models of one data set"
        raise InputError.expected("from", wanted, str(max(few.values(), default=0)))
    told = [
        f"Left out: {data or 'no named data set'} with {several(count, 'model')}; rank correlations take {FEWEST}."
        for data, count in few.items()
    ]
    return [one for one in models if one.data not in few], told


def trade_off(models: Sequence[Model]) -> Panels:
    """Spearman correlations over all models of a data set between CA, ACR, CBS and CCE, over R."""
    from scipy.stats import spearmanr

    def panel(title: str, table: dict[float, dict[str, list[float]]], ax: Any) -> Any:
        places = np.arange(len(table))
        for one, other in combinations(METRICS, 2):
            line = [
                spearmanr(values[one], values[other]).statistic
                if min(np.ptp(values[one]), np.ptp(values[other])) > 0
                else np.nan
                for values in table.values()
            ]
            # With CBS and with CCE lines nearly coincide: dashes let the one below be seen.
            style = "s--" if other == "CCE" and one != "CBS" else "o-"
            ax.plot(places, line, style, markersize=3.5, label=f"{one} and {other}")
        ax.axhline(0, color="grey", linewidth=0.8)
        ax.set_ylim(-1.05, 1.05)
        ax.set_xticks(places, [f"{radius:g}\n{len(values['CA'])}" for radius, values in table.items()])
        finish(ax, "R, and how many models certify inputs there", "rank correlation", bottom=None, title=title)
        ax.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.19), ncols=3)
        return ax

    draws: Panels = []
    for data, own in by_data(models).items():
        seeds = sorted({one.seed for one in own if one.seed is not None})
        told = f"seed {', '.join(map(str, seeds))}" if seeds else ""
        draws.append(partial(panel, joined(data, told, "cdf certificate"), trade_off_values(own)))
    return draws


def trade_off_values(models: Sequence[Model]) -> dict[float, dict[str, list[float]]]:
    """Per radius the four metrics of all models that certify any input there, where that are enough."""
    table: dict[float, dict[str, list[float]]] = {}
    for one in models:
        evidence = one.read()
        for bounds in paper_bounds(evidence, paper_radii(evidence)[1:], "cdf"):
            row = row_at(bounds, metrics=("certified_accuracy", "certified_brier", "certified_ece"))
            if bounds.certified.any():
                values = table.setdefault(bounds.radius, {key: [] for key in METRICS})
                values["CA"].append(row.certified_accuracy)
                values["ACR"].append(average_certified_radius(bounds.certified_radius, bounds.correct))
                values["CBS"].append(row.certified_brier)
                values["CCE"].append(row.certified_ece)
    return {radius: values for radius, values in sorted(table.items()) if len(values["CA"]) >= FEWEST}

"""Rows over radii: what evidence or given bounds certify, for the certified inputs or for all of them."""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals, Method, RunnerUp, average_certified_radius, confidence_bounds_at
from certcal.errors import InputError
from certcal.evaluation.confidence_map import ConfidenceMap
from certcal.evaluation.further import ANY_BINNING, FURTHER
from certcal.evaluation.given import as_given
from certcal.evaluation.groups import GroupTable, as_columns, group_tables
from certcal.evaluation.row import WITH_MAP, WITHOUT_MAP, Row, row_at
from certcal.files import expanded, plain, replacing
from certcal.metrics import Bins
from certcal.scalars import one_or_more
from certcal.settings import PREDICTION_SHARE, EvaluateSettings
from certcal.shown import ShownRows
from certcal.smoothing import Evidence
from certcal.types import ArrayLike
from certcal.worstcase import OperatingCurve, Population, Solution, allowed_failures, choose_few_bins, operating_curve


class NoSuchRowError(InputError, IndexError):
    """The report has no row at that position."""


@dataclass(frozen=True, eq=False, repr=False)
class Report(ShownRows):
    """The rows of an evaluation, by position or by radius, with the certificates they were made from."""

    rows: tuple[Row, ...]
    bounds: tuple[ConfidenceIntervals, ...]
    evidence: Evidence | None  # None for bounds that come from elsewhere
    delta: float
    failures: int  # certificates that may fail, among all inputs, with probability at least 1 - delta
    population: Population
    bins: Bins
    recalibration: ConfidenceMap | None = None  # the map that confidences and bounds have gone through
    open_at: float | None = None  # the radius to show first

    threshold: float = 0.8  # of the operating points that are shown first
    groups: tuple[tuple[GroupTable, ...], ...] = ()  # per row, one table per column; empty if none were asked for

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, position: int) -> Row:
        if not isinstance(position, int | np.integer) or not -len(self) <= position < len(self):
            raise NoSuchRowError.expected("position", f"be that of one of {len(self)} rows", repr(position))
        return self.rows[position]

    def __repr__(self) -> str:
        radii = f"R = {self.rows[0].radius:g} … {self.rows[-1].radius:g}" if self.rows else "no radii"
        values = ", ".join(f"{row.joint_ece:.4f}" for row in self.rows)
        return f"Report({self.inputs} inputs, {len(self.rows)} radii, {radii}, joint ECE {values})"

    def at(self, radius: float) -> Row:
        """The row of a radius."""
        for row in self.rows:
            if row.radius == radius:
                return row
        raise InputError.expected("radius", f"be one of {', '.join(f'{row.radius:g}' for row in self.rows)}", radius)

    @property
    def inputs(self) -> int:
        """How many inputs there are."""
        return len(self.bounds[0])

    def operating(
        self, position: int, *, joint: bool = False, thresholds: ArrayLike | None = None
    ) -> OperatingCurve | None:
        """The operating points of a row, by default from 0 to 1 in steps of 0.01; None if its population is empty.

        The joint ones of all rows and thresholds hold together with probability at least 1 - delta.
        """
        if self[position].inputs == 0:
            return None
        if thresholds is not None or (position, joint) not in self._curves:
            curve = operating_curve(
                self.bounds[position],
                thresholds=thresholds,
                population=self.population,
                failures=self.failures if joint else 0,
            )
            if thresholds is not None:
                return curve
            self._curves[position, joint] = curve
        return self._curves[position, joint]

    @cached_property
    def _curves(self) -> dict[tuple[int, bool], OperatingCurve]:
        """Operating points that were asked for: pages, tables and results show the same ones."""
        return {}

    @property
    def temperature(self) -> float:
        """What the model's logits are divided by, which is part of the model that is certified."""
        own = None if self.recalibration is None else self.recalibration.divisor
        return own or (1.0 if self.evidence is None else self.evidence.temperature)

    @property
    def worst(self) -> tuple[Solution | None, ...]:
        """The worst case of each row's certified ECE; None where the population is empty."""
        return tuple(row.worst for row in self.rows)

    @property
    def alpha(self) -> float:
        """Error probability per input: see `ConfidenceIntervals`."""
        return self.bounds[0].alpha

    @property
    def split_alpha(self) -> bool:
        """Whether an input's two certificates share alpha."""
        return self.bounds[0].split_alpha

    @property
    def terms(self) -> dict[str, Any]:
        """What `confidence_bounds` was asked, but for the radius."""
        return self.bounds[0].terms

    @property
    def level(self) -> float:
        """With which probability one of an input's certificates may fail."""
        return self.bounds[0].level

    @property
    def method(self) -> str:
        """How the confidence bounds are made."""
        return self.bounds[0].method

    @property
    def average_certified_radius(self) -> float:
        """The mean certified radius, where an abstained or incorrect input counts as 0."""
        # Bounds from elsewhere may know no more than that a class stays within each of their radii.
        furthest = np.fmax.reduce([own.certified_radius for own in self.bounds])
        return average_certified_radius(furthest, self.bounds[0].correct)

    def as_dicts(self) -> list[dict[str, float]]:
        """The rows as plain dictionaries, for JSON or a data frame."""
        return [row.as_dict() for row in self.rows]

    def save(self, path: str | PathLike[str]) -> Path:
        """Where the rows were written with every digit: as .csv, .json or .parquet.

        `certcal.runs.write_results` writes everything else: certificates, tables, figures and the page.
        """
        target, rows = expanded("path", path), self.as_dicts()
        if target.suffix not in (".csv", ".json", ".parquet"):
            raise InputError.expected("path", "end in .csv, .json or .parquet", repr(target.name))
        if not target.parent.is_dir():
            raise InputError.expected("path", "be in a folder that exists", str(target))
        with replacing(target) as part:
            if target.suffix == ".json":
                part.write_text(json.dumps(plain(rows), indent=1) + "\n", encoding="utf-8")
            elif target.suffix == ".csv":
                with part.open("w", newline="", encoding="utf-8") as file:
                    writer = csv.DictWriter(file, list(rows[0]))
                    writer.writeheader()
                    writer.writerows(rows)
            else:
                import pyarrow as pa
                import pyarrow.parquet as pq

                pq.write_table(pa.Table.from_pylist(rows), part)
        return target


def evaluate(
    evidence: Evidence | ConfidenceIntervals | Sequence[ConfidenceIntervals],
    *,
    radii: Iterable[float] | float | None = None,
    alpha: float | None = None,
    delta: float = 0.001,
    method: str = Method.CDF_CP,
    split_alpha: bool = True,
    prediction_share: float = PREDICTION_SHARE,
    runner_up: str = RunnerUp.COMPLEMENT,
    population: str = Population.CERTIFIED,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    approximations: Iterable[str] = (),
    recalibration: ConfidenceMap | None = None,
    open_at: float | None = None,
    threshold: float = 0.8,
    groups: Any = (),
    any_binning: bool = False,
) -> Report:
    """Certified accuracy, calibration error and Brier score at each radius, beside the clean ones.

    Per input, all its certificates hold together with probability at least 1 - alpha; the certified errors are what
    follows when they hold for every input. The joint ones are made for the set as a whole: with probability at least
    1 - delta over all noise draws, every joint value of every row holds. `population_ece` speaks of inputs not seen: at
    each radius by itself it holds with probability at least 1 - delta over inputs and draws, under the assumptions of
    `population_bound`.

    Paper: Sec. 5.   Errs: certified accuracy low, certified errors high.

    Args:
        evidence: of a smoothed model; or certificates from elsewhere, at one radius or a list for several.
        radii: at which to certify, in the units of the inputs; by default 0 to 2 σ by σ/4; given bounds have theirs.
        alpha: error probability per input, by default 0.001; given bounds state theirs, 0 if they are proven.
        delta: error probability of the joint claim.
        method, split_alpha, prediction_share, runner_up: as for `confidence_bounds`; given bounds do not ask for them.
        population: "certified" leaves out inputs that are not certified at R, as the paper does; "all" counts them
            as far from being right as their bounds allow, and at their estimated confidence in the clean columns.
        n_bins, edges: bins of the calibration errors.
        approximations: which of "admm", "dece" and "brier" to run beside the exact value; slow, and they certify
            nothing.
        recalibration: a map of the confidences, fitted on other inputs than these: see `recalibrate`, `fit_score_map`.
        open_at: one of the radii, that pages and screens show first; by default the largest at which half of the inputs
            are certified.
        threshold: confidence from which predictions are accepted, of the operating points that are shown first.
        groups: "predicted", "label", an array with one entry per input, or a mapping of names to such arrays: what is
            certified of each group, at levels that hold for all groups together; docs/groups.md.
        any_binning: also the worst case over every binning: seconds per radius for thousands of inputs.
    """
    own_draws = evidence if isinstance(evidence, Evidence) else None
    if own_draws is not None:  # as on the command line
        radii = EvaluateSettings().radii_at(own_draws.header.sigma) if radii is None else radii
        alpha = EvaluateSettings().alpha if alpha is None else alpha
    asked = EvaluateSettings(
        radii=None if radii is None else one_or_more("radii", radii),
        alpha=0.0 if alpha is None else alpha,
        delta=delta,
        method=method,
        split_alpha=split_alpha,
        prediction_share=prediction_share,
        runner_up=runner_up,
        population=population,
        n_bins=n_bins,
        approximations=()
        if isinstance(approximations, tuple | list) and not approximations
        else one_or_more("approximations", approximations),
        open_at=open_at,
        threshold=threshold,
        any_binning=any_binning,
    )
    bins, chosen = choose_few_bins(n_bins, edges), Population(asked.population)
    if not isinstance(recalibration, ConfidenceMap | None):
        raise InputError.expected("recalibration", "be a map from `recalibrate`", type(recalibration).__name__)
    if own_draws is None:
        found = as_given(evidence, radii, alpha)
    else:
        found = tuple(confidence_bounds_at(own_draws, radii=one_or_more("radii", radii), **asked.terms))
    distances = [own.radius for own in found]
    if open_at is not None and asked.open_at not in distances:
        raise InputError.expected("open_at", f"be one of the radii, {', '.join(map(str, distances))}", open_at)
    options: dict[str, Any] = {"population": chosen, "edges": bins.edges, "delta": delta}
    columns, further = as_columns(groups, found[0]), (*FURTHER, *(ANY_BINNING if any_binning else ()))
    if recalibration is None:
        bounds = found
        rows = [row_at(own, approximations=asked.approximations, further=further, **options) for own in bounds]
    else:
        bounds = (
            tuple(recalibration.intervals(own) for own in found)
            if own_draws is None
            else tuple(recalibration.certify(own_draws, radii=distances, **asked.terms))
        )
        rows = [
            replace(
                row_at(new, approximations=asked.approximations, further=further, metrics=WITH_MAP, **options),
                before=row_at(old, metrics=WITHOUT_MAP, **options),
            )
            for old, new in zip(found, bounds, strict=True)
        ]
    failures = allowed_failures(bounds[0], delta=delta)
    tables = (
        tuple(group_tables(own, columns, threshold=asked.threshold, **options) for own in bounds) if columns else ()
    )
    return Report(
        tuple(rows),
        bounds,
        own_draws,
        float(delta),
        failures,
        chosen,
        bins,
        recalibration,
        open_at,
        asked.threshold,
        tables,
    )

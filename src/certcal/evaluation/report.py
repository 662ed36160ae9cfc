"""What an evaluation gives: its rows by position or by radius, with the certificates they were made from."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals, average_certified_radius
from certcal.errors import InputError, several
from certcal.evaluation.confidence_map import ConfidenceMap
from certcal.evaluation.further import thresholds_with
from certcal.evaluation.group_table import GroupTable
from certcal.evaluation.metric import Rounding, number
from certcal.evaluation.row import Row
from certcal.files import csv_of, expanded, plain, replacing
from certcal.metrics import Bins
from certcal.scalars import exactly
from certcal.settings import Claim, EvaluateSettings, Population
from certcal.shown import ShownTable
from certcal.smoothing import Evidence
from certcal.types import ArrayLike, FloatArray
from certcal.worstcase import (
    NoThresholdError,
    OperatingCurve,
    OperatingPoint,
    Solution,
    certified_threshold,
    operating_curve,
)


class NoSuchRowError(InputError, IndexError):
    """The report has no row at that position."""


@dataclass(frozen=True, eq=False, repr=False)
class Report(ShownTable[Row]):
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

    claim: str = Claim.FAILURES  # how the guaranteed ECE was made
    threshold: float = 0.8  # of the operating points that are shown first
    accept_accuracy: float | None = None  # of those accepted, that a threshold is wanted for
    share: float = 1.0  # of delta, for certificates that may fail
    groups: tuple[tuple[GroupTable, ...], ...] = ()  # per row, one table per column; empty if none were asked for
    asked: EvaluateSettings = field(default_factory=EvaluateSettings)  # with which the command line would ask the same

    def __getitem__(self, position: int) -> Row:
        if not isinstance(position, int | np.integer) or not -len(self) <= position < len(self):
            raise NoSuchRowError.expected("position", f"be that of one of {len(self)} rows", repr(position))
        return self.rows[position]

    def __repr__(self) -> str:
        ends = dict.fromkeys(f"{row.radius:g}" for row in (self.rows[:1] + self.rows[-1:]))
        values = ", ".join("—" if np.isnan(row.joint_ece) else number(row.joint_ece, Rounding.UP) for row in self.rows)
        radii = f"{several(len(self.rows), 'radius', 'radii')}, R = {' … '.join(ends)}"
        return f"Report({several(self.inputs)}, {radii}, joint ECE {values})"

    def at(self, radius: float) -> Row:
        """The row of a radius."""
        for row in self.rows:
            if row.radius == radius:
                return row
        raise InputError.expected("radius", f"be one of {', '.join(exactly(row.radius) for row in self.rows)}", radius)

    @property
    def inputs(self) -> int:
        """How many inputs there are."""
        return len(self.bounds[0])

    def operating(
        self, position: int, *, joint: bool = False, thresholds: ArrayLike | None = None
    ) -> OperatingCurve | None:
        """The operating points of a row, by default at `thresholds`; None if its population is empty.

        The joint ones of all rows and thresholds hold together with probability at least 1 - delta.
        """
        if self[position].inputs == 0:
            return None
        known, failures = thresholds is None, self.failures if joint else 0
        if known and (position, failures) in self._curves:
            return self._curves[position, failures]
        asked: dict[str, Any] = {"population": self.population, "failures": failures}
        curve = operating_curve(self.bounds[position], thresholds=self.thresholds if known else thresholds, **asked)
        if known:
            self._curves[position, failures] = curve
        return curve

    @property
    def thresholds(self) -> FloatArray:
        """Thresholds from 0 to 1 in steps of 0.01, and the report's own."""
        return thresholds_with(self.threshold)

    def least_threshold(self, position: int, *, accuracy: float | None = None) -> OperatingPoint | None:
        """The point of a row with the smallest threshold that guarantees an accuracy of those accepted.

        Where none does, the point that guarantees most; None where nothing is. By default the accuracy is the report's
        `accept_accuracy`. As all thresholds hold together, so does one that is chosen after looking.
        """
        if self[position].inputs == 0:
            return None
        wanted = self.accept_accuracy if accuracy is None else accuracy
        asked: dict[str, Any] = {"population": self.population, "failures": self.failures}
        try:
            return certified_threshold(self.bounds[position], accuracy=wanted, **asked)
        except NoThresholdError as error:
            return error.best

    @cached_property
    def _curves(self) -> dict[tuple[int, int], OperatingCurve]:
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
                part.write_text(csv_of(rows), encoding="utf-8")
            else:
                import pyarrow as pa
                import pyarrow.parquet as pq

                pq.write_table(pa.Table.from_pylist(rows), part)
        return target

"""What a report must show, such as `guaranteed_ece@0.25 <= 0.30`, and whether it does.

`guaranteed_coverage(0.9)@0.25 >= 40 %` is at another threshold than the report's.
"""

import math
import operator
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from certcal.errors import InputError
from certcal.evaluation.further import ACCEPTED, ANY_BINNING, FURTHER, WANTED
from certcal.evaluation.metric import Measured, Rounding
from certcal.evaluation.report import Report
from certcal.evaluation.row import METRICS, Row
from certcal.scalars import did_you_mean, guarded, one_or_more

KNOWN = {**METRICS, **FURTHER, **WANTED, **ANY_BINNING}
_GIVEN = {**ACCEPTED, **WANTED}  # metrics that may say in brackets which threshold or accuracy they are about
_SIGNS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
# Beyond a limit on its loose side a bound says nothing of what it bounds: fewer draws alone would open such a gate.
_ONE_SIDED = {Rounding.UP: ("<", "an upper bound", "at least"), Rounding.DOWN: (">", "a lower bound", "at most")}
_NUMBER = r"[0-9.]+(?:e[-+]?[0-9]+)?"
_FORM = re.compile(
    rf"\s*(\w+)\s*(?:\(({_NUMBER})\)\s*)?@\s*({_NUMBER}(?:/{_NUMBER})?)\s*(<=|>=|<|>)\s*({_NUMBER})\s*(%?)\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Requirement:
    """A limit of one metric at one radius."""

    text: str  # as it was written
    metric: str
    radius: float
    sign: str
    limit: float
    given: float | None = None  # the threshold, or the wanted accuracy, that the metric is about; None: the report's

    @classmethod
    def parse(cls, text: str) -> "Requirement":
        """A requirement as people write it: METRIC@RADIUS <= LIMIT, also with >=, < or >, and with a limit in %.

        Upper bounds take <= and <, lower bounds >= and >; estimates take all four.
        """
        found = _FORM.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise InputError.expected("require", "have the form guaranteed_ece@0.25 <= 0.30", repr(text))
        name, given, radius, sign, limit, percent = found.groups()
        # The guaranteed values are the joint ones: they allow for certificates that fail.
        said, name = name, re.sub("^guaranteed_", "joint_", name)
        if name not in KNOWN:
            spoken = [re.sub("^joint_", "guaranteed_", one) for one in KNOWN]
            wanted = f"name a metric ({', '.join(spoken)})"
            raise InputError.expected("require", wanted, f"{said!r}{did_you_mean(said, (*spoken, *KNOWN))}")
        if (side := _ONE_SIDED.get(KNOWN[name].rounding)) is not None and sign[0] != side[0]:
            wanted = f"ask for {side[0]}= of {said}, {side[1]}: that it is {side[2]} so large proves nothing"
            raise InputError.expected("require", wanted, repr(text))
        try:
            own = None if given is None else float(given)
            over, _, under = radius.partition("/")  # as 8/255
            asked = cls(
                text.strip(), name, float(over) / float(under or 1), sign, float(limit) / (100 if percent else 1), own
            )
        except (ValueError, ZeroDivisionError) as error:
            raise InputError.expected("require", "have a number as radius and as limit", repr(text)) from error
        if own is not None and (name not in _GIVEN or not 0 <= own <= 1):
            wanted = f"have a share in brackets, and only after {', '.join(_GIVEN)}"
            raise InputError.expected("require", wanted, repr(text))
        if asked.limit > 1 and not percent and KNOWN[name].percent:  # a gate that would always open
            raise InputError.expected("require", f"have a share as limit, such as 0.3 or {limit} %", repr(text))
        return asked

    def judge(self, report: Report) -> "Judgement":
        """Whether a report that has the radius meets it. What has no value there, or NaN, fails."""
        value = float(self._value(report, report.at(self.radius)))
        terms = {"population": str(report.population), "alpha": report.alpha, "delta": report.delta}
        return Judgement(self, value, bool(_SIGNS[self.sign](value, self.limit)), terms)

    def _value(self, report: Report, row: Row) -> float:
        if self.given is not None:
            own = report.bounds[report.rows.index(row)]
            asked: dict[str, Any] = {"threshold": self.given, "accept_accuracy": self.given}
            at = Measured(own, report.population, report.bins, report.delta, report.share, **asked)
            return _GIVEN[self.metric].of(at) if at.inputs else math.nan
        if self.metric in row.further:
            return row.further[self.metric]
        if self.metric in ANY_BINNING:
            raise InputError.expected("require", "ask it of a report made with any_binning=True", repr(self.metric))
        if self.metric in WANTED:
            wanted = f"name the accuracy that is wanted of those accepted, as {self.metric}(0.95)@{self.radius:g}"
            raise InputError.expected("require", wanted, repr(self.text))
        return float(getattr(row, self.metric))


@dataclass(frozen=True)
class Judgement:
    """A requirement, and what it met."""

    requirement: Requirement
    value: float
    passed: bool
    terms: Mapping[str, Any] = field(default_factory=dict)  # of which inputs, and at which levels

    def as_dict(self) -> dict[str, Any]:
        """The judgement as plain data."""
        value = None if self.value != self.value else self.value
        return {"require": self.requirement.text, "value": value, "passed": self.passed, **self.terms}

    @property
    def asked(self) -> str:
        """Of which inputs and at which levels: the same run may be evaluated otherwise next time."""
        if not self.terms:
            return ""
        return "population {population}, α = {alpha:g}, δ = {delta:g}".format(**self.terms)

    def __str__(self) -> str:
        met = "met" if self.passed else "NOT met"
        value = f"it is {self.value:.6g}"
        if self.value != self.value:
            value = "it has no value" if self.requirement.metric in _GIVEN else "no input is certified there"
        asked = f" ({self.asked})" if self.terms else ""
        return f"{self.requirement.text}: {met}, {value}{self._note()}{asked}"

    def _note(self) -> str:
        """Of a value that no attack was allowed for, which one to ask for instead."""
        name = self.requirement.metric
        if f"joint_{name}" not in KNOWN:
            return ""
        return f" without an attack, as estimated (guaranteed_{name} is the one under attack)"


@guarded
def judge(report: Report, requirements: Iterable[str | Requirement]) -> list[Judgement]:
    """Whether a report meets requirements, each of a radius that it has.

    Raises: InputError if a requirement has no such form, metric or radius.
    """
    given = one_or_more("require", requirements)
    asked = [one if isinstance(one, Requirement) else Requirement.parse(one) for one in given]
    return [one.judge(report) for one in asked]

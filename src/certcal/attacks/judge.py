"""One row of the sandwich: inputs certified at a radius, attacked within it, and judged by fresh draws."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from certcal.attacks.calibration import attack_calibration
from certcal.attacks.estimate import SmoothedEstimate, estimate_smoothed
from certcal.attacks.refutation import Levels, confront
from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.evaluation import row_at
from certcal.metrics import ReliabilityCurve, expected_calibration_error, reliability_curve, top_label_brier_score
from certcal.metrics.binning import Bins
from certcal.models import model_fingerprint
from certcal.settings import Adversary
from certcal.smoothing import Evidence
from certcal.smoothing.sources import Source
from certcal.types import ArrayLike, FloatArray, IntArray


@dataclass(frozen=True)
class SandwichRow:
    """One radius and one adversary, on the inputs certified there. NaN where there are none.

    Clean and attacked values are estimates from fresh draws: they scatter around the smoothed model's own, and errors
    of few inputs are biased upwards. Certified values bound the smoothed model's own. The two `limit` columns are what
    the *estimates* may show at most if the certificates are sound; see `Sandwich`.
    """

    radius: float
    adversary: str
    inputs: int  # certified at this radius
    accuracy: float  # of the smoothed predictions on them, the same before and after
    clean_ece: float
    attacked_ece: float
    certified_ece: float
    limit_ece: float
    clean_brier: float
    attacked_brier: float
    certified_brier: float
    limit_brier: float
    contradictions: int  # inputs seen outside their certified bounds, or with another class ahead
    allowed: int  # how many of these chance may bring about
    excess: (
        float  # how far confidences lie beyond their bounds on average, at the least; not above 0 if these are sound
    )

    @property
    def holds(self) -> bool:
        """Whether nothing seen contradicts the certificates."""
        empty = self.inputs == 0
        below = self.attacked_ece <= self.limit_ece and self.attacked_brier <= self.limit_brier
        return empty or (below and self.contradictions <= self.allowed and self.excess <= 0)


Tried = tuple[SandwichRow, ReliabilityCurve | None, ReliabilityCurve | None]


@dataclass(frozen=True, eq=False)
class Judge:
    """Attacks the inputs certified at a radius and judges what became of them by fresh draws."""

    model: nn.Module
    evidence: Evidence
    inputs: Tensor
    n_bins: int
    edges: ArrayLike | None
    draws: int
    seed: int
    allowed: int
    levels: Levels
    batch_size: int | None = None

    def row(
        self, bounds: ConfidenceIntervals, clean: FloatArray, adversary: Adversary, options: dict[str, Any]
    ) -> Tried:
        """One row, from the confidences of the certified inputs without attack, with reliability curves."""
        kept = np.flatnonzero(bounds.certified)
        if len(kept) == 0:
            return _empty_row(bounds.radius, adversary, self.allowed), None, None
        lower, upper, correct = bounds.lower[kept], bounds.upper[kept], bounds.correct[kept]
        certified = row_at(bounds, n_bins=self.n_bins, edges=self.edges, metrics=("certified_ece", "certified_brier"))
        bins: dict[str, Any] = {"n_bins": self.n_bins, "edges": self.edges}
        found = attack_calibration(
            self.model,
            self.inputs[kept],
            self.evidence.label[kept],
            sigma=self.evidence.header.sigma,
            epsilon=bounds.radius,
            adversary=adversary,
            predicted=bounds.predicted[kept],
            lower=lower,
            upper=upper,
            seed=self.seed,
            precision=self.precision,
            **bins,
            **options,
        )
        attacked = self.look(found.inputs, kept)
        finding = confront(
            attacked, lower, upper, correct, seen=found.seen_after, levels=self.levels, allowed=self.allowed,
            bins=Bins.equal_width(self.n_bins) if self.edges is None else Bins.from_edges(self.edges),
        )  # fmt: skip
        row = SandwichRow(
            radius=bounds.radius,
            adversary=adversary.value,
            inputs=len(kept),
            accuracy=float(correct.mean()),
            clean_ece=expected_calibration_error(clean, correct, **bins),
            attacked_ece=expected_calibration_error(attacked.confidence, correct, **bins),
            certified_ece=certified.certified_ece,
            limit_ece=finding.limit_ece,
            clean_brier=top_label_brier_score(clean, correct),
            attacked_brier=top_label_brier_score(attacked.confidence, correct),
            certified_brier=certified.certified_brier,
            limit_brier=finding.limit_brier,
            contradictions=finding.contradictions,
            allowed=self.allowed,
            excess=finding.excess,
        )
        before, after = (reliability_curve(seen, correct, **bins) for seen in (clean, attacked.confidence))
        return row, before, after

    def look(self, inputs: Tensor, positions: IntArray) -> SmoothedEstimate:
        """Estimates at inputs that stand for those at the given positions, under the noise of these."""
        return estimate_smoothed(
            self.model,
            inputs,
            self.evidence.selected[positions],
            sigma=self.evidence.header.sigma,
            draws=self.draws,
            seed=self.seed,
            indices=self.evidence.index[positions],
            precision=self.precision,
            batch_size=self.batch_size,
        )

    @property
    def precision(self) -> str:
        """What the evidence was drawn in, such as "bfloat16" of "bfloat16 fused on cuda"."""
        return self.evidence.header.precision.split()[0]


def inputs_of(model: nn.Module, data: Any, evidence: Evidence) -> Tensor:
    """The inputs that the evidence is about, in its order."""
    if evidence.header.outputs != "logits":
        raise InputError.expected("evidence", "be of a model that gives logits", evidence.header.outputs)
    if evidence.header.model != model_fingerprint(model):
        raise InputError.expected("model", "be the one the evidence was drawn from", "another one")
    source = Source(data)
    found = {item.index: item for item in source.items(set(source.indices) - set(evidence.index.tolist()))}
    for index, content in zip(evidence.index.tolist(), evidence.content.tolist(), strict=True):
        if index not in found or found[index].content != content:
            raise InputError.expected("data", "hold the inputs of the evidence", f"another input, or none, at {index}")
    return torch.stack([found[index].input for index in evidence.index.tolist()])


def _empty_row(radius: float, adversary: Adversary, allowed: int) -> SandwichRow:
    nan = float("nan")
    return SandwichRow(radius, adversary.value, 0, nan, nan, nan, nan, nan, nan, nan, nan, nan, 0, allowed, nan)

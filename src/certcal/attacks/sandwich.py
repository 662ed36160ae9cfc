"""The sandwich: at each radius, calibration without attack ≤ under attack ≤ as certified."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from certcal.attacks.calibration import attack_calibration
from certcal.attacks.fresh_draws import SmoothedEstimate, estimate_smoothed
from certcal.attacks.records import Moved, Sandwich, SandwichRow, Terms
from certcal.attacks.refutation import Finding, Levels, confront
from certcal.certificates import ConfidenceIntervals, Method, RunnerUp, confidence_bounds_at
from certcal.errors import InputError
from certcal.evaluation import row_at
from certcal.metrics import Bins, ReliabilityCurve, expected_calibration_error, reliability_curve, top_label_brier_score
from certcal.models import Tempered, model_fingerprint
from certcal.scalars import check_choice, check_level, guarded, one_or_more
from certcal.settings import PREDICTION_SHARE, Adversary, each_once
from certcal.smoothing import Evidence, Source
from certcal.types import ArrayLike, FloatArray, IntArray
from certcal.worstcase import WorstCaseProblem, allowed_failures, choose_few_bins

# A row, its curves before and after, and the input that moved most.
Tried = tuple[SandwichRow, ReliabilityCurve | None, ReliabilityCurve | None, Moved | None]


@guarded
def attack_certificates(
    model: nn.Module,
    data: Any,
    evidence: Evidence,
    *,
    radii: Iterable[float] | float,
    alpha: float,
    adversaries: Iterable[str] | str = (Adversary.BRIER, Adversary.REACH),
    method: str = Method.CDF_CP,
    split_alpha: bool = True,
    prediction_share: float = PREDICTION_SHARE,
    runner_up: str = RunnerUp.COMPLEMENT,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    draws: int = 1000,
    attack_draws: int = 32,
    steps: int = 20,
    delta: float = 0.001,
    seed: int = 0,
    batch_size: int | None = None,
    begun: Sandwich | None = None,
    keep: Callable[[Sandwich], None] | None = None,
    **attack: Any,
) -> Sandwich:
    """How badly calibrated the smoothed model is without attack, under attacks, and at most, at each radius.

    Paper: —; the attacks are those of Sec. 4, the certificates those of Sec. 3.

    Args:
        model: the base model that the evidence was drawn from.
        data: what the evidence was drawn from, as for `collect_evidence`.
        evidence: of these inputs.
        radii: R, of the certificates and of the attacks.
        alpha, method, split_alpha, prediction_share, runner_up: as for `confidence_bounds`.
        adversaries: names of an `Adversary`.
        n_bins, edges: bins of the calibration errors.
        draws: fresh ones per input, by which clean and attacked inputs are judged.
        attack_draws: shared ones that the attacks see.
        steps: of the attacks.
        delta: probability with which chance alone may contradict sound certificates somewhere in the table.
        seed: of the attacks' and the judging noise.
        batch_size: noisy copies per forward pass.
        begun: rows of the same attacks that were made before and are taken as they are.
        keep: called with what is there after each further row, so that an interrupted call can go on.
        attack: further options of `attack_calibration`, such as `box`.

    Raises: InputError if an argument is wrong, or the evidence is of another model or of other inputs.
    """
    check_level("delta", delta)
    wanted, bins = as_adversaries(adversaries), choose_few_bins(n_bins, edges)
    inputs = inputs_of(model, data, evidence)
    bounds = confidence_bounds_at(
        evidence, radii=radii, alpha=alpha, method=method, split_alpha=split_alpha, prediction_share=prediction_share,
        runner_up=runner_up,
    )  # fmt: skip
    # Half of delta is for certificates that fail, half for estimates that miss.
    allowed = allowed_failures(bounds[0], delta=delta / 2)
    levels = Levels.shared(delta, rows=len(bounds) * len(wanted), inputs=len(evidence))
    terms = Terms(
        **bounds[0].terms, delta=delta, n_bins=len(bins), draws=draws, attack_draws=attack_draws, steps=steps, seed=seed
    )  # fmt: skip
    judge = _Judge(model, evidence, inputs, terms, bins, allowed, levels, attack | {"batch_size": batch_size})
    clean = judge.look(inputs, np.arange(len(evidence))).confidence

    def tried(own: ConfidenceIntervals, adversary: Adversary) -> Tried:
        return judge.row(own, clean[own.certified], adversary)

    return gather(tried, bounds, wanted, terms, allowed, begun, keep)


def as_adversaries(names: Iterable[str] | str) -> list[Adversary]:
    """One or several adversaries, each once."""
    wanted = [check_choice("adversaries", name, tuple(Adversary)) for name in one_or_more("adversaries", names)]
    each_once("adversaries", wanted)
    return [Adversary(name) for name in wanted]


def gather(
    tried: Callable[[ConfidenceIntervals, Adversary], Tried],
    bounds: Sequence[ConfidenceIntervals],
    adversaries: Iterable[Adversary],
    terms: Terms,
    allowed: int,
    begun: Sandwich | None,
    keep: Callable[[Sandwich], None] | None,
) -> Sandwich:
    """The rows of these bounds and adversaries: those that there are, and the others one after another."""
    there: Iterable[Tried] = ()
    if begun is not None:
        there = zip(begun.rows, begun.before, begun.after, begun.moved or (None,) * len(begun), strict=True)
    known = {(one[0].radius, one[0].adversary): one for one in there}
    found: list[Tried] = []
    for own, adversary in product(bounds, adversaries):
        one = known.get((own.radius, adversary.value))
        found.append(one or (tried(own, adversary) if own.certified.any() else _empty(own, adversary, allowed)))
        rows, before, after, moved = zip(*found, strict=True)
        made = Sandwich(rows, before, after, len(own), terms, moved=moved)
        if one is None and keep is not None:
            keep(made)
    return made


def _empty(bounds: ConfidenceIntervals, adversary: Adversary, allowed: int) -> Tried:
    """What is there where no input is certified."""
    nan = math.nan
    row = SandwichRow(bounds.radius, adversary.value, 0, nan, nan, nan, nan, nan, nan, nan, nan, nan, 0, allowed, nan)
    return row, None, None, None


@dataclass(frozen=True, eq=False)
class _Judge:
    """Attacks the inputs certified at a radius and judges what became of them by fresh draws."""

    model: nn.Module
    evidence: Evidence
    inputs: Tensor
    terms: Terms
    bins: Bins
    allowed: int
    levels: Levels
    attack: dict[str, Any]  # further options of the attacks

    def row(self, bounds: ConfidenceIntervals, clean: FloatArray, adversary: Adversary) -> Tried:
        """One row, from the confidences of the certified inputs without attack, with reliability curves."""
        kept, problem = np.flatnonzero(bounds.certified), WorstCaseProblem.of(bounds, edges=self.bins.edges)
        found = attack_calibration(
            self.model,
            self.inputs[kept],
            self.evidence.label[kept],
            sigma=self.evidence.header.sigma,
            epsilon=bounds.radius,
            adversary=adversary,
            predicted=bounds.predicted[kept],
            lower=problem.lower,
            upper=problem.upper,
            edges=problem.bins.edges,
            draws=self.terms.attack_draws,
            steps=self.terms.steps,
            seed=self.terms.seed,
            precision=self.precision,
            **self.attack,
        )
        attacked = self.look(found.inputs, kept)
        finding = confront(attacked, problem, seen=found.seen_after, levels=self.levels, allowed=self.allowed)
        row, before, after = seen_row(bounds, problem, adversary, clean, attacked.confidence, finding, self.allowed)
        most = int(np.argmax(np.abs(attacked.confidence - clean)))
        change = (found.inputs[most].cpu() - self.inputs[kept[most]].cpu()).double().numpy()
        index = int(self.evidence.index[kept[most]])
        return row, before, after, Moved.of(index, float(clean[most]), float(attacked.confidence[most]), change)

    def look(self, inputs: Tensor, positions: IntArray) -> SmoothedEstimate:
        """Estimates at inputs that stand for those at the given positions, under the noise of these."""
        return estimate_smoothed(
            self.model,
            inputs,
            self.evidence.selected[positions],
            sigma=self.evidence.header.sigma,
            draws=self.terms.draws,
            seed=self.terms.seed,
            indices=self.evidence.index[positions],
            precision=self.precision,
            batch_size=self.attack["batch_size"],
        )

    @property
    def precision(self) -> str:
        """What the evidence was drawn in, such as "bfloat16" of "bfloat16 fused on cuda"."""
        return self.evidence.header.precision.split()[0]


def inputs_of(model: nn.Module, data: Any, evidence: Evidence) -> Tensor:
    """The inputs that the evidence is about, in its order."""
    if evidence.header.outputs != "logits":
        raise InputError.expected("evidence", "be of a model that gives logits", evidence.header.outputs)
    if not _drawn_from(model, evidence):
        own = "" if evidence.temperature == 1 else f", as Tempered(model, {evidence.temperature:g})"
        raise InputError.expected("model", f"be the one the evidence was drawn from{own}", "another one")
    source = Source(data)
    found = {item.index: item for item in source.items(set(source.indices) - set(evidence.index.tolist()))}
    for index, content in zip(evidence.index.tolist(), evidence.content.tolist(), strict=True):
        if index not in found or found[index].content != content:
            raise InputError.expected("data", "hold the inputs of the evidence", f"another input, or none, at {index}")
    return torch.stack([found[index].input for index in evidence.index.tolist()])


def _drawn_from(model: nn.Module, evidence: Evidence) -> bool:
    """Whether the evidence is of this model; at another temperature it is of the model with its logits divided."""
    if evidence.temperature != 1:
        wanted = torch.tensor(evidence.temperature)
        if not isinstance(model, Tempered) or not torch.equal(model.temperature.cpu(), wanted):
            return False
        model = model.model
    return evidence.header.model == model_fingerprint(model)


def seen_row(
    bounds: ConfidenceIntervals,
    problem: WorstCaseProblem,
    adversary: Adversary,
    clean: FloatArray,
    attacked: FloatArray,
    finding: Finding,
    allowed: int,
) -> tuple[SandwichRow, ReliabilityCurve, ReliabilityCurve]:
    """A row and its curves, from the confidences of the certified inputs without attack and under it."""
    correct, edges = problem.correct, problem.bins.edges
    certified = row_at(bounds, edges=edges, metrics=("certified_ece", "certified_brier"))
    row = SandwichRow(
        radius=bounds.radius,
        adversary=adversary.value,
        inputs=len(correct),
        accuracy=float(correct.mean()),
        clean_ece=expected_calibration_error(clean, correct, edges=edges),
        attacked_ece=expected_calibration_error(attacked, correct, edges=edges),
        certified_ece=certified.certified_ece,
        clean_brier=top_label_brier_score(clean, correct),
        attacked_brier=top_label_brier_score(attacked, correct),
        certified_brier=certified.certified_brier,
        allowed=allowed,
        **vars(finding),
    )
    return row, reliability_curve(clean, correct, edges=edges), reliability_curve(attacked, correct, edges=edges)

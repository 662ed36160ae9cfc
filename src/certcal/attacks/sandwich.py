"""The sandwich: at each radius, calibration without attack ≤ under attack ≤ as certified."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from certcal.attacks.adversaries import attack_calibration
from certcal.attacks.records import Moved, Sandwich, SandwichRow, Terms
from certcal.attacks.refutation import Finding, Levels, confront
from certcal.attacks.smoothed import estimate_smoothed
from certcal.certificates import ConfidenceIntervals, Method, RunnerUp, confidence_bounds_at
from certcal.errors import InputError
from certcal.evaluation import row_at
from certcal.metrics import ReliabilityCurve, expected_calibration_error, reliability_curve, top_label_brier_score
from certcal.models import Tempered, model_fingerprint
from certcal.scalars import check_choice, check_level, guarded, one_or_more
from certcal.settings import PREDICTION_SHARE, Adversary, each_once
from certcal.smoothing import Evidence, Source
from certcal.types import ArrayLike, FloatArray
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
    precision = evidence.header.precision.split()[0]  # such as "bfloat16" of "bfloat16 fused on cuda"
    how: dict[str, Any] = {
        "sigma": evidence.header.sigma, "seed": seed, "precision": precision, "batch_size": batch_size
    }  # fmt: skip
    before = estimate_smoothed(model, inputs, evidence.selected, indices=evidence.index, draws=draws, **how)

    def tried(own: ConfidenceIntervals, adversary: Adversary) -> Tried:
        kept, problem = np.flatnonzero(own.certified), WorstCaseProblem.of(own, edges=bins.edges)
        found = attack_calibration(
            model, inputs[kept], evidence.label[kept], epsilon=own.radius, adversary=adversary,
            predicted=own.predicted[kept], lower=problem.lower, upper=problem.upper, edges=bins.edges,
            draws=attack_draws, steps=steps, **how, **attack,
        )  # fmt: skip
        chosen, places = evidence.selected[kept], evidence.index[kept]
        after = estimate_smoothed(model, found.inputs, chosen, indices=places, draws=draws, **how)
        clean, attacked = before.confidence[kept], after.confidence
        finding = confront(after, problem, seen=found.seen_after, levels=levels, allowed=allowed)
        most = int(np.argmax(np.abs(attacked - clean)))
        change = (found.inputs[most].cpu() - inputs[kept[most]].cpu()).double().numpy()
        moved = Moved.of(int(places[most]), float(clean[most]), float(attacked[most]), change)
        return *seen_row(own, problem, adversary, clean, attacked, finding, allowed), moved

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

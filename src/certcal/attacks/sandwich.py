"""The sandwich: at each radius, calibration without attack ≤ under attack ≤ as certified."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import nn

from certcal.attacks.judge import Judge, SandwichRow, inputs_of
from certcal.attacks.launch import check_each_once
from certcal.attacks.refutation import Levels
from certcal.certificates import Method, confidence_bounds_at
from certcal.inputs import check_choice, check_level, one_or_more
from certcal.metrics import ReliabilityCurve
from certcal.settings import Adversary
from certcal.smoothing import Evidence
from certcal.types import ArrayLike
from certcal.worstcase import allowed_failures


@dataclass(frozen=True, eq=False, repr=False)
class Sandwich:
    """Rows for each radius and adversary, with the reliability curves before and after.

    If the certificates are sound, then with probability at least 1 - delta over all draws every row holds: at most
    `allowed` certificates fail (each with probability alpha), every other attacked confidence is estimated within its
    limits, and so are their sums. A row that does not hold is evidence against the certificates, or of a model that is
    not the one that the evidence was drawn from.
    """

    rows: tuple[SandwichRow, ...]
    before: tuple[ReliabilityCurve | None, ...]  # beside the rows; None where no input is certified
    after: tuple[ReliabilityCurve | None, ...]
    inputs: int  # in the evidence
    alpha: float
    delta: float
    draws: int  # fresh ones per estimate

    def __iter__(self) -> Iterator[SandwichRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        radii = ", ".join(dict.fromkeys(f"{row.radius:g}" for row in self.rows))
        names = ", ".join(dict.fromkeys(row.adversary for row in self.rows))
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        return f"Sandwich({self.inputs} inputs, R = {radii}, {names}, {self.draws} draws: {verdict})"

    @property
    def holds(self) -> bool:
        """Whether every row does."""
        return all(row.holds for row in self.rows)

    def strongest(self) -> tuple[SandwichRow, ...]:
        """For each radius the row with the largest attacked calibration error; the first of those within 0.01 %."""
        best: dict[float, SandwichRow] = {}
        for row in self.rows:
            if row.radius not in best or round(row.attacked_ece, 4) > round(best[row.radius].attacked_ece, 4):
                best[row.radius] = row
        return tuple(best.values())

    def as_dicts(self) -> list[dict[str, Any]]:
        """The rows as plain dictionaries, for JSON or a data frame."""
        return [asdict(row) | {"holds": row.holds} for row in self.rows]


def prepare_sandwich(
    model: nn.Module,
    data: Any,
    evidence: Evidence,
    *,
    radii: Iterable[float] | float,
    alpha: float,
    adversaries: Iterable[str] | str = (Adversary.BRIER, Adversary.REACH),
    method: str = Method.CDF_CP,
    split_alpha: bool = True,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    draws: int = 1000,
    attack_draws: int = 32,
    delta: float = 0.001,
    seed: int = 0,
    batch_size: int | None = None,
    **attack: Any,
) -> Sandwich:
    """How badly calibrated the smoothed model is without attack, under attacks, and at most, at each radius.

    Paper: —; the attacks are those of Sec. 4, the certificates those of Sec. 3.

    Args:
        model: the base model that the evidence was drawn from.
        data: what the evidence was drawn from, as for `collect_evidence`.
        evidence: of these inputs.
        radii: R, of the certificates and of the attacks.
        alpha, method, split_alpha: as for `confidence_bounds`.
        adversaries: names of an `Adversary`.
        n_bins, edges: bins of the calibration errors.
        draws: fresh ones per input, by which clean and attacked inputs are judged.
        attack_draws: shared ones that the attacks see.
        delta: probability with which chance alone may contradict sound certificates somewhere in the table.
        seed: of the attacks' and the judging noise.
        batch_size: noisy copies per forward pass.
        attack: further options of `attack_calibration`, such as `steps` or `box`.

    Raises: InputError if an argument is wrong, or the evidence is of another model or of other inputs.
    """
    check_level("delta", delta)
    wanted = [check_choice("adversaries", name, tuple(Adversary)) for name in one_or_more("adversaries", adversaries)]
    check_each_once("adversaries", wanted)
    inputs = inputs_of(model, data, evidence)
    bounds = confidence_bounds_at(evidence, radii=radii, alpha=alpha, method=method, split_alpha=split_alpha)
    # Half of delta is for certificates that fail, half for estimates that miss.
    allowed = allowed_failures(bounds[0], delta=delta / 2)
    levels = Levels.shared(delta, rows=len(bounds) * len(wanted), inputs=len(evidence))
    options = {"draws": attack_draws, "batch_size": batch_size, **attack}
    judge = Judge(model, evidence, inputs, n_bins, edges, draws, seed, allowed, levels, batch_size)
    clean = judge.look(inputs, np.arange(len(evidence))).confidence
    tried = [judge.row(own, clean[own.certified], Adversary(name), options) for own in bounds for name in wanted]
    rows, before, after = zip(*tried, strict=True)
    return Sandwich(rows, before, after, len(evidence), alpha, delta, draws)

"""The adversaries of a smoothed model: how each moves the inputs, and what that costs."""

from collections.abc import Callable

import numpy as np
from torch import Tensor

from certcal.attacks.acce import acce_adversary
from certcal.attacks.attainable import CHOICE_DRAWS, CHOICES, CLEARANCES, HALVINGS, reach_adversary
from certcal.attacks.input_attack import cross_entropy
from certcal.attacks.smoothed import Scene, signed_log_odds
from certcal.settings import Adversary
from certcal.worstcase import AdmmSettings, WorstCaseProblem, solve_exact

# One run with the larger assignment rate of App. I.1, and the schedule ρ ← 1.1 ρ of App. I.3.
_ADMM = AdmmSettings(starts=("clean",), confidence_rates=(0.01,), assignment_rates=(0.1,), rho_factors=(1.1,))
BACKWARD = 3  # a pass with its gradient, in units of a pass without


def smoothadv_adversary(scene: Scene, problem: WorstCaseProblem) -> Tensor:
    """Ascent on the cross-entropy of the smoothed probabilities. Salman et al. (2019)."""
    return scene.climb(cross_entropy, scene.labels)


def brier_adversary(scene: Scene, problem: WorstCaseProblem) -> Tensor:
    """Ascent on (c − z)²: down where the prediction is right, up where it is wrong."""
    return scene.climb(signed_log_odds, scene.target(np.where(problem.correct, -1, 1)))


def cce_adversary(scene: Scene, problem: WorstCaseProblem) -> Tensor:
    """Ascent on Σ d_n z_n, where d_n = −s_m for the bin m that the exact worst case puts input n into."""
    worst = solve_exact(problem)
    assert worst.signs is not None
    assert worst.bins is not None
    return scene.climb(signed_log_odds, scene.target(-worst.signs[worst.bins]))


ADVERSARIES: dict[Adversary, Callable[[Scene, WorstCaseProblem], Tensor]] = {
    Adversary.SMOOTHADV: smoothadv_adversary,
    Adversary.BRIER: brier_adversary,
    Adversary.ACCE: lambda scene, problem: acce_adversary(scene, problem, _ADMM),
    Adversary.CCE: cce_adversary,
    Adversary.REACH: reach_adversary,
}


def attack_passes(adversary: str, *, draws: int, steps: int) -> int:
    """The most forward passes that an attack on the smoothed model takes per input, with a look before and after."""
    climb = BACKWARD * steps + 1
    most = draws * climb
    if adversary == Adversary.ACCE:  # asks for the confidences at every step
        most = draws * (climb + steps + 1)
    elif adversary == Adversary.REACH:  # climbs twice, aims between the ends, and chooses among the sets it finds
        most = draws * (2 * climb + 2 + len(CLEARANCES) * HALVINGS) + CHOICES * CHOICE_DRAWS
    return most + 2 * draws

"""The adversaries of a smoothed model: how each moves the inputs, and what that costs."""

from collections.abc import Callable
from dataclasses import dataclass

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


def climb_passes(draws: int, steps: int) -> int:
    """The most forward passes per input of one climb."""
    return draws * (BACKWARD * steps + 1)


def acce_passes(draws: int, steps: int) -> int:
    """The same of ACCE, which also asks for the confidences at every step."""
    return draws * ((BACKWARD + 1) * steps + 2)


def reach_passes(draws: int, steps: int) -> int:
    """The same of two climbs, of aiming between their ends, and of choosing among the sets that are found."""
    return 2 * climb_passes(draws, steps) + draws * (2 + len(CLEARANCES) * HALVINGS) + CHOICES * CHOICE_DRAWS


@dataclass(frozen=True)
class Means:
    """How an adversary goes about it."""

    move: Callable[[Scene, WorstCaseProblem], Tensor]
    passes: Callable[[int, int], int] = climb_passes  # of draws and steps: the most forward passes per input


ADVERSARIES: dict[Adversary, Means] = {
    Adversary.SMOOTHADV: Means(smoothadv_adversary),
    Adversary.BRIER: Means(brier_adversary),
    Adversary.ACCE: Means(lambda scene, problem: acce_adversary(scene, problem, _ADMM), acce_passes),
    Adversary.CCE: Means(cce_adversary),
    Adversary.REACH: Means(reach_adversary, reach_passes),
}


def attack_passes(adversary: str, *, draws: int, steps: int) -> int:
    """The most forward passes that an attack on the smoothed model takes per input, with a look before and after."""
    return ADVERSARIES[Adversary(adversary)].passes(draws, steps) + 2 * draws

"""The paper's ACCE adversary: ADMM over the bin assignments a, projected gradient steps on the inputs.

Paper: Sec. 4, Eq. (8), Alg. 2 without its last line, App. F.
"""

import torch
from torch import Tensor

from certcal.attacks.balls import Ball, Norm
from certcal.attacks.pgd import evaluate
from certcal.attacks.smoothed import Scene, signed_log_odds
from certcal.metrics import expected_calibration_error
from certcal.types import FloatArray
from certcal.worstcase import AdmmSettings, WorstCaseProblem
from certcal.worstcase.admm import Program, State, initialise, settle_assignment, updated_assignment


def acce_adversary(scene: Scene, problem: WorstCaseProblem, admm: AdmmSettings) -> Tensor:
    """Inputs whose confidences, as a set, are badly calibrated: the inner loop of Algorithm 2.

    The problem's bounds say which bins each input can reach (K) and its correctness is c. Of all iterates the one with
    the largest calibration error on the attack's draws is returned, the inputs themselves among them; the paper takes
    the last one.
    """
    ball = Ball.around(scene.inputs, torch.full((len(scene.inputs),), scene.epsilon), Norm.L2, boxed=scene.settings.box)
    program, state = initialise(problem, scene.seen_confidence(scene.inputs), admm)  # a = 1 / M, duals 0; K and c
    point, best_point, best = scene.inputs, scene.inputs, -1.0
    for step in range(scene.settings.steps + 1):
        confidence, uphill = look(scene, ball, point)  # z^(t−1)
        error = expected_calibration_error(confidence, problem.correct, edges=problem.bins.edges)
        if error > best:
            best_point, best = point, error
        if step == scene.settings.steps:
            break
        spread = torch.as_tensor(confidence).to(state.z).expand_as(state.z)  # h: the same z in every bin
        state = state._replace(z=spread)
        push = pushes(program, state).to(point).reshape(ball.epsilon.shape)
        length = scene.settings.step_size or 2 * scene.epsilon / scene.settings.steps
        point = ball.project(point + length * push * uphill)  # γ^(t), from a^(t−1)
        a = updated_assignment(program, state, admm)  # a^(t), from z^(t−1)
        state = settle_assignment(program, state._replace(a=a), admm)  # q_1, q_2, λ and ρ
    return best_point


def look(scene: Scene, ball: Ball, point: Tensor) -> tuple[FloatArray, Tensor]:
    """The confidences of all inputs at their points, and the unit directions in which they rise."""
    target = torch.stack([scene.predicted, torch.ones_like(scene.predicted)], dim=1)
    gradients = [
        evaluate(scene.predict, signed_log_odds, point[own].to(scene.device), target[own].to(scene.device))[1]
        for own in scene.batches()
    ]
    return scene.seen_confidence(point), ball.steepest(torch.cat(gradients).to(point))


def pushes(program: Program, state: State) -> Tensor:
    """Which way each confidence should go to raise ‖E(z)' a‖_1: the sign of −Σ_m s_m a_{n,m}, shape (n,)."""
    sign = (state.a * (program.correct - state.z)).sum(dim=2, keepdim=True).sign()
    return -(sign * state.a).sum(dim=1).sign().squeeze(0)

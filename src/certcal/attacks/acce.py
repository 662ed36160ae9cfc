"""The paper's ACCE adversary: ADMM over the bin assignments a, projected gradient steps on the inputs.

Paper: Sec. 4, Eq. (8), Alg. 2 without its last line, App. F.
"""

import torch
from torch import Tensor

from certcal.attacks.pgd import loss_and_gradient, walk
from certcal.attacks.smoothed import Scene, signed_log_odds
from certcal.metrics import expected_calibration_error
from certcal.types import FloatArray
from certcal.worstcase import AdmmSettings, Assignments, WorstCaseProblem


def acce_adversary(scene: Scene, problem: WorstCaseProblem, admm: AdmmSettings) -> Tensor:
    """Inputs whose confidences, as a set, are badly calibrated: the inner loop of Algorithm 2.

    Of all iterates the one with the largest calibration error on the attack's draws is returned, the inputs themselves
    among them; the paper takes the last one.
    """
    assignments = Assignments.even(problem, scene.seen_confidence(scene.inputs), admm)
    best_point, best = scene.inputs, -1.0

    def judge(point: Tensor) -> FloatArray:
        nonlocal best_point, best
        confidence = scene.seen_confidence(point)
        error = expected_calibration_error(confidence, problem.correct, edges=problem.bins.edges)
        if error > best:
            best_point, best = point, error
        return confidence

    def look(point: Tensor, step: int) -> tuple[Tensor, Tensor]:
        return uphill(scene, point), assignments.pushes(torch.as_tensor(judge(point)))

    steps, length = scene.settings.steps, scene.settings.step_size or 2 * scene.epsilon / scene.settings.steps
    judge(walk(scene.ball, scene.inputs, steps=steps, length=length, look=look))
    return best_point


def uphill(scene: Scene, point: Tensor) -> Tensor:
    """The gradients of all inputs' confidences at their points, up to positive factors, shape (n, …)."""
    target = torch.stack([scene.predicted, torch.ones_like(scene.predicted)], dim=1)
    gradients = [
        loss_and_gradient(scene.predict, signed_log_odds, point[own].to(scene.device), target[own].to(scene.device))[1]
        for own in scene.batches()
    ]
    return torch.cat(gradients).to(point)

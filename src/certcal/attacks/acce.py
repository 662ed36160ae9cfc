"""The paper's ACCE adversary: ADMM over the bin assignments a, projected gradient steps on the inputs.

Paper: Sec. 4, Eq. (8), Alg. 2 without its last line, App. F.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from certcal.attacks.pgd import loss_and_gradient, walk
from certcal.attacks.smoothed import Scene, signed_log_odds
from certcal.metrics import expected_calibration_error
from certcal.types import FloatArray
from certcal.worstcase import AdmmSettings, WorstCaseProblem
from certcal.worstcase.admm import Program, State, initialise, settle_assignment, updated_assignment


@dataclass(eq=False)
class Assignments:
    """ADMM's assignment of confidences to bins, which takes one step for each of the inputs'. Paper: Alg. 2."""

    program: Program
    state: State
    settings: AdmmSettings

    @classmethod
    def even(cls, problem: WorstCaseProblem, confidence: FloatArray, settings: AdmmSettings) -> "Assignments":
        """Alg. 2, t = 1: a = 1 / M, duals 0; the problem says which bins each input can reach (K), and c."""
        return cls(*initialise(problem, confidence, settings), settings)

    def pushes(self, confidence: Tensor) -> Tensor:
        """Which way each confidence goes to raise ‖E(z)' a‖_1 at a^(t−1), shape (n,); and on to a^(t).

        That is the sign of −Σ_m s_m a_{n,m}.
        """
        spread = confidence.to(self.state.z).expand_as(self.state.z)  # h: z^(t−1), the same in every bin
        state = self.state._replace(z=spread)
        sign = (state.a * (self.program.correct - state.z)).sum(dim=2, keepdim=True).sign()
        push = -(sign * state.a).sum(dim=1).sign().squeeze(0)
        a = updated_assignment(self.program, state, self.settings)  # a^(t), from z^(t−1)
        self.state = settle_assignment(self.program, state._replace(a=a), self.settings)  # q_1, q_2, λ and ρ
        return push


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

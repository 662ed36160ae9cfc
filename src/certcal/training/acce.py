"""The paper's Algorithm 2: ADMM over the assignment to bins, one step for each of the adversary's."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from certcal.attacks.acce import pushes
from certcal.training.aims import few_draw_reach, worst_case
from certcal.training.reach import check_finite
from certcal.training.search import View
from certcal.training.settings import ObjectiveSettings
from certcal.training.step import Step
from certcal.worstcase import AdmmSettings
from certcal.worstcase.admm import Program, State, initialise, settle_assignment, updated_assignment


@dataclass(eq=False)
class Acce:
    """A large ‖E(z)' a‖_1 over confidences z and assignments a. Paper: Sec. 4, Eq. (8), Alg. 2.

    K, c and the class whose probability counts as confidence are fixed at the first step. All of ADMM's variables stay
    on the batch's device.
    """

    labels: Tensor
    step: Step
    settings: ObjectiveSettings
    classes: Tensor | None = None  # the predictions
    predicted: Tensor | None = field(default=None, init=False)  # (n,) what they were found to be
    program: Program | None = field(default=None, init=False)
    state: State | None = field(default=None, init=False)

    def signs(self, view: View, step: int) -> Tensor:
        """Which way γ goes, from a^(t−1); and on to a^(t)."""
        admm = admm_settings(view, self.settings)
        if self.program is None or self.state is None:  # Alg. 2, t = 1: a = 1 / M, duals 0, K and c
            check_finite(view.confidence, "A confidence")
            self.predicted = view.classes
            problem = worst_case(
                few_draw_reach(view, self.step, self.settings), view.classes == self.labels, self.settings
            )
            self.program, self.state = initialise(problem, view.confidence.cpu().numpy(), admm)
        spread = view.confidence.to(self.state.z).expand_as(self.state.z)  # h: z^(t−1), the same in every bin
        state = self.state._replace(z=spread)
        push = pushes(self.program, state)  # γ^(t), from a^(t−1)
        a = updated_assignment(self.program, state, admm)  # a^(t), from z^(t−1)
        self.state = settle_assignment(self.program, state._replace(a=a), admm)  # q_1, q_2, λ and ρ
        return push

    def error(self, confidence: Tensor) -> Tensor:
        """‖E(z)' a*‖_1 at the last assignment, to be differentiated in z, shape (n,)."""
        assert self.program is not None
        assert self.state is not None
        gap = self.program.correct - confidence.to(self.state.a)
        return (self.state.a * gap).sum(dim=2).abs().sum()


def admm_settings(view: View, settings: ObjectiveSettings) -> AdmmSettings:
    """One run of ADMM, in the precision and on the device of the batch."""
    return AdmmSettings(
        starts=("clean",),
        confidence_rates=(0.01,),  # of no use here: z follows from γ
        assignment_rates=(settings.assignment_rate,),
        rho_factors=(1 + settings.rho_growth,),
        rho=settings.rho,
        device=str(view.uphill.device),
        dtype="float64" if view.uphill.dtype is torch.float64 else "float32",
    )

"""The paper's Algorithm 2: ADMM over the assignment to bins, one step for each of the adversary's."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from certcal.attacks import Assignments
from certcal.settings import AcceActSettings
from certcal.training.aims import bounds_within_epsilon, worst_case
from certcal.training.few_draw_bounds import check_finite
from certcal.training.search import View
from certcal.training.step import Step
from certcal.worstcase import AdmmSettings


@dataclass(eq=False)
class Acce:
    """A large ‖E(z)' a‖_1 over confidences z and assignments a. Paper: Sec. 4, Eq. (8), Alg. 2.

    K, c and the class whose probability counts as confidence are fixed at the first step. All of ADMM's variables stay
    on the batch's device.
    """

    labels: Tensor
    step: Step
    settings: AcceActSettings
    classes: Tensor | None = None  # the predictions
    predicted: Tensor | None = field(default=None, init=False)  # (n,) what they were found to be
    assignments: Assignments | None = field(default=None, init=False)

    def signs(self, view: View, step: int) -> Tensor:
        """Which way γ goes, from a^(t−1); and on to a^(t)."""
        if self.assignments is None:
            check_finite(view.confidence, "A confidence")
            self.predicted = view.classes
            problem = worst_case(
                bounds_within_epsilon(view, self.step, self.settings), view.classes == self.labels, self.settings
            )
            admm = admm_settings(view, self.settings)
            self.assignments = Assignments.even(problem, view.confidence.cpu().numpy(), admm)
        return self.assignments.pushes(view.confidence)

    def error(self, confidence: Tensor) -> Tensor:
        """‖E(z)' a*‖_1 at the last assignment, to be differentiated in z, shape (n,)."""
        assert self.assignments is not None
        a = self.assignments.state.a
        gap = self.assignments.program.correct - confidence.to(a)
        return (a * gap).sum(dim=2).abs().sum()


def admm_settings(view: View, settings: AcceActSettings) -> AdmmSettings:
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

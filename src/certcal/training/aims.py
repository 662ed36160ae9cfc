"""What adversaries in training want: cross-entropy, Brier score, or a bad calibration error, by ADMM or exactly."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from certcal.settings import AcceActSettings, CceActSettings
from certcal.training.captured import on_host
from certcal.training.certificate import FewDrawBounds, check_finite, quantile, shift_of, standard_bounds
from certcal.training.search import View, step_length
from certcal.training.step import Step
from certcal.worstcase import AdmmSettings, Assignments, WorstCaseProblem, slopes, solve_exact


@dataclass(eq=False)
class SmoothAdv:
    """A large −log of the label's smoothed probability: push that down. Salman et al. (2019), Eq. (S)."""

    classes: Tensor | None  # the labels

    def signs(self, view: View, step: int) -> Tensor:
        return -torch.ones_like(view.confidence)


@dataclass(eq=False)
class Brier:
    """A large (c − z)²: confidences down where the prediction is right, up where it is wrong. Paper: Sec. 4."""

    labels: Tensor
    classes: Tensor | None = None  # the predictions

    def signs(self, view: View, step: int) -> Tensor:
        return torch.where(view.classes == self.labels, -1.0, 1.0)


@dataclass(eq=False)
class Cce:
    """Towards the exact worst case of the calibration error within what the steps that are left can reach.

    Paper: —; the inner problem of Eq. (8) solved exactly at every step instead of by ADMM, docs/training.md.
    """

    labels: Tensor
    step: Step
    settings: CceActSettings
    classes: Tensor | None = None  # the predictions
    ball: FewDrawBounds | None = field(default=None, init=False)  # from the inputs themselves, within ε

    def signs(self, view: View, step: int) -> Tensor:
        return on_host(lambda: (self.directions(view, step),))[0]

    def directions(self, view: View, step: int) -> Tensor:
        """Which way each confidence goes, shape (n,), on the device of the batch."""
        check_finite(view.confidence, "A confidence")
        directions = towards(self.problem(view, step), view.confidence.cpu().numpy())
        return torch.from_numpy(directions).to(view.confidence.device)

    def problem(self, view: View, step: int) -> WorstCaseProblem:
        """Where each confidence can still go: within ε of its input, and with the steps that are left."""
        if self.ball is None or step == 0:
            self.ball = bounds_within_epsilon(view, self.step, self.settings)
        far = (self.settings.steps - step) * step_length(self.step.epsilon, self.settings)
        left = shift_of(far, self.step)
        low, high = self.ball.low_quantile, self.ball.high_quantile
        here = quantile(view.confidence, view.rest).clamp(low, high)  # few draws move further than the smoothed model
        bounds = FewDrawBounds(torch.maximum(low, here - left), torch.minimum(high, here + left))
        return worst_case(bounds, view.classes == self.labels, self.settings)


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
        return on_host(lambda: (self.pushes(view, step),))[0]

    def pushes(self, view: View, step: int) -> Tensor:
        """Which way γ goes, from a^(t−1), shape (n,); and on to a^(t)."""
        if self.assignments is None or step == 0:
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
        a, correct = on_host(self.last)
        gap = correct - confidence.to(a)
        return (a * gap).sum(dim=2).abs().sum()

    def last(self) -> tuple[Tensor, Tensor]:
        """a*, and c in its shape."""
        assert self.assignments is not None
        return self.assignments.state.a, self.assignments.program.correct


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


def towards(problem: WorstCaseProblem, confidence: np.ndarray) -> np.ndarray:
    """Which way each confidence goes at the exact worst case, shape (n,).

    An input that stands there at one of its bounds goes in direction −s, s the sign of its bin: by Danskin's theorem
    the derivative of the worst case. One that stands at the edge of a bin, where that is 0, goes to that edge.
    """
    worst = solve_exact(problem)
    at_lower, at_upper, sign = slopes(problem, worst)
    directions: np.ndarray = np.where(at_lower | at_upper, -sign, np.sign(worst.confidence - confidence))
    return directions


def bounds_within_epsilon(view: View, step: Step, settings: CceActSettings) -> FewDrawBounds:
    """Within which values the Standard certificate puts confidences within ε, from few draws, without abstaining."""
    shift = shift_of(step.epsilon, step)
    return standard_bounds(view.confidence, view.rest, shift=shift, draws=settings.draws, alpha=settings.alpha)


def worst_case(bounds: FewDrawBounds, correct: Tensor, settings: CceActSettings) -> WorstCaseProblem:
    """The problem that the exact solution and ADMM take, on the CPU: three vectors of the batch's length."""
    lower = bounds.lower
    upper = torch.maximum(lower, bounds.upper)
    return WorstCaseProblem.checked(lower, upper, correct, n_bins=settings.n_bins)

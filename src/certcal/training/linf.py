"""The adversary of adversarial training without noise: projected gradient ascent on the cross-entropy in ℓ∞."""

import torch
from torch import Tensor, nn

from certcal.attacks import DTYPES, Ball, Norm, cross_entropy, loss_and_gradient, walk
from certcal.errors import InputError
from certcal.models import as_outputs
from certcal.settings import PgdSettings
from certcal.training.search import searching, step_length
from certcal.training.step import Step


def climb_cross_entropy(model: nn.Module, inputs: Tensor, labels: Tensor, step: Step, settings: PgdSettings) -> Tensor:
    """The last of T steps of 2 v ε / T along the sign of the gradient, in the ℓ∞ ball and, unless told not to, [0, 1].

    From a random point of the ball, if asked for. Madry et al. (2018), Sec. 2.1.
    """
    if inputs.dtype not in DTYPES:
        raise InputError.expected("inputs", "be float32 or float64", inputs.dtype)
    boxed = settings.box is None or settings.box
    ball = Ball.around(inputs, step.epsilon, Norm.LINF, boxed=boxed)
    start, up = inputs, torch.ones(len(inputs), device=inputs.device)
    if settings.random_start:
        unit = torch.rand(inputs.shape, generator=step.generator, device=inputs.device, dtype=inputs.dtype)
        start = ball.at(2 * unit - 1)

    def uphill(point: Tensor, now: int) -> tuple[Tensor, Tensor]:
        return loss_and_gradient(lambda at: as_outputs(model(at), len(at)), cross_entropy, point, labels)[1], up

    with searching(model):
        return walk(ball, start, steps=settings.steps, length=step_length(step.epsilon, settings), look=uphill)

"""The adversary of adversarial training without noise: projected gradient ascent on the cross-entropy in ℓ∞."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from certcal.attacks.balls import DTYPES, Ball, Norm
from certcal.attacks.victims import as_logits
from certcal.errors import InputError
from certcal.training.search import searching, step_length
from certcal.training.settings import ObjectiveSettings
from certcal.training.step import Step


def climb_cross_entropy(
    model: nn.Module, inputs: Tensor, labels: Tensor, step: Step, settings: ObjectiveSettings
) -> Tensor:
    """The last of T steps of 2 v ε / T along the sign of the gradient, in the ℓ∞ ball and, unless told not to, [0, 1].

    From a random point of the ball, if asked for. Madry et al. (2018), Sec. 2.1.
    """
    if inputs.dtype not in DTYPES:
        raise InputError.expected("inputs", "be float32 or float64", inputs.dtype)
    boxed = settings.box is None or settings.box
    ball = Ball.around(inputs, torch.full((len(inputs),), step.epsilon, dtype=torch.float64), Norm.LINF, boxed=boxed)
    point = inputs
    if settings.random_start:
        unit = torch.rand(inputs.shape, generator=step.generator, device=inputs.device, dtype=inputs.dtype)
        point = ball.at(2 * unit - 1)
    length = step_length(step.epsilon, settings)
    with searching(model):
        for _ in range(settings.steps):
            at = point.detach().requires_grad_()
            loss = cross_entropy(as_logits(model(at), len(at)), labels, reduction="sum")
            (gradient,) = torch.autograd.grad(loss, at)
            point = ball.project(point + length * ball.steepest(gradient))
    return point

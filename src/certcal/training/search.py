"""The adversary's steps on a batch: projected gradient ascent, in ℓ2 under noise or in ℓ∞ without."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from certcal.attacks import Ball, Norm, cross_entropy, loss_and_gradient, walk
from certcal.errors import InputError
from certcal.models import FLOATS, as_outputs, held_still
from certcal.settings import PgdSettings, SmoothAdvSettings
from certcal.training.copies import Copies, log_mean, log_odds
from certcal.training.step import Step


@dataclass(frozen=True, eq=False)
class View:
    """What one pass through the model tells an adversary. Confidences are estimates, from the copies' few draws."""

    classes: Tensor  # (n,) whose probability is looked at
    confidence: Tensor  # (n,) that probability, float64
    rest: Tensor  # (n,) the probability of all other classes, with all its digits where the first is nearly 1
    uphill: Tensor  # (n, …) gradient of the probability, up to a positive factor


class Aim(Protocol):
    """Which way the probabilities should go."""

    classes: Tensor | None  # (n,) whose; None for those that the smoothed model predicts at the first step

    def signs(self, view: View, step: int) -> Tensor:
        """+1 up, −1 down, 0 neither, shape (n,); asked once at each step t = 0 … T − 1, in order."""
        ...


def search(copies: Copies, inputs: Tensor, aim: Aim, epsilon: float, settings: SmoothAdvSettings) -> Tensor:
    """The last of T steps of length 2 v ε / T within the ℓ2 ball around each input, starting at the input.

    All gradients are normalised, so only which probability should go which way tells one adversary from another.
    The model is in evaluation mode meanwhile, so that batch-norm statistics stay those of the data.
    """
    ball = Ball.around(inputs, epsilon, Norm.L2, boxed=bool(settings.box))
    classes = aim.classes

    def aimed(point: Tensor, step: int) -> tuple[Tensor, Tensor]:
        nonlocal classes
        view = look(copies, point, classes, settings.gradient)
        classes = view.classes
        return view.uphill, aim.signs(view, step)

    with searching(copies.model):
        return walk(ball, inputs, steps=settings.steps, length=step_length(epsilon, settings), look=aimed)


def climb_cross_entropy(model: nn.Module, inputs: Tensor, labels: Tensor, step: Step, settings: PgdSettings) -> Tensor:
    """The last of T steps of 2 v ε / T along the sign of the gradient, in the ℓ∞ ball and, unless told not to, [0, 1].

    From a random point of the ball, if asked for. Madry et al. (2018), Sec. 2.1.
    """
    if inputs.dtype not in FLOATS:
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


def step_length(epsilon: float, settings: SmoothAdvSettings | PgdSettings) -> float:
    """2 v ε / T. Paper: App. I.3."""
    return 2 * settings.step_factor * epsilon / settings.steps


def look(copies: Copies, point: Tensor, classes: Tensor | None, gradient: str) -> View:
    """Confidences at a point and where they rise, by one forward pass and, unless by Stein's lemma, one back."""
    with torch.set_grad_enabled(gradient == "backprop"):
        at = point.detach().requires_grad_(gradient == "backprop")
        logits = copies.logits(at)
        smoothed = log_mean(logits, copies.draws)
        chosen = smoothed.detach().argmax(dim=1) if classes is None else classes
        odds = log_odds(smoothed, chosen)
        if gradient == "backprop":
            (uphill,) = torch.autograd.grad(odds.sum(), at)
        else:
            uphill = stein_gradient(copies, logits, chosen)
    seen = odds.detach().double()
    return View(chosen, seen.sigmoid(), (-seen).sigmoid(), uphill)


def stein_gradient(copies: Copies, logits: Tensor, classes: Tensor) -> Tensor:
    """Σ_j (p_j − p̄) δ_j, in expectation (m − 1) σ² times the gradient of the smoothed probability; shape (n, …).

    By Stein's lemma ∇ E p(x + δ) = E δ p(x + δ) / σ². Salman et al. (2019), Eq. (7), without p̄; taking the mean over
    the draws off leaves the expected direction and takes most of the variance.
    """
    probs = logits.softmax(dim=1).reshape(len(classes), copies.draws, -1)
    own = probs.gather(2, classes[:, None, None].expand(-1, copies.draws, 1)).squeeze(2)
    noise = copies.noise.reshape(len(classes), copies.draws, *copies.noise.shape[1:])
    weights = (own - own.mean(dim=1, keepdim=True)).to(noise)
    return (noise * weights.reshape(*weights.shape, *[1] * (noise.ndim - 2))).sum(dim=1)


@contextmanager
def searching(model: nn.Module) -> Iterator[None]:
    """Within this context the model is in evaluation mode and its weights want no gradients; then all is as before."""
    asking = [weight for weight in model.parameters() if weight.requires_grad]
    with held_still(model):
        for weight in asking:
            weight.requires_grad_(False)
        try:
            yield
        finally:
            for weight in asking:
                weight.requires_grad_(True)

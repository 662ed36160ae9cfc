"""Attacks one input at a time, as their papers read, with torch's own optimisers and schedulers."""

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from certcal.attacks import Norm

ORDER = {Norm.LINF: np.inf, Norm.L2: 2, Norm.L1: 1}


def inside(points, centers, epsilon, norm, *, boxed=True):
    """Whether each point is in its ball and box, read aloud in float64, where differences of float32 are exact."""
    offset = (points.double() - centers.double()).flatten(1).numpy()
    near = np.linalg.norm(offset, ORDER[norm], axis=1) <= epsilon
    return near & (not boxed or ((points >= 0) & (points <= 1)).flatten(1).all(dim=1).numpy())


def ace_by_hand(model, x, y, *, eta, omega, epsilon, steps=100, rate=10.0):
    """(η, ω)-ACE of one input, shape (1, …), by SGD on γ with ReduceLROnPlateau; returns every γ that was reached."""
    with torch.no_grad():
        label = model(x).argmax(dim=1)
    target = y if omega == "y" else label
    gamma = torch.zeros_like(x, requires_grad=True)
    optimiser = torch.optim.SGD([gamma], lr=rate)
    mode = "max" if eta == 1 else "min"  # of the cross-entropy
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, mode=mode, factor=0.1, patience=10)
    trail = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = F.cross_entropy(model(x + gamma), target)
        trail.append((eta * float(loss.detach()), gamma.detach().clone()))
        (-eta * loss).backward()
        scheduler.step(loss.detach())
        optimiser.step()
        with torch.no_grad():
            gamma.clamp_(-epsilon, epsilon)
            gamma.copy_((x + gamma).clamp(0, 1) - x)
            if not torch.equal(model(x + gamma).argmax(dim=1), label):
                return trail
    with torch.no_grad():
        trail.append((eta * float(F.cross_entropy(model(x + gamma), target)), gamma.detach().clone()))
    return trail


def galil_by_hand(model, x, y, *, epsilon, decay=0.5, attempts=15):
    """The original ACE of one input, shape (1, …): a signed step on the softmax score, halved until the label stays."""
    point = x.clone().requires_grad_()
    probs = model(point).softmax(dim=1)
    label = probs.argmax(dim=1)
    (gradient,) = torch.autograd.grad(probs[0, label].sum(), point)
    sign = -1.0 if label == y else 1.0
    for _ in range(attempts):
        moved = (x + sign * epsilon * gradient.sign()).clamp(0, 1)
        with torch.no_grad():
            if model(moved).argmax(dim=1) == label:
                return moved
        epsilon *= decay
    return x


def climb_by_hand(model, x, y, start, *, epsilon, steps, rate, shrink, factor, patience):
    """The best point of one input, shape (1, …), itself among them, in ℓ∞ along the gradient from `start`: a step that
    would change the label is not taken and the next is shorter; so it is once the loss has not risen for more than
    `patience` steps."""
    with torch.no_grad():
        label = model(x).argmax(dim=1)

    def look(point):
        at = point.clone().requires_grad_()
        logits = model(at)
        loss = F.cross_entropy(logits, y)
        return float(loss.detach()), torch.autograd.grad(loss, at)[0], torch.equal(logits.argmax(dim=1), label)

    best, best_point = look(x)[0], x
    value, gradient, _ = look(start)
    point, mark, waited = start, value, 0
    if value > best:
        best, best_point = value, start
    for _ in range(steps):
        ahead = torch.min(torch.max(point + rate * gradient, x - epsilon), x + epsilon).clamp(0, 1)
        value, new_gradient, keeps = look(ahead)
        if keeps:
            point, gradient = ahead, new_gradient
            if value > best:
                best, best_point = value, point
        else:
            rate *= shrink
        if keeps and value > mark + 1e-4 * abs(mark):
            mark, waited = value, 0
        else:
            waited += 1
        if waited > patience:
            rate, waited = rate * factor, 0
    return best_point

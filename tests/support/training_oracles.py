"""Adversarial training as its papers print it: slow, one loop per sum, gradients by autograd of what is maximised."""

from itertools import product

import numpy as np
import torch


def mean_probs(model, point, noise):
    """f̄ on the m draws of each input, shape (n, k); noise has shape (n, m, …)."""
    return torch.stack([model(point[i] + noise[i]).softmax(dim=1).mean(dim=0) for i in range(len(point))])


def unit(gradient):
    return torch.stack([row / row.norm() if row.norm() > 0 else row for row in gradient])


def into_ball(point, inputs, epsilon):
    moved = []
    for x, p in zip(inputs, point, strict=True):
        length = (p - x).norm()
        moved.append(x + (p - x) * min(1.0, epsilon / length) if length > 0 else p)
    return torch.stack(moved)


def ascend(model, inputs, noise, objective, *, epsilon, steps, factor=1.0):
    """PGD in ℓ2 on any function of f̄ (n, k) and the step: normalised gradients, steps of 2 v ε / T, last iterate."""
    point = inputs.clone()
    for t in range(steps):
        point = point.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(objective(mean_probs(model, point, noise), t), point)
        point = into_ball(point.detach() + 2 * factor * epsilon / steps * unit(gradient), inputs, epsilon)
    return point


class Algorithm2:
    """The ADMM variables of Algorithm 2 as flat vectors of length N · M with the paper's matrices, in float64."""

    def __init__(self, lower, upper, correct, *, bins, rho, growth, rate):
        n, edges = len(lower), np.linspace(0, 1, bins + 1)
        self.correct, self.n, self.m, self.growth, self.rate = correct.double(), n, bins, growth, rate
        self.rho = [rho] * 4
        self.a = torch.full((n * bins,), 1 / bins, dtype=torch.float64)
        self.q1, self.q2 = self.a.clone(), self.a.clone()
        self.dual = [torch.zeros(n * bins), torch.zeros(n * bins), torch.zeros(n), torch.zeros(n)]
        self.dual = [part.double() for part in self.dual]
        self.C = torch.zeros(n * bins, n, dtype=torch.float64)
        self.K = torch.zeros(n * bins, n, dtype=torch.float64)
        for i in range(n):
            for b in range(bins):
                self.C[i * bins + b, i] = 1
                last = upper[i] >= edges[b] and (lower[i] < edges[b + 1] or b == bins - 1)
                self.K[i * bins + b, i] = float(not last)

    def error(self, z, a):
        """‖E(z)' a‖_1 with z of length N."""
        gap = (self.correct - z).repeat_interleave(self.m)
        return sum(abs((gap * a)[b :: self.m].sum()) for b in range(self.m))

    def lagrangian(self, z, a):
        splits = (a - self.q1, a - self.q2, self.C.T @ a - 1, self.K.T @ a)
        terms = [d @ s + r / 2 * s @ s for d, s, r in zip(self.dual, splits, self.rho, strict=True)]
        return -self.error(z, a) + sum(terms)

    def advance(self, z):
        """From a^(t−1) to a^(t) at z^(t−1), with the clips of App. G.2, then q, λ and ρ."""
        a = self.a.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(self.lagrangian(z, a), a)
        a = self.a - self.rate * gradient.clamp(-5, 5)
        limit = 1.2 * (self.q2 - 0.5).abs().max()
        self.a = a.clamp(0.5 - limit, 0.5 + limit)
        self.q1 = (self.dual[0] / self.rho[0] + self.a).clamp(0, 1)
        ray = self.dual[1] / self.rho[1] + self.a - 0.5
        self.q2 = 0.5 + (self.n * self.m) ** 0.5 / 2 * ray / ray.norm()
        splits = (self.a - self.q1, self.a - self.q2, self.C.T @ self.a - 1, self.K.T @ self.a)
        self.dual = [d + r * s for d, s, r in zip(self.dual, splits, self.rho, strict=True)]
        self.rho = [r * (1 + self.growth) for r in self.rho]


def algorithm2(model, inputs, labels, noise, *, sigma, epsilon, steps, factor, bins, rho, growth, rate):
    """Algorithm 2 without its last line: γ^(T), and the ADMM variables."""
    normal = torch.distributions.Normal(0.0, 1.0)
    point, program = inputs.clone(), None
    for t in range(steps):
        point = point.detach().requires_grad_()
        probs = mean_probs(model, point, noise)
        if t == 0:
            predicted = probs.argmax(dim=1)
            centre = normal.icdf(probs.detach().max(dim=1).values)
            reach = (normal.cdf(centre + side * epsilon / sigma) for side in (-1, 1))
            program = Algorithm2(*reach, predicted == labels, bins=bins, rho=rho, growth=growth, rate=rate)
        z = probs.gather(1, predicted[:, None]).squeeze(1)
        (gradient,) = torch.autograd.grad(program.error(z, program.a), point)
        point = into_ball(point.detach() + 2 * factor * epsilon / steps * unit(gradient), inputs, epsilon)
        program.advance(z.detach())
    return point, program, predicted


def worst_case_directions(lower, upper, correct, confidence, *, bins):
    """Where each confidence goes at the worst case, by trying all signs of bins and all bins of inputs."""
    edges, best, directions = np.linspace(0, 1, bins + 1), -np.inf, None
    for signs in product([1, -1], repeat=bins):
        total, chosen = 0.0, []
        for low, high, right, z in zip(lower, upper, correct, confidence, strict=True):
            options = []
            for b, sign in enumerate(signs):
                if high < edges[b] or (low >= edges[b + 1] and b < bins - 1):
                    continue  # out of reach
                ends = max(low, edges[b]), min(high, edges[b + 1])
                place = ends[0] if sign > 0 else ends[1]
                free = place in (low, high)  # at a bound: further that way would be worse still
                options.append((sign * (right - place), -sign if free else np.sign(place - z)))
            worth, way = max(options)
            total += worth
            chosen.append(way)
        if total > best + 1e-12:
            best, directions = total, chosen
    return best / len(lower), np.array(directions)

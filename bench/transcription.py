"""Algorithm 1 of the paper as it stands, with autograd: the yardstick for our ADMM, not part of certcal."""

import math

import torch


def transcribed_admm(lower, upper, correct, start, edges, *, steps, rate_a, rate_z, rho, factor, cap=10.0, clip=5.0):
    """The best projected calibration error of one run. Vectors of length N; tensors a, z, q1, q2, g of shape (N, M)."""
    lower, upper, correct, start, edges = (
        torch.as_tensor(part, dtype=torch.float32) for part in (lower, upper, correct, start, edges)
    )
    n, m = len(lower), len(edges) - 1
    low = torch.maximum(lower[:, None], edges[None, :-1])
    high = torch.minimum(upper[:, None], edges[None, 1:])
    inaccessible = low >= high
    low, high = low.masked_fill(inaccessible, 0), high.masked_fill(inaccessible, 0)
    k = inaccessible.float()
    a = torch.full((n, m), 1 / m, requires_grad=True)
    z = start[:, None].repeat(1, m).masked_fill(inaccessible, 0).requires_grad_()
    q1, q2, g = a.detach().clone(), a.detach().clone(), torch.clamp(z.detach(), low, high)
    l1, l2, l5 = torch.zeros(n, m), torch.zeros(n, m), torch.zeros(n, m)
    l3, l4 = torch.zeros(n), torch.zeros(n)

    def lagrangian():
        e = correct[:, None] - z
        unique, valid = a.sum(1) - 1, (k * a).sum(1)
        value = -(e * a).sum(0).abs().sum()
        value = value + (l1 * (a - q1)).sum() + rho / 2 * (a - q1).square().sum()
        value = value + (l2 * (a - q2)).sum() + rho / 2 * (a - q2).square().sum()
        value = value + (l3 * unique).sum() + rho / 2 * unique.square().sum()
        value = value + (l4 * valid).sum() + rho / 2 * valid.square().sum()
        return value + (l5 * (z - g)).sum() + rho / 2 * (z - g).square().sum()

    best = 0.0
    for _ in range(steps):
        (grad,) = torch.autograd.grad(lagrangian(), a)
        with torch.no_grad():
            a -= rate_a * grad.clamp(-clip, clip)
            limit = 1.2 * (q2 - 0.5).abs().max()
            a.clamp_(0.5 - limit, 0.5 + limit)
        (grad,) = torch.autograd.grad(lagrangian(), z)
        with torch.no_grad():
            z -= rate_z * grad
            g = torch.clamp(l5 / rho + z, low, high)
            q1 = torch.clamp(l1 / rho + a, 0, 1)
            v = l2 / rho + a - 0.5
            q2 = 0.5 + math.sqrt(n * m) / 2 * v / v.norm()
            l1, l2 = l1 + rho * (a - q1), l2 + rho * (a - q2)
            l3, l4 = l3 + rho * (a.sum(1) - 1), l4 + rho * (k * a).sum(1)
            l5 = l5 + rho * (z - g)
            rho = min(rho * factor, cap)
            chosen = a.masked_fill(inaccessible, -math.inf).argmax(1)
            inside = torch.clamp(z, low, high).gather(1, chosen[:, None])[:, 0]
            sums = torch.zeros(m).index_add_(0, chosen, correct - inside)
            best = max(best, (sums.abs().sum() / n).item())
    return best

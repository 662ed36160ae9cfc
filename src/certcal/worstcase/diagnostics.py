"""What ADMM does on the way: Lagrangian terms, distances to the constraints, snapshots of the assignment.

Paper: App. G.1 and its three figures.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from certcal.worstcase.admm import Program, State, project
from certcal.worstcase.projections import onto_bounds

_SNAPSHOT = 150  # entries of a, in the paper's order a_{1,1}, …, a_{1,M}, a_{2,1}, …


class Recorder:
    """Collects one row of diagnostics per step, on the device, and hands them out as arrays at the end."""

    def __init__(self, snapshots: tuple[int, ...]) -> None:
        self._steps_to_keep = frozenset(snapshots)
        self._rows: list[dict[str, Tensor]] = []
        self._snapshots: dict[int, Tensor] = {}

    def watch(self, program: Program, state: State) -> None:
        """Record the state before the first step and after each one."""
        step = len(self._rows)
        if step in self._steps_to_keep:
            self._snapshots[step] = state.a.transpose(1, 2).flatten(1)[:, :_SNAPSHOT].clone()
        self._rows.append(lagrangian_terms(program, state) | constraint_distances(program, state))

    def results(self) -> dict[str, Any]:
        """`history`: name → array (steps + 1, runs). `snapshots`: step → array (runs, 150)."""
        history = {
            name: torch.stack([row[name] for row in self._rows]).double().cpu().numpy() for name in self._rows[0]
        }
        snapshots = {step: np.asarray(a.double().cpu()) for step, a in self._snapshots.items()}
        return {"history": history, "snapshots": snapshots}


def lagrangian_terms(program: Program, state: State) -> dict[str, Tensor]:
    """The augmented Lagrangian and its parts, each of shape (runs,), without the indicator functions."""
    a, z, rho = state.a, state.z, state.rho[:, 0, 0]

    def penalty(dual: Tensor, residual: Tensor) -> Tensor:
        return (dual * residual).sum(dim=(1, 2)) + rho / 2 * residual.square().sum(dim=(1, 2))

    objective = ((program.correct - z) * a).sum(dim=2).abs().sum(dim=1)
    terms = {
        "box": penalty(state.dual1, a - state.q1),
        "sphere": penalty(state.dual2, a - state.q2),
        "unique": penalty(state.dual3, a.sum(dim=1, keepdim=True) - 1),
        "valid": penalty(state.dual4, (program.blocked * a).sum(dim=1, keepdim=True)),
        "confidence": penalty(state.dual5, z - state.g),
    }
    return terms | {
        "lagrangian": -objective + torch.stack(list(terms.values())).sum(dim=0),
        "relaxed_error": objective / a.shape[2],
        "projected_error": project(program, state)[2],
    }


def constraint_distances(program: Program, state: State) -> dict[str, Tensor]:
    """Distance of (a, z) to each constraint set in the 1 and ∞ norms, each of shape (runs,)."""
    a, z = state.a, state.z
    residuals = {
        "confidence": z - onto_bounds(z, program.low, program.high),
        "binary": a - (a > 0.5).to(a.dtype),
        "unique": a.sum(dim=1, keepdim=True) - 1,
        "valid": (program.blocked * a).sum(dim=1, keepdim=True),
    }
    distances = {}
    for name, residual in residuals.items():
        distances[f"{name}_distance_1"] = residual.abs().sum(dim=(1, 2))
        distances[f"{name}_distance_inf"] = residual.abs().amax(dim=(1, 2))
    return distances

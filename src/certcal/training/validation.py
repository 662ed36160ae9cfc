"""Certified metrics on held-out training data, from few draws: to follow training and choose among models."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from certcal.certificates import confidence_bounds_at
from certcal.data import ImageData, split_data
from certcal.errors import CertcalWarning
from certcal.evaluation import row_at
from certcal.settings import ValidationSettings
from certcal.smoothing import collect_evidence

METRICS = ("certified_accuracy", "certified_ece", "certified_brier")


def hold_out(data: ImageData, validation: ValidationSettings, *, seed: int) -> tuple[ImageData, ImageData | None]:
    """Training data without the images that validation is made on, and these; the same for the same seed."""
    if validation.every == 0:
        return data, None
    train, held = split_data(data, fraction=validation.fraction, seed=seed)
    return train, held.take(limit=validation.inputs)


def validate(
    model: Callable[[Tensor], Any],
    data: Any,
    validation: ValidationSettings,
    *,
    sigma: float,
    seed: int,
    device: torch.device,
    **reading: Any,
) -> dict[str, float]:
    """Certified accuracy, calibration error and Brier score at each radius; NaN where no input is certified.

    `reading` says how data and outputs are read, as for `collect_evidence`.
    """
    with warnings.catch_warnings(action="ignore", category=CertcalWarning):  # a model that still guesses
        evidence = collect_evidence(
            model,
            data,
            sigma=sigma,
            n=validation.draws,
            n0=validation.n0,
            chunk=min(250, validation.draws),
            seed=seed,
            device=str(device),
            progress=False,
            **reading,
        )
    radii = validation.radii or tuple(round(sigma * share, 12) for share in (0.5, 1.0, 1.5))
    values: dict[str, float] = {}
    for own in confidence_bounds_at(evidence, radii=radii, alpha=validation.alpha, method=validation.method):
        row = row_at(own, n_bins=validation.n_bins, metrics=METRICS)
        values |= {f"{name}_at_{_every_digit(own.radius)}": getattr(row, name) for name in METRICS}
    return values


def _every_digit(radius: float) -> str:
    """A radius as a number that reads back as itself: by it models are chosen at that radius."""
    short = f"{radius:g}"
    return short if float(short) == radius else repr(float(radius))


def mean_accuracy(values: dict[str, float]) -> float:
    """Certified accuracy, averaged over the radii: by it the best weights are kept."""
    found = [value for name, value in values.items() if name.startswith("certified_accuracy_")]
    return sum(found) / len(found)

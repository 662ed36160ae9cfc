"""What sampling costs on this machine, measured in one go beside the bare forward passes."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch

from certcal.inputs import check_device
from certcal.models import autocast, best_device, build_model, wait_for
from certcal.runs.load import find_factory
from certcal.smoothing import collect_evidence
from certcal.threads import fastest_threads
from certcal.worstcase import certified_calibration_error

MOST = 400_000  # forward passes of which the draws that are timed take half: never longer than about ten seconds


@dataclass(frozen=True)
class Cost:
    """Rates of one model on one device."""

    device: str
    precision: str
    forwards_per_second: float
    draws_per_second: float
    worst_case_seconds: float  # of 10 000 inputs, 15 bins

    @property
    def ratio(self) -> float:
        """Time of collecting evidence over that of the bare forward passes."""
        return self.forwards_per_second / self.draws_per_second


def measure_cost(
    model: str,
    *,
    channels: int,
    size: int,
    classes: int,
    device: str | None = None,
    precision: str = "float32",
    batch_size: int | None = None,
    fuse: bool = False,
) -> Cost:
    """Rates of a model with random weights on random inputs: they do not depend on the values.

    Paper: —; a measurement.
    """
    place = check_device("device", device or best_device())
    find_factory(model)
    network = build_model(model, classes=classes, channels=channels, size=size).eval()
    chunk = 250
    batch = chunk if place.type == "cpu" else batch_size or 4000

    def sample(draws: int) -> None:
        inputs = torch.rand(2, channels, size, size), torch.zeros(2, dtype=torch.long)
        collect_evidence(
            network, inputs, sigma=0.25, n=draws, chunk=chunk, device=str(place), precision=precision,
            batch_size=batch_size, fuse=fuse, progress=False,
        )  # fmt: skip
        wait_for(place)

    draws = max(batch, 1000)
    sample(draws)  # checks the options, moves the model, warms up
    images = torch.rand(batch, channels, size, size, device=place)

    def forward() -> torch.Tensor:
        with torch.inference_mode(), autocast(precision, place):
            outputs: torch.Tensor = network(images)
        wait_for(place)
        return outputs

    def timed() -> float:
        with fastest_threads(forward) if place.type == "cpu" else nullcontext():  # as sampling does
            return _seconds(forward)

    forward()
    first = timed()
    # Long enough that starting up does not count.
    draws = max(draws, int(min(batch / first * 5, MOST) / 2) // chunk * chunk)
    evidence = 2 * (draws + 100) / _seconds(lambda: sample(draws), at_least=0.0)
    # Other work on the machine comes and goes: forwards before and after the draws.
    rate = batch / ((first + timed()) / 2)
    return Cost(str(place), precision, rate, evidence, _worst_case_seconds())


def _seconds(call: Callable[[], object], *, at_least: float = 1.0) -> float:
    """Seconds per call, repeated until enough time has passed."""
    count, start = 0, time.perf_counter()
    while True:
        call()
        count += 1
        passed = time.perf_counter() - start
        if passed >= at_least:
            return passed / count


def _worst_case_seconds() -> float:
    rng = np.random.default_rng(0)
    lower = rng.random(10_000)
    upper, correct = np.minimum(lower + 0.1, 1.0), rng.random(10_000) < lower
    return _seconds(lambda: certified_calibration_error(lower, upper, correct), at_least=0.1)

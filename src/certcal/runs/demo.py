"""The whole way on a small example: train under noise on scikit-learn's digits, certify, report."""

import time
from pathlib import Path

import torch

from certcal.models import grid_step, rounded_normals, save_checkpoint, to_grid
from certcal.runs.certify import certify_run
from certcal.runs.evaluate import evaluate_run
from certcal.runs.folder import WEIGHTS, RunFolder, Tell
from certcal.runs.load import load_data, load_model
from certcal.runs.results import Results
from certcal.settings import CertifySettings, DataSettings, EvaluateSettings, ModelSettings, RunSettings
from certcal.threads import threads_worth

SIGMA = 0.25


def demo_run(
    run: RunFolder,
    *,
    inputs: int = 200,
    draws: int = 10_000,
    epochs: int = 40,
    tell: Tell = print,
    progress: bool | None = None,
) -> Results:
    """The results of a small smoothed network on digits, in under two minutes on two cores; the same every time.

    Paper: —; an example.
    """
    start = time.perf_counter()
    run.create()
    weights = run.path / WEIGHTS
    settings = RunSettings(
        model=ModelSettings(name="small-cnn", weights=str(weights)),
        data=DataSettings(name="digits", split="test", limit=inputs),
        certify=CertifySettings(sigma=SIGMA, n=draws, device="cpu"),
        evaluate=EvaluateSettings(radii=(0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)),
    )
    if weights.is_file():
        tell(f"1/3  using the network in {weights}")
    else:
        tell(f"1/3  training a small network on digits under noise, σ = {SIGMA:g}")
        # Sums are split over threads, and the weights would depend on their number.
        with threads_worth(1, torch.device("cpu")):
            _train_under_noise(settings, weights, epochs)
    tell(f"2/3  drawing {settings.certify.n:,} noisy predictions of each of {inputs} inputs")
    certify_run(run, settings, progress=progress)
    tell("3/3  certifying at 9 radii, drawing figures, writing the report")
    results = evaluate_run(run, settings.evaluate)
    tell(f"done in {time.perf_counter() - start:.0f} s")
    return results


def _train_under_noise(settings: RunSettings, weights: Path, epochs: int) -> None:
    """Train the model of the settings on noisy copies, so that it knows the noise it will be smoothed with."""
    torch.manual_seed(0)
    data = load_data(DataSettings(name=settings.data.name, split="train"))
    inputs, labels = data.tensors()
    model = load_model(ModelSettings(name=settings.model.name), data)
    sigma, optimiser = settings.certify.sigma, torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(inputs)).split(128):  # type: ignore[no-untyped-call]
            noise = rounded_normals(inputs[batch].shape, sigma, inputs, torch.default_generator)
            noisy = to_grid(inputs[batch], grid_step(sigma)) + noise
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(noisy), labels[batch]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    save_checkpoint(model, weights)

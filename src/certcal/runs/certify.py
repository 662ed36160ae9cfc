"""From settings to evidence in a run folder: load the data, build the model, draw. Running it again goes on."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certcal.errors import InputError
from certcal.runs.folder import SOURCES, RunFolder
from certcal.runs.provenance import provenance
from certcal.runs.settings import DataSettings, EvaluateSettings, ModelSettings, RunSettings
from certcal.smoothing import Evidence

if TYPE_CHECKING:
    from torch import nn

    from certcal.data import ImageData


def certify_run(run: RunFolder, settings: RunSettings, *, progress: bool | None = None) -> Evidence:
    """The evidence of the run, drawn or drawn on, and kept in its folder with settings and provenance.

    Paper: —; run folders are ours.
    Raises: InputError if the folder holds evidence of another model, data or noise; it is unchanged then.
    """
    from certcal.smoothing import collect_evidence, save_evidence

    start = time.perf_counter()
    data = load_data(settings.data)
    model = load_model(settings.model, data)
    device = settings.certify.device or best_device()
    run.create()
    with run.writing():
        if not run.config.exists():  # kept before sampling, so that an interrupted run knows what it was
            run.save_settings(settings)
        run.log(f"certify: {len(data)} inputs of {data.name}, {settings.certify.n} draws each on {device}")
        evidence = collect_evidence(
            model, data, **_sampling(settings), device=device, store=run.shards, progress=progress
        )
        save_evidence(evidence, run.evidence)
        run.save_settings(settings)
        run.write_json(SOURCES, _sources(settings, data, model, evidence, time.perf_counter() - start, device))
        run.log(f"certify: {evidence.draws.sum()} draws kept in {run.evidence.name}")
    return evidence


def load_data(settings: DataSettings) -> "ImageData":
    """The inputs that the settings name."""
    from certcal.data import load_dataset

    given = {key: value for key, value in vars(settings).items() if value is not None}
    return load_dataset(given.pop("name"), **given)


def load_model(settings: ModelSettings, data: "ImageData") -> "nn.Module":
    """The model that the settings name, for inputs like these, with its weights."""
    from certcal.data import build_model, load_checkpoint

    if (settings.mean is None) != (settings.std is None):
        raise InputError.expected("mean and std", "be given together", "mean alone" if settings.mean else "std alone")
    channels, size, _ = data.shape
    if str(Path.cwd()) not in sys.path:  # a factory often lies in a file beside the data
        sys.path.insert(0, str(Path.cwd()))
    model = build_model(
        settings.name,
        classes=settings.classes or len(data.classes),
        channels=channels,
        size=size,
        normalize=None if settings.mean is None or settings.std is None else (settings.mean, settings.std),
        **settings.options,
    )
    return model if settings.weights is None else load_checkpoint(model, settings.weights)


def radii_of(settings: EvaluateSettings, sigma: float) -> tuple[float, ...]:
    """The radii asked for, or 0 to 2 σ in steps of σ / 4."""
    return settings.radii if settings.radii is not None else tuple(sigma * step / 4 for step in range(9))


def _sampling(settings: RunSettings) -> dict[str, Any]:
    from certcal.certificates import StopWhenDecided

    options = {key: value for key, value in vars(settings.certify).items() if key not in ("device", "stages")}
    if settings.certify.stages is not None:
        rule = StopWhenDecided(radii=radii_of(settings.evaluate, settings.certify.sigma), alpha=settings.evaluate.alpha)
        options |= {"stages": settings.certify.stages, "stop": rule}
    return options


def best_device() -> str:
    """A GPU where there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _sources(
    settings: RunSettings, data: "ImageData", model: "nn.Module", evidence: Evidence, seconds: float, device: str
) -> dict[str, Any]:
    channels, height, width = data.shape
    return {
        "model": {
            "name": settings.model.name,
            "weights": settings.model.weights,
            "fingerprint": evidence.header.model,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
        },
        "data": {
            "name": data.name,
            "inputs": len(data),
            "shape": [channels, height, width],
            "classes": list(data.classes),
        },
        "certify": provenance(seconds=seconds, device=device),
    }

"""From settings to evidence in a run folder: load the data, build the model, draw. Running it again goes on."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from certcal.cluster import Cluster, as_cluster
from certcal.errors import InputError
from certcal.runs.folder import SOURCES, RunFolder
from certcal.runs.provenance import provenance
from certcal.settings import DataSettings, EvaluateSettings, ModelSettings, RunSettings
from certcal.smoothing import Evidence

if TYPE_CHECKING:
    from torch import nn

    from certcal.data import ImageData


def certify_run(
    run: RunFolder, settings: RunSettings, *, engine: str | Cluster = "local", progress: bool | None = None
) -> Evidence:
    """The evidence of the run, drawn or drawn on, and kept in its folder with settings and provenance.

    Where it is drawn, `engine` as for `certcal.collect_evidence`, is no setting of the run: another one may go on.

    Paper: —; run folders are ours.
    Raises: InputError if the folder holds evidence of another model, data or noise; it is unchanged then.
    """
    from certcal.smoothing import collect_evidence, save_evidence

    start = time.perf_counter()
    cluster = as_cluster(engine)
    data = load_data(settings.data)
    model = load_model(settings.model, data)
    device = settings.certify.device or best_device()
    if cluster is not None and not run.path.exists():  # a refused address leaves no folder
        from certcal.cluster import check_reachable

        check_reachable(cluster)
    run.create()
    with run.writing(), _kept_if_refused(run):
        added = _added(run)
        run.save_settings(settings)  # before sampling, so that an interrupted run knows what it was
        run.log(f"certify: {len(data)} inputs of {data.name}, {settings.certify.n} draws each on {device}")
        evidence = collect_evidence(
            model, data, **_sampling(settings), device=device, store=run.shards, engine=engine, progress=progress
        )
        save_evidence(evidence, run.evidence)
        if settings.certify.stages is None:  # there may have been more draws than were asked for
            settings = replace(settings, certify=replace(settings.certify, n=int(evidence.draws.max())))
        run.save_settings(settings)
        sources = _sources(settings, data, model, evidence, time.perf_counter() - start, device)
        if cluster is not None:
            sources["certify"] |= {"engine": "ray", "workers": cluster.workers, "threads": 1}
        trained = {key: value for key, value in run.sources().items() if key == "train"}  # in the same folder
        run.write_json(SOURCES, trained | sources | _evidence_facts(run, evidence, added))
        run.log(f"certify: {evidence.draws.sum()} draws kept in {run.evidence.name}")
    return evidence


@contextmanager
def _kept_if_refused(run: RunFolder) -> Iterator[None]:
    """Settings that the folder's evidence does not go with leave those it was made with in place."""
    before = run.config.read_bytes() if run.config.exists() else None
    try:
        yield
    except InputError:
        if before is not None:
            run.config.write_bytes(before)
        elif not any(run.shards.glob("shard-*")):
            run.config.unlink(missing_ok=True)
        raise


def _added(run: RunFolder) -> list[int]:
    """The numbers of draws of which reports were made before."""
    evidence, added = (run.sources().get(key, {}) for key in ("evidence", "added"))
    reported = (run.path / "metrics.json").exists() and "draws" in evidence
    return [*added.get("draws", []), *([evidence["draws"]] if reported else [])]


def _evidence_facts(run: RunFolder, evidence: Evidence, added: list[int]) -> dict[str, Any]:
    draws = int(evidence.draws.sum())
    earlier = sorted({count for count in added if count != draws})
    facts: dict[str, Any] = {"evidence": {"sha256": run.evidence_digest(), "draws": draws}}
    return facts | ({"added": {"draws": earlier}} if earlier else {})


def load_data(settings: DataSettings) -> "ImageData":
    """The inputs that the settings name."""
    from certcal.data import load_dataset

    given = {key: value for key, value in vars(settings).items() if value is not None}
    with _saying({"name": "data"}):
        return load_dataset(given.pop("name"), **given)


def load_model(settings: ModelSettings, data: "ImageData") -> "nn.Module":
    """The model that the settings name, for inputs like these, with its weights."""
    from certcal.models import Tempered, build_model, load_checkpoint

    if (settings.mean is None) != (settings.std is None):
        raise InputError.expected("mean and std", "be given together", "mean alone" if settings.mean else "std alone")
    channels, size, _ = data.shape
    with _saying({"name": "model", "path": "weights"}):
        model = build_model(
            settings.name,
            classes=settings.classes or len(data.classes),
            channels=channels,
            size=size,
            normalize=None if settings.mean is None or settings.std is None else (settings.mean, settings.std),
            **settings.options,
        )
        model = model if settings.weights is None else load_checkpoint(model, settings.weights)
        return model if settings.temperature is None else Tempered(model, settings.temperature)


@contextmanager
def _saying(names: dict[str, str]) -> Iterator[None]:
    """Errors that call arguments by the names they have in the settings."""
    try:
        yield
    except InputError as error:
        text = str(error)
        for old, new in names.items():
            text = text.replace(f"Expected `{old}` to", f"Expected `{new}` to")
        raise InputError(text) from error


def radii_of(settings: EvaluateSettings, sigma: float) -> tuple[float, ...]:
    """The radii asked for, or 0 to 2 σ in steps of σ / 4."""
    return settings.radii if settings.radii is not None else tuple(round(sigma * step / 4, 12) for step in range(9))


def _sampling(settings: RunSettings) -> dict[str, Any]:
    from certcal.certificates import StopWhenDecided

    options = {key: value for key, value in vars(settings.certify).items() if key not in ("device", "stages")}
    if settings.certify.stages is not None:
        asked = settings.evaluate
        radii = radii_of(asked, settings.certify.sigma)
        rule = StopWhenDecided(radii=radii, alpha=asked.alpha, method=asked.method, split_alpha=asked.split_alpha)
        options |= {"stages": settings.certify.stages, "stop": rule}
    return options


def best_device() -> str:
    """A GPU where there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _sources(
    settings: RunSettings, data: "ImageData", model: "nn.Module", evidence: Evidence, seconds: float, device: str
) -> dict[str, Any]:
    import torch

    channels, height, width = data.shape
    return {
        "model": {
            "name": settings.model.name,
            "weights": settings.model.weights,
            "temperature": settings.model.temperature,
            "fingerprint": evidence.header.model,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
        },
        "data": {
            "name": data.name,
            "inputs": len(data),
            "shape": [channels, height, width],
            "classes": list(data.classes),
        },
        "certify": provenance(seconds=seconds, device=device) | {"threads": torch.get_num_threads()},
    }

"""From settings to evidence in a run folder: load the data, build the model, draw. Running it again goes on."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from certcal.cluster import Cluster, as_cluster
from certcal.runs.folder import CONFIG, SHARDS, SOURCES, RunFolder
from certcal.runs.load import load_data, load_model
from certcal.runs.provenance import provenance
from certcal.settings import RunSettings
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
    from certcal.models import best_device
    from certcal.smoothing import collect_evidence, save_evidence

    start = time.perf_counter()
    cluster = as_cluster(engine)
    data = load_data(settings.data)
    model = load_model(settings.model, data, sigma=settings.certify.sigma)
    device = settings.certify.device or best_device()
    if cluster is not None and not run.path.exists():  # a refused address leaves no folder
        from certcal.cluster import check_reachable

        check_reachable(cluster)
    run.create()
    with run.writing(), run.kept_if_refused(CONFIG, unless=f"{SHARDS}/shard-*"):
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


def _sampling(settings: RunSettings) -> dict[str, Any]:
    from certcal.certificates import StopWhenDecided

    options = {key: value for key, value in vars(settings.certify).items() if key not in ("device", "stages")}
    if settings.certify.stages is not None:
        asked = settings.evaluate
        radii = asked.radii_at(settings.certify.sigma)
        options |= {"stages": settings.certify.stages, "stop": StopWhenDecided(radii=radii, **asked.terms)}
    return options


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

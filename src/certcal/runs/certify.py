"""From settings to evidence in a run folder: load the data, build the model, draw. Running it again goes on."""

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import torch
from torch import nn

from certcal.certificates import StopWhenDecided
from certcal.cluster import Cluster, as_cluster
from certcal.data import ImageData
from certcal.errors import CertcalWarning, several
from certcal.files import plain, sealed
from certcal.inputs import check_device
from certcal.interrupts import deferred_interrupts
from certcal.models import best_device
from certcal.runs.checkup import Checkup, about_training, after_drawing, before_drawing, check_up, tell_checkup
from certcal.runs.facts import provenance
from certcal.runs.folder import CONFIG, EVIDENCE, SHARDS, SOURCES, WEIGHTS, RunFolder, Tell
from certcal.runs.load import check_fingerprint, load_data, load_model
from certcal.runs.switch import digest_of
from certcal.scalars import guarded
from certcal.settings import RunSettings, settings_text
from certcal.smoothing import Evidence, collect_evidence, load_so_far, save_evidence

LONG = 60.0  # seconds of a run from which on first answers come before the last one
FIRST_SECONDS, FIRST_DRAWS = 15.0, 1000  # of the first look: about how long, and how many draws
FEWEST, MOST = 24, 128  # inputs of the first look


@guarded
def certify_run(
    run: RunFolder,
    settings: RunSettings,
    *,
    engine: str | Cluster = "local",
    progress: bool | None = None,
    checks: bool = False,
    tell: Tell = lambda text: None,
    first: Callable[[], None] | None = None,
    later: Sequence[int] = (),
) -> Evidence:
    """The evidence of the run, drawn or drawn on, and kept in its folder with settings and provenance.

    Where it is drawn, `engine` as for `certcal.collect_evidence`, is no setting of the run: another one may go on.
    `checks` looks at model and data before a new run; what they find is told, and kept with the run. `first` is called
    whenever a long run has evidence to show before all is drawn: of 1,000 draws of some inputs, then of all, and so on.
    Such looks are at numbers of draws that were not planned, for which a tenth of alpha is set aside anyway: what they
    show is certified, only wider.

    `later` are larger numbers of draws at which a new run will be looked at again: such looks are then planned.

    Paper: —; run folders are ours.
    Raises: InputError if the folder holds evidence of another model, data or noise; it is unchanged then.
    """
    start = time.perf_counter()
    cluster = as_cluster(engine)
    data = load_data(settings.data, settings.model)
    model = load_model(settings.model, data, sigma=settings.certify.sigma)
    device = settings.certify.device or best_device()
    if cluster is None:
        check_device("device", device)
    if cluster is not None and not run.path.exists():  # a refused address leaves no folder
        from certcal.cluster import check_reachable

        check_reachable(cluster)
    begun = any(run.shards.glob("shard-*"))
    checkup = check_up(model, data, settings, "cpu" if cluster else device) if checks and not begun else None
    tell_checkup(data, checkup, tell)
    warned = about_training(settings, data, sigma=settings.certify.sigma) if checks else []
    told = [*before_drawing(run, settings.certify, device, len(data)), *(f"warning: {one}" for one in warned)]
    for line in told:
        tell(line)
    run.create()
    # What Python is warned of, the checks say here, unless they were declined.
    quiet = warnings.catch_warnings(action="ignore", category=CertcalWarning)
    with quiet, run.writing(), run.kept_if_refused(CONFIG, unless=f"{SHARDS}/shard-*"):
        added, trained = _added(run), run.sources().get("train")
        _check_trained(run, settings, model, trained)

        @cache  # once, however many looks there are
        def begin() -> None:
            """Keep the settings, so that an interrupted run knows what it was; not if it is refused."""
            run.save_settings(settings)
            run.log(f"certify: {several(len(data))} of {data.name}, {settings.certify.n} draws each on {device}")

        options = _sampling(settings) | {"device": device, "store": run.shards, "engine": engine}
        options |= {"begin": begin, "progress": progress}
        if later:
            options["plan"] = (settings.certify.n, *later)

        def keep(evidence: Evidence, settings: RunSettings) -> None:
            sources = _sources(settings, data, model, evidence, time.perf_counter() - start, device)
            if cluster is not None:
                sources["certify"] |= {"engine": "ray", "workers": cluster.workers, "threads": 1}
            # What was trained in the same folder, and what was seen before an earlier part of this run.
            kept = {key: value for key, value in run.sources().items() if key in ("train", "checks")}
            if checkup is not None:
                kept["checks"] = asdict(checkup) | {"warnings": [*checkup.warnings, *warned]}
            with run.change() as change:
                change.write(CONFIG, settings_text(settings))
                save_evidence(evidence, place := change.place(EVIDENCE))
                draws = int(evidence.draws.sum())
                sources["evidence"] = {"sha256": digest_of(place), "draws": draws}
                if earlier := sorted({*added} - {draws}):
                    sources["added"] = {"draws": earlier}
                change.write_json(SOURCES, sealed(plain(kept | sources)))

        try:
            early = () if first is None or begun else _first_looks(data, settings, checkup)
            for some, draws in early:
                look = options | {"n": draws, "plan": (settings.certify.n,)}
                keep(collect_evidence(model, some, **look), settings)
                if first is not None:
                    with deferred_interrupts():  # in an import, which drawing begins with, Python may lose a Ctrl-C
                        first()
            evidence = collect_evidence(model, data, **options)
        except (KeyboardInterrupt, SystemExit):  # Ctrl-C, or what a scheduler sends
            if any(run.shards.glob("shard-*")):
                keep(load_so_far(run.shards), settings)
            raise
        if settings.certify.stages is None:  # there may have been more draws than were asked for
            settings = replace(settings, certify=replace(settings.certify, n=int(evidence.draws.max())))
        keep(evidence, settings)
        for line in after_drawing(evidence, settings.certify):
            tell(line)
        run.log(f"certify: {evidence.draws.sum()} draws kept in {run.evidence.name}")
    return evidence


@guarded
def check_run(settings: RunSettings, *, tell: Tell) -> tuple[Checkup, int, float]:
    """What checks find before a run, of how many inputs it is, and about how many seconds it takes; writes nothing.

    Paper: —.
    """
    data = load_data(settings.data, settings.model)
    model, asked = load_model(settings.model, data, sigma=settings.certify.sigma), settings.certify
    found = check_up(model, data, settings, asked.device or best_device())
    found = replace(found, warnings=(*found.warnings, *about_training(settings, data, sigma=settings.certify.sigma)))
    tell_checkup(data, found, tell)
    return found, len(data), len(data) * (asked.n + asked.n0) / found.draws_per_second


def _first_looks(data: ImageData, settings: RunSettings, checkup: Checkup | None) -> Iterator[tuple[ImageData, int]]:
    """Inputs and draws of the looks that a long run takes on its way: quick ones, each ten times the last."""
    asked, inputs = settings.certify, len(data)
    speed = 10_000.0 if checkup is None else checkup.draws_per_second
    if asked.stages is not None or inputs * asked.n < LONG * speed or asked.n < 2 * FIRST_DRAWS:
        return
    some = min(MOST, max(FEWEST, int(FIRST_SECONDS * speed / FIRST_DRAWS)))
    if 2 * some < inputs:
        yield data.take(limit=some), FIRST_DRAWS
    draws = FIRST_DRAWS
    while draws * 5 <= asked.n:
        yield data, draws
        draws *= 10


def _added(run: RunFolder) -> list[int]:
    """The numbers of draws of which reports were made before."""
    evidence, added = (run.sources().get(key, {}) for key in ("evidence", "added"))
    reported = (run.path / "metrics.json").exists() and "draws" in evidence
    return [*added.get("draws", []), *([evidence["draws"]] if reported else [])]


def _check_trained(run: RunFolder, settings: RunSettings, model: nn.Module, trained: dict[str, Any] | None) -> None:
    """Refuse weights in the run folder that are not those that training left there."""
    weights = settings.model.weights
    own = weights is not None and os.path.realpath(os.path.expanduser(weights)) == os.path.realpath(run.path / WEIGHTS)
    if own and trained is not None and settings.model.temperature is None:
        wanted = f"be those that training left in {run.path / WEIGHTS}"
        check_fingerprint(model, trained.get("fingerprint"), wanted, settings.model)


def _sampling(settings: RunSettings) -> dict[str, Any]:
    options = {key: value for key, value in vars(settings.certify).items() if key not in ("device", "stages")}
    if settings.certify.stages is not None:
        asked = settings.evaluate
        radii = asked.radii_at(settings.certify.sigma)
        options |= {"stages": settings.certify.stages, "stop": StopWhenDecided(radii=radii, **asked.terms)}
    return options


def _sources(
    settings: RunSettings, data: ImageData, model: nn.Module, evidence: Evidence, seconds: float, device: str
) -> dict[str, Any]:
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
            "path": os.path.abspath(data.source) if os.path.exists(data.source) else None,
            "inputs": len(data),
            "of": data.total or len(data),
            "draws": settings.certify.n,
            "shape": list(data.shape),
            "units": data.units,
            "classes": list(data.classes),
        },
        "certify": provenance(seconds=seconds, device=device) | {"threads": torch.get_num_threads()},
    }

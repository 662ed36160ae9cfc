"""Certify a network without noise into a run folder, batch by batch; running it again goes on."""

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals, intervals_by_radius
from certcal.errors import InputError
from certcal.files import replacing
from certcal.progress import Progress
from certcal.runs.folder import CONFIG, EVIDENCE, RunFolder, save_bounds
from certcal.runs.load import load_data, load_model
from certcal.runs.plain import keep_bounds
from certcal.scalars import guarded
from certcal.settings import BoundsRunSettings, Certifier, DataSettings, build

BATCH = 50  # inputs that are certified and stored together


@guarded
def verify_run(
    run: RunFolder, settings: BoundsRunSettings, *, progress: bool | None = None
) -> tuple[ConfidenceIntervals, ...]:
    """The certificates of a network without noise, made or completed, and kept in the run's folder.

    Paper: —; run folders are ours.
    Raises: InputError if the folder holds certificates of another model, data or setting.
    """
    from certcal.certificates import intervals_by_lipschitz, intervals_by_lirpa
    from certcal.models import model_fingerprint

    start, asked, radii = time.perf_counter(), settings.bounds, settings.evaluate.radii
    if run.evidence.is_file():
        raise InputError.expected("run", f"be a folder without {EVIDENCE}, of a smoothed model", str(run.path))
    if radii is None:
        raise InputError.expected("radii", f"be given for the certifier {asked.certifier}, as 1/255,2/255", "none")
    data = load_data(settings.data)
    model = load_model(settings.model, data)
    inputs, labels = data.tensors()
    fingerprint = model_fingerprint(model)
    options: dict[str, Any] = {"constant": asked.constant, "last_layer": asked.last_layer}
    made_by: dict[str, Any] = {"widened": True}  # those of earlier versions were not, and are not mixed with these
    certify: Any = intervals_by_lipschitz
    if asked.certifier == Certifier.LIRPA:
        certify, made_by = intervals_by_lirpa, {}
        options = {"norm": asked.norm or "linf", "relaxation": asked.relaxation, "domain": asked.domain}
    elif asked.norm not in (None, "l2"):
        raise InputError.expected("norm", "be l2 for a Lipschitz network", repr(asked.norm))
    key = json.dumps(
        {"model": fingerprint, "data": asdict(settings.data), "radii": radii, **options, **made_by}, sort_keys=True
    )
    run.create()
    with run.writing(), run.kept_if_refused(CONFIG, unless=f"{run.shards.name}/bounds-*"):
        _check_same(run, key)
        run.save_settings(settings)
        run.write(f"{run.shards.name}/bounds.json", key)
        parts = []
        with Progress(1, len(inputs), show=progress, doing="certifying", unit="inputs") as bar:
            for begin in range(0, len(inputs), BATCH):
                own = slice(begin, begin + BATCH)
                path = run.shards / f"bounds-{begin:08}.parquet"
                if not path.is_file():
                    made = certify(model, inputs[own], labels[own], radii=radii, index=data.index[own], **options)
                    with replacing(path) as part:
                        save_bounds(made, part)
                parts.append(intervals_by_radius(path))
                bar.drew(len(labels[own]))
        bounds = tuple(_joined([part[n] for part in parts]) for n in range(len(radii)))
        about: dict[str, dict[str, Any]] = {
            "model": {"weights": settings.model.weights, "fingerprint": fingerprint},
            "data": {
                "inputs": len(data),
                "of": data.total or len(data),
                "shape": list(data.shape),
                "classes": list(data.classes),
            },
        }
        settings = replace(settings, evaluate=replace(settings.evaluate, alpha=0.0))
        keep_bounds(run, settings, bounds, about, seconds=time.perf_counter() - start, device="cpu")
    return bounds


def _renamed(key: str) -> Any:
    """What a folder's certificates are of, with the names that settings have now; None if it cannot be read."""
    try:
        kept = json.loads(key)
        return kept | {"data": asdict(build(DataSettings, kept["data"], "bounds.json"))}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _check_same(run: RunFolder, key: str) -> None:
    before: Path = run.shards / "bounds.json"
    if before.is_file() and _renamed(before.read_text(encoding="utf-8")) != json.loads(key):
        wanted = "hold certificates of the same model, data, radii and certifier (use another folder)"
        raise InputError.expected("run", wanted, f"others in {run.path}")


def _joined(parts: list[ConfidenceIntervals]) -> ConfidenceIntervals:
    """The certificates of all batches at one radius."""
    names: list[str] = [name for name, value in vars(parts[0]).items() if isinstance(value, np.ndarray)]
    joined: dict[str, Any] = {name: np.concatenate([getattr(own, name) for own in parts]) for name in names}
    return replace(parts[0], **joined)

"""Certify a network without noise into a run folder, batch by batch; running it again goes on."""

import json
import time
from dataclasses import asdict, replace
from importlib.metadata import version
from typing import Any

import numpy as np
from torch import nn

from certcal.certificates import (
    ConfidenceIntervals,
    intervals_by_lipschitz,
    intervals_by_lirpa,
    intervals_by_radius,
    lipschitz_constant,
)
from certcal.data import ImageData
from certcal.errors import InputError
from certcal.files import replacing
from certcal.models import model_fingerprint
from certcal.progress import Progress
from certcal.runs.checkup import Checkup, check_up, tell_checkup
from certcal.runs.folder import CONFIG, EVIDENCE, SHARDS, RunFolder, Tell, save_bounds
from certcal.runs.load import load_data, load_model
from certcal.runs.plain import keep_bounds
from certcal.scalars import exactly, guarded
from certcal.settings import BoundsRunSettings, BoundsSettings, Certifier, Norm

BATCH = 50  # inputs that are certified and stored together
FEW = 4  # inputs by which the time of all is foreseen


@guarded
def verify_run(
    run: RunFolder,
    settings: BoundsRunSettings,
    *,
    progress: bool | None = None,
    checks: bool = False,
    tell: Tell = lambda text: None,
) -> tuple[ConfidenceIntervals, ...]:
    """The certificates of a network without noise, made or completed, and kept in the run's folder.

    `checks` looks at model and data before a new run; what they find is told, and kept with the run.

    Paper: —; run folders are ours.
    Raises: InputError if the folder holds certificates of another model, data or setting.
    """
    start, asked, radii = time.perf_counter(), settings.bounds, _radii(settings)
    if run.evidence.is_file():
        raise InputError.expected("run", f"be a folder without {EVIDENCE}, of a smoothed model", str(run.path))
    data = load_data(settings.data, settings.model)
    model = load_model(settings.model, data)
    inputs, labels = data.tensors()
    fingerprint = model_fingerprint(model)
    certify, options, made_by = _certifier(asked)
    checkup = run.sources().get("checks")
    if checks and not any(run.shards.glob("bounds-*")):
        checkup = asdict(_looked(model, data, settings, tell))
    key = json.dumps(
        {"model": fingerprint, "data": asdict(settings.data), "radii": radii, **options, **made_by}, sort_keys=True
    )
    run.create()
    with run.writing(), run.kept_if_refused(CONFIG, unless=f"{SHARDS}/bounds-*"):
        if (before := run.shards / "bounds.json").is_file() and before.read_bytes() != key.encode():
            wanted = "hold certificates of the same model, data, radii and certifier (use another folder)"
            raise InputError.expected("run", wanted, f"others in {run.path}")
        run.save_settings(settings)
        run.write(f"{SHARDS}/bounds.json", key)
        parts = []
        with Progress(1, len(inputs), show=progress, doing="certifying", unit="inputs", done="certified") as bar:
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
        about |= {"bounds": _about(asked, model)} | ({} if checkup is None else {"checks": checkup})
        settings = replace(settings, evaluate=replace(settings.evaluate, alpha=0.0))
        keep_bounds(run, settings, bounds, about, seconds=time.perf_counter() - start, device="cpu")
    return bounds


@guarded
def foresee_verify(settings: BoundsRunSettings, *, tell: Tell) -> tuple[Checkup, int, float]:
    """What checks find before a run without noise, of how many inputs it is, and about how many seconds it takes.

    Paper: —.
    """
    radii, data = _radii(settings), load_data(settings.data, settings.model)
    model, some = load_model(settings.model, data), data.take(limit=min(FEW, len(data)))
    found = _looked(model, data, settings, tell)
    certify, options, _ = _certifier(settings.bounds)
    for _ in range(2):  # the first time also loads the library
        start = time.perf_counter()
        certify(model, *some.tensors(), radii=radii, index=some.index, **options)
    return found, len(data), (time.perf_counter() - start) / len(some) * len(data)


def _radii(settings: BoundsRunSettings) -> tuple[float, ...]:
    asked, own = settings.evaluate, settings.bounds
    radii = asked.radii or (() if asked.open_at is None else (asked.open_at,))
    if not radii:
        raise InputError.expected("radii", f"be given for the certifier {own.certifier}, as 1/255,2/255", "none")
    linf = own.certifier == Certifier.LIRPA and own.norm in (None, Norm.LINF)
    if linf and settings.data.values == "unit" and max(radii) > 1:
        got = f"{exactly(max(radii))} (did you mean {exactly(max(radii))}/255?)"
        raise InputError.expected("radii", "be at most 1 in ℓ∞, as inputs lie in [0, 1]", got)
    return radii


def _certifier(asked: BoundsSettings) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The function that certifies, what it is asked, and what else its certificates are told apart by."""
    if asked.certifier == Certifier.LIRPA:
        known = {"norm": asked.norm or "linf", "relaxation": asked.relaxation, "domain": asked.domain}
        return intervals_by_lirpa, known, {}
    if asked.norm not in (None, "l2"):
        raise InputError.expected("norm", "be l2 for a Lipschitz network", repr(asked.norm))
    # Those of earlier versions were not widened, and are not mixed with these.
    return intervals_by_lipschitz, {"constant": asked.constant, "last_layer": asked.last_layer}, {"widened": True}


def _looked(model: nn.Module, data: ImageData, settings: BoundsRunSettings, tell: Tell) -> Checkup:
    found = check_up(model, data, settings)
    tell_checkup(data, found, tell)
    return found


def _about(asked: BoundsSettings, model: nn.Module) -> dict[str, Any]:
    """What the bounds rest on: who made them, by which constant, and what was added for rounding."""
    widened = "margins by 2⁻¹³ of the largest logit, for float32"
    if asked.certifier == Certifier.LIRPA:
        return {"by": f"auto_LiRPA {version('auto_LiRPA')} ({asked.relaxation})", "widened": widened}
    constant = lipschitz_constant(model) if asked.constant is None else asked.constant
    whose = "the network's own" if asked.constant is None else "as given"
    return {"by": f"Lipschitz constant {constant:.6g} ({whose}; {asked.last_layer})", "widened": widened}


def _joined(parts: list[ConfidenceIntervals]) -> ConfidenceIntervals:
    """The certificates of all batches at one radius."""
    names: list[str] = [name for name, value in vars(parts[0]).items() if isinstance(value, np.ndarray)]
    joined: dict[str, Any] = {name: np.concatenate([getattr(own, name) for own in parts]) for name in names}
    return replace(parts[0], **joined)

"""What each way of training does to certified calibration, over several seeds with the spread shown.

    python -m experiments.training digits                                   # minutes of CPU
    python -m experiments.training fashion-mnist --root DATA --device cuda  # minutes on a GPU

From scratch: noise training and SmoothAdv (AT). Then the AT model is fine-tuned by every method with the same few
settings, or has its logits multiplied, and is certified at the radius it was trained for.
Per seed and method the setting with the least certified calibration error (CCE) is taken among models that lose at
most 3 points of certified accuracy against that seed's AT model; the table has means and standard deviations over
seeds, of the difference to the seed's own AT model too. Results go to results/training-<name>.json.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench.harness import commit, describe_machine
from torch import nn

import certcal
from certcal.data import ImageData, load_dataset
from certcal.models import Tempered, build_model, load_checkpoint
from certcal.training import MachineSettings, ObjectiveSettings, TrainSettings, train

RESULTS = Path(__file__).parent / "results"
ALPHA = 0.001
MARGIN = 0.03  # of certified accuracy that a method may cost, as in the paper
CERTIFICATES = {"cdf": False, "cdf-cp": True}  # the paper's, with α for each part; and ours, with α for both


@dataclass(frozen=True)
class Study:
    """One smoothed model: what it is trained on, how, and at which radius it is judged."""

    data: str
    model: str
    radius: float
    test: int  # inputs that are certified
    draws: int
    scratch: TrainSettings
    finetune: TrainSettings
    adversary: ObjectiveSettings  # of SmoothAdv from scratch; fine-tuning takes draws and steps from it
    rates: tuple[float, ...] = (0.01, 0.05)
    factors: tuple[float, ...] = (1.0,)  # of the adversary's steps, v


STUDIES = {
    "digits": Study(
        "digits", "small-cnn", 0.5, 360, 2000,
        TrainSettings(sigma=0.25, epsilon=0.5, epochs=60, batch_size=64, learning_rate=0.05, decay_every=25,
                      epsilon_zero=5, epsilon_warmup=10),
        TrainSettings(sigma=0.25, epsilon=0.5, epochs=10, batch_size=128, decay_every=4, epsilon_warmup=3),
        ObjectiveSettings(name="smoothadv", draws=4, steps=4),
    ),
    "fashion-mnist": Study(
        "fashion-mnist", "lenet", 1.0, 500, 10_000,
        TrainSettings(sigma=0.5, epsilon=1.0, epochs=24, batch_size=1024, learning_rate=0.1, decay_every=9,
                      sigma_warmup=4, epsilon_zero=4, epsilon_warmup=4),
        TrainSettings(sigma=0.5, epsilon=1.0, epochs=10, batch_size=1024, decay_every=4, epsilon_warmup=3),
        ObjectiveSettings(name="smoothadv", draws=2, steps=4), rates=(0.05,),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One model to train from scratch (`init` is None) or to fine-tune, and to certify."""

    study: Study
    seed: int
    method: str
    objective: ObjectiveSettings
    settings: TrainSettings
    init: Path | None
    folder: Path
    device: str
    root: Path | None = None
    sharpen: tuple[float, ...] = (1.0,)  # factors of the logits that the model is certified with
    label: str = field(default="")


def run(job: Job) -> list[dict[str, Any]]:
    """Train and certify one model; a row for each sharpening."""
    torch.set_num_threads(1)
    study = job.study
    data, test = (images(study.data, split, job.root) for split in ("train", "test"))
    torch.manual_seed(job.seed)
    model = new_model(study, data)
    if job.init is not None:
        load_checkpoint(model, job.init)
    train(
        model, data, job.folder, objective=job.objective, settings=job.settings,
        machine=MachineSettings(device=job.device), tell=lambda text: None,
    )  # fmt: skip
    model.eval()
    return [certify(job, Tempered(model, 1 / factor), factor, test) for factor in job.sharpen]


@cache
def images(name: str, split: str, root: Path | None) -> ImageData:
    """Read once by each process."""
    return load_dataset(name, split=split, root=root)


def new_model(study: Study, data: ImageData) -> nn.Module:
    channels, size, _ = data.shape
    return build_model(study.model, classes=len(data.classes), channels=channels, size=size)


def certify(job: Job, model: nn.Module, factor: float, test: ImageData) -> dict[str, Any]:
    every = max(1, len(test) // job.study.test)
    evidence = certcal.collect_evidence(
        model, test.take(every=every, limit=job.study.test), sigma=job.settings.sigma, n=job.study.draws,
        seed=1, device=job.device, progress=False,
    )  # fmt: skip
    method = job.method if factor == 1 else f"{job.method}, logits × {factor:g}"
    row: dict[str, Any] = {"method": method, "seed": job.seed, "settings": job.label}
    for name, split_alpha in CERTIFICATES.items():
        own = certcal.evaluate(
            evidence, radii=[0.0, job.study.radius], alpha=ALPHA, method=name, split_alpha=split_alpha
        )
        clean, at = own.rows
        row[name] = {
            "certified_accuracy": at.certified_accuracy,
            "cce": at.certified_ece,
            "cbs": at.certified_brier,
            "brier": clean.brier,
            "ece": clean.ece,
            "accuracy": float(evidence.correct.mean()),
        }
    return row


def from_scratch(study: Study, seeds: int, folder: Path, device: str, root: Path | None) -> Iterator[Job]:
    for seed, adversarial in product(range(seeds), (False, True)):
        name = "AT" if adversarial else "noise"
        objective = study.adversary if adversarial else replace(study.adversary, name="noise")
        settings = replace(study.scratch, seed=seed, epsilon=study.scratch.epsilon if adversarial else 0.0)
        sharpen = (1.0, 2.0, 4.0) if adversarial else (1.0,)
        yield Job(study, seed, name, objective, settings, None, folder / f"{name}-{seed}", device, root, sharpen)


METHODS: dict[str, list[dict[str, Any]]] = {
    "noise, on": [{"name": "noise"}],
    "AT, on": [{"name": "smoothadv"}],
    "Brier-ACT": [{"name": "brier-act"}],
    "ACCE-ACT": [{"name": "acce-act"}],
    "ACCE-ACT*": [{"name": "acce-act*", "reduction": "mean", "eta": 0.5}],
    "CCE-ACT": [{"name": "cce-act"}],
    "certified Brier": [{"name": "certified-brier", "weight": weight, "base": "smoothadv"} for weight in (1.0, 4.0)],
    "certified CCE": [{"name": "certified-cce", "weight": weight, "base": "smoothadv"} for weight in (1.0, 4.0)],
}
ORDER = ("noise", "AT", "AT, logits × 2", "AT, logits × 4", *METHODS)
LARGE = ("ACCE-ACT", "ACCE-ACT*", "CCE-ACT", "certified CCE")  # a calibration error wants many inputs
NO_ADVERSARY = ("noise, on",)


def fine_tuning(study: Study, seeds: int, folder: Path, device: str, root: Path | None) -> Iterator[Job]:
    for seed, (method, objectives), rate in product(range(seeds), METHODS.items(), study.rates):
        for changes, factor in product(objectives, study.factors):
            if method in NO_ADVERSARY and factor != study.factors[0]:
                continue
            objective = replace(study.adversary, step_factor=factor, radius=study.radius, **changes)
            size = 2048 if method in LARGE else study.finetune.batch_size
            settings = replace(study.finetune, seed=seed, learning_rate=rate, batch_size=size)
            if study.data == "digits":
                settings = replace(settings, batch_size=512 if method in LARGE else settings.batch_size)
            label = f"rate {rate:g}, v {factor:g}" + (f", λ {changes['weight']:g}" if "weight" in changes else "")
            where = folder / "-".join((method, str(seed), label)).replace(" ", "_").replace("*", "star")
            yield Job(
                study, seed, method, objective, settings, folder / f"AT-{seed}" / "model.pt", where, device, root,
                label=label,
            )  # fmt: skip


def run_all(jobs: list[Job], processes: int, until: float) -> list[dict[str, Any]]:
    """The rows of all jobs, or of those that are done when time is up."""
    rows, failed = [], 0
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    try:
        futures = [pool.submit(run, job) for job in jobs]
        for future in as_completed(futures, timeout=until - time.monotonic()):
            try:
                rows += future.result()
            except certcal.CertcalError as error:  # a rate that is too large for a method is a result too
                failed += 1
                print(error, flush=True)
        pool.shutdown()
    except TimeoutError:
        for process in list(pool._processes.values()):
            process.kill()
        pool.shutdown(cancel_futures=True)
    print(f"{len(jobs)} models asked for, {len(rows)} rows, {failed} diverged", flush=True)
    return rows


def summary(rows: list[dict[str, Any]], certificate: str) -> list[dict[str, Any]]:
    """Per method, means and deviations over seeds of the chosen model, and of its difference to the seed's AT model."""
    chosen: dict[str, list[dict[str, float]]] = {}
    for seed in sorted({row["seed"] for row in rows if row["method"] == "AT"}):
        own = [row for row in rows if row["seed"] == seed]
        base = next(row for row in own if row["method"] == "AT")[certificate]
        for method in dict.fromkeys(row["method"] for row in own):
            found = [row[certificate] for row in own if row["method"] == method]
            enough = [one for one in found if one["certified_accuracy"] >= base["certified_accuracy"] - MARGIN - 1e-12]
            if method != "noise" and not enough:
                continue
            best = min(found if method == "noise" else enough, key=lambda one: one["cce"])
            chosen.setdefault(method, []).append(best | {f"d_{name}": best[name] - base[name] for name in best})
    return [
        {"method": method, "seeds": len(found)}
        | {name: [float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0]
           for name in found[0] for values in [[one[name] for one in found]]}
        for method, found in sorted(chosen.items(), key=lambda pair: ORDER.index(pair[0]))
    ]  # fmt: skip


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'method':<22}{'seeds':>6}{'CA':>14}{'CCE':>14}{'CBS':>14}{'Brier':>14}{'ΔCA':>14}{'ΔCCE':>14}")
    for row in rows:
        names = ("certified_accuracy", "cce", "cbs", "brier", "d_certified_accuracy", "d_cce")
        cells = "".join(f"{100 * row[name][0]:8.2f} ±{100 * row[name][1]:4.1f}" for name in names)
        print(f"{row['method']:<22}{row['seeds']:>6}{cells}")


def markdown(body: dict[str, Any]) -> str:
    """The table of the docs, in %."""
    heads = ("method", "seeds", "CA", *(f"{name}, `{own}`" for own in CERTIFICATES for name in ("CCE", "CBS")))
    lines = [f"| {' | '.join((*heads, 'Brier, clean', 'ΔCCE, `cdf-cp`'))} |", "|---" * 9 + "|"]
    ours = {row["method"]: row for row in body["tables"]["cdf-cp"]}
    for row in body["tables"]["cdf"]:
        own = ours[row["method"]]
        pairs = (row["certified_accuracy"], row["cce"], row["cbs"], own["cce"], own["cbs"], row["brier"], own["d_cce"])
        cells = " | ".join(f"{100 * mean:.1f} ± {100 * spread:.1f}" for mean, spread in pairs)
        seeds = ", ".join(map(str, dict.fromkeys((row["seeds"], own["seeds"]))))  # where the two certificates differ
        lines.append(f"| {row['method']} | {seeds} | {cells} |")
    return "\n".join(lines).replace("-0.0 ±", "0.0 ±").replace("*", "\\*")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.training", description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=STUDIES)
    parser.add_argument("--data", help="where the data set is, if not where `load_dataset` finds it: a .npz file")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=600, help="record what is done by then")
    parser.add_argument("--epochs", type=int, help="of training from scratch, to try things out")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    study = replace(STUDIES[chosen.name], **({"data": chosen.data} if chosen.data else {}))
    if chosen.epochs:
        study = replace(study, scratch=replace(study.scratch, epochs=chosen.epochs))
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch), chosen.device, chosen.root
        until = time.monotonic() + 60 * chosen.minutes
        rows = run_all(list(from_scratch(study, chosen.seeds, *place)), chosen.processes, until)
        rows += run_all(list(fine_tuning(study, chosen.seeds, *place)), chosen.processes, until)
    path = chosen.out or RESULTS / f"training-{chosen.name}.json"
    settings = asdict(study) | {"data": chosen.name}
    body = {"machine": describe_machine(), "commit": commit(), "study": settings, "alpha": ALPHA, "seeds": chosen.seeds}
    tables = {name: summary(rows, name) for name in CERTIFICATES}
    for name, table in tables.items():
        print(f"\ncertificate {name}, R = {study.radius:g}, best CCE per seed within 3 points of certified accuracy")
        show(table)
    path.write_text(json.dumps(body | {"tables": tables, "models": rows}, indent=1, ensure_ascii=False) + "\n")
    print(f"\n{markdown(body | {'tables': tables})}\n\nwritten to {path}")


if __name__ == "__main__":
    main()

"""Certified recalibration on real runs: 20 random splits, fitted on one half, scored on the other.

    python -m experiments.recalibration digits                 # 2 minutes of CPU
    python -m experiments.recalibration fashion-mnist          # a quarter of an hour; data as for `load_dataset`

Trains a small network under noise, keeps its evidence in runs/, and writes results/recalibration-<name>.json.
Expected at the largest radius: certified ECE down to a third or less, certified Brier score to less than half.
"""

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from bench.harness import commit, describe_machine
from torch import nn

import certcal
from certcal.certificates import confidence_bounds_at
from certcal.data import load_dataset
from certcal.models import build_model
from certcal.recalibration import Scores, held_out_scores

RESULTS = Path(__file__).parent / "results"
ALPHA, SPLITS = 0.001, 20
MAPS = (("isotonic", 0.0), ("isotonic", 0.5), ("beta", 0.5))  # kinds and clean weights


@dataclass(frozen=True)
class Run:
    """One smoothed model: what it is trained on and what is certified."""

    dataset: str
    model: str
    sigma: float
    train: int  # images to train on
    epochs: int
    certify: int  # images to certify, none of them trained on
    draws: int
    radii: tuple[float, ...]


RUNS = {
    # Trained on a hundred images, so that some predictions are wrong and certified all the same.
    "digits": Run("digits", "small-cnn", 0.25, 100, 200, 1600, 5000, (0.0, 0.1, 0.25, 0.4, 0.5)),
    "fashion-mnist": Run("fashion-mnist", "lenet", 0.5, 60_000, 4, 600, 10_000, (0.0, 0.25, 0.5, 0.75, 1.0)),
}


def evidence_of(run: Run, store: Path) -> certcal.Evidence:
    """Train the network under noise and draw its evidence, or go on where an earlier run stopped."""
    (inputs, labels), rest = images(run)
    torch.manual_seed(0)
    model = build_model(run.model, classes=10, channels=inputs.shape[1], size=inputs.shape[2])
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(run.epochs):
        for batch in torch.randperm(len(inputs)).split(128):
            noisy = inputs[batch] + run.sigma * torch.randn_like(inputs[batch])
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(noisy), labels[batch]).backward()
            optimiser.step()
    return certcal.collect_evidence(model.eval(), rest, sigma=run.sigma, n=run.draws, store=store)


def images(run: Run) -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Images to train on and images to certify, both shuffled. Digits has few: both come from all of it."""
    train, test = (load_dataset(run.dataset, split=split).tensors() for split in ("train", "test"))
    if run.train < len(train[0]):
        train = test = tuple(torch.cat(parts) for parts in zip(train, test, strict=True))
    chance = torch.Generator().manual_seed(0)
    order = torch.randperm(len(train[0]), generator=chance)
    first = order[: run.train]
    later = order[run.train :] if train is test else torch.randperm(len(test[0]), generator=chance)
    return tuple(part[first] for part in train), tuple(part[later[: run.certify]] for part in test)


def table(evidence: certcal.Evidence, radii: tuple[float, ...]) -> list[dict]:
    """Mean scores on held-out halves before and after, per radius and kind of map."""
    rows = []
    for bounds in confidence_bounds_at(evidence, radii=radii, alpha=ALPHA):
        wrong = int((bounds.certified & ~bounds.correct).sum())
        head = {"radius": bounds.radius, "certified": int(bounds.certified.sum()), "wrong": wrong}
        for method, share in MAPS if wrong else ():
            result = held_out_scores(bounds, repeats=SPLITS, method=method, clean_weight=share)
            before, after = result.mean(bounds.radius)
            rows.append(
                head
                | {"method": method, "clean_weight": share, "before": rounded(before), "after": rounded(after)}
                | {"halved": sum(r.after.certified_ece <= r.before.certified_ece / 2 for r in result.rows)}
                | {"brier_better": sum(r.after.certified_brier <= r.before.certified_brier for r in result.rows)}
                | {"identity_maps": sum(g.kind == "identity" for g in result.maps)}
            )
    return rows


def rounded(scores: Scores) -> dict[str, float]:
    """For the record: four digits."""
    return {name: round(float(value), 4) for name, value in asdict(scores).items()}


def record_bounds(evidence: certcal.Evidence, radii: tuple[float, ...], path: Path) -> None:
    """Keep certificates as small as tests need them: in units of 2⁻¹⁶, bounds rounded outward, radii down."""
    several = confidence_bounds_at(evidence, radii=radii, alpha=ALPHA)
    unit = 2.0**16 - 1
    own = {"radii": radii, "correct": several[0].correct, "alpha": ALPHA}
    own["lower"] = np.stack([np.floor(b.lower * unit) for b in several]).astype(np.uint16)
    own["upper"] = np.stack([np.ceil(b.upper * unit) for b in several]).astype(np.uint16)
    own["confidence"] = np.round(several[0].confidence * unit).astype(np.uint16)
    own["certified_radius"] = np.floor(np.nan_to_num(several[0].certified_radius, nan=0.0) * 2**13).astype(np.uint16)
    own["abstained"] = np.isnan(several[0].certified_radius)
    np.savez_compressed(path, **own)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=RUNS)
    parser.add_argument("--record", type=Path, help="keep the certificates in this .npz file, for tests")
    parser.add_argument("--store", type=Path, help="folder for the evidence")
    chosen = parser.parse_args()
    run = RUNS[chosen.name]
    evidence = evidence_of(run, chosen.store or Path("runs") / f"recalibration-{chosen.name}")
    if chosen.record:
        record_bounds(evidence, run.radii[::2], chosen.record)
    rows = table(evidence, run.radii)
    body = {"machine": describe_machine(), "commit": commit(), "run": asdict(run), "alpha": ALPHA, "splits": SPLITS}
    body |= {"accuracy": round(float(evidence.correct.mean()), 4), "rows": rows}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"recalibration-{chosen.name}.json").write_text(json.dumps(body, indent=1) + "\n")
    for row in rows:
        pairs = [f"{name} {row['before'][name]:.3f} → {row['after'][name]:.3f}" for name in row["after"]]
        print(f"R = {row['radius']:.2f}, {row['method']}, λ = {row['clean_weight']:.1f}: {', '.join(pairs)}")


if __name__ == "__main__":
    main()

"""Certified accuracies on CIFAR-10 from the logs that Cohen et al. (2019) and Salman et al. (2019) published.

    python -m experiments.published CLONE_OF_locuslab/smoothing CLONE_OF_Hadisalman/smoothing-adversarial

The logs themselves stay where they are; experiments/results/published-cifar10.json keeps what is compared.
"""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

OUT = Path(__file__).resolve().parent / "results" / "published-cifar10.json"
RADII = (0.05, 0.2, 0.25, 0.5, 1.0)
NOISE = "data/certify/cifar10/resnet110/noise_{sigma}/test/sigma_{sigma}"
SMOOTHADV = "data/certify/cifar10/PGD_2steps_multiNoiseSamples/2-multitrain/eps_{eps}/cifar10/resnet110/" + (
    "noise_{sigma}/test/sigma_{sigma}"
)
# Our baseline, whose log, and which: ε is in 255ths there.
LOGS = (
    ("s0.25-noise", "locuslab/smoothing", NOISE.format(sigma="0.25")),
    ("s0.50-noise", "locuslab/smoothing", NOISE.format(sigma="0.50")),
    ("s0.25-e0.50-m2-T2", "Hadisalman/smoothing-adversarial", SMOOTHADV.format(eps=127, sigma="0.25")),
    ("s0.50-e1.00-m2-T2", "Hadisalman/smoothing-adversarial", SMOOTHADV.format(eps=255, sigma="0.50")),
)


def git(clone: Path, *words: str) -> str:
    """What git says of a clone."""
    return subprocess.run(["git", "-C", str(clone), *words], check=True, capture_output=True, text=True).stdout


def accuracies(log: str) -> dict[str, Any]:
    """Inputs of a log, and the share that is right and certified at each radius."""
    rows = list(csv.DictReader(io.StringIO(log), delimiter="\t"))
    share = {f"{R:g}": sum(row["correct"] == "1" and float(row["radius"]) >= R for row in rows) for R in RADII}
    return {"inputs": len(rows), "certified_accuracy": {R: count / len(rows) for R, count in share.items()}}


def main() -> None:
    clones = dict(zip(("locuslab/smoothing", "Hadisalman/smoothing-adversarial"), map(Path, sys.argv[1:]), strict=True))
    found = [
        {"baseline": name, "repository": repository, "path": path}
        | {"commit": git(clones[repository], "rev-parse", "HEAD").strip()}
        | accuracies(git(clones[repository], "show", f"HEAD:{path}"))
        for name, repository, path in LOGS
    ]
    OUT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

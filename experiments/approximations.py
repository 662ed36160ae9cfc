"""The paper's approximations of the certified calibration error beside the exact value, on up to 2000 certified inputs.

    python -m experiments.approximations [--entry cifar10-s0.25-noise-3353-inputs-seed0]

From the evidence in the reference pack; experiments/results/approximations-cifar10.json keeps the values. Bounds and
settings are those of the paper's figure (App. G.3): the Standard certificate, α for each of its parts; one run of ADMM.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from certcal import certified_calibration_error
from certcal.certificates import ConfidenceIntervals, confidence_bounds_at
from certcal.studies import Pack
from certcal.worstcase import approximate_certified_calibration_error

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "experiments" / "results" / "approximations-cifar10.json"
ENTRY = "cifar10-s0.25-noise-3353-inputs-seed0"
RADII = (0.05, 0.1, 0.2, 0.25, 0.5)
MOST = 2000
METHODS: dict[str, dict[str, Any]] = {
    "exact": {},
    "admm": {"confidence_rates": 0.001, "assignment_rates": 0.001, "rho_factors": 1.004, "gradient_clip": 1.0,
             "steps": 3000},
    "dece": {"steps": 1000},
    "brier": {},
}  # fmt: skip


def bounds_of(entry: str, radius: float) -> ConfidenceIntervals:
    """The first 2000 inputs that are certified at R."""
    pack = Pack.read(ROOT / "reference")
    evidence = pack.evidence(next(one for one in pack.entry if one.name == entry))
    (own,) = confidence_bounds_at(evidence, radii=[radius], alpha=0.001, method="standard", split_alpha=False)
    return own.select(np.flatnonzero(own.certified)[:MOST])


def value(method: str, bounds: ConfidenceIntervals) -> float:
    """What a method finds: the exact value, or one from below."""
    if method == "exact":
        return certified_calibration_error(bounds).value
    return approximate_certified_calibration_error(bounds, method=method, **METHODS[method]).value


def row(entry: str, radius: float) -> dict[str, Any]:
    """All methods at one radius."""
    bounds = bounds_of(entry, radius)
    found = {"radius": radius, "inputs": len(bounds)} | {method: value(method, bounds) for method in METHODS}
    print(found, flush=True)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entry", default=ENTRY)
    parser.add_argument("--radii", type=float, nargs="*", default=list(RADII))
    asked = parser.parse_args()
    made = {"entry": asked.entry, "rows": [row(asked.entry, radius) for radius in asked.radii]}
    OUT.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")

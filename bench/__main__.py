"""`python -m bench [cpu | gpu] [--only SECTION] [--out FOLDER]`: measure, print, and record in bench/results."""

import argparse
import sys
from pathlib import Path

from bench import attacks, foundations, further, product, recalibration, scale, smoothing, training
from bench.harness import RESULTS, record

SECTIONS = {
    "cpu": {
        "foundations": foundations.figures,
        "further": further.figures,
        "smoothing": smoothing.figures,
        "product": product.figures,
        "recalibration": recalibration.figures,
        "attacks": attacks.figures,
        "training": training.figures,
        "scale": scale.figures,
    },
    "gpu": {
        "foundations": foundations.gpu_figures,
        "smoothing": smoothing.gpu_figures,
        "training": training.gpu_figures,
    },
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("machine", nargs="?", default="cpu", choices=SECTIONS)
    parser.add_argument("--only", choices=SECTIONS["cpu"], help="one section instead of all")
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    met = [
        record(name, measure(), machine=chosen.machine, folder=chosen.out)
        for name, measure in SECTIONS[chosen.machine].items()
        if chosen.only in (None, name)
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())

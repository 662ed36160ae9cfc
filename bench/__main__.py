"""`python -m bench [cpu | gpu] [--out FOLDER]`: measure, print, and record in bench/results."""

import argparse
import sys
from pathlib import Path

from bench import foundations
from bench.harness import RESULTS, record

SECTIONS = {"cpu": {"foundations": foundations.figures}, "gpu": {"foundations": foundations.gpu_figures}}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("machine", nargs="?", default="cpu", choices=SECTIONS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    met = [
        record(name, measure(), machine=chosen.machine, folder=chosen.out)
        for name, measure in SECTIONS[chosen.machine].items()
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())

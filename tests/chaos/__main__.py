"""`python -m tests.chaos`: attack certcal as a hostile tester would, and count what comes of it."""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path

COUNTS = {"kills": 200, "corruptions": 3000, "calls": 10_000, "lines": 2000, "folders": 50}


def main():
    """Run the kinds asked for, print a table, and exit with 1 if anything happened that must not."""
    words = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    words.add_argument("--kinds", default=",".join(COUNTS), help="some of %(default)s")
    words.add_argument("--minutes", type=float, default=60.0, help="stop after so many, shared by the kinds")
    words.add_argument("--share", type=float, default=1.0, help="of the usual counts")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--show", type=int, default=40, help="of the bad cases of each kind")
    asked = words.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "COLUMNS": "100", "NO_COLOR": "1"}
    import numpy as np
    import torch

    sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
    torch.set_num_threads(1)
    kinds, tallies = asked.kinds.split(","), []
    with tempfile.TemporaryDirectory(prefix="certcal-chaos-") as folder:
        os.environ["XDG_STATE_HOME"] = folder
        for kind in kinds:
            tallies.append(_wreak(kind, Path(folder) / kind, asked, 60 * asked.minutes / len(kinds), np))
            os.chdir(Path(__file__).parents[2])
    _show(tallies, asked)
    sys.exit(any(tally.bad for tally in tallies))


def _wreak(kind, place, asked, seconds, np):
    from tests.chaos.harness import Tally

    start, tally = time.monotonic(), Tally(kind)
    count = max(1, round(COUNTS[kind] * asked.share))
    import_module(f"tests.chaos.{kind}").wreak(
        place, count, lambda: time.monotonic() - start > seconds, np.random.default_rng(asked.seed), tally
    )
    tally.seconds = time.monotonic() - start
    print(f"{kind}: {tally.total:,} in {tally.seconds:.0f} s, {len(tally.bad)} bad", file=sys.stderr, flush=True)
    return tally


def _show(tallies, asked):
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    print(f"\nCommit {commit}, seed {asked.seed}, Python {platform.python_version()}, {os.cpu_count()} cores.\n")
    print("| kind | cases | outcomes | bad | time |\n|---|---:|---|---:|---:|")
    for tally in tallies:
        short = Counter()
        for outcome, own in tally.counts.items():
            short[outcome.split(":")[0] if outcome[0].islower() else outcome.split()[0]] += own
        told = ", ".join(f"{own:,} {outcome}" for outcome, own in short.most_common())
        print(f"| {tally.kind} | {tally.total:,} | {told} | {len(tally.bad)} | {tally.seconds:.0f} s |")
    for tally in tallies:
        for case in tally.bad[: asked.show]:
            print(f"\n{tally.kind}: {case}")


if __name__ == "__main__":
    main()

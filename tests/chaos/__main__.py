"""`python -m tests.chaos`: attack certcal as a hostile tester would, and count what comes of it."""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

COUNTS = {"kills": 200, "calls": 10_000, "lines": 2000, "folders": 50, "corruptions": 3000}
BEGUN = time.monotonic()
PARTS = 5  # of each kind, with seeds of their own: what is run, kept and shown by itself
HOME = Path(__file__).parents[2]
MEMORY = 10 * 2**30  # bytes of address space for each part


def main():
    """Run the parts asked for that are not there yet, print a table, and exit with 1 if anything bad happened."""
    words = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    words.add_argument("--kinds", default=",".join(COUNTS), help="some of %(default)s")
    words.add_argument("--minutes", type=float, default=60.0, help="stop after so many")
    words.add_argument("--share", type=float, default=1.0, help="of the usual counts")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--jobs", type=int, default=2, help="parts that run at once")
    words.add_argument("--keep", type=Path, help="a folder for finished parts, which are not run again")
    words.add_argument("--show", type=int, default=40, help="of the bad cases of each kind")
    words.add_argument("--part", help=argparse.SUPPRESS)
    asked = words.parse_args()
    if asked.part:
        _part(asked)
        return
    kinds = asked.kinds.split(",")
    with tempfile.TemporaryDirectory(prefix="certcal-chaos-") as place, ThreadPoolExecutor(asked.jobs) as pool:
        keep = (asked.keep or Path(place)).resolve()
        keep.mkdir(parents=True, exist_ok=True)
        os.environ["CERTCAL_CHAOS_DESK"] = str(keep / "desk")
        _once("desk", "furnish", keep / "desk", needed=kinds != ["calls"])
        _once("kills", "make_wholes", keep / "whole", needed="kills" in kinds)
        tasks = [(kind, part, asked, keep) for kind in kinds for part in range(PARTS)]
        found = list(pool.map(lambda task: _run(*task), tasks))
    tallies = [[one for one in found if one["kind"] == kind] for kind in kinds]
    _show(tallies, asked)
    sys.exit(any(one["bad"] for one in found))


def _once(kind, function, place, *, needed):
    """What all parts of a round share, made in a process of its own."""
    if needed and not place.is_dir():
        made = f"import pathlib, sys, tests.chaos.{kind} as own; own.{function}(pathlib.Path(sys.argv[1]))"
        subprocess.run([sys.executable, "-c", made, place.with_name("new")], cwd=HOME, check=True)
        place.with_name("new").rename(place)


def _run(kind, part, asked, keep):
    """What came of one part: read if it is there and was not cut short, made in a process of its own if not."""
    name = f"{kind}-{part}-seed{asked.seed}-share{asked.share:g}.json"
    kept = json.loads((keep / name).read_text()) if (keep / name).is_file() else {"total": 0, "wanted": 1}
    if kept["total"] < kept["wanted"]:
        left = asked.minutes - (time.monotonic() - BEGUN) / 60
        words = ["--seed", asked.seed, "--share", asked.share, "--minutes", left]
        words += ["--keep", keep / name, "--part", f"{kind}:{part}"]
        subprocess.run([sys.executable, "-m", "tests.chaos", *map(str, words)], cwd=HOME, check=True)
    found = json.loads((keep / name).read_text())
    told = f"{kind} {part + 1}/{PARTS}: {found['total']:,} in {found['seconds']:.0f} s, {len(found['bad'])} bad"
    print(told, file=sys.stderr, flush=True)
    return found


def _part(asked):
    """Make one part, and keep what came of it."""
    os.environ |= {"OMP_NUM_THREADS": "1", "COLUMNS": "100", "NO_COLOR": "1"}
    import numpy as np
    import torch

    sys.path.insert(0, str(HOME / "tests" / "support"))
    from tests.chaos.harness import Tally

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))  # what takes more is a finding, and not the machine's end
    kind, part = asked.part.split(":")
    count = max(1, round(COUNTS[kind] * asked.share / PARTS))
    start, tally = time.monotonic(), Tally(kind)
    with tempfile.TemporaryDirectory(prefix=f"certcal-chaos-{kind}-") as folder:
        os.environ["XDG_STATE_HOME"] = folder
        rng = np.random.default_rng([asked.seed, int(part)])
        wreak = import_module(f"tests.chaos.{kind}").wreak
        wreak(Path(folder) / kind, count, lambda: time.monotonic() - start > 60 * asked.minutes, rng, tally)
        os.chdir(HOME)
    made = {"kind": kind, "part": int(part), "counts": dict(tally.counts), "bad": tally.bad, "total": tally.total}
    new = asked.keep.with_suffix(".new")
    new.write_text(json.dumps(made | {"wanted": count, "seconds": time.monotonic() - start}, indent=1))
    new.rename(asked.keep)


def _show(tallies, asked):
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    print(f"\nCommit {commit}, seed {asked.seed}, Python {platform.python_version()}, {os.cpu_count()} cores.\n")
    print("| kind | cases | outcomes | bad | time |\n|---|---:|---|---:|---:|")
    for parts in tallies:
        short = Counter()
        for outcome, own in ((outcome, own) for part in parts for outcome, own in part["counts"].items()):
            short[outcome.split(":")[0] if outcome[0].islower() else outcome.split()[0]] += own
        told = ", ".join(f"{own:,} {outcome}" for outcome, own in short.most_common())
        total, seconds = (sum(part[name] for part in parts) for name in ("total", "seconds"))
        bad = sum(len(part["bad"]) for part in parts)
        print(f"| {parts[0]['kind']} | {total:,} | {told} | {bad} | {seconds:.0f} s |")
    for parts in tallies:
        for case in [case for part in parts for case in part["bad"]][: asked.show]:
            print(f"\n{parts[0]['kind']}: {case}")


if __name__ == "__main__":
    main()

"""Kill every verb at random moments, again and again; what it leaves is whole, grows, and ends as if never killed."""

import json
import os
import shutil
import signal
from pathlib import Path

import matplotlib.pyplot  # noqa: F401 (commands are forked from this process, and need not import it again)
import numpy as np
from tests.chaos import desk as d
from tests.chaos.harness import finished, killed

from certcal import load_evidence
from certcal.runs import RunFolder
from certcal.studies import Pack

IN_A_ROW = 4
VERBS = {  # what is typed, in which folder, and what must be the same in the end
    "certify": (d.CERTIFY, "made"),
    "evaluate": (["evaluate", "made", "--radii", "0,0.02,0.2"], "made"),
    "report": (["report", "made"], "made"),
    "attack": (d.ATTACK, "made"),
    "recalibrate": (d.RECALIBRATE, "made"),
    "train": (d.TRAIN, "net"),
    "sweep": (d.SWEEP, "grid"),
    "reproduce": (d.STUDY, "reproduce-study"),
    "compare": (["compare", "made", "like", "--radii", "0,0.02,0.2"], "compare"),
    "reference": (["reference", "add", "runs/pack", "--run", "made", "--name", "own", *d.FACTS], "pack"),
    "demo": (["demo"], "demo"),
}
WRITTEN = {
    "sweep": ["results.csv"],
    "reproduce": ["results.csv"],
    "compare": ["differences.csv", "changed.csv", "compare.md", "compare.html"],
    "reference": ["rows.json"],
}
FRESH = ("certify", "train", "sweep", "reproduce", "demo")  # begun from nothing; the others in a run that is there


def wreak(place, count, clock, rng, tally):
    """Kill so many commands."""
    empty = d.lay_out(place / "empty")
    full = d.furnish(place / "full")
    whole = Path(os.environ["CERTCAL_CHAOS_DESK"]).with_name("whole")
    seconds = json.loads((whole / "seconds.json").read_text())
    ends = {verb: _end(verb, whole / verb / "runs" / name) for verb, (_, name) in VERBS.items()}
    for turn in range(10**6):
        verb = list(VERBS)[turn % len(VERBS)]
        words, name = VERBS[verb]
        home = place / f"{turn}-{verb}"
        shutil.copytree(empty if verb in FRESH else full, home)
        run, drawn = home / "runs" / name, 0
        for _ in range(IN_A_ROW):
            how = signal.SIGTERM if rng.random() < 0.2 else signal.SIGKILL
            after = seconds[verb] * rng.random() * (0.6 if verb in FRESH else 1.05)
            if not killed(words, home, after, how):
                tally.add("done", verb)
                continue
            trouble, drawn = _trouble(run, drawn)
            tally.add(f"stopped: {verb}" if not trouble else "TORN", f"{verb} after {after:.3f} s: {trouble}")
        try:
            finished(words, home)
            same = _end(verb, run) == ends[verb]
            tally.add("done" if same else "DIFFERENT", f"{verb} {home}")
            litter = [str(path) for path in run.rglob(".*") if path.name not in (".lock", ".training")]
            if litter:
                tally.add("LITTER", f"{verb}: {litter[:3]}")
        except RuntimeError as error:
            tally.add("CANNOT GO ON", str(error)[-600:])
        if not any(one.startswith(("DIFF", "CANNOT", "TORN")) for one in tally.bad):
            shutil.rmtree(home)
        if sum(own for name, own in tally.counts.items() if name.startswith("stopped")) >= count or clock():
            return


def make_wholes(place):
    """Every verb, undisturbed: what it comes to, and the seconds it takes."""
    empty, seconds = d.lay_out(place / "empty"), {}
    for verb, (words, _) in VERBS.items():
        if verb in FRESH:
            shutil.copytree(empty, place / verb)
        else:
            d.furnish(place / verb)
        seconds[verb] = finished(words, place / verb)
    (place / "seconds.json").write_text(json.dumps(seconds))


def _trouble(folder, drawn):
    """What is wrong with a folder after a kill, and how many draws it holds."""
    if not folder.is_dir():
        return "", drawn
    try:
        run = RunFolder.named(folder)
        if run.path.exists():
            with run.steady():
                changed = run.changed()
            if changed:
                return f"not as written: {changed}", drawn
        if not any(run.shards.glob("shard-*.parquet")):
            return ("draws were lost" if drawn else ""), drawn
        now = int(load_evidence(run.shards).draws.sum())
        return ("" if now >= drawn else f"{drawn} draws became {now}"), now
    except Exception as error:
        return f"{type(error).__name__}: {error}", drawn


def _end(verb, run):
    """What a verb came to, but for times and dates."""
    if verb == "train":
        return (run / "model.pt").read_bytes()
    if verb in WRITTEN:
        wrong = Pack.read(run).problems() if verb == "reference" else []
        return [(run / name).read_text() for name in WRITTEN[verb]] + wrong
    metrics = json.loads(
        (run / ("recalibration/metrics.json" if verb == "recalibrate" else "metrics.json")).read_text()
    )
    attack = {name: own["rows"] for name, own in (metrics["attack"] or {}).items()}
    tables = {path.name: path.read_bytes() for path in sorted((run / "tables").iterdir())}
    evidence = load_evidence(run / "evidence.parquet")
    arrays = [np.asarray(own).tolist() for own in (evidence.votes, evidence.histogram, evidence.score_sum)]
    return [metrics["rows"], metrics["guarantees"], attack, tables, arrays]

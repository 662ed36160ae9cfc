"""Type command lines of odd options and values: each ends in results or in a line that says what is wrong."""

import shutil

from tests.chaos import desk as d
from tests.chaos.harness import typed

ODD = ["", " ", "0", "-1", "1", "nan", "inf", "-inf", "1e999", "1e-320", "1e999999999", "9223372036854775808",
       "10" * 40, "0,0.1", ",", "0,,1", "1/0", "3/255", "a", "é", "\udce9", "\x1b[31m", "../..", "/", "/dev/null",
       "/dev/zero", ".", "~", "~nobody", "data.npz", "nets.py", "nets:make", "nets:nothing", "os:system", "made", "cpu",
       "cuda", "cuda:99", "meta", "true", "[]", "{}", "=cmd", "digits", "lenet", "noise", "cdf", "all", "x" * 5000,
       "0x10", "1_000", "١"]  # fmt: skip
VERBS = ("data", "train", "sweep", "plan", "certify", "evaluate", "recalibrate", "attack", "report", "compare", "check",
         "reproduce", "reference", "bench")  # fmt: skip
ACTIONS = ("list", "verify", "recompute", "page", "add")
RUNS = [
    "pack",
    "made",
    "net",
    "grid",
    "new",
    "",
    ".",
    "..",
    "runs",
    "runs/made",
    "/dev/null",
    "a\nb",
    "\udce9",
    "-",
    "~",
    "x" * 300,
]


def wreak(place, count, clock, rng, tally):
    """Type so many lines."""
    keep = d.furnish(place / "keep")
    options = {verb: _options(verb) for verb in VERBS}
    desk = place / "desk"
    shutil.copytree(keep, desk)
    for turn in range(count):
        verb = VERBS[turn % len(VERBS)]
        words = [verb] + ([ACTIONS[turn // len(VERBS) % len(ACTIONS)]] if verb == "reference" else [])
        if verb not in ("bench",) and rng.random() < 0.97:
            words.append(RUNS[int(rng.integers(len(RUNS)))] if rng.random() < 0.5 else "made")
            words += ["like"] if verb == "compare" and rng.random() < 0.9 else []
        for _ in range(int(rng.integers(1, 5))):
            option, takes = options[verb][int(rng.integers(len(options[verb])))]
            words += [option] + ([ODD[int(rng.integers(len(ODD)))]] if takes else [])
        if verb in ("train", "sweep", "reproduce"):
            words.append("--dry-run")
        words += ["--no-figures"] if verb in ("certify", "evaluate", "attack", "recalibrate", "report") else []
        outcome, code, _, error = typed(words, desk, seconds=20)
        # Somebody asked for much work and got it.
        outcome = "stopped: long work" if outcome == "too long" else outcome
        tally.add(outcome, f"{' '.join(words)!r}: {code} {error[-300:]!r}")
        if turn % 50 == 49:
            shutil.rmtree(desk)
            shutil.copytree(keep, desk)
        if clock():
            return


def _options(verb):
    """The options of a verb, and whether they take a value."""
    import typer

    from certcal.cli.app import app

    command = typer.main.get_command(app).commands[verb]
    found = [(name, not one.is_flag) for one in command.params for name in one.opts if name.startswith("--")]
    return [one for one in found if one[0] not in ("--help", "--open", "--download", "--engine", "--trust")]

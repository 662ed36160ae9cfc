"""Flip bits, cut, blank and delete in every file that another verb reads: noticed, told, or without effect."""

import json
import shutil

from tests.chaos import desk as d
from tests.chaos.harness import typed

from certcal.errors import CertcalError
from certcal.models import build_model, load_checkpoint, state_digest
from certcal.recalibration import load_map
from certcal.smoothing import evidence_digest, load_evidence
from certcal.training.state import read_state

FACTS = ("rows", "guarantees", "attack", "sampling", "recalibration", "seed", "sigma")


def wreak(place, count, clock, rng, tally):
    """Damage so many files."""
    desk = d.furnish(place / "desk")
    made, net, grid = (desk / "runs" / name for name in ("made", "net", "grid"))
    shards = sorted((made / "shards").glob("shard-*"))
    read = [(path, _shards) for path in shards] * 2
    read += [(net / "model.pt", _weights), (net / "checkpoint.pt", _state), (made / "recalibration/map.json", _map)]
    evaluated = ["evidence.parquet", "provenance.json", "manifest.json", "attack/ace.json", "attack/sandwich.json"]
    read += [(made / name, _evaluate) for name in evaluated] + [(made / "config.toml", _evaluate)]
    read += [(sorted(grid.glob("trial-*/outcome.json"))[0], _sweep)]
    keep = place / "keep"
    shutil.copytree(desk, keep)
    truth = {path: reader(path, desk)[1] for path, reader in read}
    _restore(desk, keep)
    for turn in range(count):
        path, reader = read[turn % len(read)]
        whole = path.read_bytes()
        how, damaged = _damaged(whole, rng)
        path.write_bytes(damaged) if damaged is not None else path.unlink()
        try:
            outcome, found = reader(path, desk)
            if outcome == "read":
                same = found == truth[path]
                outcome = "no effect" if same else "no effect: gone" if damaged is None else "SILENTLY DIFFERENT"
        except CertcalError:
            outcome = "refused"
        except Exception as error:
            outcome = f"{type(error).__name__.upper()} {error}"
        tally.add(outcome, f"{path.relative_to(desk)} {how}")
        if reader in (_evaluate, _sweep):
            _restore(desk, keep)
        else:
            path.write_bytes(whole)
        if clock():
            return


def _damaged(whole, rng):
    place, kind = int(rng.integers(len(whole))), rng.random()
    if kind < 0.8:
        bit = int(rng.integers(8))
        return f"bit {bit} of byte {place}", whole[:place] + bytes([whole[place] ^ (1 << bit)]) + whole[place + 1 :]
    if kind < 0.88:
        return f"cut at {place}", whole[:place]
    if kind < 0.98:
        return f"16 zeros at {place}", whole[:place] + bytes(16) + whole[place + 16 :]
    return "deleted", None


def _restore(desk, keep):
    shutil.rmtree(desk)
    shutil.copytree(keep, desk)


def _shards(path, desk):
    return "read", evidence_digest(load_evidence(path.parent))


def _weights(path, desk):
    model = build_model("small-cnn", classes=3, channels=1, size=4)
    import torch
    from torch import nn

    torch.manual_seed(0)
    model[1] = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    return "read", state_digest(load_checkpoint(model, path))


def _state(path, desk):
    return "read", str(read_state(path))


def _map(path, desk):
    return "read", str(load_map(path))


def _evaluate(path, desk):
    outcome, _, out, error = typed(["evaluate", "made", "--no-figures", "--json"], desk)
    if outcome != "done":
        return outcome, None
    told = "not as" in error or "left out" in error
    return ("told", None) if told else ("read", {key: json.loads(out)[key] for key in FACTS})


def _sweep(path, desk):
    outcome, _, out, error = typed([*d.SWEEP, "--json"], desk)
    return ("told", None) if "is damaged and made again" in error else ("read" if outcome == "done" else outcome, out)

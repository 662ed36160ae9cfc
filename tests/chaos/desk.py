"""A desk to work at: small data, a network, and a run of everything that certcal leaves behind."""

import os
import shutil
from pathlib import Path

import numpy as np
from tests.chaos.harness import finished

NETS = """
import torch
from torch import nn
def make(size, classes):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(size * size, classes))
"""
RADII = ["--radii", "0,0.05,0.1", "--no-figures"]
MODEL = ["--model", "nets:make", "--data", "data.npz"]
CERTIFY = ["certify", "made", *MODEL, "--sigma", 0.25, "--n", 5000, "--no-checks", *RADII]
TRAIN = ["train", "net", *MODEL, "--objective", "noise", "--sigma", 0.25, "--epochs", 8, "--batch-size", 16,
         "--checkpoint-every", 1, "--device", "cpu"]  # fmt: skip
ATTACK = ["attack", "made", "--ace-steps", 3, "--steps", 2, "--draws", 100, "--attack-draws", 4, "--limit", 9,
          "--adversaries", "brier", "--radii", "0.05", "--no-figures", "--trust"]  # fmt: skip
RECALIBRATE = ["recalibrate", "made", "--on-failure", "identity", "--repeats", 2, "--no-figures"]
SWEEP = ["sweep", "grid", "--recipe", "sweep.toml", "--device", "cpu", "--trust"]
STUDY = ["reproduce", "study.toml", "--device", "cpu", "--trust"]
FACTS = ["--fact", "method=none"]
RECIPE = """
[model]
name = "nets:make"
[data]
name = "data.npz"
[test]
name = "data.npz"
[train]
sigma = 0.25
epochs = 2
batch_size = 8
[certify]
n = 250
[evaluate]
radii = [0.05]
"""
GRID = RECIPE + '[objective]\nname = "noise"\n[sweep]\nover = { "train.learning_rate" = [0.01, 0.1] }\n'
METHODS = """
[about]
title = "A study"
radii = [0.05]
[[baseline]]
name = "base"
objective = { name = "noise" }
train = { sigma = 0.25 }
[[method]]
name = "again"
objective = { name = "noise" }
train = { epochs = 2, batch_size = 8 }
"""


def lay_out(desk):
    """Data, network and recipes."""
    desk.mkdir(parents=True)
    rng = np.random.default_rng(0)
    labels = np.arange(30) % 3
    inputs = rng.random((30, 1, 4, 4), dtype=np.float32) * 0.3
    inputs[np.arange(30), 0, labels] += 0.6
    np.savez(desk / "data.npz", inputs=inputs, labels=labels)
    (desk / "nets.py").write_text(NETS)
    (desk / "sweep.toml").write_text(GRID)
    (desk / "study.toml").write_text(RECIPE.replace("[evaluate]\nradii = [0.05]\n", "") + METHODS)
    return desk


def furnish(desk):
    """A desk with a run of every verb: a copy of the one that all parts of a round share, if it is there."""
    kept = Path(os.environ.get("CERTCAL_CHAOS_DESK", ""))
    if kept.is_absolute() and kept.is_dir():
        shutil.copytree(kept, desk)
        return desk
    lay_out(desk)
    for words in (CERTIFY, ATTACK, RECALIBRATE, TRAIN, SWEEP):
        finished(words, desk)
    shutil.copytree(desk / "runs/made", desk / "runs/like")
    finished(["reference", "add", "pack", "--run", "like", "--name", "like", *FACTS], desk)
    return desk

"""A folder with forty small images, each of one bright column that is its class, and odd networks for them."""

import shutil

import numpy as np

from command import certcal
from places import SUPPORT

CLASSES = 5
WORDS = ("--data", "squares.npz", "--sigma", "0.1", "--n", 250, "--radii", "0,0.05", "--no-figures")


def squares_in(folder):
    """The folder, with squares.npz and nets.py in it."""
    shutil.copyfile(SUPPORT / "odd_nets.py", folder / "nets.py")
    labels = np.arange(40) % CLASSES
    images = np.zeros((40, 3, 16), dtype=np.float32)
    images[np.arange(40), :, labels] = 1.0
    np.savez(folder / "squares.npz", inputs=images.reshape(40, 3, 4, 4), labels=labels)
    return folder


def refused_in(folder, model, *more):
    """What the checks say of a model that they refuse; nothing is left behind."""
    _, error = certcal("certify", "no", "--model", f"nets:{model}", *WORDS, *more, cwd=folder, code=2)
    assert "--no-checks goes on all the same." in error
    assert not (folder / "runs" / "no").exists()
    return error

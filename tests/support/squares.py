"""A folder with forty small images, each of one bright column that is its class, and odd networks for them."""

import shutil

import numpy as np

from places import SUPPORT

CLASSES = 5


def squares_in(folder):
    """The folder, with squares.npz and nets.py in it."""
    shutil.copyfile(SUPPORT / "odd_nets.py", folder / "nets.py")
    labels = np.arange(40) % CLASSES
    images = np.zeros((40, 3, 16), dtype=np.float32)
    images[np.arange(40), :, labels] = 1.0
    np.savez(folder / "squares.npz", inputs=images.reshape(40, 3, 4, 4), labels=labels)
    return folder

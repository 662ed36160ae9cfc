"""Street View House Numbers, cropped digits: the published .mat files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from certcal.errors import InputError


def read_svhn(paths: Sequence[Path]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (n, 3, h, w) and labels (n,); the files call the digit 0 class 10."""
    from scipy.io import loadmat

    (path,) = paths
    # The reader fails in many ways: ValueError, MatReadError, NotImplementedError (version 7.3), struct.error, …
    with InputError.expecting(str(path), "be a MATLAB file of version 5 to 7"):
        content = loadmat(path, variable_names=["X", "y"])
    if not {"X", "y"} <= content.keys():
        raise InputError.expected(str(path), "hold the variables X and y", sorted(set(content) & {"X", "y"}))
    images, labels = content["X"], content["y"].ravel()
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or images.shape[2] != 3:
        raise InputError.expected(str(path), "hold X as uint8 (h, w, 3, n)", f"{images.dtype} {images.shape}")
    images = images.reshape(*images.shape[:3], -1)  # a single image has lost its last axis
    if images.shape[3] != len(labels):
        raise InputError.expected(str(path), f"hold {images.shape[3]} labels, one per image", len(labels))
    wrong = labels[~np.isin(labels, np.arange(1, 11))]
    if len(wrong):
        raise InputError.expected(str(path), "hold labels from 1 to 10", wrong[0])
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), labels.astype(np.int64) % 10

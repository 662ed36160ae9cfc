"""The array vocabulary: what comes in (lists, NumPy, torch) and what goes out (float64)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

# Axes are spelled one way everywhere: n inputs, k classes, b bins.
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.integer[Any]]
ArrayLike: TypeAlias = Union[Sequence[Any], NDArray[Any], "Tensor"]

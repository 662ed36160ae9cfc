"""Random changes of training images, on tensors, from uniform numbers: three for each image."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

PADDING = 4  # pixels around an image before a window of its size is cut out


def flip(images: Tensor, uniform: Tensor) -> Tensor:
    """Each image mirrored left to right with probability ½."""
    return torch.where((uniform[:, 0] < 0.5)[:, None, None, None], images.flip(-1), images)


def crop_and_flip(images: Tensor, uniform: Tensor) -> Tensor:
    """Each image shifted by up to 4 pixels in both directions, zeros moving in, and mirrored with probability ½."""
    n, channels, height, width = images.shape
    top, left = (uniform[:, 1:3] * (2 * PADDING + 1)).long().T
    wide = pad(images, (PADDING,) * 4)
    row = torch.arange(n, device=images.device)[:, None, None, None]
    plane = torch.arange(channels, device=images.device)[None, :, None, None]
    down = (top[:, None] + torch.arange(height, device=images.device))[:, None, :, None]
    across = (left[:, None] + torch.arange(width, device=images.device))[:, None, None, :]
    return flip(wide[row, plane, down, across], uniform)


AUGMENTATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "none": lambda images, uniform: images,
    "flip": flip,
    "crop-flip": crop_and_flip,
}

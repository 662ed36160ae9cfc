"""The data of training: what is refused, and the batches of an epoch, this process's share of each, from any step."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils.data import DataLoader

from certcal.data import ImageData, as_unit_interval, check_names
from certcal.errors import InputError, one_line
from certcal.models import as_outputs, held_still, place_generator, place_seed
from certcal.settings import TrainSettings, Values
from certcal.training.step import AUGMENT, SHUFFLE

PADDING = 4  # pixels around an image before a window of its size is cut out
RESIDENT_BYTES = 4 << 30  # images up to this size move to the device once


def check_data(data: ImageData) -> None:
    """Refuse data that is empty, mislabelled, not in [0, 1], or of one class only."""
    if len(data) == 0:
        raise InputError.expected("data", "hold at least one image", f"an empty {data.name}")
    labels, classes = data.labels, len(data.classes)
    if labels.is_floating_point() or len(labels) != len(data.pixels):
        got = f"{len(labels)} labels of {labels.dtype} for {len(data.pixels)} images in {data.name}"
        raise InputError.expected("data", "have one class number per image", got)
    outside = (labels < 0) | (labels >= classes)
    if bool(outside.any()):
        where = int(outside.nonzero()[0])
        got = f"{int(labels[where])} at index {where} of {data.name}"
        raise InputError.expected("data", f"have labels from 0 to {classes - 1}", got)
    if int(labels.min()) == int(labels.max()):
        got = f"{data.classes[int(labels[0])]!r} alone in {data.name}"
        raise InputError.expected("data", "have images of at least two classes", got)
    pixels = data.pixels
    if isinstance(pixels, Tensor) and pixels.is_floating_point() and data.values is Values.UNIT:
        low, high = (float(value) for value in pixels.aminmax())
        if not (low >= 0.0 and high <= 1.0):  # a NaN fails both
            raise InputError.expected("data", "have inputs in [0, 1]", f"values from {low} to {high} in {data.name}")


def check_fit(model: nn.Module, data: ImageData, device: torch.device) -> None:
    """Refuse a model that has nothing to learn, does not take these images, or has another number of classes."""
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError.expected("model", "have weights with gradients, which training changes", "none")
    inputs = data.select(torch.arange(min(2, len(data)))).inputs.to(device)
    try:
        with held_still(model), torch.no_grad():
            logits = as_outputs(model(inputs), len(inputs))
    except RuntimeError as error:
        got = f"{one_line(error)} for inputs of shape {tuple(inputs.shape)}"
        raise InputError.expected("model", f"take the images of {data.name}", got) from error
    check_names(data.classes, logits.shape[1], found=data.found, fresh=True)
    if logits.shape[1] < len(data.classes):
        wanted = f"give logits of shape (inputs, {len(data.classes)}) for {data.name}"
        raise InputError.expected("model", wanted, f"shape {tuple(logits.shape)}")


@dataclass(frozen=True)
class Share:
    """Which part of every batch a process has."""

    rank: int = 0
    processes: int = 1

    def of(self, batch: Tensor) -> Tensor:
        """Its part of a batch."""
        each = len(batch) // self.processes
        return batch[self.rank * each : (self.rank + 1) * each]


class Batches:
    """Batches of labelled images in [0, 1] on a device, the same for every number of processes taken together."""

    def __init__(
        self, data: ImageData, settings: TrainSettings, *, device: torch.device, share: Share, workers: int
    ) -> None:
        self.steps = len(data) // settings.batch_size  # of an epoch
        if self.steps == 0:
            wanted = f"be at most the number of training images ({len(data)})"
            raise InputError.expected("batch_size", wanted, settings.batch_size)
        if settings.batch_size % share.processes:
            wanted = f"be a multiple of the number of processes ({share.processes})"
            raise InputError.expected("batch_size", wanted, settings.batch_size)
        self._settings, self._device, self._share, self._workers = settings, device, share, workers
        self._data, pixels = data, data.pixels
        self._pixels: Tensor | None = None
        if isinstance(pixels, Tensor):
            small = pixels.numel() * pixels.element_size() <= RESIDENT_BYTES
            self._pixels = pixels.to(device) if small else pixels
            self._labels = data.labels.to(self._pixels.device)

    def epoch(self, epoch: int, *, start: int = 0) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Step, inputs and labels of the epoch's batches from a step on."""
        size = self._settings.batch_size
        order = torch.from_numpy(shuffled(len(self._data), self._settings.seed, epoch))
        if self._pixels is not None:
            order = order.to(self._pixels.device)  # once, so that no step waits for the device
        whole = [order[step * size : (step + 1) * size] for step in range(start, self.steps)]
        parts = [self._share.of(batch) for batch in whole]
        for step, (images, labels) in enumerate(self._read(parts), start):
            inputs = as_unit_interval(images.to(self._device, non_blocking=True))
            yield step, self._augmented(inputs, epoch, step), labels.to(self._device, non_blocking=True)

    def _read(self, parts: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        if self._pixels is None:
            loader = DataLoader(
                self._data,
                batch_sampler=[part.tolist() for part in parts],
                num_workers=self._workers,
                pin_memory=self._device.type == "cuda",
                generator=torch.Generator(),  # not torch's own, which the model may use
            )
            yield from loader
            return
        for part in parts:
            yield self._pixels[part], self._labels[part]

    def _augmented(self, inputs: Tensor, epoch: int, step: int) -> Tensor:
        # Drawn on the CPU for the whole batch: every kind and number of devices sees the same images.
        stream = place_generator(self._settings.seed, AUGMENT, epoch, step)
        uniform = self._share.of(torch.rand(self._settings.batch_size, 3, generator=stream))
        return AUGMENTATIONS[self._settings.augment](inputs, uniform.to(inputs.device, non_blocking=True))


def shuffled(n: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The order in which an epoch goes through n images."""
    # NumPy promises the raw stream of a bit generator for ever, unlike its or torch's shuffles.
    raw = np.random.PCG64(place_seed(seed, SHUFFLE, epoch)).random_raw(n)
    return np.argsort(raw, kind="stable").astype(np.int64)


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

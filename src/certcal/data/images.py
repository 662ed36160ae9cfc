"""Labelled inputs, mostly images: stored small, handed out as float32 with their class."""

import hashlib
import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from certcal.blocks import slices
from certcal.data.folder import ImageFiles
from certcal.data.labels import are_numbers, some_names
from certcal.errors import InputError, kind_of, several
from certcal.scalars import check_integer
from certcal.settings import MAX_CLASSES, Values, checks


@dataclass(frozen=True, eq=False, repr=False)
class ImageData(Dataset[tuple[Tensor, int]]):
    """n labelled inputs, usable as a torch `Dataset` or, through `tensors()`, as a pair of tensors.

    Images come out in [0, 1], never normalised: σ and radii are in these units, and normalising is the model's job.
    Inputs of any values, such as tables, come out as they are, or scaled by `scaled`.
    """

    pixels: Tensor | ImageFiles  # (n, …), uint8 or float32; or files, decoded when asked for
    labels: Tensor  # (n,) int64 in {0, …, k − 1}
    classes: tuple[str, ...]  # the k class names
    index: Tensor  # (n,) int64 position of each image in the data set it was taken from
    name: str
    source: str  # where it was read
    values: Values = Values.UNIT  # what the inputs hold
    scale: "Scale | None" = None  # by which they were divided
    total: int | None = None  # how many the data set has that they were taken from; None: these are all
    found: bool = False  # whether `classes` are the names met in the data, sorted; else they were given in an order
    numbered: bool = False  # whether labels were numbers without names, to which `in_order` gave `classes`

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """One input, float32 (c, h, w) in [0, 1], and its class."""
        position = operator.index(index)
        return as_unit_interval(self.pixels[position]), int(self.labels[position])

    def __repr__(self) -> str:
        size = "×".join(map(str, self.shape))
        return (
            f"ImageData({self.name}: {several(len(self))} of {size}, {len(self.classes)} classes, from {self.source})"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Of every input: channels, height and width of an image."""
        return self.pixels.shape if isinstance(self.pixels, ImageFiles) else tuple(self.pixels.shape[1:])

    @property
    def units(self) -> str:
        """What σ and radii are measured in."""
        if self.scale is not None:
            return "features divided by their standard deviation"
        return self.values.units

    def scaled(self) -> "ImageData":
        """The same inputs, less their mean and divided by their standard deviation, per feature or per channel.

        Radii are then in standard deviations. The model is given the inputs as they were: `certcal.models.Unscale`.
        """
        if self.values is Values.UNIT:
            raise InputError.expected("scale", "be none for inputs in [0, 1] (or values be any)", "std")
        mean, std = channel_statistics(self)
        flat = next((place for place, one in enumerate(std) if one == 0), None)
        if flat is not None:
            raise InputError.expected("inputs", "vary in every feature that is scaled", f"a constant at {flat}")
        scale = Scale(mean, std)
        return replace(self, pixels=scale.apply(self.inputs), scale=scale)

    def in_order(self, classes: Sequence[str]) -> "ImageData":
        """The same inputs, with classes in that order, which is the model's: labels are found there by their names.

        Classes of data that has numbers and no names are named: 0 is then the first of them.

        >>> from certcal.data import from_arrays
        >>> from_arrays(np.zeros((2, 4, 4)), ["cow", "bee"]).in_order(["ant", "bee", "cow"]).labels.tolist()
        [2, 1]
        """
        if isinstance(classes, str) or not isinstance(classes, Iterable):
            raise InputError.expected("classes", "be a list of names", kind_of(classes))
        known = tuple(map(str, classes))
        if not 2 <= len(known) == len(set(known)) <= MAX_CLASSES:
            wanted = f"be 2 to {MAX_CLASSES:,} different names"
            raise InputError.expected("classes", wanted, f"{len(known):,}, {len(set(known)):,} of them different")
        numbers = are_numbers(self.classes)
        if numbers and len(known) >= len(self.classes) and not set(self.classes) <= set(known):
            return replace(self, classes=known, found=False, numbered=True)
        place = {one: number for number, one in enumerate(known)}
        present = [self.classes[label] for label in sorted(set(self.labels.tolist()))]
        if unknown := next((one for one in present if one not in place), None):
            got = f"no {unknown!r} among {some_names(known)}"
            raise InputError.expected("classes", "name each class of the data", got)
        moved = torch.tensor([place.get(one, -1) for one in self.classes])
        return replace(self, labels=moved[self.labels], classes=known, found=False, numbered=False)

    def counts(self) -> dict[str, int]:
        """How many inputs there are of each class, by name; 0 of some, perhaps."""
        each = torch.bincount(self.labels, minlength=len(self.classes)).tolist()
        return dict(zip(self.classes, each, strict=True))

    @property
    def inputs(self) -> Tensor:
        """All inputs at once, float32 (n, c, h, w) in [0, 1]; made anew at every access."""
        whole = self.pixels.stack() if isinstance(self.pixels, ImageFiles) else self.pixels
        return as_unit_interval(whole)

    def tensors(self) -> tuple[Tensor, Tensor]:
        """Inputs and labels as tensors that fit in memory together."""
        return self.inputs, self.labels

    def select(self, positions: Tensor) -> "ImageData":
        """The images at the given positions, in that order; `index` still points into the original data set."""
        pixels = self.pixels.select(positions) if isinstance(self.pixels, ImageFiles) else self.pixels[positions]
        labels, index, total = self.labels[positions], self.index[positions], self.total or len(self)
        return replace(self, pixels=pixels, labels=labels, index=index, total=total)

    def take(self, *, limit: int | None = None, every: int = 1) -> "ImageData":
        """Every `every`-th image from the first on, and of those at most `limit`, evenly spread over them.

        Where images are sorted by class, as those of class folders are, the classes so keep their shares. Where some
        classes would be missed, as those of labels 0, 1, 2, 0, 1, 2, … can be, they are spread over the sorted labels.
        Certifying every 20th test image of CIFAR-10 or every 100th of ImageNet is usual in the literature.
        """
        check_integer("every", every, minimum=1)
        if limit is not None:
            check_integer("limit", limit, minimum=1)
        positions = torch.arange(0, len(self), every)
        if limit is not None and limit < len(positions):
            spread, labels = torch.arange(limit) * len(positions) // limit, self.labels[positions]
            if len(set(labels[spread].tolist())) < min(limit, len(set(labels.tolist()))):
                spread = labels.argsort(stable=True)[spread].sort().values
            positions = positions[spread]
        return self if len(positions) == len(self) else self.select(positions)


@dataclass(frozen=True)
class Scale:
    """Means and standard deviations per feature or channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def apply(self, inputs: Tensor) -> Tensor:
        """Inputs (n, …) less the means and divided by the standard deviations, in float32."""
        sides = (len(self.mean), *[1] * (inputs.ndim - 2))
        mean, std = (torch.tensor(one, dtype=torch.float64).reshape(sides) for one in (self.mean, self.std))
        return ((inputs.double() - mean) / std).float()


def channel_statistics(data: ImageData) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel over all pixels, as `build_model(normalize=…)` takes them.

    Of inputs without channels, such as the rows of a table, of each feature.
    """
    channels = data.shape[0]
    total, squares = torch.zeros(channels, dtype=torch.float64), torch.zeros(channels, dtype=torch.float64)
    for some in slices(len(data), 500):  # a bounded part in memory at a time
        part = data.select(torch.arange(len(data))[some])
        wide = part.inputs.double()  # summing millions of float32 would lose digits
        others = (0, *range(2, wide.ndim))
        total += wide.sum(dim=others)
        squares += wide.square().sum(dim=others)
    pixels = len(data) * math.prod(data.shape[1:])
    mean = total / pixels
    std = (squares / pixels - mean.square()).clamp(min=0).sqrt()
    return tuple(mean.tolist()), tuple(std.tolist())


def as_unit_interval(pixels: Tensor) -> Tensor:
    """The same images as float32 in [0, 1]: bytes divided by 255, floats as they are."""
    return pixels.to(torch.float32) / 255 if pixels.dtype == torch.uint8 else pixels


def split_data(data: ImageData, *, fraction: float = 0.1, seed: int = 0) -> tuple[ImageData, ImageData]:
    """The training part and the validation part, which holds the given fraction of the images, chosen at random.

    Both keep the order of `data`. The choice depends on the seed and the number of images alone.
    """
    checks.inner_share("fraction", fraction)
    check_integer("seed", seed, minimum=0)
    n, held_out = len(data), round(fraction * len(data))
    if not 0 < held_out < n:
        raise InputError.expected("fraction", f"leave images on both sides of a split of {n}", fraction)
    # NumPy promises the raw stream of a bit generator for ever, unlike its or torch's shuffles.
    order = np.argsort(np.random.PCG64(seed).random_raw(n), kind="stable")
    train, validation = np.sort(order[held_out:]), np.sort(order[:held_out])
    return data.select(torch.from_numpy(train)), data.select(torch.from_numpy(validation))


def data_fingerprint(data: ImageData) -> str:
    """SHA-256, in hexadecimal, of labels and images; of images that stay in files, of their names."""
    digest = hashlib.sha256(tensor_bytes(data.labels))
    digest.update(tensor_bytes(data.pixels) if isinstance(data.pixels, Tensor) else repr(data.pixels.paths).encode())
    return digest.hexdigest()


def tensor_bytes(tensor: Tensor) -> memoryview:
    """The bytes of a tensor in row-major order, whatever its memory format and device."""
    # NumPy lacks some of torch's dtypes, so the bytes are taken as bytes.
    flat = tensor.detach().cpu().contiguous(memory_format=torch.contiguous_format).reshape(-1)
    return flat.view(torch.uint8).numpy().data

"""A folder of class folders of image files, decoded with Pillow one at a time, when asked for."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from certcal.errors import InputError, one_line
from certcal.files import printable
from certcal.scalars import check_integer
from certcal.settings import MAX_SIDE

if TYPE_CHECKING:
    from PIL.Image import Image

EXTENSIONS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
SPLIT_NAMES = ("train", "val", "valid", "validation", "test")
MODES = {1: "L", 3: "RGB"}


@dataclass(frozen=True)
class ImageFiles:
    """Image files that decode to uint8 tensors of one shape.

    `resize` scales the shorter side to that many pixels (bilinear), `crop` then keeps the central square.
    """

    paths: tuple[str, ...]
    shape: tuple[int, int, int]  # c, h, w
    resize: int | None
    crop: int | None

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        """One decoded image, uint8 (c, h, w)."""
        path = self.paths[index]
        image = decode(path, channels=self.shape[0], resize=self.resize, crop=self.crop)
        if image.shape != self.shape:
            got = f"{_size(image.shape)}: pass `resize` and `crop`"
            raise InputError.expected(path, f"be {_size(self.shape)} pixels like the first image", got)
        return image

    def stack(self) -> Tensor:
        """All images decoded, uint8 (n, c, h, w)."""
        whole = torch.empty((len(self), *self.shape), dtype=torch.uint8)
        for position in range(len(self)):
            whole[position] = self[position]
        return whole

    def select(self, positions: Tensor) -> "ImageFiles":
        """The files at the given positions, in that order."""
        return replace(self, paths=tuple(self.paths[position] for position in positions.tolist()))


def read_folder(
    root: Path, *, split: str | None, resize: int | None, crop: int | None, channels: int
) -> tuple[ImageFiles, list[int], tuple[str, ...]]:
    """The image files under `root` (or its subfolder `split`), their labels and the class names.

    A class is a folder; labels follow the sorted folder names.
    """
    for name, value in (("resize", resize), ("crop", crop)):
        if value is not None:
            check_integer(name, value, minimum=1, maximum=MAX_SIDE)
    if channels not in MODES:
        raise InputError.expected("channels", "be 1 (grey) or 3 (RGB)", repr(channels))
    folder = _split_folder(root, split)
    classes = _subfolders(folder)
    if not classes:
        raise InputError.expected(str(folder), "hold one folder of images per class", "no folders")
    paths: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        files = _image_files(folder / name)
        paths += files
        labels += [label] * len(files)
    first = decode(paths[0], channels=channels, resize=resize, crop=crop)
    channels, height, width = first.shape
    return ImageFiles(tuple(paths), (channels, height, width), resize, crop), labels, tuple(map(printable, classes))


def decode(path: str, *, channels: int, resize: int | None, crop: int | None) -> Tensor:
    """One image file as uint8 (c, h, w)."""
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError("Reading image files needs Pillow: pip install pillow.") from error
    try:
        with Image.open(path) as file:
            file.load()
            image = file.copy()
    # Decoders raise whatever their format's damage leads to: OSError, SyntaxError, struct.error, EOFError, …
    except Exception as error:
        raise InputError.expected(path, "be a readable image", f"{type(error).__name__}: {one_line(error)}") from error
    if image.mode.startswith(("I", "F")):
        # Pillow clips these to 255 when converting, which would silently whiten the picture.
        raise InputError.expected(path, "have 8 bits per channel", f"Pillow mode {image.mode!r}")
    image = image.convert(MODES[channels])
    pixels = np.array(_central_square(path, _resized(image, resize), crop), dtype=np.uint8)
    return torch.from_numpy(pixels).reshape(*pixels.shape[:2], channels).permute(2, 0, 1).contiguous()


def _resized(image: "Image", resize: int | None) -> "Image":
    if resize is None:
        return image
    from PIL.Image import Resampling

    width, height = image.size
    short, long = min(width, height), max(width, height)
    other = max(resize * long // short, 1)
    if other > MAX_SIDE:
        wanted = f"leave images of at most {MAX_SIDE:,} pixels a side"
        raise InputError.expected("resize", wanted, f"{other:,} from {width}×{height}")
    return image.resize((resize, other) if width <= height else (other, resize), Resampling.BILINEAR)


def _central_square(path: str, image: "Image", crop: int | None) -> "Image":
    if crop is None:
        return image
    width, height = image.size
    if min(width, height) < crop:
        raise InputError.expected("crop", f"fit into {path} ({width}×{height} pixels after resizing)", crop)
    # Round half to even, as the usual ImageNet preprocessing does.
    left, top = round((width - crop) / 2), round((height - crop) / 2)
    return image.crop((left, top, left + crop, top + crop))


def _split_folder(root: Path, split: str | None) -> Path:
    splits = tuple(name for name in _subfolders(root) if name in SPLIT_NAMES)
    if split is None:
        # Taking the splits for two classes would be a silent disaster.
        if splits and splits == _subfolders(root):
            raise InputError.expected("split", f"be one of {', '.join(map(repr, splits))}, found in {root}", None)
        return root
    if not isinstance(split, str) or not (root / split).is_dir():
        raise InputError.expected("split", f"be a folder in {root}", repr(split))
    return root / split


def _subfolders(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")))


def _image_files(folder: Path) -> list[str]:
    found: list[str] = []
    for place, folders, names in os.walk(folder):
        folders.sort()
        # Hidden files are no pictures, whatever their name: some systems drop `._photo.jpg` beside each photo.
        found += [
            os.path.join(place, name)
            for name in sorted(names)
            if name.lower().endswith(EXTENSIONS) and not name.startswith(".")
        ]
    if not found:
        raise InputError.expected(str(folder), "hold at least one image", f"no {', '.join(EXTENSIONS)} file")
    return found


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[-1]}×{shape[-2]}"

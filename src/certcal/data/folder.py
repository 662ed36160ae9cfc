"""A folder of class folders of image files, decoded with Pillow one at a time, when asked for."""

import csv
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from certcal.data.labels import as_classes
from certcal.errors import InputError, raised
from certcal.files import printable
from certcal.scalars import check_integer
from certcal.settings import MAX_SIDE

if TYPE_CHECKING:
    from PIL.Image import Image

EXTENSIONS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
SPLIT_NAMES = ("train", "val", "valid", "validation", "test")
MODES = {1: "L", 3: "RGB"}
_FILES = ("file", "filename", "file_name", "image", "path", "id")
_LABELS = ("label", "class", "target")


@dataclass(frozen=True)
class ImageFiles:
    """Image files that decode to tensors of one shape: bytes, or float32 in [0, 1] where they have 16 bits.

    `resize` scales the shorter side to that many pixels (bilinear), `crop` then keeps the central square.
    """

    paths: tuple[str, ...]
    shape: tuple[int, int, int]  # c, h, w
    resize: int | None
    crop: int | None

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        """One decoded image (c, h, w)."""
        path = self.paths[index]
        image = decode(path, channels=self.shape[0], resize=self.resize, crop=self.crop)
        if image.shape != self.shape:
            got = f"{_size(image.shape)}: pass `resize` and `crop`"
            raise InputError.expected(path, f"be {_size(self.shape)} pixels like the first image", got)
        return image

    def stack(self) -> Tensor:
        """All images decoded (n, c, h, w)."""
        images = [self[position] for position in range(len(self))]
        if len({image.dtype for image in images}) > 1:  # bytes beside 16-bit pixels
            images = [image / 255 if image.dtype == torch.uint8 else image for image in images]
        return torch.stack(images)

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
    tables = sorted(folder.glob("*.csv"))
    paths, labels, classes = _from_csv(tables[0]) if len(tables) == 1 else _from_folders(folder)
    first = decode(paths[0], channels=channels, resize=resize, crop=crop)
    channels, height, width = first.shape
    return ImageFiles(tuple(paths), (channels, height, width), resize, crop), labels, tuple(map(printable, classes))


def _from_folders(folder: Path) -> tuple[list[str], list[int], tuple[str, ...]]:
    classes = _subfolders(folder)
    if not classes:
        raise InputError.expected(str(folder), "hold one folder of images per class, or one .csv file", "neither")
    paths: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        files = _image_files(folder / name)
        paths += files
        labels += [label] * len(files)
    return paths, labels, classes


def _from_csv(table: Path) -> tuple[list[str], list[int], tuple[str, ...]]:
    """The files that a CSV names beside it, with labels: a column file (or image, path, …) and a column label."""
    with table.open(newline="", encoding="utf-8-sig") as text:
        rows = list(csv.DictReader(text))
    heads = list(rows[0]) if rows else []
    found = [[head for head in heads if str(head).lower() in names] for names in (_FILES, _LABELS)]
    if any(len(one) != 1 for one in found):
        wanted = f"have one column of {', '.join(_FILES)} and one of {', '.join(_LABELS)}"
        raise InputError.expected(str(table), wanted, ", ".join(map(str, heads)) or "no rows")
    paths = [str(table.parent / str(row[found[0][0]])) for row in rows]
    missing = next((path for path in paths if not Path(path).is_file()), None)
    if missing is not None:
        raise InputError.expected(str(table), "name files beside it", f"{missing}, which does not exist")
    try:
        numbers, classes = as_classes(np.array([row[found[1][0]] or "" for row in rows]))
    except InputError as error:
        raise InputError(f"{error} (In {table}.)") from error
    return paths, numbers.tolist(), classes or ()


def decode(path: str, *, channels: int, resize: int | None, crop: int | None) -> Tensor:
    """One image file (c, h, w): bytes, or float32 in [0, 1] where it has 16 bits."""
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError("Reading image files needs Pillow: pip install pillow.") from error
    # Decoders raise whatever their format's damage leads to: OSError, SyntaxError, struct.error, EOFError, …
    with InputError.expecting(path, "be a readable image", raised), Image.open(path) as file:
        file.load()
        image = file.copy()
    deep = image.mode.startswith("I;16")
    if image.mode.startswith(("I", "F")) and not deep:
        # Pillow clips these to 255 when converting, which would silently whiten the picture.
        raise InputError.expected(path, "have 8 or 16 bits per channel", f"Pillow mode {image.mode!r}")
    image = Image.fromarray(np.asarray(image).astype(np.float32) / 65535) if deep else image.convert(MODES[channels])
    pixels = np.array(_central_square(path, _resized(image, resize), crop))
    if deep:  # grey; bilinear scaling may round a hair past the ends
        return torch.from_numpy(pixels.clip(0, 1))[None].repeat(channels, 1, 1)
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

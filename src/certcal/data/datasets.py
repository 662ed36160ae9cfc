"""One door to all data: a name, a .npz file or a folder of images in, labelled inputs out."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

import torch

from certcal.data.arrays import from_arrays, read_npz
from certcal.data.catalog import DATASETS, NamedDataset
from certcal.data.downloads import PathLike, download_folder, fetch_files, find_files, missing_files
from certcal.data.folder import read_folder
from certcal.data.images import ImageData
from certcal.errors import InputError
from certcal.files import expanded, printable
from certcal.scalars import check_choice, check_integer, did_you_mean
from certcal.settings import Scaling, Values

TABLES = (".csv", ".tsv", ".parquet", ".xlsx")


def dataset_names() -> tuple[str, ...]:
    """The names that `load_dataset` knows."""
    return (*DATASETS, "digits")


def dataset_splits(name: str, *, root: PathLike | None = None) -> dict[str, str | None]:
    """The splits of a named data set, each with the folder its files were found in; None where they are missing."""
    known = _known_name(name)
    if known == "digits":
        return dict.fromkeys(("train", "test", "all"), "scikit-learn")
    if known is None:
        raise InputError.expected("name", f"be one of {', '.join(map(repr, dataset_names()))}", repr(name))
    found = {split: find_files(DATASETS[known], split, root) for split in DATASETS[known].downloads}
    return {split: None if files is None else str(files[1][0].parent) for split, files in found.items()}


def load_dataset(
    name: PathLike,
    *,
    split: str | None = None,
    root: PathLike | None = None,
    download: bool = False,
    limit: int | None = None,
    every: int = 1,
    resize: int | None = None,
    crop: int | None = None,
    channels: int = 3,
    values: str = Values.UNIT,
    scale: str = Scaling.NONE,
    classes: Sequence[str] | None = None,
) -> ImageData:
    """Labelled inputs, handed out as float32, in [0, 1] unless told otherwise, from a data set's name or from a path.

    Args:
        name: one of `dataset_names()`, a .npz file with arrays `inputs` and `labels`, a folder of class folders, or a
            folder of images with a .csv file of their names and labels.
        split: "train" or "test" (svhn also has "extra", digits "all"). Without it, "test" for named data sets and the
            whole file or folder for paths; the split of a path is a subfolder, or a prefix as in `test_inputs`.
        root: a data folder to look into before $CERTCAL_DATA and the user's cache folder.
        download: fetch missing files into the first of these folders, checked against their checksums.
        limit: the most images to take, evenly spread, after `every` has been applied.
        every: keep only every n-th image; 20 is usual for CIFAR-10, 100 for ImageNet.
        resize: for folders of images, scale the shorter side to that many pixels; 256 is usual for ImageNet.
        crop: for folders of images, then keep the central square of that many pixels; 224 is usual for ImageNet.
        channels: for folders of images, 3 for RGB or 1 for grey.
        values: "unit" for inputs in [0, 1]; "any" takes any numbers of a .npz file, of any shape.
        scale: "std" divides inputs of any values by their standard deviation, per feature or per channel.
        classes: their names in the model's order, also of classes that are not among the data. Without them the names
            of folders and labels are numbered in sorted order.

    Raises:
        InputError: if the name is unknown, files are missing, or a file is not what it should be.
        CertcalError: if a download fails.
    """
    check_integer("every", every, minimum=1)
    held = Values(check_choice("values", values, tuple(Values)))
    check_choice("scale", scale, tuple(Scaling))
    if limit is not None:
        check_integer("limit", limit, minimum=1)
    known = _known_name(name)
    path = expanded("name", name)
    if known is None and path.is_dir():
        data = _from_folder(path, split, resize=resize, crop=crop, channels=channels)
    elif (resize, crop, channels) != (None, None, 3):
        raise InputError.expected("resize, crop and channels", "be set for a folder of images only", f"name {name!r}")
    elif known is None:
        data = _from_file(path, split, held)
    elif known == "digits":
        data = _digits("test" if split is None else split)
    else:
        data = _from_files(DATASETS[known], "test" if split is None else split, root, download)
    if held is not data.values:
        raise InputError.expected("values", "be unit for images, which lie in [0, 1]", f"any for {data.name}")
    data = data if classes is None else data.in_order(classes)
    # Scaled before a part is taken: the scale is that of the whole, whatever is certified.
    data = data.scaled() if scale == Scaling.STD else data
    return data.take(limit=limit, every=every)


def download_dataset(name: str, *, root: PathLike | None = None) -> Path:
    """The folder that now holds all files of a named data set, with every download checked; files there are kept."""
    known = _known_name(name)
    if known is None or known not in DATASETS:
        raise InputError.expected("name", f"be one of {', '.join(map(repr, DATASETS))}", repr(name))
    for split in DATASETS[known].downloads:
        fetch_files(DATASETS[known], split, root)
    return download_folder(DATASETS[known], root)


def _from_files(dataset: NamedDataset, split: str, root: PathLike | None, download: bool) -> ImageData:
    check_choice("split", split, tuple(dataset.downloads))
    found = find_files(dataset, split, root)
    if found is None and download:
        fetch_files(dataset, split, root)
        found = find_files(dataset, split, root)
    if found is None:
        raise missing_files(dataset, split, root)
    layout, paths = found
    images, labels = layout.read(paths)
    try:
        return from_arrays(
            images, labels, classes=dataset.classes, name=f"{dataset.name} {split}", source=str(paths[0].parent)
        )
    except InputError as error:  # the arrays are right in form, so say which files they came from
        raise InputError(f"{error} (In {', '.join(path.name for path in paths)} of {paths[0].parent}.)") from error


def _digits(split: str) -> ImageData:
    """1797 digits of 8×8 in [0, 1]; every fifth is the "test" split, the others "train", and "all" is all of them."""
    check_choice("split", split, ("train", "test", "all"))
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise InputError("The data set 'digits' comes with scikit-learn: pip install scikit-learn.") from error
    bunch = load_digits()
    # Counts of 0 to 16 dark pixels in each cell.
    data = from_arrays(
        (bunch.images / 16).astype("float32"), bunch.target, name=f"digits {split}", source="scikit-learn"
    )
    if split == "all":
        return data
    test = torch.arange(len(data)) % 5 == 4
    return data.select(torch.nonzero(test if split == "test" else ~test).ravel())


def _from_folder(path: Path, split: str | None, *, resize: int | None, crop: int | None, channels: int) -> ImageData:
    files, labels, classes = read_folder(path, split=split, resize=resize, crop=crop, channels=channels)
    name = printable(path.name if split is None else f"{path.name} {split}")
    return ImageData(files, torch.tensor(labels), classes, torch.arange(len(files)), name, str(path), found=True)


def _from_file(path: Path, split: str | None, values: Values) -> ImageData:
    if path.suffix != ".npz" or not path.is_file():
        table = path.suffix in TABLES and path.is_file()
        mend = f" (a table? np.savez('{path.stem}.npz', inputs=…, labels=…) makes it one; then --values any)" * table
        wanted = "be a known name, or a .npz file or folder that exists"
        raise InputError.expected("name", wanted, f"{str(path)!r}{mend}")
    return read_npz(path, split=split, values=values)


def _known_name(name: PathLike) -> str | None:
    """The catalogue's spelling of a name; None if it is a path."""
    if isinstance(name, os.PathLike):
        return None
    if not isinstance(name, str):
        raise InputError.expected("name", "be the name of a data set or a path", repr(name))
    squeezed = {re.sub("[-_ ]", "", known): known for known in dataset_names()}
    key = re.sub("[-_ ]", "", name.lower())
    if key in squeezed:
        return squeezed[key]
    if name.endswith(".npz") or os.sep in name or Path(name).exists():
        return None
    wanted = f"be one of {', '.join(map(repr, dataset_names()))}, a .npz file or a folder"
    raise InputError.expected("name", wanted, f"{name!r}{did_you_mean(name, dataset_names())}")

"""Where the files of a named data set are, how they get there, and what to say if they are nowhere."""

import os
from collections.abc import Iterator
from pathlib import Path

from certcal.data.catalog import Layout, NamedDataset
from certcal.data.downloads import fetch
from certcal.errors import InputError
from certcal.files import expanded

PathLike = str | os.PathLike[str]


def data_folders(root: PathLike | None = None) -> list[Path]:
    """Where data is looked for, in this order: `root`, $CERTCAL_DATA, the user's cache. Downloads go into the first."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "certcal" / "data"
    named = [root, os.environ.get("CERTCAL_DATA")]
    return [*(expanded("root", folder) for folder in named if folder), cache]


def download_folder(dataset: NamedDataset, root: PathLike | None) -> Path:
    """Where the downloaded files of a data set go."""
    return data_folders(root)[0] / dataset.layouts[0].folders[0]


def find_files(dataset: NamedDataset, split: str, root: PathLike | None) -> tuple[Layout, list[Path]] | None:
    """The files of a split, in reading order, and the layout they are in; None if no folder has all of them."""
    for folder, layout in _places(dataset, root):
        spelled = [[folder / name for name in names if (folder / name).is_file()] for names in layout.files[split]]
        if all(spelled):
            return layout, [paths[0] for paths in spelled]
    return None


def fetch_files(dataset: NamedDataset, split: str, root: PathLike | None) -> None:
    """Download what a split is made of, except files that are there already."""
    folder = download_folder(dataset, root)
    for item in dataset.downloads[split]:
        if not all((folder / name).is_file() for name in item.members or (item.file,)):
            fetch(item, folder)


def missing_files(dataset: NamedDataset, split: str, root: PathLike | None) -> InputError:
    """The error that says which files are expected where, and how to get them."""
    names = ", ".join(spellings[0] for spellings in dataset.layouts[0].files[split])
    looked = ", ".join(map(str, (*data_folders(root), *dataset.installed)))
    package = f", or install the Debian package {dataset.package}" if dataset.package else ""
    hint = (
        f"Put them into {download_folder(dataset, root)}, or allow a download (download=True, --download) where there "
        f"is a network{package}"
    )
    return InputError.expected(
        "root", f"lead to the {dataset.name} {split} files {names}", f"none or not all of them in {looked}. {hint}"
    )


def _places(dataset: NamedDataset, root: PathLike | None) -> Iterator[tuple[Path, Layout]]:
    for base in data_folders(root):
        for layout in dataset.layouts:
            yield from ((base / folder, layout) for folder in layout.folders)
        # The MNIST family shares its file names, so loose files are taken only from where the user points at.
        if root is not None and base == expanded("root", root):
            yield from ((base, layout) for layout in dataset.layouts)
    for layout in dataset.layouts:
        yield from ((folder, layout) for folder in dataset.installed)

"""The data sets known by name: their classes, the files they come in and where those are served."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from certcal.data.cifar import read_cifar_binary, read_cifar_python
from certcal.data.idx import read_idx_pair
from certcal.data.svhn import read_svhn

# Classes, in label order.
DIGITS = tuple("0123456789")
FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
KUZUSHIJI = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR100 = tuple(  # as a list literal it would take a hundred lines
    """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle
    bowl boy bridge bus butterfly camel can castle caterpillar cattle
    chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
    dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard
    lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain
    mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree
    plain plate poppy porcupine possum rabbit raccoon ray road rocket
    rose sea seal shark shrew skunk skyscraper snail snake spider
    squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
    train trout tulip turtle wardrobe whale willow_tree wolf woman worm
    """.split()  # noqa: SIM905
)

Reader = Callable[[Sequence[Path]], tuple[NDArray[Any], NDArray[Any]]]


@dataclass(frozen=True)
class Download:
    """One published file: where it is served, how to know it, and what it becomes.

    The digest is an MD5 (32 hexadecimal digits) or SHA-256 (64) of the file as served or, with `unpacked`, of what a
    .gz file contains, which stays the same when a mirror compresses it anew.
    """

    file: str
    urls: tuple[str, ...]  # tried in turn
    digest: str
    unpacked: bool = False
    members: tuple[str, ...] = ()  # what to take out of a tar archive, which itself is not kept


@dataclass(frozen=True)
class Layout:
    """One way in which a data set lies on disk."""

    folders: tuple[str, ...]  # below a data folder; a download goes into the first
    files: Mapping[str, tuple[tuple[str, ...], ...]]  # per split, the files in reading order, each with its spellings
    read: Reader


@dataclass(frozen=True)
class NamedDataset:
    """A data set that has a name."""

    name: str
    classes: tuple[str, ...]
    layouts: tuple[Layout, ...]  # looked for in turn; downloads have the first
    downloads: Mapping[str, tuple[Download, ...]]  # per split
    installed: tuple[Path, ...] = ()  # folders where a system package puts the files
    package: str = ""  # the package that does


def _idx_dataset(
    name: str,
    classes: tuple[str, ...],
    *,
    folders: tuple[str, ...],
    servers: tuple[str, ...],
    digests: tuple[str, str, str, str],  # train images, train labels, test images, test labels
    unpacked: bool,
    installed: tuple[Path, ...] = (),
    package: str = "",
) -> NamedDataset:
    stems = {
        split: (f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte")
        for split, prefix in (("train", "train"), ("test", "t10k"))
    }
    files = {split: tuple(map(_idx_spellings, pair)) for split, pair in stems.items()}
    digest = iter(digests)
    downloads = {
        split: tuple(
            Download(f"{stem}.gz", tuple(f"{server}{stem}.gz" for server in servers), next(digest), unpacked)
            for stem in pair
        )
        for split, pair in stems.items()
    }
    return NamedDataset(name, classes, (Layout(folders, files, read_idx_pair),), downloads, installed, package)


def _idx_spellings(stem: str) -> tuple[str, ...]:
    dotted = stem.replace("-idx", ".idx")
    return f"{stem}.gz", stem, f"{dotted}.gz", dotted


def _cifar_dataset(
    name: str,
    classes: tuple[str, ...],
    *,
    folder: str,
    python_folder: str,
    files: Mapping[str, tuple[str, ...]],
    label_bytes: int,
    key: str,
    digest: str,
) -> NamedDataset:
    binary = {split: tuple((f"{file}.bin",) for file in names) for split, names in files.items()}
    pickled = {split: tuple((file,) for file in names) for split, names in files.items()}
    archive = f"{name[:5]}-{name[5:]}-binary.tar.gz"
    # The binary version is the one without pickles.
    download = Download(
        archive,
        (f"https://www.cs.toronto.edu/~kriz/{archive}",),
        digest,
        members=tuple(f"{file}.bin" for names in files.values() for file in names),
    )
    layouts = (
        Layout((folder, name), binary, partial(read_cifar_binary, label_bytes=label_bytes)),
        Layout((python_folder, name), pickled, partial(read_cifar_python, key=key)),
    )
    return NamedDataset(name, classes, layouts, {"train": (download,), "test": (download,)})


def _svhn_dataset() -> NamedDataset:
    digests = {  # MD5, as widely published
        "train": "e26dedcc434d2e4c54c9b2d4a06d8373",
        "test": "eb5a983be6a315427106f1b164d9cef3",
        "extra": "a93ce644f1a588dc4d68dda5feec44a7",
    }
    files = {split: f"{split}_32x32.mat" for split in digests}
    downloads = {
        split: (Download(file, (f"http://ufldl.stanford.edu/housenumbers/{file}",), digests[split]),)
        for split, file in files.items()
    }
    layout = Layout(("svhn", "SVHN"), {split: ((file,),) for split, file in files.items()}, read_svhn)
    return NamedDataset("svhn", DIGITS, (layout,), downloads)


_CATALOG = (
    _idx_dataset(
        "mnist",
        DIGITS,
        folders=("mnist", "MNIST/raw"),
        servers=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        digests=(  # SHA-256 of the unpacked files
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        unpacked=True,
    ),
    _idx_dataset(
        "fashion-mnist",
        FASHION,
        folders=("fashion-mnist", "FashionMNIST/raw"),
        servers=(
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
        digests=(  # SHA-256 of the unpacked files
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        unpacked=True,
        installed=(Path("/usr/share/datasets/fashion-mnist"),),
        package="dataset-fashion-mnist",
    ),
    _idx_dataset(
        "kmnist",
        KUZUSHIJI,
        folders=("kmnist", "KMNIST/raw"),
        servers=("http://codh.rois.ac.jp/kmnist/dataset/kmnist/",),
        digests=(  # MD5 of the files as served, as widely published
            "bdb82020997e1d708af4cf47b453dcf7",
            "e144d726b3acfaa3e44228e80efcd344",
            "5c965bf0a639b31b8f53240b1b52f4d7",
            "7320c461ea6c1c855c0b718fb2a4b134",
        ),
        unpacked=False,
    ),
    _cifar_dataset(
        "cifar10",
        CIFAR10,
        folder="cifar-10-batches-bin",
        python_folder="cifar-10-batches-py",
        files={"train": tuple(f"data_batch_{part}" for part in range(1, 6)), "test": ("test_batch",)},
        label_bytes=1,
        key="labels",
        digest="c32a1d4ab5d03f1284b67883e8d87530",  # MD5, from the authors' page
    ),
    _cifar_dataset(
        "cifar100",
        CIFAR100,
        folder="cifar-100-binary",
        python_folder="cifar-100-python",
        files={"train": ("train",), "test": ("test",)},
        label_bytes=2,
        key="fine_labels",
        digest="03b5dce01913d631647c71ecec9e9cb8",  # MD5, from the authors' page
    ),
    _svhn_dataset(),
)

DATASETS: Mapping[str, NamedDataset] = {dataset.name: dataset for dataset in _CATALOG}

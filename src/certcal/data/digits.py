"""scikit-learn's digits: 1797 images of 8×8, shipped with the library, so that something always runs offline."""

import torch

from certcal.data.arrays import from_arrays
from certcal.data.images import ImageData
from certcal.errors import InputError
from certcal.scalars import check_choice

TEST_STRIDE = 5


def read_digits(*, split: str) -> ImageData:
    """The digits in [0, 1]; every fifth image is the "test" split, the others "train", and "all" is all of them."""
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
    test = torch.arange(len(data)) % TEST_STRIDE == TEST_STRIDE - 1
    return data.select(torch.nonzero(test if split == "test" else ~test).ravel())

"""Readers give back the very bytes that were written, and refuse anything else in one line."""

import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from certcal import CertcalError, InputError
from certcal.data import ImageData, channel_statistics, dataset_names, from_arrays, load_dataset, split_data
from formats import random_images, write_mnist
from reading import check, labels_of, refusal


class TestImageData:
    images, labels = random_images(12, 3, 8), labels_of(12)

    def data(self) -> ImageData:
        return from_arrays(self.images, self.labels)

    def test_works_in_a_data_loader(self) -> None:
        batches = list(DataLoader(self.data(), batch_size=5))
        assert [len(labels) for _, labels in batches] == [5, 5, 2]
        assert torch.equal(torch.cat([inputs for inputs, _ in batches]), self.data().inputs)
        assert batches[0][1].dtype == torch.int64

    def test_iterates_once_over_everything(self) -> None:
        assert [label for _, label in self.data()] == self.labels.tolist()

    def test_every_and_limit_remember_where_the_images_came_from(self) -> None:
        part = self.data().take(every=5, limit=2)
        assert part.index.tolist() == [0, 5]
        check(part, self.images[[0, 5]], self.labels[[0, 5]])
        assert part.take(every=2).index.tolist() == [0]
        assert len(self.data().take(limit=100)) == 12

    def test_split_is_a_partition_fixed_by_its_seed(self) -> None:
        train, validation = split_data(self.data(), fraction=0.25, seed=3)
        assert validation.index.tolist() == [0, 4, 9]  # the same on every machine and with every version
        assert sorted(train.index.tolist() + validation.index.tolist()) == list(range(12))
        assert split_data(self.data(), fraction=0.25, seed=4)[1].index.tolist() != validation.index.tolist()
        check(validation, self.images[[0, 4, 9]], self.labels[[0, 4, 9]])

    @pytest.mark.parametrize("fraction", [0.0, 1.0, 0.01, 0.99, float("nan")])
    def test_split_with_nothing_on_one_side_is_refused(self, fraction: float) -> None:
        with pytest.raises(InputError, match="fraction"):
            split_data(self.data(), fraction=fraction)

    def test_channel_statistics_are_those_of_the_pixels(self) -> None:
        data = from_arrays(random_images(700, 3, 4), np.zeros(700, dtype=int))  # more than one part
        mean, std = channel_statistics(data)
        wide = data.inputs.double().transpose(0, 1).flatten(1)
        np.testing.assert_allclose(mean, wide.mean(1), rtol=1e-12)
        np.testing.assert_allclose(std, wide.std(1, correction=0), rtol=1e-12)


class TestArrays:
    def test_floats_grey_images_lists_and_tensors(self) -> None:
        assert from_arrays(np.full((2, 4, 4), 0.5), [0, 1]).inputs.shape == (2, 1, 4, 4)
        assert from_arrays([[[0.0, 1.0], [0.5, 0.25]]], [3]).classes == ("0", "1", "2", "3")
        assert from_arrays(torch.rand(2, 3, 4, 4, dtype=torch.float64), torch.tensor([1, 0])).inputs.max() <= 1
        big_endian = np.array([[[0.5]]], dtype=">f8")
        big_endian.flags.writeable = False
        assert from_arrays(big_endian, [0]).inputs.item() == 0.5

    @pytest.mark.parametrize(
        ("inputs", "labels", "reason"),
        [
            (np.zeros((2, 8)), [0, 1], r"shape \(2, 8\)"),
            (np.zeros((0, 1, 8, 8)), [], r"n ≥ 1"),
            (np.zeros((2, 8, 8, 3, 1)), [0, 1], r"shape \(n, c, h, w\), \(n, h, w, c\)"),
            (np.zeros((2, 1, 8, 8), dtype=np.int64), [0, 1], "dtype torch.int64"),
            (np.full((2, 1, 8, 8), 255.0), [0, 1], "values from 255 to 255: divide them by 255"),
            (np.full((2, 1, 8, 8), 16.0), [0, 1], "from 16 to 16: divide them by the largest value that there can be"),
            (np.full((2, 1, 8, 8), np.nan), [0, 1], "NaN or infinity in 2 of 2 inputs, the first at 0"),
            (np.zeros((2, 1, 8, 8)), [0], r"as many entries as `inputs` \(2\), but got 1"),
            (np.zeros((2, 1, 8, 8)), [0, -1], "-1 at index 1"),
            (np.zeros((2, 1, 8, 8)), [0, 1.5], "no regression, but got 1.5"),
            (np.zeros((2, 1, 8, 8)), np.zeros((2, 8, 8)), r"certifies no segmentation, but got shape \(2, 8, 8\)"),
        ],
    )
    def test_what_is_not_labelled_images_is_refused(self, inputs: np.ndarray, labels: list, reason: str) -> None:
        with pytest.raises(InputError, match=reason):
            from_arrays(inputs, labels)

    def test_labels_beyond_the_classes_are_refused(self) -> None:
        with pytest.raises(InputError, match="from 0 to 1, but got 2 at index 1"):
            from_arrays(np.zeros((2, 1, 8, 8)), [0, 2], classes=["no", "yes"])

    def test_npz_round_trip(self, tmp_path: Path) -> None:
        images, labels = random_images(5, 3, 6), labels_of(5, 3)
        file = tmp_path / "mine.npz"
        np.savez(
            file, inputs=images, labels=labels, classes=["a", "b", "c"], test_inputs=images[:2], test_labels=labels[:2]
        )
        data = load_dataset(file)
        check(data, images, labels)
        assert data.classes == ("a", "b", "c")
        check(load_dataset(str(file), split="test"), images[:2], labels[:2])
        assert "train_inputs and train_labels" in refusal(file, split="train")

    def test_npz_that_is_none_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "noise.npz").write_bytes(b"PK\x03\x04 but no archive")
        (tmp_path / "text.npz").write_text("inputs")
        np.savez(tmp_path / "objects.npz", inputs=np.array([{}], dtype=object), labels=[0])
        for name in ("noise.npz", "text.npz", "objects.npz"):
            assert "plain arrays" in refusal(tmp_path / name)
        assert "exists" in refusal(tmp_path / "absent.npz")


class TestSvhn:
    images, labels = random_images(12, 3, 32), np.arange(12, dtype=np.uint8) % 10

    def write(self, file: Path, **variables: np.ndarray) -> None:
        from scipy.io import savemat

        matlab = np.where(self.labels == 0, 10, self.labels)[:, None]
        savemat(file, {"X": self.images.transpose(2, 3, 1, 0), "y": matlab} | variables, do_compression=True)

    def test_round_trip_with_ten_for_zero(self, tmp_path: Path) -> None:
        self.write(tmp_path / "test_32x32.mat")
        check(load_dataset("svhn", root=tmp_path), self.images, self.labels)
        (tmp_path / "test_32x32.mat").rename(tmp_path / "extra_32x32.mat")
        assert len(load_dataset("svhn", split="extra", root=tmp_path)) == 12

    def test_a_single_image(self, tmp_path: Path) -> None:
        self.write(tmp_path / "test_32x32.mat", X=self.images[0].transpose(1, 2, 0), y=np.array([[10]]))
        check(load_dataset("svhn", root=tmp_path), self.images[:1], np.array([0]))

    def test_wrong_files_are_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "test_32x32.mat"
        file.write_bytes(b"not MATLAB" * 30)
        assert "MATLAB file" in refusal("svhn", root=tmp_path)
        self.write(file, y=np.array([[11]] * 12))
        assert "labels from 1 to 10, but got 11" in refusal("svhn", root=tmp_path)
        self.write(file, y=np.array([[1]]))
        assert "hold 12 labels" in refusal("svhn", root=tmp_path)
        self.write(file, X=np.zeros((2, 2)))
        assert "X as uint8" in refusal("svhn", root=tmp_path)


def test_digits_come_with_scikit_learn() -> None:
    whole, train, test = (load_dataset("digits", split=split) for split in ("all", "train", "test"))
    assert whole.shape == (1, 8, 8)
    assert (whole.inputs.min(), whole.inputs.max()) == (0, 1)
    assert whole.inputs.dtype == torch.float32
    assert sorted(train.index.tolist() + test.index.tolist()) == whole.index.tolist()
    assert len(test) == len(load_dataset("digits")) == 359
    assert torch.equal(test.inputs, whole.inputs[4::5])


class TestDoor:
    def test_where_data_is_looked_for(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        images, labels = random_images(3, 1, 28), labels_of(3)
        write_mnist(tmp_path / "cache/certcal/data/mnist", images, labels)
        assert len(load_dataset("mnist", root=tmp_path / "elsewhere")) == 3
        write_mnist(tmp_path / "shared/mnist", images[:2], labels[:2])
        monkeypatch.setenv("CERTCAL_DATA", str(tmp_path / "shared"))
        assert len(load_dataset("mnist")) == 2
        write_mnist(tmp_path / "mine/mnist", images[:1], labels[:1])
        assert len(load_dataset("mnist", root=tmp_path / "mine")) == 1

    def test_loose_files_of_one_family_member_are_not_taken_for_another(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_mnist(tmp_path, random_images(3, 1, 28), labels_of(3))
        monkeypatch.setenv("CERTCAL_DATA", str(tmp_path))
        refusal("kmnist")

    def test_missing_files_say_what_goes_where(self, tmp_path: Path) -> None:
        message = refusal("fashion-mnist", split="train", root=tmp_path)
        assert "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz" in message
        assert f"Put them into {tmp_path / 'fashion-mnist'}" in message
        assert "download=True" in message
        assert "dataset-fashion-mnist" in message
        (tmp_path / "fashion-mnist").mkdir()
        (tmp_path / "fashion-mnist/train-images-idx3-ubyte.gz").touch()
        assert "not all of them" in refusal("fashion-mnist", split="train", root=tmp_path)

    def test_bad_arguments(self, tmp_path: Path) -> None:
        assert "did you mean 'cifar10'" in refusal("cifar-1O")
        assert "did you mean 'fashion-mnist'" in refusal("fashionmist")
        assert "'svhn'" in refusal("nothing of the kind")
        assert "be the name of a data set or a path" in refusal(7)
        assert "be one of 'train', 'test', but got 'validation'" in refusal("mnist", split="validation", root=tmp_path)
        assert "be one of 'train', 'test', 'all'" in refusal("digits", split="")
        for limit in (0, -1, 2.5, True):
            assert "`limit` to be an integer ≥ 1" in refusal("digits", limit=limit)
        assert "`every` to be an integer ≥ 1" in refusal("digits", every=0)
        assert "folder of images only" in refusal("digits", resize=8)
        assert "exists" in refusal(tmp_path / "absent")
        with chdir(tmp_path):
            Path("digits.csv").write_text("a,label\n0.5,1\n")
            told = "'digits.csv' (a table? np.savez('digits.npz', inputs=…, labels=…) makes it one; then --values any)"
            assert told in refusal("digits.csv")  # and not: did you mean 'digits'?

    def test_names(self) -> None:
        assert dataset_names() == ("mnist", "fashion-mnist", "kmnist", "cifar10", "cifar100", "svhn", "digits")


@pytest.mark.slow
def test_the_room_loads_no_optional_package() -> None:
    code = "import sys, certcal.data; print([name for name in sys.modules if name in sys.argv])"
    optional = ["PIL", "sklearn", "torchvision", "safetensors", "matplotlib", "torchmetrics"]
    done = subprocess.run([sys.executable, "-c", code, *optional], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_refusal_is_a_certcal_error() -> None:
    with pytest.raises(CertcalError):
        load_dataset("unknown")
    with pytest.raises(ValueError, match="unknown"):
        load_dataset("unknown")


def test_a_limit_misses_no_class_of_alternating_labels():
    images = from_arrays(np.zeros((40, 1, 2, 2), dtype=np.float32), np.arange(40) % 5)
    few = images.take(limit=8)
    assert sorted(set(few.labels.tolist())) == [0, 1, 2, 3, 4]
    assert few.index.tolist() == sorted(few.index.tolist())

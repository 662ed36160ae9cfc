"""CIFAR as binary files and as pickles, of which only plain data is read."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from certcal import InputError
from certcal.data import load_dataset
from certcal.data.catalog import CIFAR100
from formats import cifar_binary, python2_batch, random_images
from reading import check, labels_of, refusal


class TestCifar:
    images, labels = random_images(4, 3, 32), labels_of(4)

    def test_binary_round_trip(self, tmp_path: Path) -> None:
        folder = tmp_path / "cifar-10-batches-bin"
        folder.mkdir()
        (folder / "test_batch.bin").write_bytes(cifar_binary(self.images, self.labels))
        for part in range(5):
            images = random_images(2, 3, 32, seed=part)
            (folder / f"data_batch_{part + 1}.bin").write_bytes(cifar_binary(images, self.labels[:2]))
        check(load_dataset("cifar10", root=tmp_path), self.images, self.labels)
        train = load_dataset("CIFAR-10", split="train", root=folder)
        assert len(train) == 10
        assert torch.equal(train.pixels[8:], torch.from_numpy(random_images(2, 3, 32, seed=4)))

    def test_binary_cifar100_takes_the_fine_label(self, tmp_path: Path) -> None:
        fine = labels_of(4, 100) + 60
        (tmp_path / "test.bin").write_bytes(cifar_binary(self.images, self.labels, fine))
        data = load_dataset("cifar100", root=tmp_path)
        check(data, self.images, fine)
        assert len(set(data.classes)) == 100
        assert data.classes == tuple(sorted(CIFAR100))

    def test_binary_of_the_wrong_size_is_refused(self, tmp_path: Path) -> None:
        for content in (b"", cifar_binary(self.images, self.labels)[:-1]):
            (tmp_path / "test_batch.bin").write_bytes(content)
            assert "whole records of 3073 bytes" in refusal("cifar10", root=tmp_path)

    @pytest.mark.parametrize("protocol", [None, 2, 4])
    def test_python_batches_round_trip(self, tmp_path: Path, protocol: int | None) -> None:
        folder = tmp_path / "cifar-10-batches-py"
        folder.mkdir()
        batch = {b"data": self.images.reshape(4, -1), b"labels": self.labels.tolist(), b"batch_label": b"testing"}
        content = pickle.dumps(batch, protocol) if protocol else python2_batch(self.images, self.labels)
        (folder / "test_batch").write_bytes(content)
        check(load_dataset("cifar10", root=tmp_path), self.images, self.labels)

    def test_python_cifar100_takes_the_fine_label(self, tmp_path: Path) -> None:
        fine = labels_of(4, 100) + 60
        (tmp_path / "test").write_bytes(python2_batch(self.images, fine, key="fine_labels"))
        check(load_dataset("cifar100", root=tmp_path), self.images, fine)

    @pytest.mark.parametrize("protocol", [0, 2, 5])
    def test_a_pickle_that_runs_code_is_refused_unrun(self, tmp_path: Path, protocol: int) -> None:
        class Evil:
            def __reduce__(self) -> tuple[object, tuple[str]]:
                return os.mkdir, (str(tmp_path / "owned"),)

        (tmp_path / "test_batch").write_bytes(pickle.dumps({b"data": Evil()}, protocol))
        assert "posix.mkdir, refused because it could run code" in refusal("cifar10", root=tmp_path)
        assert not (tmp_path / "owned").exists()

    @pytest.mark.parametrize(
        ("batch", "reason"),
        [
            ([1, 2], "entry 'data', but got list"),
            ({b"data": images.reshape(4, -1)}, "entry 'labels'"),
            ({b"data": images, b"labels": [0] * 4}, "uint8 of shape (n, 3072), but got uint8 (4, 3, 32, 32)"),
            ({b"data": images.reshape(4, -1), b"labels": [0] * 3}, "hold 4 labels, one per image, but got 3"),
            ({b"data": images.reshape(4, -1), b"labels": [0.5] * 4}, "list of integers"),
            ({b"data": np.array([None]), b"labels": [0]}, "dtype 'O8'"),
            ({b"data": np.float64(1), b"labels": [0]}, "multiarray.scalar"),
        ],
    )
    def test_other_pickles_are_refused(self, tmp_path: Path, batch: object, reason: str) -> None:
        (tmp_path / "test_batch").write_bytes(pickle.dumps(batch, 2))
        assert reason in refusal("cifar10", root=tmp_path)

    def test_damaged_pickles_are_refused(self, tmp_path: Path) -> None:
        whole = python2_batch(self.images, self.labels)
        for content in (b"", b"text", whole[:100], whole[:-30]):
            (tmp_path / "test_batch").write_bytes(content)
            assert "pickle of plain data" in refusal("cifar10", root=tmp_path)


def test_a_pickle_cannot_write_on_what_it_is_given(tmp_path):
    """A BUILD step would otherwise set attributes of the functions handed out."""
    from certcal.data import cifar

    path = tmp_path / "batch"
    path.write_bytes(b"\x80\x02c_codecs\nencode\n}X\x07\x00\x00\x00__doc__X\x08\x00\x00\x00hijackedsb.")
    with pytest.raises(InputError, match="to be a pickle of plain data and arrays"):
        cifar.load_plain_pickle(path)
    assert cifar._encoded.__doc__ is None

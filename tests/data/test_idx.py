"""MNIST and its like: IDX files give back the very bytes that were written."""

from pathlib import Path

import pytest

from certcal import InputError
from certcal.data import load_dataset
from formats import idx_bytes, random_images, write_mnist
from reading import check, labels_of, refusal


class TestIdx:
    images, labels = random_images(6, 1, 28), labels_of(6)

    @pytest.mark.parametrize("zipped", [True, False])
    @pytest.mark.parametrize(
        ("name", "folder"),
        [("mnist", "mnist"), ("fashion-mnist", "FashionMNIST/raw"), ("FashionMNIST", "fashion-mnist"), ("kmnist", ".")],
    )
    def test_round_trip(self, tmp_path: Path, name: str, folder: str, zipped: bool) -> None:
        write_mnist(tmp_path / folder, self.images, self.labels, zipped=zipped)
        data = load_dataset(name, split="test", root=tmp_path)
        check(data, self.images, self.labels)
        assert len(data.classes) == 10
        assert data.source == str(tmp_path / folder)

    def test_train_and_test_are_different_files_and_test_is_the_default(self, tmp_path: Path) -> None:
        write_mnist(tmp_path / "mnist", self.images, self.labels)
        write_mnist(tmp_path / "mnist", self.images[:3], self.labels[:3], prefix="train")
        assert len(load_dataset("mnist", split="train", root=tmp_path)) == 3
        assert len(load_dataset("mnist", root=tmp_path)) == 6
        assert load_dataset("mnist", root=tmp_path, every=2, limit=2).index.tolist() == [0, 2]

    def test_a_gz_name_on_an_unpacked_file_is_no_obstacle(self, tmp_path: Path) -> None:
        write_mnist(tmp_path, self.images, self.labels)
        (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(idx_bytes(self.images[:, 0]))
        check(load_dataset("mnist", root=tmp_path), self.images, self.labels)

    @pytest.mark.parametrize(
        ("images", "reason"),
        [
            (b"", "start with the IDX magic 00 00 08 03, but got nothing"),
            (b"\x00\x00\x08\x01\x00\x00\x00\x00", "00 00 08 01"),
            (b"\x00\x00\x08\x03\x00\x00", "hold 0 bytes"),
            (idx_bytes(images[:, 0])[:-1], "hold 4704 bytes for shape (6, 28, 28), but got 4703"),
            (idx_bytes(images[:, 0]) + b"\x00", "but got 4705"),
            (idx_bytes(images[:5, 0]), "hold 5 labels, one per image, but got 6"),
            (b"\x1f\x8b and no gzip", "whole gzip file"),
        ],
    )
    def test_damaged_files_are_refused(self, tmp_path: Path, images: bytes, reason: str) -> None:
        write_mnist(tmp_path, self.images, self.labels)
        (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(images)
        message = refusal("mnist", root=tmp_path)
        assert reason in message
        assert str(tmp_path) in message

    def test_truncated_gzip_is_refused(self, tmp_path: Path) -> None:
        write_mnist(tmp_path, self.images, self.labels)
        file = tmp_path / "t10k-images-idx3-ubyte.gz"
        file.write_bytes(file.read_bytes()[:-20])
        assert "whole gzip file" in refusal("mnist", root=tmp_path)

    def test_labels_out_of_range_name_their_file(self, tmp_path: Path) -> None:
        write_mnist(tmp_path, self.images, self.labels + 5)
        message = refusal("mnist", root=tmp_path)
        assert "from 0 to 9, but got 12 at index 1" in message
        assert "t10k-labels-idx1-ubyte.gz" in message


def test_a_gzip_file_is_not_inflated_beyond_what_it_announces(tmp_path):
    import gzip

    from certcal.data.idx import read_idx

    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes((0, 0, 8, 1, 0, 0, 0, 4)) + bytes(50_000_000)))
    with pytest.raises(InputError, match="hold 4 bytes for shape \\(4,\\), but got 5"):
        read_idx(path, axes=1)

"""Folders of class folders: decoded when asked for, resized and cropped as usual, refused by file name."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from certcal import InputError
from certcal.data import load_dataset
from formats import random_images
from reading import refusal

Image = pytest.importorskip("PIL.Image")


def save(file: Path, pixels: np.ndarray) -> None:
    """An image file of pixels (c, h, w)."""
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.transpose(1, 2, 0).squeeze()).save(file)


@pytest.fixture
def pets(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """Four PNG files in two classes, one of them in a nested folder."""
    images, root = random_images(4, 3, 6), tmp_path / "pets"
    for name, pixels in zip(["dog/b.png", "cat/1.PNG", "cat/0.png", "dog/more/a.png"], images, strict=True):
        save(root / name, pixels)
    (root / "cat/._0.png").write_bytes(b"left by a file manager")
    (root / "notes.txt").touch()
    return root, images[[2, 1, 0, 3]]


def test_round_trip(pets: tuple[Path, np.ndarray]) -> None:
    root, images = pets
    data = load_dataset(root)
    assert data.classes == ("cat", "dog")
    assert data.labels.tolist() == [0, 0, 1, 1]
    assert data.shape == (3, 6, 6)
    inputs, _ = data.tensors()
    np.testing.assert_array_equal(inputs.numpy(), images.astype(np.float32) / np.float32(255))
    assert torch.equal(data[2][0], inputs[2])
    assert torch.equal(next(iter(DataLoader(data, batch_size=4)))[0], inputs)
    assert torch.equal(load_dataset(str(root), every=2).inputs, inputs[::2])


def test_decoding_waits_until_an_image_is_asked_for(pets: tuple[Path, np.ndarray]) -> None:
    root, _ = pets
    (root / "dog/b.png").write_bytes(b"damaged")
    data = load_dataset(root)
    assert data[1][1] == 0
    with pytest.raises(InputError, match=r"b\.png` to be a readable image"):
        data[2]


def test_splits_are_subfolders(pets: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    root, _ = pets
    root.rename(tmp_path / "val")
    assert len(load_dataset(tmp_path, split="val")) == 4
    assert "be one of 'val'" in refusal(tmp_path)
    assert "`split` to be a folder" in refusal(tmp_path, split="train")


def test_truncated_image_is_named(pets: tuple[Path, np.ndarray]) -> None:
    root, _ = pets
    file = root / "cat/0.png"
    file.write_bytes(file.read_bytes()[:-40])
    assert "cat/0.png` to be a readable image" in refusal(root)


def test_empty_folders_are_refused(pets: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    root, _ = pets
    (root / "fish").mkdir()
    assert "fish` to hold at least one image" in refusal(root)
    (tmp_path / "nothing").mkdir()
    assert "one folder of images per class" in refusal(tmp_path / "nothing")


def test_mixed_sizes_need_resize_and_crop(tmp_path: Path) -> None:
    save(tmp_path / "a/0.png", random_images(1, 3, 6)[0])
    save(tmp_path / "b/0.png", random_images(1, 3, 8)[0])
    data = load_dataset(tmp_path)
    with pytest.raises(InputError, match="6×6 pixels like the first image, but got 8×8: pass `resize` and `crop`"):
        data.tensors()
    assert load_dataset(tmp_path, resize=8, crop=6).inputs.shape == (2, 3, 6, 6)
    assert load_dataset(tmp_path, crop=6).inputs.shape == (2, 3, 6, 6)
    assert "`crop` to fit" in refusal(tmp_path, crop=7)


def test_the_shorter_side_is_resized_and_the_centre_kept(tmp_path: Path) -> None:
    # A horizontal ramp, twice as wide as high: the centre of the resized ramp is known.
    ramp = np.broadcast_to(np.arange(80, dtype=np.uint8) * 3, (3, 40, 80))
    save(tmp_path / "ramp/0.png", ramp)
    inputs = load_dataset(tmp_path, resize=20, crop=10).inputs
    middle = (15 + np.arange(10) + 0.5) * 2 - 0.5  # where the ten columns lie among the eighty
    np.testing.assert_allclose(inputs[0, 0, 5].numpy() * 255, middle * 3, atol=1)


def test_grey_jpeg_and_deep_images(tmp_path: Path) -> None:
    flat = np.full((3, 16, 16), 120, dtype=np.uint8)
    save(tmp_path / "flat/0.jpg", flat)
    data = load_dataset(tmp_path, channels=1)
    assert data.shape == (1, 16, 16)
    np.testing.assert_allclose(data.inputs.numpy(), 120 / 255, atol=2 / 255)
    Image.fromarray(np.full((16, 16), 40_000, dtype=np.uint16)).save(tmp_path / "flat/0.png")
    (tmp_path / "flat/0.jpg").unlink()
    deep = load_dataset(tmp_path, channels=1)
    assert deep.inputs.unique().tolist() == [torch.tensor(40_000 / 65535).item()]
    assert load_dataset(tmp_path, resize=8, crop=4).inputs.shape == (1, 3, 4, 4)
    Image.fromarray(np.full((16, 16), 70_000, dtype=np.int32)).save(tmp_path / "flat/0.tif")
    (tmp_path / "flat/0.png").unlink()
    assert "8 or 16 bits per channel" in refusal(tmp_path)
    assert "`channels` to be 1 (grey) or 3 (RGB), but got 2" in refusal(tmp_path, channels=2)
    assert "`crop` to be an integer ≥ 1" in refusal(tmp_path, crop=0)


def test_without_pillow_the_extra_is_named(pets: tuple[Path, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "PIL", None)
    assert "pip install pillow" in refusal(pets[0])


def test_a_flat_folder_with_a_table_of_labels(tmp_path: Path) -> None:
    for number in range(4):
        save(tmp_path / f"images/{number}.png", np.full((3, 4, 4), number, dtype=np.uint8))
    table = tmp_path / "labels.csv"
    table.write_text("file,label,note\n" + "".join(f"images/{n}.png,{['cat', 'dog'][n % 2]},\n" for n in (2, 0, 1, 3)))
    data = load_dataset(tmp_path)
    assert data.classes == ("cat", "dog")
    assert data.labels.tolist() == [0, 0, 1, 1]
    assert (data.inputs[:, 0, 0, 0] * 255).round().tolist() == [2, 0, 1, 3]
    table.write_text("path,class\nimages/0.png,3\nimages/1.png,0\n")
    assert load_dataset(tmp_path).labels.tolist() == [3, 0]
    assert load_dataset(tmp_path).classes == ("0", "1", "2", "3")
    table.write_text("path,class\nimages/9.png,3\n")
    assert "name files beside it" in refusal(tmp_path)
    table.write_text("picture,class\nimages/0.png,3\n")
    assert "have one column of file, filename" in refusal(tmp_path)

"""The recipes for SVHN, CIFAR-100 and ImageNet run end to end on small generated files."""

import json

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from command import certcal
from formats import cifar_binary, random_images

SIDE = 32


def bright(count, *, classes, size=SIDE):
    """Images whose brightness tells the class, so that something can be learned."""
    labels = (np.arange(count) % classes).astype(np.uint8)
    noise = random_images(count, 3, size) // 8
    return (noise + (200 * labels / max(classes - 1, 1)).astype(np.uint8)[:, None, None, None]).astype(np.uint8), labels


def svhn(root):
    (root / "svhn").mkdir()
    for split in ("train", "test"):
        images, labels = bright(60, classes=10)
        digits = np.where(labels == 0, 10, labels)[:, None]
        savemat(root / "svhn" / f"{split}_32x32.mat", {"X": images.transpose(2, 3, 1, 0), "y": digits})
    return ["data.root=.", "test.root=."]


def cifar100(root):
    folder = root / "cifar-100-binary"
    folder.mkdir()
    for name in ("train", "test"):
        images, labels = bright(100, classes=100)
        (folder / f"{name}.bin").write_bytes(cifar_binary(images, labels // 5, labels))
    return ["data.root=.", "test.root=."]


def imagenet(root):
    for split in ("train", "val"):
        images, labels = bright(24, classes=2)
        for place, (image, label) in enumerate(zip(images, labels, strict=True)):
            folder = root / "images" / split / f"class{label}"
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.transpose(1, 2, 0)).save(folder / f"{place}.png")
    size = [f"{part}.{key}={SIDE}" for part in ("data", "test") for key in ("resize", "crop")]
    return ["data.name=images", "test.name=images", *size, "machine.workers=0", "machine.precision=float32"]


SMALL = [
    "model.name=small-cnn", "train.epochs=1", "train.batch_size=12", "finetune.epochs=1", "finetune.batch_size=12",
    "certify.n=250", "certify.n0=20", "certify.fuse=false", "test.every=1", "test.limit=12", "validation.every=0",
    "about.screen=250",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("make", [svhn, cifar100, imagenet])
def test_a_recipe_goes_from_files_to_the_papers_table(make, tmp_path):
    name = make.__name__
    baseline = json.loads(certcal("reproduce", name, "--dry-run", "--json", cwd=tmp_path)[0])
    first = next(one for one in baseline if one.startswith("s0.25"))
    words = ["reproduce", name, "--baseline", first, "--only", "Brier-ACT", "--sample", 1, "--device", "cpu"]
    words += [word for one in [*SMALL, *make(tmp_path)] for word in ("--set", one)]
    certcal(*words, "--into", "study", cwd=tmp_path)
    certcal(*words, "--into", "study", "--quote", cwd=tmp_path)
    run = tmp_path / "runs" / "study"
    kept = json.loads((run / "results.json").read_text())
    assert {row["method"] for row in kept} == {"AT", "Brier-ACT"}
    assert "| CCE | Brier-ACT |" in (run / "table.md").read_text()
    certcal("reproduce", f"table-{name}", "--from", "study", cwd=tmp_path)
    assert "(" in (tmp_path / "runs" / f"table-{name}" / f"table-{name}.md").read_text()

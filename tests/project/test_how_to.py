"""The shell lines of the how-to page run as they stand, in a folder that has what they name."""

import re
import shlex
import shutil
from importlib import import_module

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from command import certcal
from places import ROOT

LINES = re.findall(r"^ {4}certcal (.+)$", (ROOT / "docs/how_to.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
NETS = """
from torch import nn
def make(channels, size, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, classes))
"""
QUICK = {"certify": ["--n", "250", "--no-figures", "--no-checks"], "evaluate": ["--no-figures"]}
SIDE, CLASSES = 8, 3


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Images, a factory with weights, an ONNX file, a table of bounds, and a run of them."""
    desk, rng = tmp_path_factory.mktemp("desk"), np.random.default_rng(0)
    labels = np.arange(6) % CLASSES
    np.savez(desk / "photos.npz", inputs=rng.random((6, 3, SIDE, SIDE), dtype=np.float32), labels=labels)
    for position, label in enumerate(labels):
        (desk / f"photos/{label}").mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (256, 256, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(desk / f"photos/{label}/{position}.png")
    (desk / "my_nets.py").write_text(NETS)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, CLASSES))
    torch.save(network.state_dict(), desk / "net.pt")
    rows = [f"{n},0.1,{n % 2},0,0.6,0.8,0.7,{n % 3 > 0}" for n in range(12)]
    (desk / "table.csv").write_text("\n".join(["index,radius,label,predicted,lower,upper,confidence,certified", *rows]))
    words = ["--model", "my_nets:make", "--weights", "net.pt", "--data", "photos.npz", "--sigma", 0.25]
    certcal("certify", "mine", *words, "--radii", "0,0.25", *QUICK["certify"], cwd=desk)
    return desk


def hugging_face(desk):
    transformers = pytest.importorskip("transformers")
    shape = {"image_size": SIDE, "patch_size": 4, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.ViTConfig(**shape, intermediate_size=16, num_labels=CLASSES)
    transformers.ViTForImageClassification(config).save_pretrained(desk / "FOLDER")


def onnx(desk):
    library = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    make, weight = library.helper.make_tensor_value_info, np.zeros((CLASSES, 3 * SIDE * SIDE), dtype=np.float32)
    nodes = [library.helper.make_node("Flatten", ["in"], ["flat"]),
             library.helper.make_node("Gemm", ["flat", "weight"], ["out"], transB=1)]  # fmt: skip
    ends = [make("in", 1, ["batch", 3, SIDE, SIDE])], [make("out", 1, ["batch", CLASSES])]
    graph = library.helper.make_graph(
        nodes, "net", *ends, initializer=[library.numpy_helper.from_array(weight, "weight")]
    )
    opset = [library.helper.make_opsetid("", 17)]
    library.save(library.helper.make_model(graph, opset_imports=opset, ir_version=9), desk / "net.onnx")


def timm(desk):
    try:
        network = import_module("timm").create_model("resnet50", num_classes=CLASSES)
    except (ImportError, RuntimeError) as error:  # it needs torchvision, which fails beside another build of torch
        pytest.skip(f"timm does not import here: {error}")
    torch.save(network.state_dict(), desk / "net.pt")


NEEDS = {"hf:": hugging_face, "net.onnx": onnx, "timm:": timm}
MARKS = {"hf:": pytest.mark.slow, "timm:": pytest.mark.slow}


@pytest.mark.parametrize(
    "line",
    [pytest.param(line, marks=[mark for part, mark in MARKS.items() if part in line], id=line[:50]) for line in LINES],
)
def test_the_line_runs(desk, tmp_path, line):
    place = tmp_path / "desk"
    shutil.copytree(desk, place)
    words = shlex.split(line)
    if words[0] == "certify":  # under a name that is free
        shutil.rmtree(place / "runs/mine")
    for part, prepare in NEEDS.items():
        if part in line:
            prepare(place)
    few = ["--limit", "1"] if "timm:" in line else []  # a large network
    only_read = ["--dry-run"] if "--engine ray" in line else []  # tests/cluster draws on clusters
    if "tensorboard" in line:
        pytest.importorskip("tensorboard")
    met = 1 if words[0] == "check" else 0  # the model is not trained, and the gate says so
    certcal(*words, *QUICK.get(words[0], []), *only_read, *few, cwd=place, code=met)


def test_the_page_has_a_line_for_each_door():
    verbs = [line.split()[0] for line in LINES]
    assert {"certify", "plan", "check", "evaluate"} <= set(verbs)
    assert len(LINES) >= 8

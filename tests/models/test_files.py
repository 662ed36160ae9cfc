"""Models from files and other libraries give the evidence of the plain module, and run no code unless told to."""

import json
import shutil
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from certcal import Evidence, InputError, ace_attack, collect_evidence, load_evidence
from certcal.models import as_outputs, build_model, model_fingerprint
from certcal.models.normalization import Normalize
from certcal.models.preparation import Resize
from command import certcal

SHAPE = (1, 4, 4)
INPUTS, LABELS = torch.rand(5, *SHAPE, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 1, 0])
ARRAYS = ("label", "selected", "draws", "votes", "score_sum", "score_square_sum", "histogram")


class Pixels(nn.Module):
    """Each logit is eight times a pixel, less a bias: exact in floats, so that every library computes the same."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.zeros(3, 16)
        weight[0, 0] = weight[1, 5] = weight[2, 10] = 8.0
        self.linear = nn.Linear(16, 3)
        self.linear.weight.data, self.linear.bias.data = weight, torch.tensor([0.5, 0.25, 0.0])

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.linear(inputs.flatten(1))


def draw(model: object) -> Evidence:
    return collect_evidence(model, (INPUTS, LABELS), sigma=0.5, n=200, n0=20, chunk=100)


def check_same(model: object, plain: nn.Module) -> None:
    one, other = draw(model), draw(plain)
    for name in ARRAYS:
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def build(name: object, **options: object) -> nn.Sequential:
    return build_model(str(name), classes=3, shape=SHAPE, **options)


@pytest.fixture(scope="module")
def onnx_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    linear, make = Pixels().linear, onnx.helper.make_tensor_value_info
    nodes = [
        onnx.helper.make_node("Flatten", ["inputs"], ["flat"]),
        onnx.helper.make_node("Gemm", ["flat", "weight", "bias"], ["logits"], transB=1),
    ]
    weights = [onnx.numpy_helper.from_array(one.detach().numpy(), name) for name, one in linear.named_parameters()]
    ends = [make("inputs", 1, ["batch", *SHAPE])], [make("logits", 1, ["batch", 3])]
    graph = onnx.helper.make_graph(nodes, "pixels", *ends, initializer=weights)
    path = tmp_path_factory.mktemp("onnx") / "net.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_onnx_gives_the_evidence_of_the_module(onnx_file: Path) -> None:
    model = build(onnx_file)
    check_same(model, Pixels())
    check_same(build(onnx_file, normalize=([0.5], [0.5])), nn.Sequential(Normalize([0.5], [0.5]), Pixels()))
    assert model_fingerprint(model) == model_fingerprint(build(onnx_file))
    with pytest.raises(InputError, match="Expected `model` to let gradients through, which attacks follow, but got"):
        ace_attack(model, INPUTS, LABELS, eta=1, omega="y", epsilon=0.1)


@pytest.mark.parametrize("size", [1, 3])
def test_onnx_of_one_batch_size_gives_the_evidence_of_the_module(onnx_file: Path, tmp_path: Path, size: int) -> None:
    """As torch.onnx.export writes it by default."""
    onnx = pytest.importorskip("onnx")
    fixed = onnx.load(onnx_file)
    for end in (*fixed.graph.input, *fixed.graph.output):
        end.type.tensor_type.shape.dim[0].dim_value = size
    onnx.save(fixed, tmp_path / "fixed.onnx")
    inputs, model = torch.cat([INPUTS, INPUTS[:2]]), build(tmp_path / "fixed.onnx")
    check_same(model, Pixels())
    for count in (1, 3, 7):
        found = build(onnx_file)(inputs[:count])
        assert torch.equal(as_outputs(model(inputs[:count]), count), as_outputs(found, count))


def test_broken_onnx_files_are_refused(onnx_file: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"no graph")
    with pytest.raises(InputError, match="Expected `model` to be an ONNX file that ONNX Runtime opens"):
        build(tmp_path / "bad.onnx")
    with pytest.raises(InputError, match="Expected `model` to be a file that exists"):
        build(tmp_path / "none.onnx")
    with pytest.raises(InputError, match=r"accept inputs of shape \(1, 5, 5\).*dynamic"):
        collect_evidence(build(onnx_file), (torch.rand(2, 1, 5, 5), [0, 1]), sigma=0.5, n=100, n0=10, chunk=100)


@pytest.mark.slow
def test_torchscript_and_exported_programs_run_when_trusted(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(Pixels(), INPUTS).save(str(tmp_path / "net.ts"))
        program = torch.export.export(Pixels(), (INPUTS,), dynamic_shapes=({0: torch.export.Dim("batch")},))
        torch.export.save(program, str(tmp_path / "net.pt2"))
    for name in ("net.ts", "net.pt2"):
        with pytest.raises(InputError, match=r"Expected `model` to be trusted.*because the file is a program"):
            build(tmp_path / name)
        model = build(tmp_path / name, trust=True)
        check_same(model, Pixels())
        assert model_fingerprint(model) == model_fingerprint(build(tmp_path / name, trust=True))
    check_same(program, Pixels())
    with pytest.raises(InputError, match="be cpu for an ONNX file or an exported program, but got meta"):
        build(tmp_path / "net.pt2", trust=True).to("meta")
    torch.save(Pixels().state_dict(), tmp_path / "weights.pt")
    with pytest.raises(InputError, match=r"be a TorchScript file.*weights alone go into --weights"):
        build(tmp_path / "weights.pt", trust=True)


@pytest.fixture(scope="module")
def hf_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("hf") / "vit"
    shape = {"image_size": 4, "patch_size": 2, "num_channels": 1, "hidden_size": 8, "num_hidden_layers": 1}
    config = transformers.ViTConfig(**shape, num_attention_heads=2, intermediate_size=16, num_labels=3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.ViTForImageClassification(config).save_pretrained(folder)
    processor = {"do_resize": True, "size": {"height": 4, "width": 4}, "image_mean": [0.4], "image_std": [0.3]}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


@pytest.mark.slow
def test_hugging_face_folders_bring_weights_size_and_statistics(hf_folder: Path) -> None:
    from transformers import ViTForImageClassification

    network = ViTForImageClassification.from_pretrained(hf_folder)
    plain = SimpleLogits(nn.Sequential(Normalize([0.4], [0.3]), network))
    model = build(f"hf:{hf_folder}")
    check_same(model, plain)
    check_same(network, SimpleLogits(network))
    assert isinstance(model[0][0], Resize)
    larger = build_model(f"hf:{hf_folder}", classes=3, shape=(1, 8, 8)).eval()
    assert larger(torch.rand(2, 1, 8, 8)).logits.shape == (2, 3)
    own = build(f"hf:{hf_folder}", normalize=([0.0], [1.0]))
    assert isinstance(own[0], Normalize)


@pytest.mark.slow
def test_hugging_face_classes_in_another_order_are_refused(hf_folder: Path, tmp_path: Path) -> None:
    """The network's id2label and the names of the data: the same in order pass, in another are stopped."""
    folder = shutil.copytree(hf_folder, tmp_path / "named")
    config = json.loads((folder / "config.json").read_text())
    arrays = {"inputs": np.random.default_rng(0).random((6, 1, 4, 4), dtype=np.float32), "labels": np.arange(6) % 3}
    np.savez(tmp_path / "pets.npz", **arrays, classes=["cat", "cow", "dog"])
    words = [
        "--model",
        f"hf:{folder}",
        "--data",
        "pets.npz",
        "--sigma",
        0.25,
        "--n",
        250,
        "--no-checks",
        "--no-figures",
    ]
    for order, code in ((("dog", "cat", "cow"), 2), (("cat", "cow", "dog"), 0), (("a", "b", "c"), 0)):
        named = {"id2label": dict(enumerate(order)), "label2id": {name: place for place, name in enumerate(order)}}
        (folder / "config.json").write_text(json.dumps(config | named))
        _, error = certcal("certify", order[0], *words, cwd=tmp_path, code=code)
        told = "Expected `--data` to number its classes as the model does, 'cat' as 1"
        assert (told in error) == bool(code), error
        assert ("but got 'cat' as 0" in error) == bool(code)
        assert (tmp_path / "runs" / order[0]).exists() == (code == 0)


@pytest.mark.slow
def test_hugging_face_names_number_class_folders(hf_folder: Path, tmp_path: Path) -> None:
    """Folders of two of the network's three classes get its numbers, not 0 and 1."""
    folder, order = shutil.copytree(hf_folder, tmp_path / "named"), ("dog", "cat", "cow")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"id2label": dict(enumerate(order))}))
    for name in ("cow", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        Image.new("L", (4, 4), 90).save(tmp_path / "pets" / name / "one.png")
    words = (
        "--data",
        "pets",
        "--channels",
        1,
        "--sigma",
        0.25,
        "--n",
        250,
        "--radii",
        0.1,
        "--no-checks",
        "--no-figures",
    )
    certcal("certify", "mine", "--model", f"hf:{folder}", *words, cwd=tmp_path)
    assert load_evidence(tmp_path / "runs/mine/evidence.parquet").label.tolist() == [2, 0]


@pytest.mark.slow
def test_hugging_face_code_is_not_run(hf_folder: Path, tmp_path: Path) -> None:
    config = json.loads((hf_folder / "config.json").read_text())
    (tmp_path / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "code.C", "AutoModelForImageClassification": "code.M"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="Expected `model` to be a folder of an image classifier"):
        build(f"hf:{tmp_path}")
    assert not (tmp_path / "ran").exists()
    with pytest.raises(InputError, match=r"be hf: and a folder with config.json"):
        build(f"hf:{tmp_path / 'none'}")


class SimpleLogits(nn.Module):
    """The logits of a Hugging Face network as a plain tensor."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.network(inputs).logits


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "timm", None)
    with pytest.raises(InputError, match="For timm: names certcal needs timm, which did not import here"):
        build("timm:resnet18")
    monkeypatch.delitem(__import__("sys").modules, "timm")
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator torchvision::nms does not exist\\nand more')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match=r"nms does not exist and more\. It needs torchvision, built for") as told:
        build("timm:resnet18")
    assert len(str(told.value).splitlines()) == 1


def test_factories_are_given_sigma_shape_and_features(monkeypatch: pytest.MonkeyPatch) -> None:
    def conditional(sigma: float, features: int, classes: int, shape: tuple[int, ...]) -> object:
        assert (sigma, features, classes, shape) == (0.5, 7, 3, (7,))
        return lambda inputs: inputs[:, :3] * sigma

    monkeypatch.setitem(__import__("sys").modules, "my_models", SimpleNamespace(conditional=conditional))
    model = build_model("my_models:conditional", classes=3, shape=(7,), sigma=0.5)
    assert torch.equal(model(torch.ones(2, 7)), torch.full((2, 3), 0.5))


def test_the_fingerprint_of_onnx_covers_weights_beside_it(onnx_file: Path, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    path = tmp_path / "net[1].onnx"
    model = onnx.load(onnx_file)
    where = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
    onnx.save_model(model, path, **where)
    (tmp_path / "net[1].onnx.d").mkdir()
    before = model_fingerprint(build(path))
    raw = bytearray((tmp_path / "weights.bin").read_bytes())
    raw[2] ^= 1
    (tmp_path / "weights.bin").write_bytes(raw)
    assert model_fingerprint(build(path)) != before


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["multi_label_classification", "regression"])
def test_hugging_face_models_for_other_tasks_are_refused(hf_folder: Path, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "net"
    shutil.copytree(hf_folder, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"problem_type": kind}))
    with pytest.raises(InputError, match=f"certcal certifies no {kind.replace('_', ' ')}"):
        build(f"hf:{folder}")


@pytest.mark.slow
def test_hugging_face_networks_for_other_tasks_are_refused(tmp_path: Path) -> None:
    """Their classifier would have random weights."""
    transformers = pytest.importorskip("transformers")
    shape = {"image_size": 4, "patch_size": 2, "num_channels": 1, "hidden_size": 8, "num_hidden_layers": 1}
    config = transformers.ViTConfig(**shape, num_attention_heads=2, intermediate_size=16, num_labels=3)
    transformers.ViTForMaskedImageModeling(config).save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"trained image classifier.*made for ViTForMaskedImageModeling, without"):
        build(f"hf:{tmp_path}")
    (tmp_path / "config.json").write_text("no JSON")
    with pytest.raises(InputError, match=r"Expected `.*config.json` to be JSON"):
        build(f"hf:{tmp_path}")

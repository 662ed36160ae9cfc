"""Checkpoints come back exactly, from every common wrapping, and never by running code."""

import os
import sys
from collections import OrderedDict
from pathlib import Path
from typing import BinaryIO

import pytest
import torch
from torch import nn

from certcal import InputError
from certcal.models import build_model, load_checkpoint, model_fingerprint, save_checkpoint
from certcal.models.checkpoints import HEADS, WRAPPERS

STATISTICS = ((0.4, 0.5, 0.6), (0.2, 0.3, 0.2))


def model(seed: int = 0, name: str = "resnet20", **options: object) -> nn.Sequential:
    torch.manual_seed(seed)
    return build_model(name, **({"classes": 10, "channels": 3, "size": 32, "normalize": STATISTICS} | options))


def refusal(target: nn.Module, file: Path) -> str:
    before = model_fingerprint(target)
    with pytest.raises(InputError) as caught:
        load_checkpoint(target, file)
    assert model_fingerprint(target) == before
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)
    return str(caught.value)


def test_round_trip(tmp_path: Path) -> None:
    saved = model(1)
    file = tmp_path / "new/folder/weights.pt"
    save_checkpoint(nn.DataParallel(saved), file)
    loaded = load_checkpoint(model(2), file)
    assert model_fingerprint(loaded) == model_fingerprint(saved)
    assert [path.name for path in file.parent.iterdir()] == ["weights.pt"]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: state,
        lambda state: {"state_dict": state},
        lambda state: {"epoch": 90, "arch": "cifar_resnet20", "state_dict": state, "optimizer": {"state": {}}},
        lambda state: {"model": {"state_dict": state}},
        lambda state: {f"module.{name}": value for name, value in state.items()},
        lambda state: {"model_state_dict": {f"_orig_mod.module.{name}": value for name, value in state.items()}},
        lambda state: OrderedDict((name.replace("1.", "1.module.", 1), value) for name, value in state.items()),
        lambda state: {"epoch": 3, "global_step": 9, "state_dict": {f"model.{key}": own for key, own in state.items()}},
    ],
    ids=["bare", "state_dict", "arch", "nested", "parallel", "compiled", "inner-parallel", "lightning"],
)
def test_common_wrappings(tmp_path: Path, wrap: object) -> None:
    saved = model(1)
    torch.save(wrap(saved.state_dict()), tmp_path / "weights.pt")
    assert model_fingerprint(load_checkpoint(model(2), tmp_path / "weights.pt")) == model_fingerprint(saved)


def test_a_network_alone_keeps_the_model_s_normalisation(tmp_path: Path) -> None:
    saved = model(1)
    for number, state in enumerate(
        (
            saved[1].state_dict(),
            {f"module.{name}": value for name, value in saved[1].state_dict().items()},
            {name: value for name, value in saved.state_dict().items() if not name.startswith("0.")},
            {name: value for name, value in saved[1].state_dict().items() if not name.endswith("num_batches_tracked")},
        )
    ):
        torch.save(state, tmp_path / f"{number}.pt")
        assert model_fingerprint(load_checkpoint(model(2), tmp_path / f"{number}.pt")) == model_fingerprint(saved)


def test_a_whole_checkpoint_brings_its_normalisation(tmp_path: Path) -> None:
    saved = model(1, normalize=((0.1, 0.1, 0.1), (0.9, 0.9, 0.9)))
    save_checkpoint(saved, tmp_path / "weights.pt")
    assert load_checkpoint(model(2), tmp_path / "weights.pt")[0].mean.unique().item() == pytest.approx(0.1)


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "weights.pt"
    save_checkpoint(model(), file)
    message = refusal(model(name="lenet"), file)
    assert "the weights of LeNet, but got 7 tensors (such as conv1.bias) missing and" in message
    assert "ResNet, fc.weight of shape (7, 64), but got shape (10, 64)" in refusal(model(classes=7), file)
    assert "10 tensors (such as layer2.0.downsample.0.weight) missing" in refusal(model(shortcut="projection"), file)
    save_checkpoint(model(name="resnet56")[1], file)
    message = refusal(model(), file)
    assert "none missing and" in message
    assert "tensors (such as layer1.3.bn1.bias) too many" in message


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("legacy", [False, True])
def test_a_pickle_that_runs_code_is_refused_unrun(tmp_path: Path, legacy: bool) -> None:
    file = tmp_path / "weights.pt"
    torch.save({"state_dict": Evil(tmp_path / "owned")}, file, _use_new_zipfile_serialization=not legacy)
    assert "other pickles can run code, but got a pickle that needs posix.mkdir" in refusal(model(), file)
    assert not (tmp_path / "owned").exists()


def test_a_pickled_model_is_refused(tmp_path: Path) -> None:
    torch.save(model(), tmp_path / "model.pt")
    assert "a pickle that needs torch.nn.modules.container.Sequential" in refusal(model(), tmp_path / "model.pt")


def test_a_folder_is_called_one_and_its_weights_are_offered(tmp_path: Path) -> None:
    assert refusal(model(), tmp_path).endswith(f"but got {str(tmp_path)!r}, which is a folder.")
    save_checkpoint(model(), own := tmp_path / "model.pt")
    assert refusal(model(), tmp_path).endswith(f"which is a folder (did you mean {str(own)!r}?).")


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    target, file = model(), tmp_path / "weights.pt"
    assert "does not exist" in refusal(target, file)
    file.write_bytes(b"")
    refusal(target, file)
    file.write_bytes(b"certainly no checkpoint")
    refusal(target, file)
    save_checkpoint(model(), file)
    file.write_bytes(file.read_bytes()[:-5000])
    refusal(target, file)
    for content, held in (([1, 2], "list"), ({"epoch": 3}, "a dict of ['epoch']"), ({}, "a dict of []")):
        torch.save(content, file)
        assert f"hold a state_dict, bare or under {', '.join(WRAPPERS)}, but got {held}" in (refusal(target, file))


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "weights.pt"
    save_checkpoint(model(1), file)

    def broken(content: object, part: BinaryIO) -> None:
        part.write(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(torch, "save", broken)
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(model(2), file)
    assert model_fingerprint(load_checkpoint(model(3), file)) == model_fingerprint(model(1))
    assert [path.name for path in tmp_path.iterdir()] == ["weights.pt"]


def test_safetensors_round_trip(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    saved, file = model(1).to(memory_format=torch.channels_last), tmp_path / "weights.safetensors"
    save_checkpoint(saved, file)
    assert model_fingerprint(load_checkpoint(model(2), file)) == model_fingerprint(saved)
    tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    save_checkpoint(tied, tmp_path / "tied.safetensors")
    assert load_checkpoint(tied, tmp_path / "tied.safetensors") is tied
    file.write_bytes(file.read_bytes()[:100])
    assert "be a safetensors file" in refusal(model(2), file)


def test_without_safetensors_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "weights.safetensors"
    file.touch()
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(InputError, match="package safetensors"):
        load_checkpoint(model(), file)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("prefix", ["", "net."])
def test_usual_names_of_the_last_layer(tmp_path: Path, head: str, prefix: str) -> None:
    saved, file = model(1), tmp_path / "weights.pt"
    state = saved[1].state_dict()
    torch.save({"state_dict": {prefix + name.replace("fc.", f"{head}."): own for name, own in state.items()}}, file)
    assert model_fingerprint(load_checkpoint(model(2), file)) == model_fingerprint(saved)


@pytest.mark.parametrize("beside", ["criterion.weight", "loss.weight", "val_acc.tp", "test_metrics.MulticlassECE.n"])
def test_losses_and_metrics_beside_the_network_are_left_out(tmp_path: Path, beside: str) -> None:
    saved, file = model(1), tmp_path / "weights.pt"
    for inner in (saved, saved[1]):
        state = {f"model.{name}": own for name, own in inner.state_dict().items()}
        torch.save({"state_dict": state | {beside: torch.ones(10)}}, file)
        assert model_fingerprint(load_checkpoint(model(2), file)) == model_fingerprint(saved)


def test_what_a_prediction_may_use_is_not_left_out(tmp_path: Path) -> None:
    """A normalisation of the module's own would change what is certified; a second network may be the one meant."""
    state = {f"model.{name}": own for name, own in model(1)[1].state_dict().items()}
    for other in (
        {"normalize.mean": torch.zeros(3)},
        {name.replace("model", "ema"): own for name, own in state.items()},
    ):
        torch.save({"state_dict": state | other}, tmp_path / "weights.pt")
        assert "too many" in refusal(model(2), tmp_path / "weights.pt")


def test_one_tensor_is_one(tmp_path: Path) -> None:
    state = model(1)[1].state_dict()
    del state["fc.bias"]
    torch.save(state, tmp_path / "weights.pt")
    assert "1 tensor (such as fc.bias) missing and none too many" in refusal(model(2), tmp_path / "weights.pt")


def test_a_layer_of_another_kind_is_not_renamed(tmp_path: Path) -> None:
    state = {name.replace("fc.", "projector."): own for name, own in model(1)[1].state_dict().items()}
    torch.save(state, tmp_path / "weights.pt")
    assert "such as fc.bias" in refusal(model(2), tmp_path / "weights.pt")

"""Networks that timm names: its statistics, the evidence of the plain module, the command line, refusals.

timm imports torchvision, which imports only beside the build of torch that it was made for: elsewhere this file is
skipped, and says why. No weights are fetched.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from certcal import InputError, ace_attack, collect_evidence
from certcal.models import build_model, load_checkpoint, model_fingerprint
from certcal.models.normalization import Normalize
from certcal.smoothing import load_evidence
from command import certcal

try:
    import timm
except (ImportError, RuntimeError) as error:  # torchvision beside another build of torch raises RuntimeError
    pytest.skip(f"timm does not import here: {error}", allow_module_level=True)

pytestmark = pytest.mark.slow
SHAPE, CLASSES = (3, 32, 32), 3
INPUTS = torch.rand(4, *SHAPE, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 1, 2, 1])
NETWORKS = {
    "resnet18": {},
    "mobilenetv3_small_100": {},
    "convnext_atto": {},
    "vit_tiny_patch16_224": {"img_size": 32},  # a fixed size, which its own option changes
}
ARRAYS = ("label", "selected", "draws", "votes", "score_sum", "score_square_sum", "histogram")


def plain(name: str, *, channels: int = 3) -> nn.Module:
    """As people make it with timm alone, from the same seed as `certcals`."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return timm.create_model(name, num_classes=CLASSES, in_chans=channels, **NETWORKS[name]).eval()


def certcals(name: str, shape: tuple[int, ...] = SHAPE) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build_model(f"timm:{name}", classes=CLASSES, shape=shape, **NETWORKS[name]).eval()


def normalised(network: nn.Module) -> nn.Module:
    about = network.pretrained_cfg
    return nn.Sequential(Normalize(about["mean"], about["std"]), network)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_name_gives_the_evidence_of_the_plain_module(name: str) -> None:
    model, other = certcals(name), normalised(plain(name))
    assert torch.equal(model(INPUTS), other(INPUTS))
    one, two = (
        collect_evidence(net, (INPUTS, LABELS), sigma=0.25, n=100, n0=20, chunk=50, device="cpu")
        for net in (model, other)
    )
    for array in ARRAYS:
        assert np.array_equal(getattr(one, array), getattr(two, array)), array
    assert model_fingerprint(model) == model_fingerprint(certcals(name))


def test_the_statistics_are_those_of_timm() -> None:
    """Of two kinds of networks: ImageNet's own, and one half."""
    for name, mean, std in (
        ("resnet18", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ("vit_tiny_patch16_224", (0.5,) * 3, (0.5,) * 3),
    ):
        layer = certcals(name)[0]
        assert isinstance(layer, Normalize)
        assert torch.allclose(layer.mean.flatten(), torch.tensor(mean))
        assert torch.allclose(layer.std.flatten(), torch.tensor(std))


def test_images_of_another_number_of_channels_are_not_normalised() -> None:
    """timm has no statistics for them: --mean and --std give some."""
    model, grey = certcals("resnet18", (1, 32, 32)), INPUTS[:, :1]
    assert torch.equal(model(grey), plain("resnet18", channels=1)(grey))


def test_weights_of_timm_load_and_attacks_have_gradients(tmp_path: Path) -> None:
    network = timm.create_model("resnet18", num_classes=CLASSES).eval()
    torch.save({"state_dict_ema": None, "state_dict": network.state_dict(), "epoch": 3}, tmp_path / "net.pth.tar")
    model = load_checkpoint(certcals("resnet18"), tmp_path / "net.pth.tar")
    assert torch.equal(model.eval()(INPUTS), normalised(network)(INPUTS))
    found = ace_attack(model, INPUTS, LABELS, eta=1, omega="y", epsilon=0.01)
    assert found.inputs.shape == INPUTS.shape
    assert not torch.equal(found.inputs, INPUTS)


def test_the_command_line_certifies_a_name_with_weights(tmp_path: Path) -> None:
    network = plain("resnet18")
    torch.save(network.state_dict(), tmp_path / "net.pt")
    np.savez(tmp_path / "photos.npz", inputs=INPUTS.numpy(), labels=LABELS.numpy())
    words = ["--data", "photos.npz", "--sigma", 0.25, "--n", 250, "--no-checks", "--no-figures", "--device", "cpu"]
    certcal("certify", "mine", "--model", "timm:resnet18", "--weights", "net.pt", *words, cwd=tmp_path)
    found = load_evidence(tmp_path / "runs/mine/evidence.parquet")
    (tmp_path / "nets.py").write_text(
        "import timm\nfrom torch import nn\nfrom certcal.models.normalization import Normalize\n"
        f"def make():\n    network = timm.create_model('resnet18', num_classes={CLASSES})\n"
        "    about = network.pretrained_cfg\n"
        "    return nn.Sequential(Normalize(about['mean'], about['std']), network)\n"
    )
    torch.save(normalised(network).state_dict(), tmp_path / "whole.pt")
    certcal("certify", "plain", "--model", "nets:make", "--weights", "whole.pt", *words, cwd=tmp_path)
    other = load_evidence(tmp_path / "runs/plain/evidence.parquet")
    for array in ARRAYS:
        assert np.array_equal(getattr(found, array), getattr(other, array)), array


def test_what_timm_refuses_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"be timm: and a name of its models, but got 'resnet1': Unknown model"
    ) as told:
        build_model("timm:resnet1", classes=CLASSES, shape=SHAPE)
    assert len(str(told.value).splitlines()) == 1
    fixed = build_model("timm:vit_tiny_patch16_224", classes=CLASSES, shape=SHAPE).eval()
    with pytest.raises(InputError, match=r"accept inputs of shape \(3, 32, 32\).*224"):
        collect_evidence(fixed, (INPUTS, LABELS), sigma=0.25, n=100, n0=20, chunk=50)

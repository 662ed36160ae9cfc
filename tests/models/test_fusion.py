"""Models rewritten for inference compute the same function."""

import pytest
import torch
from torch import nn

from certcal import InputError
from certcal.models import build_model
from certcal.models.fusion import FusedConvolution, fuse
from collecting import collect

IMAGES = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def settled(model):
    """Batch-norm statistics that are not those of a fresh model."""
    generator = torch.Generator().manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.3, generator=generator)
            module.running_var.uniform_(0.5, 1.5, generator=generator)
            module.weight.data.uniform_(0.5, 1.5, generator=generator)
            module.bias.data.normal_(0, 0.3, generator=generator)
    return model.eval()


@pytest.mark.parametrize("name", ["resnet20", "preact-resnet18", "lenet"])
def test_fused_models_agree(name):
    torch.manual_seed(0)
    normalize = ([0.4, 0.5, 0.6], [0.2, 0.3, 0.25])
    model = settled(build_model(name, classes=10, channels=3, size=32, normalize=normalize))
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected, got = model(images), fuse(model, images)(images)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_residual_networks_lose_their_batch_norms_and_relus():
    fused = fuse(settled(build_model("resnet20", classes=10, channels=3, size=32)), IMAGES)
    kinds = [type(module) for module in fused.modules()]
    assert nn.BatchNorm2d not in kinds
    assert nn.ReLU not in kinds
    assert sum(isinstance(module, FusedConvolution) and module.relu for module in fused.modules()) == 19


def test_the_original_is_left_alone():
    model = settled(build_model("resnet20", classes=10, channels=3, size=32))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fuse(model, IMAGES, torch.bfloat16)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_evidence_from_a_fused_model_says_so_and_agrees():
    fused = collect(fuse=True)
    assert fused.header.precision == "float32 fused on cpu"
    assert fused.header.model == collect().header.model
    assert abs(fused.confidence - collect().confidence).max() < 1e-5


def test_half_precision_is_asked_of_convolutions_only():
    model = settled(build_model("resnet20", classes=10, channels=3, size=32, normalize=([0.5] * 3, [0.2] * 3)))
    fused = fuse(model, IMAGES, torch.bfloat16)
    dtypes = {name: value.dtype for name, value in fused.state_dict().items()}
    assert {dtype for name, dtype in dtypes.items() if "convolution" in name} == {torch.bfloat16}
    assert {dtype for name, dtype in dtypes.items() if "convolution" not in name} == {torch.float32}


def test_a_model_that_branches_on_its_data_is_refused():
    class Branching(nn.Module):
        def forward(self, x):
            return x.flatten(1)[:, :2] if x.sum() > 0 else -x.flatten(1)[:, :2]

    with pytest.raises(
        InputError, match="Expected `fuse` to be False for a model that cannot be fused, but got TraceError"
    ):
        fuse(Branching().eval(), IMAGES)
    with pytest.raises(InputError, match="to be in evaluation mode"):
        fuse(Branching().train(), IMAGES)


class Twice(nn.Module):
    """A convolution whose input is changed in place before its ReLU: fusing would move it past the change."""

    def __init__(self):
        super().__init__()
        self.conv, self.relu, self.fc = nn.Conv2d(3, 3, 3, padding=1), nn.ReLU(), nn.Linear(3, 4)

    def forward(self, x):
        h = x * 1.0
        out = self.conv(h)
        h.mul_(3.0)
        return self.fc((self.relu(out) + h).mean(dim=(2, 3)))


class Names(nn.Module):
    """Two convolutions whose names become the same when dots turn into underscores."""

    def __init__(self):
        super().__init__()
        self.a = nn.ModuleDict({"b": nn.Conv2d(3, 4, 3), "n": nn.BatchNorm2d(4)})
        self.a_b, self.a_n, self.fc = nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 4)

    def forward(self, x):
        x = torch.relu(self.a["n"](self.a["b"](x)))
        return self.fc(torch.relu(self.a_n(self.a_b(x))).mean(dim=(2, 3)))


class Shared(nn.Module):
    """One convolution used twice, once with batch-norm: folding it would change the other use."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.Linear(3, 4)

    def forward(self, x):
        return self.fc(torch.relu(self.norm(self.conv(torch.relu(self.conv(x))))).mean(dim=(2, 3)))


class Shortcut(nn.Module):
    """A sum of two convolutions, then one of a convolution and a ReLU that nothing else sees."""

    def __init__(self):
        super().__init__()
        self.a, self.b = (nn.Sequential(nn.Conv2d(3, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3)) for _ in "ab")
        self.c, self.d, self.fc = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1, bias=False), nn.Linear(3, 4)

    def forward(self, x):
        x = torch.relu(self.a(x) + self.b(x))
        return self.fc(torch.relu(self.d(x) + torch.relu(self.c(x))).mean(dim=(2, 3)))


def test_a_bias_on_a_shortcut_moves_to_the_convolution_it_is_added_to():
    fused = fuse(settled(Shortcut()), IMAGES)
    biases = [module.convolution.bias is None for module in fused.modules() if isinstance(module, FusedConvolution)]
    assert biases.count(True) == 2  # the one on the shortcut, and that which never had any


@pytest.mark.parametrize("make", [Names, Shared, Shortcut])
def test_awkward_models_are_fused_right(make):
    torch.manual_seed(0)
    model = settled(make())
    with torch.inference_mode():
        torch.testing.assert_close(fuse(model, IMAGES)(IMAGES), model(IMAGES), rtol=1e-4, atol=1e-4)


def test_a_model_that_fusing_would_change_is_refused():
    torch.manual_seed(0)
    with pytest.raises(InputError, match="Expected `fuse` to be False for a model that changes when it is fused"):
        fuse(settled(Twice()), IMAGES)

"""Models rewritten for inference compute the same function."""

import pytest
import torch
from torch import nn

from certcal import InputError
from certcal.data import build_model
from certcal.smoothing.fusion import FusedConvolution, fuse
from test_collect import collect


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
        expected, got = model(images), fuse(model)(images)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_residual_networks_lose_their_batch_norms_and_relus():
    fused = fuse(settled(build_model("resnet20", classes=10, channels=3, size=32)))
    kinds = [type(module) for module in fused.modules()]
    assert nn.BatchNorm2d not in kinds
    assert nn.ReLU not in kinds
    assert sum(isinstance(module, FusedConvolution) and module.relu for module in fused.modules()) == 19


def test_the_original_is_left_alone():
    model = settled(build_model("resnet20", classes=10, channels=3, size=32))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fuse(model, torch.bfloat16)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_evidence_from_a_fused_model_says_so_and_agrees():
    fused = collect(fuse=True)
    assert fused.header.precision == "float32 fused on cpu"
    assert fused.header.model == collect().header.model
    assert abs(fused.confidence - collect().confidence).max() < 1e-5


def test_half_precision_is_asked_of_convolutions_only():
    model = settled(build_model("resnet20", classes=10, channels=3, size=32, normalize=([0.5] * 3, [0.2] * 3)))
    fused = fuse(model, torch.bfloat16)
    dtypes = {name: value.dtype for name, value in fused.state_dict().items()}
    assert {dtype for name, dtype in dtypes.items() if "convolution" in name} == {torch.bfloat16}
    assert {dtype for name, dtype in dtypes.items() if "convolution" not in name} == {torch.float32}


def test_a_model_that_branches_on_its_data_is_refused():
    class Branching(nn.Module):
        def forward(self, x):
            return x.flatten(1)[:, :2] if x.sum() > 0 else -x.flatten(1)[:, :2]

    with pytest.raises(
        InputError, match="Expected `fuse` to be False for a model that cannot be traced, but got TraceError"
    ):
        fuse(Branching().eval())
    with pytest.raises(InputError, match="to be in evaluation mode"):
        fuse(Branching().train())

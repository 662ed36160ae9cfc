"""Lipschitz constants that networks state: of the whole, or composed of parts that all have one."""

import pytest
import torch
from torch import nn

from certcal import InputError
from certcal.certificates import intervals_by_lipschitz, lipschitz_constant
from certcal.models import Normalize, Tempered

ASKED = "Expected `constant` to be given for a network that does not carry its own, but got none for "


class Stating(nn.Module):
    """States 1 for itself, whatever is inside."""

    lipschitz_constant = 1.0

    def __init__(self, inside):
        super().__init__()
        self.inside = inside

    def forward(self, x):
        return self.inside(x)


@pytest.fixture
def torchlip():
    torch.manual_seed(0)
    return pytest.importorskip("deel.torchlip")


def slope(net, inputs, tries=300):
    """The steepest quotient seen between random pairs of inputs, and along gradients."""
    generator = torch.Generator().manual_seed(0)
    here = torch.rand(tries, inputs, generator=generator)
    steps = [0.01 * torch.randn(tries, inputs, generator=generator)]
    matrix = torch.autograd.functional.jacobian(net, here[:1])[0, :, 0]
    steps.append((1e-3 * torch.linalg.svd(matrix).Vh[0]).expand(tries, -1))
    with torch.no_grad():
        return max(float(((net(here + step) - net(here)).norm(dim=1) / step.norm(dim=1)).max()) for step in steps)


def test_a_plain_layer_beside_lipschitz_ones_has_no_constant(torchlip):
    """A part says nothing of the whole: 50 times as steep was once read as 1."""
    plain = nn.Linear(4, 3)
    with torch.no_grad():
        plain.weight.mul_(50)
    net = nn.Sequential(nn.Flatten(), torchlip.SpectralLinear(4, 4), nn.ReLU(), plain).eval()
    assert slope(net, 4) > 5
    with pytest.raises(InputError, match=f"{ASKED}Linear at 3"):
        intervals_by_lipschitz(net, torch.rand(2, 4), [0, 0], radii=0.1)
    with pytest.warns(UserWarning, match="not a Lipschitz layer"):
        theirs = torchlip.Sequential(nn.Flatten(), torchlip.SpectralLinear(4, 4), nn.Linear(4, 3))
    with pytest.raises(InputError, match=f"{ASKED}Linear at 2"):
        lipschitz_constant(theirs)
    with pytest.raises(InputError, match=f"{ASKED}Linear\\."):
        lipschitz_constant(nn.Linear(2, 2))


def test_constants_of_a_sequence_are_multiplied(torchlip):
    parts = [
        torchlip.Sequential(torchlip.SpectralLinear(4, 4, k_coef_lip=2.0), k_coef_lip=2.0),
        torchlip.Sequential(torchlip.SpectralLinear(4, 3, k_coef_lip=2.0), k_coef_lip=2.0),
    ]
    net = nn.Sequential(*parts).eval()
    assert lipschitz_constant(net) == pytest.approx(4.0, rel=1e-4)
    assert slope(net, 4) <= lipschitz_constant(net) * (1 + 1e-3)


def test_what_weights_show_is_more_than_a_container_states(torchlip):
    """deel-torchlip's Sequential overwrites what its layers state, after they scaled their weights."""
    net = torchlip.Sequential(torchlip.SpectralLinear(4, 3, k_coef_lip=10.0), k_coef_lip=1.0).eval()
    assert slope(net, 4) > 9
    assert slope(net, 4) <= lipschitz_constant(net) * (1 + 1e-3)


def test_rows_normalised_one_by_one_are_no_matrix_of_norm_1(torchlip):
    net = torchlip.FrobeniusLinear(2, 6).eval()
    assert slope(net, 2) > 1.2
    assert slope(net, 2) <= lipschitz_constant(net) * (1 + 1e-3)


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (2, 2)])
def test_convolutions_are_bounded_by_their_weights(torchlip, kernel, stride):
    layer = torchlip.SpectralConv2d(2, 4, kernel, stride=stride, padding=1, k_coef_lip=3.0).eval()
    net = nn.Sequential(nn.Unflatten(1, (2, 5, 5)), layer, nn.Flatten()).eval()
    steepest = float(torch.linalg.matrix_norm(torch.autograd.functional.jacobian(net, torch.rand(1, 50))[0, :, 0], 2))
    assert steepest <= lipschitz_constant(net) * (1 + 1e-3)
    assert lipschitz_constant(net) <= 3.0 * 1.6


def test_a_module_that_states_its_constant_states_it_for_all_that_is_inside():
    """Temperature and normalisation inside are the module's own affair; those around it count."""
    inside = Stating(nn.Sequential(Normalize([0.5], [4.0]), Tempered(nn.Linear(4, 3), 8.0)))
    assert lipschitz_constant(inside) == pytest.approx(1.0)
    assert lipschitz_constant(Tempered(inside, 0.5)) == pytest.approx(2.0)
    assert lipschitz_constant(nn.Sequential(Normalize([0.5], [0.25]), inside, nn.ReLU())) == pytest.approx(4.0)
    assert lipschitz_constant(nn.Sequential(inside, nn.Flatten(), Stating(nn.Identity()))) == pytest.approx(1.0)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), True])
def test_a_constant_that_is_none_is_refused(value):
    net = Stating(nn.Linear(2, 2))
    net.lipschitz_constant = value
    with pytest.raises(InputError, match="Expected `lipschitz_constant` to be a finite number > 0"):
        lipschitz_constant(net)


def test_a_constant_kept_as_a_buffer_is_read():
    net = nn.Linear(2, 2)
    net.register_buffer("lipschitz_constant", torch.tensor(3.0))
    assert lipschitz_constant(net) == pytest.approx(3.0)

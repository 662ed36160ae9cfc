"""Networks certified without noise: bounds of small ones against search inside the ball."""

import sys

import numpy as np
import pytest
import torch
from torch import nn

from certcal import InputError
from certcal.certificates import (
    intervals_by_lipschitz,
    intervals_by_lirpa,
    intervals_from_logits,
    lipschitz_constant,
)
from certcal.certificates.networks import SLACK
from certcal.models import Normalize, Tempered

RADII = (0.02, 0.1)


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    layers = (nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 8), nn.ReLU(), nn.Linear(8, 4))
    network = nn.Sequential(*layers)
    with torch.no_grad():
        for own in network.parameters():
            own.mul_(2.0)
    return network.eval()


@pytest.fixture(scope="module")
def images():
    generator = torch.Generator().manual_seed(1)
    return torch.rand(6, 1, 6, 6, generator=generator), torch.arange(6) % 4


def points(x, radius, norm, tries, seed):
    """Many points of the ball around one image, in the box if ℓ∞, half of them at its corners or border."""
    rng = np.random.default_rng(seed)
    moved = rng.standard_normal((tries, x.numel()))
    if norm == "linf":
        moved = np.where(rng.random((tries, 1)) < 0.5, np.sign(moved), rng.uniform(-1, 1, moved.shape))
        return (x + radius * torch.from_numpy(moved).float().reshape(-1, *x.shape)).clamp(0, 1)
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    return x + radius * (1 - 1e-6) * torch.from_numpy(moved).float().reshape(-1, *x.shape)


def climbed(net, x, own, radius, norm, sign):
    """Where 30 gradient steps take the confidence of a class, up or down."""
    at = x[None].clone()
    for _ in range(30):
        at.requires_grad_(True)
        (slope,) = torch.autograd.grad(net(at).log_softmax(dim=1)[0, own], at)
        step = slope.sign() if norm == "linf" else slope / slope.norm().clamp(min=1e-12)
        offset = (at + sign * radius / 5 * step - x).detach()
        offset = offset.clamp(-radius, radius) if norm == "linf" else offset * min(1.0, radius / float(offset.norm()))
        at = (x + offset).clamp(0, 1) if norm == "linf" else x + offset
    return at


@pytest.mark.parametrize(
    ("norm", "relaxation"), [("linf", "ibp"), ("linf", "crown-ibp"), ("linf", "crown"), ("l2", "crown")]
)
def test_nothing_in_the_ball_leaves_the_bounds(net, images, norm, relaxation):
    pytest.importorskip("auto_LiRPA", reason="the certifier lirpa needs auto_LiRPA")
    inputs, labels = images
    made = intervals_by_lirpa(net, inputs, labels, radii=RADII, norm=norm, relaxation=relaxation)
    for radius, bounds in zip(RADII, made, strict=True):
        assert bounds.radius == radius
        for n, x in enumerate(inputs):
            own = int(bounds.predicted[n])
            tried = [points(x, radius, norm, 500, seed=n), *(climbed(net, x, own, radius, norm, s) for s in (-1, 1))]
            with torch.no_grad():
                probs = net(torch.cat(tried)).double().softmax(dim=1)
            assert bounds.lower[n] <= float(probs[:, own].min())
            assert float(probs[:, own].max()) <= bounds.upper[n]
            if bounds.certified[n]:
                assert bool((probs.argmax(dim=1) == own).all())
    assert (made[0].upper - made[0].lower < made[1].upper - made[1].lower).all()


@pytest.mark.parametrize("relaxation", ["ibp", "crown-ibp", "crown"])
def test_a_tiny_network_against_every_point_of_a_grid(relaxation):
    """Two inputs, so that the whole ball is tried; without hidden layers CROWN's ends are those of the corners."""
    pytest.importorskip("auto_LiRPA", reason="the certifier lirpa needs auto_LiRPA")
    torch.manual_seed(2)
    deep, flat = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 3)), nn.Sequential(nn.Linear(2, 3))
    inputs, radius = torch.rand(5, 2), 0.3
    for network in (deep, flat):
        with torch.no_grad():
            for own in network.parameters():
                own.mul_(3.0)
        (made,) = intervals_by_lirpa(network, inputs, [0] * 5, radii=radius, relaxation=relaxation)
        for n, x in enumerate(inputs):
            sides = [torch.linspace(max(float(v) - radius, 0), min(float(v) + radius, 1), 81) for v in x]
            with torch.no_grad():
                seen = network(torch.cartesian_prod(*sides)).double().softmax(dim=1)
            own = seen[:, int(made.predicted[n])]
            assert made.lower[n] <= float(own.min())
            assert float(own.max()) <= made.upper[n]
            assert not made.certified[n] or bool((seen.argmax(dim=1) == int(made.predicted[n])).all())
            if network is flat:
                # All margins at their worst at once: where one corner is worst for both, it attains the end.
                logits = network(torch.cartesian_prod(*(side[[0, -1]] for side in sides))).double().detach()
                margins = logits[:, [int(made.predicted[n])]] - logits
                for ends, side in ((margins.amin(dim=0), made.lower[n]), (margins.amax(dim=0), made.upper[n])):
                    assert float(1 / (torch.exp(-ends).sum())) == pytest.approx(side, abs=2e-3)


def test_margins_are_narrower_than_the_box_of_logits_and_crown_than_ibp(net, images):
    lirpa = pytest.importorskip("auto_LiRPA", reason="the certifier lirpa needs auto_LiRPA")
    inputs, labels = images
    widths = {}
    for relaxation in ("ibp", "crown-ibp", "crown"):
        (own,) = intervals_by_lirpa(net, inputs, labels, radii=(0.1,), relaxation=relaxation)
        widths[relaxation] = own.upper - own.lower
    x = inputs.double()
    low, high = (x - 0.1).clamp(0, 1), (x + 0.1).clamp(0, 1)
    bounded = lirpa.BoundedModule(nn.Sequential(*net).double(), torch.zeros_like(x), device="cpu")
    ball = lirpa.PerturbationLpNorm(norm=np.inf, eps=0.1, x_L=low, x_U=high)
    with torch.no_grad():
        least, most = bounded.compute_bounds(x=(lirpa.BoundedTensor(x, ball),), method="CROWN")
    nn.Sequential(*net).float()
    with torch.no_grad():
        half = SLACK / 2 * net(inputs).double().abs().amax(dim=1, keepdim=True).clamp(min=1)  # margins have it whole
    box = intervals_from_logits(least - half, most + half, labels=labels, predicted=own.predicted)
    assert (own.lower >= box.lower - 1e-9).all()
    assert (own.upper <= box.upper + 1e-9).all()
    assert widths["crown"].mean() < 0.9 * (box.upper - box.lower).mean()
    assert (widths["crown"] <= widths["ibp"] + 1e-9).all()


def test_lipschitz_constants_are_read_from_the_network(images):
    torchlip = pytest.importorskip("deel.torchlip")
    inputs, labels = images
    torch.manual_seed(0)
    plain = torchlip.Sequential(nn.Flatten(), torchlip.SpectralLinear(36, 4), k_coef_lip=2.0)
    plain(inputs)
    model = nn.Sequential(Normalize([0.5], [0.25]), plain).eval()
    assert lipschitz_constant(plain) == pytest.approx(2.0)
    assert lipschitz_constant(Tempered(model, 0.5)) == pytest.approx(2.0 / 0.25 / 0.5)
    (made,) = intervals_by_lipschitz(model, inputs, labels, radii=(0.1,))
    for n, x in enumerate(inputs):
        with torch.no_grad():
            seen = model(points(x, 0.1, "l2", 500, seed=n)).double().softmax(dim=1)[:, int(made.predicted[n])]
        assert made.lower[n] <= float(seen.min())
        assert float(seen.max()) <= made.upper[n]


@pytest.mark.slow  # to import them
def test_orthogonal_layers_take_the_constant_that_is_given(images):
    """orthogonium's layers are 1-Lipschitz and carry no constant: the user states it, and search does not refute it."""
    layers = pytest.importorskip("orthogonium.layers")
    inputs, labels = images
    torch.manual_seed(0)
    net = nn.Sequential(layers.AdaptiveOrthoConv2d(1, 4, 3, padding=1), nn.Flatten(), layers.OrthoLinear(144, 4))
    net(inputs)
    net.eval()
    with pytest.raises(InputError, match="Expected `constant` to be given"):
        intervals_by_lipschitz(net, inputs, labels, radii=(0.1,))
    (made,) = intervals_by_lipschitz(net, inputs, labels, radii=(0.1,), constant=1.0)
    for n, x in enumerate(inputs):
        own = int(made.predicted[n])
        tries = [points(x, 0.1, "l2", 500, seed=n), *(climbed(net, x, own, 0.1, "l2", sign) for sign in (-1, 1))]
        with torch.no_grad():
            seen = torch.cat([net(one).double().softmax(dim=1)[:, own] for one in tries])
        assert made.lower[n] <= float(seen.min())
        assert float(seen.max()) <= made.upper[n]


def test_bounding_a_network_leaves_the_depth_of_recursion_as_it_was():
    """The library sets a million when it is imported, at which nested JSON of a stranger crashes Python."""
    pytest.importorskip("auto_LiRPA", reason="the certifier lirpa needs auto_LiRPA")
    before = sys.getrecursionlimit()
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    intervals_by_lirpa(net, torch.rand(2, 4), [0, 1], radii=0.1)
    assert sys.getrecursionlimit() == before


class Branching(nn.Module):
    """Surer by a factor of 3 as soon as a pixel is bright."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        logits = self.layer(x.flatten(1))
        return logits if float(x.detach().max()) <= 0.52 else 3 * logits


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_network_that_branches_by_its_input_is_refused(norm):
    pytest.importorskip("auto_LiRPA", reason="the certifier lirpa needs auto_LiRPA")
    torch.manual_seed(0)
    with pytest.raises(InputError, match="do the same operations for every input") as caught:
        intervals_by_lirpa(Branching(), torch.full((4, 4), 0.5), [0] * 4, radii=0.1, norm=norm)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("layer", [nn.Sigmoid(), nn.SiLU(), nn.MaxPool2d(2)], ids=lambda layer: type(layer).__name__)
def test_layers_that_need_tables_are_bounded_in_float64(layer):
    pytest.importorskip("auto_LiRPA", reason="the certifier lirpa needs auto_LiRPA")
    torch.manual_seed(0)
    head = nn.Linear(2 if isinstance(layer, nn.MaxPool2d) else 8, 3)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), layer, nn.Flatten(), head).eval()
    x = torch.rand(2, 1, 4, 4)
    (made,) = intervals_by_lirpa(net, x, [0, 1], radii=0.1)
    assert torch.get_default_dtype() == torch.float32
    for n, one in enumerate(x):
        with torch.no_grad():
            seen = net(points(one, 0.1, "linf", 500, seed=n)).double().softmax(dim=1)[:, int(made.predicted[n])]
        assert made.lower[n] <= float(seen.min())
        assert float(seen.max()) <= made.upper[n]


@pytest.mark.parametrize(("layer", "named"), [(nn.Hardtanh(), "HardTanh"), (nn.GELU(), "onnx::Erf")])
def test_a_layer_that_cannot_be_bounded_is_named_in_one_line(layer, named, capfd):
    pytest.importorskip("auto_LiRPA", reason="the certifier lirpa needs auto_LiRPA")
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), layer, nn.Linear(3, 2))
    with pytest.raises(
        InputError, match=f"Expected `model` to be one that auto_LiRPA can bound by CROWN.*{named}"
    ) as own:
        intervals_by_lirpa(net, torch.rand(2, 4), [0, 1], radii=0.1)
    assert "\n" not in str(own.value)
    assert "ERROR" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("last_layer", ["global", "classwise"])
def test_a_constant_that_two_points_refute_is_refused_and_the_least_one_is_not(last_layer):
    """Of a linear network the least constants are known: the norm of its matrix, and of its longest row."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 5))
    weight, images = net[1].weight.detach().double(), torch.rand(6, 1, 3, 4)
    least = float(torch.linalg.matrix_norm(weight, 2) if last_layer == "global" else weight.norm(dim=1).max())
    asked = {"radii": 0.1, "last_layer": last_layer}
    intervals_by_lipschitz(net, images, [0] * 6, constant=least, **asked)
    with pytest.raises(InputError, match="Expected `constant` to be a Lipschitz constant of the network's logits"):
        intervals_by_lipschitz(net, images, [0] * 6, constant=0.9 * least, **asked)

"""Unconstrained, our attack reaches what other libraries reach; label-preserving, it flips nothing where they do."""

import numpy as np
import pytest
import torch

from attack_models import predictions, trained_on_digits
from certcal import ace_attack
from certcal.attacks import attack, cross_entropy
from certcal.data import load_dataset

STEPS = 40


@pytest.fixture(scope="module")
def digits():
    return trained_on_digits(), *load_dataset("digits", split="test", limit=200).tensors()


@pytest.fixture(scope="module", autouse=True)
def considerate_imports(tmp_path_factory):
    """On import ART writes into the home folder, and what foolbox downloads models with insists on finding git."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("GIT_PYTHON_REFRESH", "quiet")
        import foolbox  # noqa: F401


def by_foolbox(model, x, y, *, norm, epsilon):
    import foolbox

    kind = foolbox.attacks.LinfPGD if norm == "linf" else foolbox.attacks.L2PGD
    pgd = kind(steps=STEPS, abs_stepsize=2.5 * epsilon / STEPS, random_start=False)
    return pgd(foolbox.PyTorchModel(model, bounds=(0, 1)), x, y, epsilons=epsilon)[1]


def by_art(model, x, y, *, norm, epsilon):
    from art.attacks.evasion import ProjectedGradientDescent
    from art.estimators.classification import PyTorchClassifier

    loss = torch.nn.CrossEntropyLoss()
    classifier = PyTorchClassifier(model, loss, x.shape[1:], 10, clip_values=(0, 1), device_type="cpu")
    order, step = (np.inf if norm == "linf" else 2), 2.5 * epsilon / STEPS
    pgd = ProjectedGradientDescent(
        classifier, norm=order, eps=epsilon, eps_step=step, max_iter=STEPS, batch_size=512, verbose=False
    )
    return torch.from_numpy(pgd.generate(x.numpy(), y.numpy()))


def by_torchattacks(model, x, y, *, norm, epsilon):
    """Asks for a torchvision and a requests that do not go with the rest: `pip install --no-deps torchattacks`."""
    torchattacks = pytest.importorskip("torchattacks", reason="torchattacks is installed by hand, with --no-deps")
    kind = torchattacks.PGD if norm == "linf" else torchattacks.PGDL2
    return kind(model, eps=epsilon, alpha=2.5 * epsilon / STEPS, steps=STEPS, random_start=False)(x, y)


@pytest.mark.slow
@pytest.mark.parametrize("library", [by_foolbox, by_art, by_torchattacks])
@pytest.mark.parametrize(("norm", "epsilon"), [("linf", 0.1), ("l2", 0.6)])
def test_same_loss_for_the_same_budget(digits, library, norm, epsilon):
    model, x, y = digits
    before, _ = predictions(model, x)
    theirs = library(model, x, y, norm=norm, epsilon=epsilon)
    ours = attack(model, x, y, norm=norm, epsilon=epsilon, steps=STEPS).inputs
    with torch.no_grad():
        reached = [float(cross_entropy(model(points), y).mean()) for points in (ours, theirs)]
    assert reached[0] == pytest.approx(reached[1], rel=0.01)
    flips = [int((predictions(model, points)[0] != before).sum()) for points in (ours, theirs)]
    assert min(flips) >= 24
    kept = ace_attack(model, x, y, eta=1, omega="y", norm=norm, epsilon=epsilon).inputs
    assert torch.equal(predictions(model, kept)[0], before)


@pytest.mark.slow
def test_a_random_start_reaches_as_much(digits):
    import foolbox

    model, x, y = digits
    pgd = foolbox.attacks.LinfPGD(steps=STEPS, rel_stepsize=2.5 / STEPS, random_start=True)
    torch.manual_seed(0)
    theirs = pgd(foolbox.PyTorchModel(model, bounds=(0, 1)), x, y, epsilons=0.1)[1]
    ours = attack(model, x, y, epsilon=0.1, steps=STEPS, random_start=True).inputs
    with torch.no_grad():
        reached = [float(cross_entropy(model(points), y).mean()) for points in (ours, theirs)]
    assert reached[0] == pytest.approx(reached[1], rel=0.01)

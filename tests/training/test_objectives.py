"""Objectives of training: what each reduces to, the gradients of its weights, and certificates of a batch."""

import pytest
import torch
from torch.distributions import Categorical, kl_divergence
from torch.nn.functional import cross_entropy

import certcal
from attack_models import random_inputs, random_model
from certcal.models import grid_step, to_grid
from certcal.training import ObjectiveSettings, make_objective
from certcal.training.aims import SmoothAdv
from certcal.training.copies import weight_loss
from certcal.training.search import search
from training_oracles import mean_probs
from training_problems import AIMS, SIGMA, SMOOTHED, N, gradients, known, make_aim, noise_of, setting, step_of


@pytest.mark.parametrize("update", ["each", "smoothed"])
@pytest.mark.parametrize("name", SMOOTHED)
def test_without_adversary_every_objective_is_noise_training(name, update):
    model, (inputs, labels) = random_model(1), random_inputs(1, N)
    found = []
    for which in (name, "noise"):
        chosen = known(which, draws=3, update=update, consistency=0.0, entropy=0.0)
        loss = make_objective(chosen)(model, inputs, labels, step_of(5, epsilon=0.0))
        found.append((loss, gradients(model, loss)))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


def test_noise_training_is_the_cross_entropy_of_noisy_copies():
    model, inputs, labels, copies, step, _ = setting(2)
    loss = make_objective(ObjectiveSettings(name="noise", draws=3))(model, inputs, labels, step)
    rounded = to_grid(inputs, 2.0**-20).double()
    each = [cross_entropy(model(rounded + noise_of(copies)[:, j]), labels) for j in range(3)]
    assert loss.item() == pytest.approx(sum(each).item() / 3, rel=1e-12)
    assert copies.noise.std().item() == pytest.approx(SIGMA, rel=0.1)


def test_consistency_adds_the_divergence_of_copies_from_their_mean_and_its_entropy():
    model, inputs, labels, copies, _, _ = setting(2)
    probs = torch.stack([model(to_grid(inputs, 2.0**-20) + noise_of(copies)[:, j]).softmax(1) for j in range(3)])
    mean = Categorical(probs=probs.mean(dim=0))
    divergence = sum(kl_divergence(mean, Categorical(probs=one)) for one in probs) / 3
    losses = []
    for divergence_weight, entropy_weight in ((0.0, 0.0), (7.0, 0.0), (0.0, 0.25)):
        options = {"draws": 3, "consistency": divergence_weight, "entropy": entropy_weight}
        objective = make_objective(ObjectiveSettings(name="consistency", **options))
        losses.append(objective(model, inputs, labels, step_of(2, epsilon=0.5)).item())
    assert divergence.mean().item() > 0.001
    assert losses[1] - losses[0] == pytest.approx(7 * divergence.mean().item(), rel=1e-9)
    assert losses[2] - losses[0] == pytest.approx(0.25 * mean.entropy().mean().item(), rel=1e-9)


def test_one_copy_agrees_with_itself():
    with pytest.raises(certcal.errors.InputError, match="Expected `draws` to be an integer ≥ 2, but got 1"):
        ObjectiveSettings(name="consistency", draws=1)


@pytest.mark.parametrize("name", SMOOTHED)
@pytest.mark.parametrize("sigma", [0.25, 1.0])
def test_models_are_trained_on_the_grid_that_evidence_is_drawn_on(name, sigma):
    """The smoothed model that training sees is the certified one: inputs and noise are rounded as there."""
    seen, model, (inputs, labels) = [], random_model(1, dtype=torch.float32), random_inputs(1, N, dtype=torch.float32)
    model.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
    objective = make_objective(known(name, draws=2, steps=2, radius=0.5))
    objective(model, inputs, labels, step_of(5, epsilon=0.5, sigma=sigma)).backward()
    steps = torch.cat(seen) / grid_step(sigma)
    assert torch.equal(steps, steps.round())
    assert not torch.equal(inputs / grid_step(sigma), (inputs / grid_step(sigma)).round())


def test_smoothed_update_is_the_cross_entropy_of_the_mean_probabilities_and_no_larger():
    model, inputs, labels, copies, *_ = setting(2)
    options = {"name": "smoothadv", "draws": 3, "steps": 2}
    losses = {}
    for update in ("each", "smoothed"):
        chosen = ObjectiveSettings(update=update, **options)
        losses[update] = make_objective(chosen)(model, inputs, labels, step_of(2, epsilon=0.5)).item()
    point = search(copies, inputs, SmoothAdv(labels), 0.5, ObjectiveSettings(**options))
    probs = mean_probs(model, to_grid(point, 2.0**-20).double(), noise_of(copies))
    assert losses["smoothed"] == pytest.approx(-probs[range(N), labels].log().mean().item(), rel=1e-9)
    assert losses["smoothed"] < losses["each"]


@pytest.mark.parametrize("random_start", [True, False])
def test_pgd_without_budget_is_cross_entropy(random_start):
    model, (inputs, labels) = random_model(1), random_inputs(1, N)
    chosen = ObjectiveSettings(name="pgd", random_start=random_start)
    loss = make_objective(chosen)(model, inputs, labels, step_of(0, epsilon=0.0))
    plain = make_objective(ObjectiveSettings(name="ce"))(model, inputs, labels, step_of(0, epsilon=0.0))
    assert torch.equal(loss, plain)
    assert torch.equal(plain, cross_entropy(model(inputs), labels))


def test_whole_weight_on_cross_entropy_makes_acce_act_star_acce_act():
    model, inputs, labels, _, _, _ = setting(3)
    pair = [
        make_objective(known(name, eta=1.0))(model, inputs, labels, step_of(3, epsilon=0.4))
        for name in ("acce-act*", "acce-act")
    ]
    assert torch.equal(*pair)


@pytest.mark.parametrize("name", [name for name in SMOOTHED if name != "acce-act*"])  # which has a test of its own
def test_weight_gradients_agree_with_finite_differences(name):
    """Of the loss with the adversary held where it is: by Danskin's theorem its own movement does not count."""
    model, inputs, labels, copies, step, chosen = setting(10, name=name, n=8)
    objective = make_objective(chosen)
    ours = gradients(model, objective(model, inputs, labels, step_of(10, epsilon=0.5)))
    aim = make_aim(name, labels, step, chosen) if name in AIMS else None
    point = search(copies, inputs, aim, 0.5, chosen) if aim is not None else inputs
    torch.manual_seed(0)
    ways = [torch.randn_like(weight) for weight in model.parameters()]

    def value(size):
        with torch.no_grad():
            for weight, way in zip(model.parameters(), ways, strict=True):
                weight.add_(size * way)
        if name in AIMS:
            loss = weight_loss(copies.logits(point), labels, chosen.draws, "each").item()
        else:
            loss = objective(model, inputs, labels, step_of(10, epsilon=0.5)).item()
        with torch.no_grad():
            for weight, way in zip(model.parameters(), ways, strict=True):
                weight.sub_(size * way)
        return loss

    slope = (value(1e-6) - value(-1e-6)) / 2e-6
    along = sum((part * way.flatten()).sum() for part, way in zip(split(model, ours), ways, strict=True))
    assert along.item() == pytest.approx(slope, rel=1e-4)


def split(model, flat):
    return flat.split([weight.numel() for weight in model.parameters()])


SCORES = {
    "brier": certcal.certified_brier_score,
    "log": certcal.worstcase.certified_log_score,
    "cce": certcal.certified_calibration_error,
}


@pytest.mark.parametrize("population", ["all", "certified"])
@pytest.mark.parametrize(
    ("score", "alpha"), [("brier", None), ("brier", 0.5), ("log", None), ("cce", None), ("cce", 0.5)]
)
def test_certified_objectives_add_the_certified_score_of_few_draw_bounds(score, alpha, population):
    name, draws, radius = f"certified-{score}", 20, 0.05
    model, inputs, labels, copies, _, _ = setting(11, draws=draws, scale=12.0, n=30)
    options = {"draws": draws, "radius": radius, "alpha": alpha, "population": population, "weight": 2.5}
    loss = make_objective(ObjectiveSettings(name=name, **options))(model, inputs, labels, step_of(11, epsilon=0.0))
    probs = mean_probs(model, inputs, noise_of(copies, 30)).detach().numpy()
    predicted, confidence = probs.argmax(axis=1), probs.max(axis=1)
    limits = certcal.certificates.cells.MeanLimits(confidence, confidence)
    if alpha is not None:
        limits = certcal.certificates.cells.MeanLimits(*certcal.means.hoeffding(confidence * draws, draws, alpha=alpha))
    lower, upper = limits.at(radius / SIGMA)
    correct = predicted == labels.numpy()
    keep = lower >= 0.5 if population == "certified" else slice(None)
    assert len(lower[keep]) > 0
    expected = SCORES[score](lower[keep], upper[keep], correct[keep]).value
    noise = make_objective(ObjectiveSettings(name="noise", draws=draws))(
        model, inputs, labels, step_of(11, epsilon=0.0)
    )
    assert (loss - noise).item() / 2.5 == pytest.approx(expected, rel=1e-6)


def test_radius_of_the_certificate_is_that_of_the_step_unless_given():
    model, inputs, labels, *_ = setting(12)
    pair = [
        make_objective(ObjectiveSettings(name="certified-brier", radius=radius))(
            model, inputs, labels, step_of(1, epsilon=epsilon)
        )
        for radius, epsilon in ((None, 0.3), (0.3, 0.9))
    ]
    assert torch.equal(*pair)


def test_certificate_on_top_of_smoothadv():
    model, inputs, labels, *_ = setting(12)
    values = {}
    for name, options in (
        ("smoothadv", {}),
        ("certified-cce", {"base": "smoothadv"}),
        ("certified-cce", {}),
        ("noise", {}),
    ):
        objective = make_objective(ObjectiveSettings(name=name, **options))
        values[name, options.get("base")] = objective(model, inputs, labels, step_of(1, epsilon=0.3)).item()
    term = values["certified-cce", None] - values["noise", None]
    assert values["certified-cce", "smoothadv"] - values["smoothadv", None] == pytest.approx(term, rel=1e-9)


@pytest.mark.parametrize("name", ["certified-brier", "certified-log", "certified-cce"])
def test_saturated_models_have_finite_gradients(name):
    model, (inputs, labels) = random_model(13, scale=3000.0), random_inputs(13, N)
    loss = make_objective(ObjectiveSettings(name=name, radius=1.0))(model, inputs, labels, step_of(1, epsilon=0.0))
    assert loss.isfinite()
    assert gradients(model, loss).isfinite().all()


def test_no_input_that_seems_certified_leaves_the_cross_entropy():
    model, (inputs, labels) = random_model(13, scale=0.01), random_inputs(13, N)
    options = {"radius": 5.0, "population": "certified"}
    loss = make_objective(ObjectiveSettings(name="certified-cce", **options))(
        model, inputs, labels, step_of(1, epsilon=0.0)
    )
    noise = make_objective(ObjectiveSettings(name="noise"))(model, inputs, labels, step_of(1, epsilon=0.0))
    assert loss.item() == noise.item()
    assert torch.equal(gradients(model, loss), gradients(model, noise))

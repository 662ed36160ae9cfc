"""Objectives of training: each on what defines it, beside slow transcriptions of the papers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

import certcal
from attack_models import random_inputs, random_model
from certcal import CertcalError, InputError
from certcal.training import OBJECTIVES, ObjectiveSettings, Step, make_objective
from certcal.training.acce import Acce
from certcal.training.aims import Brier, Cce, SmoothAdv, towards
from certcal.training.copies import Copies, log_mean, weight_loss
from certcal.training.linf import climb_cross_entropy
from certcal.training.search import look, search
from certcal.worstcase import WorstCaseProblem
from training_oracles import algorithm2, ascend, mean_probs, worst_case_directions

SIGMA, N = 0.3, 10
SMOOTHED = [name for name in OBJECTIVES if name not in ("ce", "pgd")]
AIMS = ("smoothadv", "brier-act", "acce-act", "cce-act")


def step_of(seed, *, epsilon, sigma=SIGMA, device="cpu"):
    return Step(sigma=sigma, epsilon=epsilon, generator=torch.Generator(device).manual_seed(seed))


def make_aim(name, labels, step, options):
    plain = {"smoothadv": lambda: SmoothAdv(labels), "brier-act": lambda: Brier(labels)}
    return plain[name]() if name in plain else {"acce-act": Acce, "cce-act": Cce}[name](labels, step, options)


def setting(seed=0, *, epsilon=0.5, n=N, dtype=torch.float64, scale=3.0, **options):
    """A model, a batch, its copies with their noise, a step and settings."""
    model = random_model(seed, dtype=dtype, scale=scale)
    inputs, labels = random_inputs(seed, n, dtype=dtype)
    chosen = ObjectiveSettings(**{"name": "smoothadv", "draws": 3, "steps": 3} | options)
    step = step_of(seed, epsilon=epsilon)
    copies = Copies.drawn(model, inputs, step_of(seed, epsilon=epsilon), chosen.draws)
    return model, inputs, labels, copies, step, chosen


def attacked(seed=0, **options):
    _, inputs, labels, copies, step, chosen = setting(seed, **options)
    aim = make_aim(chosen.name, labels, step, chosen)
    return search(copies, inputs, aim, step.epsilon, chosen), aim


def gradients(model, loss):
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])


def noise_of(copies, n=N):
    return copies.noise.reshape(n, copies.draws, *copies.noise.shape[1:])


# What reduces to what


@pytest.mark.parametrize("update", ["each", "smoothed"])
@pytest.mark.parametrize("name", SMOOTHED)
def test_without_adversary_every_objective_is_noise_training(name, update):
    model, (inputs, labels) = random_model(1), random_inputs(1, N)
    found = []
    for which in (name, "noise"):
        objective = make_objective(ObjectiveSettings(name=which, draws=3, update=update))
        loss = objective(model, inputs, labels, step_of(5, epsilon=0.0))
        found.append((loss, gradients(model, loss)))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


def test_noise_training_is_the_cross_entropy_of_noisy_copies():
    model, inputs, labels, copies, step, _ = setting(2)
    loss = make_objective(ObjectiveSettings(name="noise", draws=3))(model, inputs, labels, step)
    each = [cross_entropy(model(inputs + noise_of(copies)[:, j]), labels) for j in range(3)]
    assert loss.item() == pytest.approx(sum(each).item() / 3, rel=1e-12)
    assert copies.noise.std().item() == pytest.approx(SIGMA, rel=0.1)


def test_smoothed_update_is_the_cross_entropy_of_the_mean_probabilities_and_no_larger():
    model, inputs, labels, copies, *_ = setting(2)
    options = {"name": "smoothadv", "draws": 3, "steps": 2}
    losses = {}
    for update in ("each", "smoothed"):
        chosen = ObjectiveSettings(update=update, **options)
        losses[update] = make_objective(chosen)(model, inputs, labels, step_of(2, epsilon=0.5)).item()
    point = search(copies, inputs, SmoothAdv(labels), 0.5, ObjectiveSettings(**options))
    probs = mean_probs(model, point, noise_of(copies))
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
        make_objective(ObjectiveSettings(name=name, eta=1.0))(model, inputs, labels, step_of(3, epsilon=0.4))
        for name in ("acce-act*", "acce-act")
    ]
    assert torch.equal(*pair)


# Adversaries


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(AIMS),
    epsilon=st.sampled_from([1e-3, 0.2, 1.5]),
    factor=st.sampled_from([0.1, 1.0, 2.0]),
    box=st.booleans(),
    gradient=st.sampled_from(["backprop", "stein"]),
)
def test_adversaries_stay_in_the_ball(seed, name, epsilon, factor, box, gradient):
    options = {"name": name, "step_factor": factor, "box": box, "gradient": gradient, "dtype": torch.float32}
    point, _ = attacked(seed, epsilon=epsilon, **options)
    _, inputs, *_ = setting(seed, **options)
    distance = (point.double() - inputs.double()).flatten(1).norm(dim=1)
    assert (distance <= epsilon).all()
    assert distance.max() <= 2 * factor * epsilon + 1e-5
    if box:
        assert point.min() >= 0
        assert point.max() <= 1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", AIMS)
def test_adversaries_raise_what_they_aim_at(name, seed):
    options = {"name": name, "n": 40, "steps": 6, "scale": 1.5}
    model, inputs, labels, copies, *_ = setting(seed, epsilon=0.3, **options)
    point, aim = attacked(seed, epsilon=0.3, **options)
    before, after = (mean_probs(model, at, noise_of(copies, 40)).detach() for at in (inputs, point))
    predicted = before.argmax(dim=1)
    correct = (predicted == labels).double()
    z = [probs.gather(1, predicted[:, None]).squeeze(1) for probs in (before, after)]
    if name == "smoothadv":
        own = [probs.gather(1, labels[:, None]) for probs in (before, after)]
        assert (own[1] < own[0]).all()
    elif name == "brier-act":
        assert ((correct - z[1]).square() > (correct - z[0]).square()).all()
    elif name == "acce-act":  # at the assignment it ended with
        assert aim.error(z[1]) > aim.error(z[0]) + 0.1
    else:
        ece = [certcal.expected_calibration_error(part, correct) for part in z]
        assert ece[1] > ece[0] + 0.01


def test_smoothadv_is_ascent_on_the_smoothed_cross_entropy():
    for seed, factor in ((0, 1.0), (1, 0.3)):
        model, inputs, labels, copies, _, _ = setting(seed, step_factor=factor)
        point, _ = attacked(seed, step_factor=factor)

        def loss(probs, t, labels=labels):
            return -probs.gather(1, labels[:, None]).log().sum()

        literal = ascend(model, inputs, noise_of(copies), loss, epsilon=0.5, steps=3, factor=factor)
        torch.testing.assert_close(point, literal, rtol=0, atol=2e-6)


def test_brier_act_is_ascent_on_the_brier_score_of_the_first_prediction():
    model, inputs, labels, copies, _, _ = setting(4)
    point, _ = attacked(4, name="brier-act")
    predicted = mean_probs(model, inputs, noise_of(copies)).argmax(dim=1)
    correct = (predicted == labels).double()
    assert 0 < correct.sum() < N

    def score(probs, t):
        return (correct - probs.gather(1, predicted[:, None]).squeeze(1)).square().sum()

    literal = ascend(model, inputs, noise_of(copies), score, epsilon=0.5, steps=3)
    torch.testing.assert_close(point, literal, rtol=0, atol=2e-6)


@pytest.mark.parametrize(("seed", "growth", "steps"), [(0, 0.1, 5), (1, 0.5, 8), (2, 0.0, 3)])
def test_acce_act_is_algorithm_2(seed, growth, steps):
    rho = {"rho": 0.05, "rho_growth": growth, "assignment_rate": 0.1}
    options = {"name": "acce-act", "n_bins": 5, "steps": steps, "step_factor": 0.7, **rho}
    model, inputs, labels, copies, _, _ = setting(seed, **options)
    point, aim = attacked(seed, epsilon=0.1, **options)
    literal, program, predicted = algorithm2(
        model, inputs, labels, noise_of(copies), sigma=SIGMA, epsilon=0.1, steps=steps, factor=0.7,
        bins=5, rho=0.05, growth=growth, rate=0.1,
    )  # fmt: skip
    torch.testing.assert_close(point, literal, rtol=0, atol=2e-6)
    flat = aim.state.a[0].T.flatten()
    torch.testing.assert_close(flat, program.a, rtol=0, atol=1e-6)
    assert program.K.sum() > 0
    for ours, theirs in zip((aim.state.dual1, aim.state.dual2), program.dual[:2], strict=True):
        torch.testing.assert_close(ours[0].T.flatten(), theirs, rtol=0, atol=1e-6)
    for ours, theirs in zip((aim.state.dual3, aim.state.dual4), program.dual[2:], strict=True):
        torch.testing.assert_close(ours.flatten(), theirs, rtol=0, atol=1e-6)
    assert aim.state.rho.item() == pytest.approx(program.rho[0], rel=1e-9)
    assert torch.equal(aim.predicted, predicted)


def test_acce_act_star_adds_the_error_at_the_last_assignment():
    options = {"name": "acce-act*", "n_bins": 5, "eta": 0.7, "steps": 3}
    model, inputs, labels, copies, _, _ = setting(5, **options)
    point, program, predicted = algorithm2(
        model, inputs, labels, noise_of(copies), sigma=SIGMA, epsilon=0.5, steps=3, factor=1.0,
        bins=5, rho=0.01, growth=0.1, rate=0.1,
    )  # fmt: skip
    error = program.error(
        mean_probs(model, point, noise_of(copies)).gather(1, predicted[:, None]).squeeze(1), program.a
    )
    entropy = weight_loss(copies.logits(point), labels, 3, "each")
    for reduction, divisor in (("sum", 1), ("mean", N)):
        chosen = ObjectiveSettings(draws=3, reduction=reduction, **options)
        loss = make_objective(chosen)(model, inputs, labels, step_of(5, epsilon=0.5))
        literal = 0.7 * entropy + 0.3 * error / divisor
        assert loss.item() == pytest.approx(literal.item(), rel=1e-5)
        ours, theirs = gradients(model, loss), torch.autograd.grad(literal, list(model.parameters()), retain_graph=True)
        torch.testing.assert_close(ours, torch.cat([part.flatten() for part in theirs]), rtol=0, atol=1e-4)


def residuals(aim):
    """‖C'a − 1‖ and ‖K'a‖: one bin for each input, and none out of reach."""
    a, blocked = aim.state.a, aim.program.blocked
    return float((a.sum(dim=1) - 1).norm()), float((a * blocked).sum(dim=1).norm())


@pytest.mark.parametrize("seed", range(3))
def test_constraint_residuals_of_acce_act_fall_over_steps(seed, monkeypatch):
    signs, seen = Acce.signs, []

    def recorded(aim, view, step):
        found = signs(aim, view, step)
        seen.append(residuals(aim))
        return found

    monkeypatch.setattr(Acce, "signs", recorded)
    rates = {"rho": 0.1, "rho_growth": 0.1, "assignment_rate": 0.005}  # small enough to be stable once ρ is at its cap
    attacked(seed, name="acce-act", n=60, n_bins=6, epsilon=0.2, steps=60, step_factor=0.5, **rates)
    unique, valid = np.array(seen).T
    assert valid[-10:].mean() < 0.4 * valid[0]
    assert np.hypot(unique, valid)[-10:].mean() < 0.5 * np.hypot(unique, valid)[0]


def test_growing_rho_governs_how_early_the_constraints_are_enforced():
    options = {"name": "acce-act", "n": 60, "n_bins": 6, "epsilon": 0.2, "steps": 10}
    seen = [residuals(attacked(0, rho_growth=growth, **options)[1]) for growth in (0.01, 0.1, 0.5)]
    assert seen[0] > seen[1] > seen[2]
    assert seen[0][1] > seen[1][1] > seen[2][1]


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_cce_directions_are_those_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    n, bins = 5, 4
    lower, upper = np.sort(rng.random((2, n)), axis=0)
    confidence = lower + rng.random(n) * (upper - lower)
    correct = rng.random(n) < 0.5
    problem = WorstCaseProblem.checked(lower, upper, correct, n_bins=bins)
    value, directions = worst_case_directions(lower, upper, correct, confidence, bins=bins)
    assert certcal.certified_calibration_error(lower, upper, correct, n_bins=bins).value == pytest.approx(value)
    np.testing.assert_array_equal(towards(problem, confidence), directions)


def test_cce_solves_again_for_what_is_left_at_every_step():
    options = {"name": "cce-act", "steps": 4, "n_bins": 4, "step_factor": 0.4}
    model, inputs, labels, copies, step, chosen = setting(6, epsilon=0.25, **options)
    normal = torch.distributions.Normal(0.0, 1.0)
    first, predicted = None, None

    def objective(probs, t):
        nonlocal first, predicted
        predicted = probs.argmax(dim=1) if t == 0 else predicted
        z = probs.gather(1, predicted[:, None]).squeeze(1)
        here = normal.icdf(z.detach())
        first = (here - 0.25 / SIGMA, here + 0.25 / SIGMA) if t == 0 else first
        here, left = here.clamp(*first), (4 - t) * (2 * 0.4 * 0.25 / 4) / SIGMA
        low, high = torch.maximum(first[0], here - left), torch.minimum(first[1], here + left)
        bounds = (normal.cdf(side).numpy() for side in (low, high))
        _, way = worst_case_directions(*bounds, (predicted == labels).numpy(), z.detach().numpy(), bins=4)
        return (torch.from_numpy(way) * z).sum()

    literal = ascend(model, inputs, noise_of(copies), objective, epsilon=0.25, steps=4, factor=0.4)
    point = search(copies, inputs, Cce(labels, step, chosen), 0.25, chosen)
    torch.testing.assert_close(point, literal, rtol=0, atol=2e-6)


@pytest.mark.parametrize("random_start", [True, False])
def test_pgd_stays_in_ball_and_box_and_raises_the_cross_entropy(random_start):
    model, (inputs, labels) = random_model(7), random_inputs(7, 50)
    chosen = ObjectiveSettings(name="pgd", steps=5, random_start=random_start)
    point = climb_cross_entropy(model, inputs, labels, step_of(0, epsilon=8 / 255), chosen)
    assert (point.double() - inputs.double()).abs().max() <= 8 / 255
    assert point.min() >= 0
    assert point.max() <= 1
    each = [cross_entropy(model(at), labels, reduction="none") for at in (inputs, point)]
    assert (each[1] >= each[0]).float().mean() > 0.95
    if not random_start:
        literal = inputs
        for _ in range(5):
            at = literal.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(cross_entropy(model(at), labels), at)
            moved = literal + 2 / 5 * 8 / 255 * gradient.sign()
            literal = torch.clamp(moved, inputs - 8 / 255, inputs + 8 / 255).clamp(0, 1)
        torch.testing.assert_close(point, literal, rtol=0, atol=1e-6)


# Gradients


def test_uphill_is_the_gradient_of_the_smoothed_probability():
    model, inputs, labels, copies, _, _ = setting(8, n=3)
    view = look(copies, inputs, labels, "backprop")
    probs = mean_probs(model, inputs, noise_of(copies, 3))
    torch.testing.assert_close(view.confidence, probs.gather(1, labels[:, None]).squeeze(1), rtol=1e-6, atol=0)
    torch.testing.assert_close(view.confidence + view.rest, torch.ones_like(view.rest))
    slope = torch.zeros_like(inputs).flatten(1)
    for entry in range(slope.shape[1]):
        nudge = torch.zeros_like(slope)
        nudge[:, entry] = 1e-5
        up, down = (mean_probs(model, inputs + s * nudge.reshape(inputs.shape), noise_of(copies, 3)) for s in (1, -1))
        slope[:, entry] = (up - down).gather(1, labels[:, None]).squeeze(1) / 2e-5
    found = view.uphill.flatten(1)
    torch.testing.assert_close(found / found.norm(dim=1, keepdim=True), slope / slope.norm(dim=1, keepdim=True))


def test_stein_gradient_points_where_backpropagation_does():
    _, inputs, labels, copies, _, _ = setting(9, n=4, draws=4000, scale=1.0)
    stein, backprop = (look(copies, inputs, labels, kind).uphill.flatten(1) for kind in ("stein", "backprop"))
    assert (nn.functional.cosine_similarity(stein, backprop, dim=1) > 0.9).all()
    _, inputs, labels, few, _, _ = setting(9, n=4, draws=2, scale=1.0)
    view = look(few, inputs, labels, "stein")  # by hand: (p_1 − p_2)(δ_1 − δ_2) / 2
    noise = noise_of(few, 4)
    probs = few.logits(inputs).softmax(dim=1).reshape(4, 2, -1)
    own = probs.gather(2, labels[:, None, None].expand(4, 2, 1))[..., 0]
    by_hand = ((own[:, 0] - own[:, 1]) / 2).reshape(4, 1, 1, 1) * (noise[:, 0] - noise[:, 1])
    torch.testing.assert_close(view.uphill, by_hand.detach(), rtol=1e-9, atol=1e-12)


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


# Certificates of the batch


SCORES = {
    "brier": certcal.certified_brier_score,
    "log": certcal.certified_log_score,
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


# What surrounds them


@pytest.mark.parametrize("name", OBJECTIVES)
def test_everything_random_comes_from_the_generator(name):
    model, (inputs, labels) = random_model(14), random_inputs(14, N)
    objective, seen = make_objective(ObjectiveSettings(name=name)), []
    for seed in (3, 3, 4):
        torch.manual_seed(len(seen))
        loss = objective(model, inputs, labels, step_of(seed, epsilon=0.3))
        seen.append((loss.item(), gradients(model, loss)))
    assert seen[0][0] == seen[1][0]
    assert torch.equal(seen[0][1], seen[1][1])
    assert (seen[0][0] == seen[2][0]) == (name == "ce")


@pytest.mark.parametrize("name", OBJECTIVES)
def test_lower_precision(name):
    model, (inputs, labels) = random_model(15), random_inputs(15, 30)
    objective = make_objective(ObjectiveSettings(name=name, reduction="mean", radius=0.3))
    full = objective(model, inputs, labels, step_of(3, epsilon=0.3)).item()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = objective(model, inputs, labels, step_of(3, epsilon=0.3))
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(full, rel=0.05)
    assert gradients(model, half).isfinite().all()


class Guarded(nn.Module):
    """Batch norm, dropout, a frozen layer, and a fuse that blows in evaluation mode."""

    def __init__(self, *, fuse=False):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
        self.body[1].weight.requires_grad_(False)
        self.body[3].eval()
        self.fuse, self.searched = fuse, 0

    def forward(self, inputs):
        if not self.training:
            self.searched += 1
            if self.fuse:
                raise RuntimeError("blown")
        return self.body(inputs)


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("name", [*AIMS, "acce-act*", "pgd"])
def test_search_leaves_the_model_as_it_was(name, fuse):
    torch.manual_seed(0)
    model = Guarded(fuse=fuse).train()
    model.body[3].eval()
    inputs, labels = random_inputs(0, N)
    objective = make_objective(ObjectiveSettings(name=name, steps=3))
    if fuse:
        with pytest.raises(RuntimeError, match="blown"):
            objective(model, inputs, labels, step_of(0, epsilon=0.2))
    else:
        objective(model, inputs, labels, step_of(0, epsilon=0.2))
        assert model.searched == 3
    assert [module.training for module in model.body] == [True, True, True, False, True]
    assert [weight.requires_grad for weight in model.parameters()] == [False] + [True] * 5
    assert all(weight.grad is None for weight in model.parameters())
    assert int(model.body[2].num_batches_tracked) == (0 if fuse else 1)  # the pass of the weights


@pytest.mark.parametrize("name", OBJECTIVES)
def test_diverged_models_are_told_in_one_line(name):
    model, (inputs, labels) = random_model(16), random_inputs(16, N)
    with torch.no_grad():
        model[-1].weight.fill_(torch.nan)
    with pytest.raises(CertcalError, match=r"is nan: training has diverged; try a smaller learning rate\.$") as caught:
        make_objective(ObjectiveSettings(name=name))(model, inputs, labels, step_of(0, epsilon=0.2))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "act"}, r"`objective` to be one of 'ce', 'noise'.*but got 'act'"),
        ({"draws": 0}, r"`draws` to be an integer ≥ 1, but got 0"),
        ({"steps": 2.0}, r"`steps` to be an integer ≥ 1, but got 2.0"),
        ({"step_factor": 0}, r"`step_factor` to lie in \(0, 1e4\], but got 0"),
        ({"update": "both"}, r"`update` to be one of 'each', 'smoothed', but got 'both'"),
        ({"gradient": "stein", "draws": 1}, r"`gradient` to be 'backprop'.*draws = 1"),
        ({"gradient": "stein", "name": "pgd"}, r"`gradient` to be 'backprop'.*'pgd'"),
        ({"eta": 1.5}, r"`eta` to lie in \[0, 1\], but got 1.5"),
        ({"alpha": 1.0}, r"`alpha` to lie in the open interval"),
        ({"radius": -1.0}, r"`radius` to be a finite number ≥ 0, but got -1.0"),
        ({"weight": float("nan")}, r"`weight` to be a finite number ≥ 0, but got nan"),
        ({"n_bins": 0}, r"`n_bins` to be an integer ≥ 1, but got 0"),
        ({"rho_growth": -0.1}, r"`rho_growth` to lie in"),
        ({"box": 1}, r"`box` to be True or False, but got 1"),
        ({"population": "some"}, r"`population` to be one of"),
    ],
)
def test_wrong_settings_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        make_objective(ObjectiveSettings(**{"name": "noise"} | options))


@pytest.mark.parametrize("values", [{"sigma": -0.1, "epsilon": 0.0}, {"sigma": 0.1, "epsilon": float("nan")}])
def test_wrong_steps_are_refused(values):
    with pytest.raises(InputError, match=r"`(sigma|epsilon)` to be a finite number ≥ 0"):
        Step(**values, generator=torch.Generator())


@pytest.mark.parametrize("gradient", ["backprop", "stein"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_runs_without_noise_and_on_the_device(name, gradient, device):
    model, (inputs, labels) = random_model(17).to(device), random_inputs(17, N)
    chosen = ObjectiveSettings(name=name, gradient="backprop" if name == "pgd" else gradient, radius=0.2)
    for sigma in (0.0, 0.3):
        step = step_of(0, epsilon=0.3, sigma=sigma, device=device)
        loss = make_objective(chosen)(model, inputs.to(device), labels.to(device), step)
        assert loss.device.type == torch.device(device).type
        assert gradients(model, loss).isfinite().all()


def test_half_precision_inputs_are_refused():
    model, (inputs, labels) = random_model(0), random_inputs(0, N)
    for name in ("noise", "pgd"):
        with pytest.raises(InputError, match=r"`inputs` to be float32 or float64, but got torch\.bfloat16"):
            make_objective(ObjectiveSettings(name=name))(model, inputs.bfloat16(), labels, step_of(0, epsilon=0.1))


def test_log_mean_keeps_digits_where_probabilities_underflow():
    logits = torch.tensor([[200.0, 0.0], [199.0, 0.0]])
    assert log_mean(logits, 2)[0, 1].item() == pytest.approx(-199.379886, rel=1e-6)

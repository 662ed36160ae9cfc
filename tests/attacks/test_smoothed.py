"""Adversaries of smoothed models whose truth is known in closed form."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given
from hypothesis import strategies as st

from attack_models import probit_problem, random_inputs, random_model
from attack_oracles import inside
from certcal import InputError, certified_calibration_error, expected_calibration_error, top_label_brier_score
from certcal.attacks import Adversary, Norm, attack_calibration, estimate_smoothed
from certcal.attacks.adversaries import acce_adversary, aims
from certcal.attacks.climb_settings import Settings
from certcal.attacks.smoothed import Scene, signed_log_odds, smoothed
from certcal.metrics import Bins
from certcal.models import to_grid
from certcal.worstcase import AdmmSettings, WorstCaseProblem
from laws import examples

SIGMA = 0.5


def in_ball(inputs, x, epsilon, *, boxed=True):
    return inside(inputs, x, epsilon, Norm.L2, boxed=boxed).all()


@examples(25)
@given(
    seed=st.integers(0, 10**6),
    adversary=st.sampled_from(list(Adversary)),
    epsilon=st.sampled_from([0.0, 0.1, 0.7]),
    box=st.booleans(),
)
def test_every_adversary_stays_in_the_ball_and_sees_no_loss(seed, adversary, epsilon, box):
    model, (x, y) = random_model(seed), random_inputs(seed, 8)
    found = attack_calibration(model, x, y, sigma=0.3, epsilon=epsilon, adversary=adversary, draws=4, steps=3, box=box)
    assert in_ball(found.inputs, x, epsilon, boxed=box)
    before, after = found.seen_before, found.seen_after
    if adversary == Adversary.BRIER:  # each confidence further from its correctness
        assert (np.square(found.correct - after) >= np.square(found.correct - before) - 1e-6).all()
    elif adversary == Adversary.ACCE:  # the set of them worse calibrated
        pair = (expected_calibration_error(seen, found.correct) for seen in (after, before))
        assert next(pair) >= next(pair) - 1e-6
    if epsilon == 0.0:
        assert torch.equal(found.inputs, x)


def test_gradients_go_through_all_shared_draws():
    model, (x, _) = random_model(0, dtype=torch.float64), random_inputs(0, 3, dtype=torch.float64)
    predict = smoothed(model, x.shape[1:], sigma=0.4, draws=5, seed=9, precision="float32")
    repeated = smoothed(model, x.shape[1:], sigma=0.4, draws=5, seed=9, precision="float32")
    assert torch.equal(predict(x), repeated(x))
    # The noise is a constant of the function: with the model replaced by its input, it can be read off.
    seen = []
    spy = torch.nn.Module()
    spy.forward = lambda noisy: (seen.append(noisy), model(noisy))[1]
    spy.register_buffer("place", torch.zeros(1))
    smoothed(spy, x.shape[1:], sigma=0.4, draws=5, seed=9, precision="float32")(x)
    noisy = seen[0].reshape(3, 5, *x.shape[1:])
    noise = noisy - to_grid(x, 2.0**-20).double()[:, None]  # attacks see the inputs that are judged, rounded
    np.testing.assert_allclose(noise[0], noise[2], rtol=0, atol=1e-12)  # shared by all inputs
    by_hand = torch.stack([model(x + noise[0, j]).softmax(dim=1) for j in range(5)]).mean(dim=0)
    np.testing.assert_allclose(predict(x).exp().detach(), by_hand.detach(), rtol=1e-5)
    point = x.clone().requires_grad_()
    (ours,) = torch.autograd.grad(-predict(point)[:, 1].sum(), point)
    point = x.clone().requires_grad_()
    mean = torch.stack([model(point + noise[0, j]).softmax(dim=1) for j in range(5)]).mean(dim=0)
    (theirs,) = torch.autograd.grad(-mean[:, 1].log().sum(), point)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4 * float(theirs.abs().max()))


def test_log_odds_climb_where_probabilities_do_and_never_go_flat():
    logits = torch.tensor([[16.0, 0.0, -5.0], [0.3, 0.2, 0.1]], dtype=torch.float64, requires_grad=True)
    target = torch.tensor([[0, -1], [0, -1]])
    (odds,) = torch.autograd.grad(signed_log_odds(logits, target).sum(), logits)
    (probs,) = torch.autograd.grad(-logits.softmax(dim=1)[:, 0].sum(), logits)
    for row in (0, 1):
        assert float(F.cosine_similarity(odds[row], probs[row], dim=0)) == pytest.approx(1.0, abs=1e-9)
    assert float(odds[0].norm()) > 1.0 > 1e5 * float(probs[0].norm())
    expected = -torch.logit(logits.softmax(dim=1)[:, 0])
    np.testing.assert_allclose(signed_log_odds(logits, target).detach(), expected.detach(), rtol=1e-9)


@pytest.fixture(scope="module")
def probit():
    model, x, y = probit_problem(4, 150)
    predicted = torch.as_tensor((model(x)[:, 1] > model(x)[:, 0]).long())
    return model, x, y, predicted


def true_range(model, x, predicted, radius):
    """Between which values the smoothed confidence of the predicted class lies within the radius, exactly."""
    return (model.smoothed(x, predicted, sigma=SIGMA, move=move) for move in (-radius, radius))


def test_brier_adversary_reaches_the_true_worst_case(probit):
    model, x, y, predicted = probit
    found = attack_calibration(
        model, x, y, sigma=SIGMA, epsilon=0.2, adversary="brier", predicted=predicted, box=False, draws=16, steps=8
    )
    low, high = true_range(model, x, predicted, 0.2)
    attained = model.smoothed(found.inputs, predicted, sigma=SIGMA)
    np.testing.assert_allclose(attained, np.where(found.correct, low, high), rtol=0, atol=2e-3)


def test_smoothadv_reaches_the_largest_cross_entropy(probit):
    model, x, y, predicted = probit
    found = attack_calibration(
        model, x, y, sigma=SIGMA, epsilon=0.2, adversary="smoothadv", predicted=predicted, box=False, draws=16, steps=8
    )
    attained = model.smoothed(found.inputs, y, sigma=SIGMA)
    np.testing.assert_allclose(attained, model.smoothed(x, y, sigma=SIGMA, move=-0.2), rtol=0, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("radius", [0.1, 0.3])
def test_reach_adversary_attains_nearly_all_of_the_true_worst_case(probit, radius):
    model, x, y, predicted = probit
    errors = {}
    for name in Adversary:
        found = attack_calibration(
            model, x, y, sigma=SIGMA, epsilon=radius, adversary=name, predicted=predicted, box=False,
            draws=128, steps=8, n_bins=10,
        )  # fmt: skip
        attained = model.smoothed(found.inputs, predicted, sigma=SIGMA)
        errors[name] = expected_calibration_error(attained, found.correct, n_bins=10)
    low, high = true_range(model, x, predicted, radius)
    worst = certified_calibration_error(low, high, found.correct, n_bins=10).value
    clean = expected_calibration_error(model.smoothed(x, predicted, sigma=SIGMA), found.correct, n_bins=10)
    assert all(error <= worst + 1e-6 for error in errors.values())
    assert errors["reach"] > clean + 0.7 * (worst - clean)
    assert errors["reach"] >= max(errors.values()) - 0.01


def test_cce_adversary_follows_the_signs_of_the_exact_worst_case(probit):
    model, x, y, predicted = probit
    low, high = true_range(model, x, predicted, 0.2)
    correct = (predicted == y).numpy()
    worst = certified_calibration_error(low, high, correct, n_bins=10)
    found = attack_calibration(
        model, x, y, sigma=SIGMA, epsilon=0.2, adversary="cce", predicted=predicted, lower=low, upper=high, box=False,
        draws=16, steps=8, n_bins=10,
    )  # fmt: skip
    attained = model.smoothed(found.inputs, predicted, sigma=SIGMA)
    up = worst.signs[worst.bins] < 0
    assert 0 < up.sum() < len(up)
    np.testing.assert_allclose(attained, np.where(up, high, low), rtol=0, atol=2e-3)


def acce_by_hand(model, x, correct, blocked, edges, *, epsilon, steps, admm):
    """Algorithm 2's inner loop with the Lagrangian of App. F.1 written out and differentiated by autograd."""
    n, m = blocked.shape
    gamma, a = torch.zeros_like(x), torch.full((n, m), 1 / m, dtype=torch.float64)
    q1, q2 = a.clone(), a.clone()
    l1, l2 = torch.zeros_like(a), torch.zeros_like(a)
    l3, l4 = torch.zeros(n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)
    rho, c = admm.rho, torch.as_tensor(correct, dtype=torch.float64)
    results = []

    def lagrangian(a, z):
        gap = (c - z)[:, None].expand(n, m)
        return (
            -(gap * a).sum(dim=0).abs().sum()
            + (l1 * (a - q1)).sum() + rho / 2 * (a - q1).square().sum()
            + (l2 * (a - q2)).sum() + rho / 2 * (a - q2).square().sum()
            + (l3 * (a.sum(dim=1) - 1)).sum() + rho / 2 * (a.sum(dim=1) - 1).square().sum()
            + (l4 * (blocked * a).sum(dim=1)).sum() + rho / 2 * (blocked * a).sum(dim=1).square().sum()
        )  # fmt: skip

    for _ in range(steps + 1):
        point = (x + gamma).requires_grad_()
        z = model(point)
        results.append((expected_calibration_error(z.detach().numpy(), correct, edges=edges), gamma.clone()))
        (gradient,) = torch.autograd.grad(-lagrangian(a, z), point)
        length = gradient.norm(dim=1, keepdim=True)
        moved = gamma + 2 * epsilon / steps * gradient / torch.where(length > 0, length, 1.0)
        size = moved.norm(dim=1, keepdim=True)
        moved = moved * (epsilon / size).clamp(max=1.0)
        free = a.clone().requires_grad_()
        (slope,) = torch.autograd.grad(lagrangian(free, z.detach()), free)
        limit = admm.value_clip * float((q2 - 0.5).abs().max())
        a = (a - admm.assignment_rates[0] * slope.clamp(-admm.gradient_clip, admm.gradient_clip)).clamp(
            0.5 - limit, 0.5 + limit
        )
        q1 = (l1 / rho + a).clamp(0, 1)
        ray = l2 / rho + a - 0.5
        q2 = 0.5 + (n * m) ** 0.5 / 2 * ray / ray.norm()
        l1, l2 = l1 + rho * (a - q1), l2 + rho * (a - q2)
        l3, l4 = l3 + rho * (a.sum(dim=1) - 1), l4 + rho * (blocked * a).sum(dim=1)
        rho, gamma = min(rho * admm.rho_factors[0], admm.rho_cap), moved.detach()
    return max(results, key=lambda pair: pair[0])


def test_acce_adversary_is_algorithm_two():
    rng = np.random.default_rng(3)
    n, features, epsilon = 40, 5, 0.3
    weights = torch.as_tensor(rng.normal(size=(features, 2)), dtype=torch.float64)
    x = torch.as_tensor(rng.uniform(0.3, 0.7, size=(n, features)))

    def confidence(points):
        return (points @ weights).softmax(dim=1)[:, 1]

    clean = confidence(x).numpy()
    correct = rng.random(n) < 0.5
    lower, upper = np.clip(clean - 0.12, 0, 1), np.clip(clean + 0.12, 0, 1)
    problem = WorstCaseProblem.checked(lower, upper, correct, n_bins=6)
    admm = AdmmSettings(starts="clean", assignment_rates=0.1, confidence_rates=0.01, rho_factors=1.1, dtype="float64")
    labels = torch.as_tensor(np.where(correct, 1, 0))
    scene = Scene(
        lambda points: (points @ weights).log_softmax(dim=1), x, labels, torch.ones(n, dtype=torch.long), epsilon,
        1, torch.device("cpu"), Settings(norm="l2", steps=12, step_size=2 * epsilon / 12, box=False),
    )  # fmt: skip
    edges = problem.bins.edges
    outside = [[hi < edges[m] or lo >= edges[m + 1] for m in range(6)] for lo, hi in zip(lower, upper, strict=True)]
    blocked = torch.as_tensor(outside, dtype=torch.float64)
    found = acce_adversary(scene, problem, admm)
    error, gamma = acce_by_hand(confidence, x, correct, blocked, edges, epsilon=epsilon, steps=12, admm=admm)
    assert expected_calibration_error(confidence(found).numpy(), correct, edges=edges) == pytest.approx(error, abs=1e-5)
    np.testing.assert_allclose(found - x, gamma, rtol=0, atol=1e-4)
    assert error > expected_calibration_error(clean, correct, edges=edges)


@pytest.mark.slow
def test_estimates_repeat_and_have_limits_that_hold(probit):
    model, x, _, predicted = probit
    truth = model.smoothed(x, predicted, sigma=SIGMA)
    seen = estimate_smoothed(model, x, predicted, sigma=SIGMA, draws=700)
    assert seen.votes.sum(axis=1).tolist() == [700] * len(x)
    low, high = seen.limits(alpha=0.01)
    assert ((low <= truth) & (truth <= high)).mean() >= 0.97
    again = estimate_smoothed(model, x[50:], predicted[50:], sigma=SIGMA, draws=700, indices=np.arange(50, len(x)))
    np.testing.assert_allclose(again.confidence, seen.confidence[50:], rtol=0, atol=1e-6)
    chunks = [estimate_smoothed(model, x, predicted, sigma=SIGMA, draws=draws).score_sum for draws in (250, 500)]
    assert not np.allclose(2 * chunks[0], chunks[1])  # every chunk of draws has noise of its own
    other = estimate_smoothed(model, x, predicted, sigma=SIGMA, draws=700, seed=1)
    assert not np.allclose(other.confidence, seen.confidence)
    errors = np.concatenate([seen.confidence - truth, other.confidence - truth])
    assert abs(errors.mean()) < 4 * errors.std() / np.sqrt(len(errors))


def test_aims_lie_inside_their_bins_where_there_is_room():
    bins = Bins.equal_width(10)
    worst, chosen = np.array([0.3, np.nextafter(0.3, 0), 0.35, 0.3]), np.array([3, 2, 3, 3])
    low, high = np.array([0.1, 0.1, 0.35, 0.295]), np.array([0.9, 0.9, 0.35, 0.305])
    assert aims(worst, chosen, low, high, bins, 0.01).tolist() == pytest.approx([0.31, 0.29, 0.35, 0.305])


def test_predictions_are_those_of_the_smoothed_model_unless_given():
    model, (x, y) = random_model(2), random_inputs(2, 12)
    found = attack_calibration(model, x, y, sigma=0.3, epsilon=0.1, adversary="brier", draws=64, steps=2)
    votes = estimate_smoothed(model, x, y, sigma=0.3, draws=1000).votes
    assert (found.predicted.numpy() == votes.argmax(axis=1)).mean() > 0.8
    given = attack_calibration(
        model, x, y, sigma=0.3, epsilon=0.1, adversary="brier", draws=4, steps=2, predicted=[0] * 12
    )
    assert given.predicted.tolist() == [0] * 12
    assert given.correct.tolist() == (y == 0).tolist()
    assert repr(given) == "CalibrationAttack(brier, 12 inputs, l2 ≤ 0.1)"
    assert top_label_brier_score(given.seen_after, given.correct) > top_label_brier_score(
        given.seen_before, given.correct
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adversary": "ece"}, "Expected `adversary` to be one of 'smoothadv', 'brier', 'acce', 'cce', 'reach'"),
        ({"sigma": 0}, "Expected `sigma` to be a finite number > 0, but got 0"),
        ({"epsilon": -1}, "Expected `epsilon` to be a finite number ≥ 0, but got -1"),
        ({"draws": 0}, "Expected `draws` to be an integer ≥ 1, but got 0"),
        ({"lower": [0.1, 0.1]}, "Expected `lower and upper` to be given together, but got one of them"),
        ({"precision": "int8"}, "Expected `precision` to be one of 'float32', 'bfloat16', 'float16', but got 'int8'"),
        ({"predicted": [0, 7]}, "Expected `predicted` to be class numbers below the model's 3, but got 7"),
        ({"steps": 0}, "Expected `steps` to be an integer ≥ 1, but got 0"),
        ({"step_size": 0.0}, "Expected `step_size` to be a finite number > 0, but got 0.0"),
    ],
)
def test_bad_input(change, message):
    model, (x, y) = random_model(0), random_inputs(0, 2)
    with pytest.raises(InputError, match=message):
        attack_calibration(model, x, y, **({"sigma": 0.3, "epsilon": 0.1} | change))

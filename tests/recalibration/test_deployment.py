"""A deployed model: predictions unchanged, the smoothed confidence mapped, and the certificate about it true."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from certcal import InputError, collect_evidence, confidence_bounds
from certcal.errors import CertcalWarning
from certcal.recalibration import BetaMap, IdentityMap, IsotonicMap, RecalibratedModel, fit_score_map
from smoothing_models import small_data, small_model

INVERTING = IsotonicMap([0.0, 1.0], [0.0, 0.1])  # takes the predicted class's confidence below those of others


@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_predictions_never_change_and_confidences_are_mapped(sigma):
    images, _ = small_data(20)
    options = {"sigma": sigma, "draws": 200, "seed": 3}
    plain, mapped = (RecalibratedModel(small_model(), g, **options)(images) for g in (IdentityMap(), INVERTING))
    assert torch.equal(plain.predicted, mapped.predicted)
    np.testing.assert_array_equal(mapped.confidence, INVERTING.transform(plain.confidence))
    if sigma == 0:
        probs = small_model()(images).double().softmax(dim=1)
        assert torch.equal(plain.predicted, probs.argmax(dim=1))
        torch.testing.assert_close(plain.confidence, probs.max(dim=1).values)


def test_the_map_is_of_the_mean_not_the_mean_of_the_map():
    """A model that is sure or unsure by the sign of the noise: mean 0.75, and g(0.75) is not the mean of g."""

    class Sign(nn.Module):
        def forward(self, x):
            sure = torch.where(x[:, :1] > 0, 1.0, 0.5)
            return torch.cat([sure, 1 - sure], dim=1)

    g = IsotonicMap([0.0, 0.6, 0.7, 1.0], [0.0, 0.0, 1.0, 1.0])
    model = RecalibratedModel(Sign(), g, sigma=1.0, draws=4000, outputs="probabilities", seed=1)
    assert model(torch.zeros(2, 3)).confidence.tolist() == [1.0, 1.0]  # the mean of g would be 1/2


def test_agrees_with_the_evidence_and_lies_within_its_certificates():
    """The estimate at the input itself is within the mapped bounds at R = 0, up to its own sampling error."""
    images, labels = small_data(12)
    g = BetaMap(0.5, 0.7, -0.1)
    evidence = collect_evidence(small_model(), (images, labels), sigma=0.2, n=4000, n0=100, progress=False)
    bounds = g.intervals(confidence_bounds(evidence, radius=0.0, alpha=0.001))
    said = RecalibratedModel(small_model(), g, sigma=0.2, draws=4000, batch_size=5000)(images)
    same = said.predicted.numpy() == bounds.predicted
    assert same.mean() > 0.7
    confidence = said.confidence.numpy()[same]
    assert (confidence >= bounds.lower[same] - 0.01).all()
    assert (confidence <= bounds.upper[same] + 0.01).all()
    np.testing.assert_allclose(confidence, bounds.confidence[same], atol=0.01)


def test_batches_do_not_change_what_is_drawn():
    images, _ = small_data(6)
    once, often = (
        RecalibratedModel(small_model(), IdentityMap(), sigma=0.2, draws=50, batch_size=size, seed=5)(images)
        for size in (10_000, 6)
    )
    torch.testing.assert_close(once.confidence, often.confidence)


def test_no_forward_pass_is_larger_than_the_batch():
    sizes = []

    class Watching(nn.Module):
        def forward(self, x):
            sizes.append(len(x))
            return x.flatten(1)[:, :3]

    said = RecalibratedModel(Watching(), IdentityMap(), sigma=0.1, draws=5, batch_size=8)(torch.rand(20, 4))
    assert max(sizes) <= 8
    assert sum(sizes) == 20 * 5
    assert said.predicted.shape == said.confidence.shape == (20,)


@pytest.mark.parametrize(
    ("answer", "outputs", "message"),
    [
        (lambda x: (x, x), "logits", "to give outputs of shape (batch, classes), but got a tuple of (4, 3), (4, 3)."),
        (lambda x: x.reshape(1, -1), "logits", "to give outputs of shape (batch, classes), but got (1, 12)."),
        (lambda x: x[:, :0], "logits", "to give outputs of shape (batch, classes), but got (4, 0)."),
        (lambda x: x * torch.nan, "logits", "to give finite outputs, but got values that are none."),
        (torch.ones_like, "probabilities", "to give probabilities, as `outputs` says, but got values that are none."),
    ],
)
def test_answers_that_are_none_are_refused(answer, outputs, message):
    class Answer(nn.Module):
        def forward(self, x):
            return answer(x)

    with pytest.raises(InputError) as caught:
        RecalibratedModel(Answer(), IdentityMap(), sigma=0.1, draws=2, outputs=outputs)(torch.rand(2, 3))
    assert str(caught.value) == f"Expected `model` {message}"


def test_an_empty_batch_has_an_empty_answer():
    said = RecalibratedModel(small_model(), IdentityMap(), sigma=0.1, draws=2)(torch.rand(0, 1, 8, 8))
    assert said.predicted.shape == said.confidence.shape == (0,)


def test_modes_are_evaluation_and_gradients_are_off():
    model = RecalibratedModel(nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 3)), IdentityMap(), sigma=0.0)
    images, _ = small_data(4)
    assert torch.equal(model(images).confidence, model(images).confidence)
    assert not model(images).confidence.requires_grad


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (
            (3, IdentityMap()),
            {},
            "Expected `model` to be a torch.nn.Module or a function from a batch to outputs, but got int.",
        ),
        ((nn.Flatten(), 3), {}, "Expected `recalibration` to be a map from `recalibrate`, but got int."),
        ((nn.Flatten(), IdentityMap()), {"sigma": -1}, "Expected `sigma` to be a finite number ≥ 0, but got -1."),
        ((nn.Flatten(), IdentityMap()), {"draws": 0}, "Expected `draws` to be an integer ≥ 1, but got 0."),
        (
            (nn.Flatten(), IdentityMap()),
            {"outputs": "odds"},
            "Expected `outputs` to be one of 'logits', 'probabilities', but got 'odds'.",
        ),
    ],
)
def test_bad_input(arguments, options, message):
    with pytest.raises(InputError) as caught:
        RecalibratedModel(*arguments, **({"sigma": 0.1} | options))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "inputs", [torch.ones(2, 3, dtype=torch.uint8), torch.ones(2, 3, dtype=torch.long), torch.tensor(0.5), [[0.5]]]
)
def test_inputs_without_room_for_noise_are_refused(inputs):
    wrapped = RecalibratedModel(torch.nn.Linear(3, 2), IdentityMap(), sigma=0.25, draws=4)
    with pytest.raises(InputError, match="Expected `inputs` to be a batch of floating-point inputs"):
        wrapped(inputs)


def test_the_model_inside_stays_in_evaluation_mode():
    wrapped = RecalibratedModel(
        torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout()), IdentityMap(), sigma=0.1
    )
    assert not wrapped.train().model.training


def test_logits_are_not_taken_for_probabilities():
    wrapped = RecalibratedModel(torch.nn.Linear(3, 2), IdentityMap(), sigma=0.1, draws=4, outputs="probabilities")
    with pytest.raises(InputError, match="Expected `model` to give probabilities"):
        wrapped(torch.full((1, 3), 10.0))


def test_the_prediction_is_the_vote_and_not_the_mean():
    """Two confident copies against three doubtful ones: the vote is for the latter."""

    class Scripted(torch.nn.Module):
        def forward(self, x):
            sure, doubtful = torch.tensor([0.99, 0.01]), torch.tensor([0.45, 0.55])
            return torch.stack([sure if n % 5 < 2 else doubtful for n in range(len(x))])

    wrapped = RecalibratedModel(Scripted(), IdentityMap(), sigma=0.1, draws=5, outputs="probabilities", batch_size=5)
    predicted, confidence = wrapped(torch.zeros(1, 3))
    assert predicted.item() == 1
    assert confidence.item() == pytest.approx((2 * 0.01 + 3 * 0.55) / 5)


def test_another_sigma_than_that_of_the_evidence_is_refused():
    """Its confidences have no certificate; 0 is said to have none."""
    own = IsotonicMap([0.0, 1.0], [0.2, 0.9], about={"sigma": 0.25})
    with pytest.raises(InputError, match=r"Expected `sigma` to be 0.25, that of the evidence the map was fitted to"):
        RecalibratedModel(small_model(), own, sigma=0.5)
    for sigma in (0.0, 0.25):
        assert RecalibratedModel(small_model(), own, sigma=sigma, draws=2).sigma == sigma


def fitted(values="unit"):
    """A map of scores that was fitted to the evidence of the small model, half of it wrong."""
    images, _ = small_data(40)
    evidence = collect_evidence(
        small_model(), (images, np.zeros(40, dtype=int)), sigma=0.2, n=250, progress=False, values=values
    )
    label = np.where(np.arange(40) % 2, evidence.selected, (evidence.selected + 1) % 3)
    return fit_score_map(replace(evidence, label=label), radii=[0.0], alpha=0.001), images


def test_another_network_than_that_of_the_evidence_is_told():
    own, images = fitted()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RecalibratedModel(small_model(), own, sigma=0.2, draws=2)(images)
    other = small_model()
    with torch.no_grad():
        next(other.parameters()).add_(1.0)
    with pytest.warns(
        CertcalWarning, match=r"^The map was fitted to model \w{12}, not \w{12}. No certificate is about"
    ):
        RecalibratedModel(other, own, sigma=0.2, draws=2)


def test_a_guess_is_told_where_it_is_deployed():
    own = IsotonicMap([0.0, 1.0], [0.2, 0.9], about={"certified": [30], "wrong": [2]})
    with pytest.warns(
        CertcalWarning, match="taught by only 2 wrong predictions among the certified inputs: take it for"
    ):
        RecalibratedModel(small_model(), own, sigma=0.2, draws=2)


def test_inputs_outside_those_of_the_evidence_are_refused():
    """Normalised by habit, or not divided by 255: they would get confidences too."""
    own, images = fitted()
    unit, anything = (RecalibratedModel(small_model(), g, sigma=0.2, draws=2) for g in (own, fitted("any")[0]))
    for bad in (images * 10, images * 2 - 1, images + float("nan")):
        with pytest.raises(InputError, match=r"Expected `inputs` to lie in \[0, 1\], as those .* but got values from"):
            unit(bad)
    assert len(anything(images * 10).confidence) == 40
    assert len(unit(images + 0.15).confidence) == 40  # an attack within the radius, or a resize that overshoots
    with pytest.raises(InputError, match=r"within ±12, .* but got \d+; scale inputs, sigma and radii alike"):
        anything(torch.full_like(images, 255.0))

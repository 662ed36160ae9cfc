"""Whatever form a model comes in, its evidence is that of the plain module."""

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from certcal import Evidence, InputError, collect_evidence
from certcal.models import Tempered, as_module, as_outputs, model_fingerprint

INPUTS, LABELS = torch.rand(6, 1, 4, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 0, 1, 0, 1])


class Linear(nn.Module):
    """A linear network with a dropout, which must be switched off."""

    def __init__(self, outputs: int, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.layers = nn.Sequential(nn.Flatten(), nn.Linear(16, outputs), nn.Dropout(0.5))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layers(inputs)


class Answering(nn.Module):
    """A network whose answer has another form."""

    def __init__(self, form: Callable[[torch.Tensor], object], outputs: int = 3) -> None:
        super().__init__()
        self.network, self.form = Linear(outputs), form

    def forward(self, inputs: torch.Tensor) -> object:
        return self.form(self.network(inputs))


def draw(model: object, outputs: str = "logits") -> Evidence:
    return collect_evidence(model, (INPUTS, LABELS), sigma=0.5, n=200, n0=20, chunk=100, outputs=outputs)


def same(one: Evidence, other: Evidence) -> bool:
    return all(
        np.array_equal(getattr(one, part.name), getattr(other, part.name))
        for part in fields(one)
        if part.name != "header"
    )


@pytest.mark.parametrize(
    "form",
    [
        lambda z: SimpleNamespace(logits=z, hidden_states=None),
        lambda z: {"logits": z, "features": z.repeat(1, 2)},
        lambda z: {"prediction": z, "loss": torch.tensor(0.0)},
        lambda z: (z, None),
        lambda z: [z],
        lambda z: z.numpy(),
        lambda z: {"logits": z.numpy(), "features": z.repeat(1, 2)},
        lambda z: {"prediction": z.numpy()},
        lambda z: (z.numpy(), None),
        lambda z: z[:, :, None].squeeze(),
    ],
    ids=[
        "logits",
        "dict with logits",
        "dict of one",
        "tuple",
        "list",
        "numpy",
        "numpy logits",
        "dict of numpy",
        "tuple of numpy",
        "squeezed",
    ],
)
def test_forms_of_answers_give_the_same_evidence(form: Callable[[torch.Tensor], object]) -> None:
    assert same(draw(Answering(form)), draw(Linear(3)))


def test_one_logit_and_a_sigmoid_are_two_classes() -> None:
    pair = Answering(lambda z: torch.cat([torch.zeros_like(z), z], dim=1), 1)
    assert same(draw(Linear(1)), draw(pair))
    assert same(draw(Answering(lambda z: z[:, 0], 1)), draw(pair))
    assert same(draw(Answering(torch.squeeze, 1)), draw(pair))  # one number alone for a batch of one
    share = Answering(lambda z: torch.cat([1 - z.sigmoid(), z.sigmoid()], dim=1), 1)
    assert same(draw(Answering(torch.sigmoid, 1), "probabilities"), draw(share, "probabilities"))
    votes = draw(Linear(1)).votes
    assert np.array_equal(votes, draw(Answering(torch.sigmoid, 1), "probabilities").votes)
    assert votes.min() >= 0
    assert 0 < votes[:, 1].sum() < votes.sum()  # both classes are seen, so that a swap would show


NETWORK = Linear(3)


def test_functions_are_taken_and_their_networks_held_still() -> None:
    expected, own = draw(Linear(3)), Linear(3)
    holder = SimpleNamespace(network=own)

    class Caller:
        def __init__(self) -> None:
            self.network = own

        def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.network(inputs)

        def method(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.network(inputs)

    def by_argument(network: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
        return network(inputs)

    forms = {
        "closure": lambda x: own(x),
        "attribute": lambda x: holder.network(x),
        "global": lambda x: NETWORK(x),
        "partial": partial(by_argument, own),
        "object": Caller(),
        "method": Caller().method,
        "forward": own.forward,
    }
    for name, form in forms.items():
        assert own.training, name
        assert NETWORK.training
        assert same(draw(form), expected), name  # with the dropout left on, they differ


def test_fingerprints_tell_functions_and_weights_apart() -> None:
    def mark(form: object) -> str:
        return model_fingerprint(as_module(form))

    def over(network: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda x: network(x)

    assert mark(over(Linear(3))) == mark(over(Linear(3)))
    assert mark(over(Linear(3))) != mark(over(Linear(3, seed=1)))
    assert mark(lambda x: x + 1) != mark(lambda x: x + 2)
    plain = Linear(3)
    assert mark(plain) == model_fingerprint(plain)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (torch.zeros(2, 3, 4, 4), "certcal certifies no segmentation or detection, but got (2, 3, 4, 4)."),
        ({"out": torch.zeros(2, 3, 4, 4)}, "certcal certifies no segmentation or detection, but got a dict of out"),
        ((torch.zeros(2, 3), torch.zeros(2, 5)), "but got a tuple of (2, 3), (2, 5)."),
        ({"boxes": torch.zeros(4)}, "but got a dict of boxes ((4,))."),
        (torch.zeros(2, 3, dtype=torch.int64), "but got (2, 3) of torch.int64."),
        (torch.zeros(2, dtype=torch.int64), "but got (2,) of torch.int64 (class numbers: leave out the argmax)."),
        ("cat", "but got str."),
        ([], "but got a list of nothing."),
    ],
)
def test_answers_without_one_obvious_tensor_are_refused(answer: object, message: str) -> None:
    with pytest.raises(InputError, match=r"Expected `model` to give outputs of shape \(batch, classes\)") as caught:
        as_outputs(answer, 2)
    assert message in str(caught.value)


def test_a_temperature_fits_every_form() -> None:
    warm = Tempered(Answering(lambda z: {"logits": z}), 2.0).eval()
    assert torch.equal(warm(INPUTS), Linear(3).eval()(INPUTS) / 2)

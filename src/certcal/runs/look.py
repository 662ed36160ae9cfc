"""Some inputs of a run, evenly spread, and what its model answers to them."""

import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from certcal.data import ImageData
from certcal.models import as_outputs, count_classes
from certcal.proportions import guessing

SECONDS = 10.0  # what the looks at a slow model may take, about
MOST, LEAST = 256, 32  # inputs looked at
SCANNED = 64  # inputs of the scan over σ
FACTORS = (0.25, 0.5, 1.0, 2.0)  # of σ, in the scan


@dataclass(frozen=True)
class Scanned:
    """How a model does under one noise, estimated from a few draws of a few inputs."""

    sigma: float
    accuracy: float  # of the majority of the draws
    radius: float  # about which half of the inputs are right and might be certified; an estimate
    at_least: bool = False  # whether it is as large as so few draws can show


class Look:
    """Some inputs, evenly spread, and what the model answers to them."""

    def __init__(self, model: nn.Module, data: ImageData, outputs: str, place: torch.device) -> None:
        self.model, self.data, self.kind, self.place = model, data, outputs, place
        some = data.take(limit=min(LEAST, len(data)))
        self.classes = count_classes(model, some.inputs[:1], place)
        self.answer(some.inputs)  # the first pass also sets things up
        start = time.perf_counter()
        self.answer(some.inputs)
        self.speed = len(some.inputs) / max(time.perf_counter() - start, 1e-6)
        self._passes = SECONDS * self.speed  # forward passes there is time for
        many = int(min(MOST, max(LEAST, self._passes / 16)))
        self.inputs, self.labels = data.take(limit=min(many, len(data))).tensors()
        self.answers = self.answer(self.inputs)
        self.accuracy = self.share_right(self.answers)

    def answer(self, inputs: Tensor, model: nn.Module | None = None) -> Tensor:
        """What the model, or another one, says of inputs."""
        run, parts = model or self.model, torch.split(inputs, 64)
        answers = (as_outputs(run(part.to(self.place, copy=True)), len(part), kind=self.kind) for part in parts)
        return torch.cat([answer.float().cpu() for answer in answers])

    def share_right(self, answers: Tensor) -> float:
        """The share of answers that name the label."""
        return float((answers.argmax(dim=1) == self.labels).float().mean())

    def scan(self, sigma: float) -> tuple[Scanned, ...]:
        """Accuracy under the noise asked for, and under others, with the radii that each might certify."""
        step = max(1, len(self.inputs) // SCANNED)
        inputs, labels = (own[::step][:SCANNED] for own in (self.inputs, self.labels))
        draws = int(min(16, max(4, self._passes / (len(FACTORS) * len(inputs)))))
        noise = torch.randn(draws, *inputs.shape, generator=torch.Generator().manual_seed(0))
        found, seconds = [], []
        for factor in FACTORS:
            start = time.perf_counter()
            noisy = (inputs + factor * sigma * noise).flatten(0, 1)
            votes = torch.nn.functional.one_hot(self.answer(noisy).argmax(dim=1), self.classes)
            share = votes.reshape(draws, len(inputs), -1).sum(dim=0)[torch.arange(len(inputs)), labels] / draws
            # Half a draw either way, so that unanimous draws give a finite radius.
            radius = factor * sigma * torch.special.ndtri(share.clamp(0.5 / draws, 1 - 0.5 / draws).double())
            half, right = float(radius.median()), float((share > 0.5).float().mean())
            found.append(Scanned(factor * sigma, right, max(0.0, half), bool(share.median() == 1)))
            seconds.append(time.perf_counter() - start)
        # Nearer to what sampling does than bare forward passes are; other programs may slow some of it down.
        self.speed = draws * len(inputs) / min(seconds)
        return tuple(found)

    @property
    def guesses(self) -> bool:
        """Whether the model is right no more often than guessing among the classes that it sees would be."""
        return self.accuracy <= guessing(len(self.labels), len(self._seen))

    @property
    def says_one(self) -> bool:
        """Whether the model gives all inputs one class, where there are several."""
        return len(set(self.answers.argmax(dim=1).tolist())) == 1 < len(self._seen)

    @property
    def knows_these(self) -> bool:
        """Whether the model, asked for one of the classes that it sees, is right more often than not."""
        found = [self._seen[place] for place in self.answers[:, self._seen].argmax(dim=1).tolist()]
        right = sum(one == label for one, label in zip(found, self.labels.tolist(), strict=True))
        return bool(right / len(found) > (1 + 1 / len(self._seen)) / 2)

    @property
    def _seen(self) -> list[int]:
        """The classes of the labels, which rise."""
        return sorted(set(self.labels.tolist()))

"""A look at model and data before the long run: seconds on a few inputs, to find what would make a guarantee worthless.

What is surely wrong stops the run, with the likely cause and the option that mends it. What is only suspicious is told,
kept with the results and shown on the page.
"""

import math
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from certcal.errors import InputError
from certcal.settings import RunSettings

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from certcal.data import ImageData

SECONDS = 10.0  # what the looks at a slow model may take, about
MOST, LEAST = 256, 32  # inputs looked at
SCANNED = 64  # inputs of the scan over σ
FACTORS = (0.25, 0.5, 1.0, 2.0)  # of σ, in the scan
NORMALISATIONS = {  # other than the data's own
    "0.5": ((0.5,), (0.5,)),
    "ImageNet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "bytes": ((0.0,), (1 / 255,)),
}


@dataclass(frozen=True)
class Scanned:
    """How a model does under one noise, estimated from a few draws of a few inputs."""

    sigma: float
    accuracy: float  # of the majority of the draws
    radius: float  # about which half of the inputs are right and might be certified; an estimate


@dataclass(frozen=True)
class Checkup:
    """What was seen of a model and its data before the run."""

    inputs: int  # looked at
    accuracy: float  # without noise
    scan: tuple[Scanned, ...]
    counts: dict[str, int]  # inputs of each class, all of the run
    warnings: tuple[str, ...]
    seconds: float
    draws_per_second: float  # roughly: forward passes of noisy copies

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON keeps it."""
        return asdict(self) | {"scan": [asdict(one) for one in self.scan], "warnings": list(self.warnings)}


def check_up(model: "nn.Module", data: "ImageData", settings: RunSettings, device: str) -> Checkup:
    """What a few inputs tell of a model and its data.

    Paper: —; ordinary mistakes, each found by trying what would mend it.
    Raises: InputError if something is surely wrong; it names the likely cause and the option that mends it.
    """
    import torch

    from certcal.models import autocast, held_still, on_device

    start, place = time.perf_counter(), torch.device(device)
    asked = settings.certify
    with held_still(model), torch.inference_mode(), autocast(asked.precision, place):
        look = _Look(on_device(model, place), data, asked.outputs, place)
        look.check_outputs()
        look.check_batches()
        look.check_classes()
        look.check_normalisation(given=settings.model.mean is not None)
        scan = look.scan(asked.sigma)
    counts = {name: int((data.labels == k).sum()) for k, name in enumerate(data.classes)}
    warnings = (*_about_data(data, counts), *look.about_accuracy(counts), *_about_noise(look.accuracy, scan, settings))
    seconds = time.perf_counter() - start
    return Checkup(
        len(look.inputs), look.accuracy, scan, {k: n for k, n in counts.items() if n}, warnings, seconds, look.speed
    )


class _Look:
    """Some inputs, evenly spread, and what the model answers to them."""

    def __init__(self, model: "nn.Module", data: "ImageData", outputs: str, place: "torch.device") -> None:
        from certcal.models import count_classes

        self._model, self._data, self._kind, self._place = model, data, outputs, place
        some = data.take(limit=min(LEAST, len(data)))
        self.classes = count_classes(model, some.inputs[:1], place)
        self.speed = self._measured_speed(some.inputs)
        self._passes = SECONDS * self.speed  # forward passes there is time for
        many = int(min(MOST, max(LEAST, self._passes / 16)))
        self.inputs, self.labels = data.take(limit=min(many, len(data))).tensors()
        self.answers = self._answers(self.inputs)
        self.accuracy = self._accuracy(self.answers)

    def _measured_speed(self, inputs: "Tensor") -> float:
        self._answers(inputs)  # the first pass also sets things up
        start = time.perf_counter()
        self._answers(inputs)
        return len(inputs) / max(time.perf_counter() - start, 1e-6)

    def _answers(self, inputs: "Tensor", model: Any = None) -> "Tensor":
        import torch

        from certcal.models import as_outputs

        run, parts = model or self._model, torch.split(inputs, 64)
        answers = (as_outputs(run(part.to(self._place, copy=True)), len(part), kind=self._kind) for part in parts)
        return torch.cat([answer.float().cpu() for answer in answers])

    def _accuracy(self, answers: "Tensor") -> float:
        return float((answers.argmax(dim=1) == self.labels).float().mean())

    def check_outputs(self) -> None:
        """Outputs are finite, and what `--outputs` says."""
        from certcal.models import no_distribution

        broken = ~self.answers.isfinite().all(dim=1)
        if broken.any():
            where = f"NaN or infinity for {int(broken.sum())} of {len(broken)} inputs without any noise"
            raise _wrong("model", "give finite outputs", f"{where}: weights that diverged, or a division by zero")
        like = not no_distribution(self.answers).any()
        one, low, high = (self.answers[:, 0] == 0).all(), float(self.answers.min()), float(self.answers.max())
        if self._kind == "logits" and (like or (self.classes == 2 and one and 0 <= low <= high <= 1)):
            ends = "a softmax" if like else "a sigmoid"
            raise _wrong(
                "outputs", "be 'logits' only of a model that gives logits",
                f"probabilities: the model ends in {ends} (give --outputs probabilities)",
            )  # fmt: skip
        if self._kind == "probabilities" and not like:
            raise _wrong(
                "outputs", "be 'probabilities' only of a model whose outputs sum to 1",
                f"values from {low:.3g} to {high:.3g}: these are logits (give --outputs logits)",
            )  # fmt: skip

    def check_batches(self) -> None:
        """An answer depends on its own input alone, and is the same every time."""
        import torch

        from certcal.models import made_up_inputs

        half = min(16, len(self.inputs))
        own, others = self.inputs[:half], made_up_inputs(half, tuple(self.inputs.shape[1:]))
        alone = self._answers(torch.cat([own, own]))[:half]
        again, beside = self._answers(torch.cat([own, own]))[:half], self._answers(torch.cat([own, others]))[:half]
        rounding = 1e-2 if self._place.type == "cuda" else 1e-3
        scale = rounding * max(1.0, float(alone.abs().max()))
        if float((again - alone).abs().max()) > scale:
            raise _wrong(
                "model", "answer an input the same way every time",
                "random outputs: dropout or noise that .eval() does not turn off",
            )  # fmt: skip
        if float((beside - alone).abs().max()) > scale:
            raise _wrong(
                "model", "answer each input by itself",
                "outputs that depend on the other inputs of their batch: batch statistics in evaluation mode "
                "(BatchNorm with track_running_stats=False?)",
            )  # fmt: skip

    def check_classes(self) -> None:
        """Labels are among the model's classes, and mean the same."""
        known, most = len(self._data.classes), int(self._data.labels.max())
        if most >= self.classes:
            raise _wrong("model", f"have an output for every label up to {most}", f"{self.classes} outputs")
        if self.classes != known and self.accuracy <= self._guessing():
            got = f"{self.classes} outputs, of which {self.accuracy:.0%} name the right class"
            cause = "class mismatch: the model was trained for other classes"
            raise _wrong("model", f"tell apart the {known} classes of the data", f"{got}: {cause}")

    def check_normalisation(self, *, given: bool) -> None:
        """No other normalisation of the inputs makes the model much better."""
        if self.accuracy >= 0.95:
            return
        tried = {
            name: self._accuracy(self._answers(self.inputs, self._normalised(*pair, replace=given)))
            for name, pair in self._normalisations().items()
        }
        name = max(tried, key=lambda one: tried[one], default="none")
        found = tried.get(name, 0.0)
        margin = max(0.15, 4 * math.sqrt(found * (1 - found) / len(self.inputs)))
        if found - self.accuracy < margin or self.accuracy > 0.75 * found:
            return
        mended = "the model seems to normalise by itself (leave out --mean and --std)"
        if name != "none":
            keys = zip(("mean", "std"), self._normalisations()[name], strict=True)
            told = " ".join(f"--{key} {_numbers(values)}" for key, values in keys)
            mended = f"normalisation forgotten? (give {told}, or those the model was trained with)"
        raise _wrong(
            "mean and std", "be those that the model was trained with",
            f"{self.accuracy:.0%} accuracy, and {found:.0%} with others: {mended}",
        )  # fmt: skip

    def _normalisations(self) -> dict[str, tuple[tuple[float, ...], tuple[float, ...]]]:
        if self.inputs.ndim != 4:
            return {}
        channels, wide = self.inputs.shape[1], self.inputs.double()
        mean, std = wide.mean(dim=(0, 2, 3)), wide.std(dim=(0, 2, 3)).clamp(min=1e-3)
        own = {"none": ((0.0,) * channels, (1.0,) * channels), "data": (tuple(mean.tolist()), tuple(std.tolist()))}
        for name, (means, stds) in NORMALISATIONS.items():
            if len(means) in (1, channels):
                own[name] = means * (channels // len(means)), stds * (channels // len(stds))
        return own

    def _normalised(self, mean: tuple[float, ...], std: tuple[float, ...], *, replace: bool) -> "nn.Module":
        """The network behind another normalisation, in place of its own if it was given one."""
        from torch import nn

        from certcal.models import Normalize

        inner = self._model[1] if replace and isinstance(self._model, nn.Sequential) else self._model
        return nn.Sequential(Normalize(mean, std).to(self._place), inner)

    def scan(self, sigma: float) -> tuple[Scanned, ...]:
        """Accuracy under the noise asked for, and under others, with the radii that each might certify."""
        import torch

        inputs, labels = self.inputs[:: max(1, len(self.inputs) // SCANNED)][:SCANNED], self.labels
        labels = labels[:: max(1, len(self.labels) // SCANNED)][:SCANNED]
        draws = int(min(16, max(4, self._passes / (len(FACTORS) * len(inputs)))))
        noise = torch.randn(draws, *inputs.shape, generator=torch.Generator().manual_seed(0))
        found, start = [], time.perf_counter()
        for factor in FACTORS:
            noisy = (inputs + factor * sigma * noise).flatten(0, 1)
            votes = torch.nn.functional.one_hot(self._answers(noisy).argmax(dim=1), self.classes)
            share = votes.reshape(draws, len(inputs), -1).sum(dim=0)[torch.arange(len(inputs)), labels] / draws
            # Half a draw either way, so that unanimous draws give a finite radius.
            radius = factor * sigma * torch.special.ndtri(share.clamp(0.5 / draws, 1 - 0.5 / draws).double())
            found.append(Scanned(factor * sigma, float((share > 0.5).float().mean()), max(0.0, float(radius.median()))))
        # Nearer to what sampling does than bare forward passes are.
        self.speed = len(FACTORS) * draws * len(inputs) / (time.perf_counter() - start)
        return tuple(found)

    def _guessing(self) -> float:
        """An accuracy up to which a model is not clearly better than guessing among the classes it sees."""
        p = 1 / max(2, len(set(self.labels.tolist())))
        return p + 2 * math.sqrt(p * (1 - p) / len(self.labels))

    def about_accuracy(self, counts: dict[str, int]) -> list[str]:
        """What to say of an accuracy that is no better than guessing."""
        told = []
        if sum(n > 0 for n in counts.values()) > 1 and self.accuracy <= self._guessing():
            told.append(
                f"Accuracy without noise is {self.accuracy:.0%} on {len(self.labels)} inputs, not clearly better than "
                "guessing: is the model trained, are these its weights (--weights), its classes and its normalisation?"
            )
        if self.classes != len(self._data.classes):
            told.append(f"The model has {self.classes} outputs, the data {len(self._data.classes)} classes.")
        return told


def _wrong(name: str, requirement: str, got: str) -> InputError:
    return InputError(f"{InputError.expected(name, requirement, got)} --no-checks goes on all the same.")


def _about_data(data: "ImageData", counts: dict[str, int]) -> list[str]:
    present, told = [name for name, n in counts.items() if n], []
    if len(present) == 1:
        told.append(f"All {len(data):,} inputs are of one class, {present[0]!r}: nothing is shown about the others.")
    elif len(present) < len(counts) and len(data) >= 5 * len(counts):
        told.append(f"Only {len(present)} of {len(counts)} classes are among the {len(data):,} inputs.")
    highest = float(data.take(limit=min(LEAST, len(data))).inputs.max())
    if highest <= 2 / 255:
        told.append(f"Inputs reach {highest:.2g} at most: were bytes divided by 255 twice?")
    return told


def _about_noise(clean: float, scan: tuple[Scanned, ...], settings: RunSettings) -> list[str]:
    """What to say of a model that the noise blinds."""
    own = next(one for one in scan if one.sigma == settings.certify.sigma)
    if clean - own.accuracy < 0.3:
        return []
    better = [one for one in scan if one.sigma < own.sigma and one.accuracy > own.accuracy + 0.1]
    hint = f", a smaller σ (at {better[0].sigma:g}: {better[0].accuracy:.0%})" if better else ""
    return [
        f"Accuracy falls from {clean:.0%} without noise to {own.accuracy:.0%} under σ = {own.sigma:g}: a model that "
        f"never saw noise? It needs training under noise (certcal train --objective noise){hint} or a denoiser."
    ]


def _numbers(values: tuple[float, ...]) -> str:
    return ",".join(f"{value:.4g}" for value in values)

"""A smoothed model with recalibrated confidences, for deployment."""

import warnings
from typing import NamedTuple

import torch
from torch import Tensor, nn

from certcal.errors import CertcalWarning, InputError
from certcal.models import (
    Noise,
    Purpose,
    as_module,
    as_outputs,
    as_probabilities,
    model_fingerprint,
    no_distribution,
)
from certcal.recalibration.caution import caution_about
from certcal.recalibration.maps import AnyMap
from certcal.scalars import check_choice, check_integer
from certcal.settings import Outputs, Values, checks
from certcal.smoothing import threshold_grid


class RecalibratedPredictions(NamedTuple):
    """What a recalibrated model says of a batch."""

    predicted: Tensor  # (n,) classes: those of the smoothed model without a map
    confidence: Tensor  # (n,) float64, mapped confidences in them


class RecalibratedModel(nn.Module):
    """The smoothed model, its predictions unchanged and the confidence in them recalibrated.

    The prediction is the class with the most votes among noisy copies of an input, its confidence the map of that
    class's mean probability over the copies. What is certified is the map of the *true* mean, g(E f(x + noise)); a
    forward pass estimates it from `draws` copies. A map of scores acts on each copy's probability before the mean. Each
    kind of map in the other's place would be another model, about which the certificates say nothing; so would `sigma`
    other than that of the evidence.

    Only the predicted class has a confidence: a map may take it below those of other classes, so a vector of class
    probabilities with that entry replaced could have another arg max.

    Args:
        model: gives logits (or probabilities) of shape (batch, classes). A map that knows its evidence warns of another
            model, and refuses inputs outside [0, 1], by more than σ and its radii, if those of the evidence lie in it.
        recalibration: from `recalibrate`, `fit_score_map` or `load_map`.
        sigma: the noise that the evidence was drawn with. 0 runs the model once, without noise: right where the bounds
            are of the network itself, and without a certificate where they are of a smoothed one.
        draws: noisy copies per input.
        outputs: "logits" or "probabilities", as for `collect_evidence`.
        batch_size: noisy copies per forward pass.
        seed: of the noise; the passes of one object go on drawing from it.
    """

    def __init__(
        self,
        model: nn.Module,
        recalibration: AnyMap,
        *,
        sigma: float,
        draws: int = 1000,
        outputs: str = "logits",
        batch_size: int = 1000,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not isinstance(recalibration, AnyMap):
            raise InputError.expected("recalibration", "be a map from `recalibrate`", type(recalibration).__name__)
        self.model, self.recalibration = as_module(model).eval(), recalibration
        inside, self._outside = recalibration.stages
        if inside is None and "before" in recalibration.about:
            wanted = "be fitted to confidences of the model itself, or come with the map before it in a `FullMap`"
            raise InputError.expected("recalibration", wanted, "one fitted to confidences after another map")
        self._warn()
        self._temperature = recalibration.divisor or 1.0
        if self._temperature != 1 and outputs != "logits":
            raise InputError.expected("outputs", "be 'logits' for a map with a temperature", repr(outputs))
        self._levels = None if inside is None else torch.as_tensor(inside.levels.copy())
        self.sigma = checks.not_negative("sigma", sigma)
        fitted = recalibration.about.get("sigma")
        if fitted is not None and self.sigma not in (0.0, fitted):
            raise InputError.expected("sigma", f"be {fitted:g}, that of the evidence the map was fitted to", sigma)
        self.draws = check_integer("draws", draws, minimum=1) if self.sigma else 1
        self.outputs = check_choice("outputs", outputs, tuple(Outputs))
        self.batch_size = check_integer("batch_size", batch_size, minimum=1)
        self._seed = checks.seed("seed", seed)
        self._seen = 0  # inputs so far: each gets noise of its own

    def _warn(self) -> None:
        """Tell of a map that was fitted to another model, or is little more than a guess."""
        mend = (
            "No certificate is about this one, unless it is the same within other modules: give that of the evidence."
        )
        known = "model" in self.recalibration.about
        other = self.recalibration.other_model(model_fingerprint(self.model)) if known else ""
        for told in (f"{other} {mend}" if other else "", caution_about(self.recalibration)):
            if told:
                warnings.warn(told, CertcalWarning, stacklevel=3)

    def train(self, mode: bool = True) -> "RecalibratedModel":
        """The wrapper's own mode; the model inside stays as it was certified, in evaluation mode."""
        super().train(mode)
        self.model.eval()
        return self

    @torch.inference_mode()
    def forward(self, inputs: Tensor) -> RecalibratedPredictions:
        """Predictions and recalibrated confidences of a batch, shape (n,) each."""
        if not isinstance(inputs, Tensor) or not inputs.is_floating_point() or inputs.ndim < 2:
            tensor = isinstance(inputs, Tensor)
            got = f"{inputs.dtype} of shape {tuple(inputs.shape)}" if tensor else type(inputs).__name__
            raise InputError.expected("inputs", "be a batch of floating-point inputs, shape (n, …)", got)
        if len(inputs) == 0:
            empty = torch.zeros(0, dtype=torch.float64, device=inputs.device)
            return RecalibratedPredictions(empty.long(), empty)
        self._check_range(inputs)
        self.model.eval()  # whoever shares the model may have left it in training
        parts = [self._forward(part) for part in torch.split(inputs, self.batch_size)]
        return RecalibratedPredictions(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def _check_range(self, inputs: Tensor) -> None:
        """Refuse inputs far outside [0, 1] where those of the evidence lie in it: the confidences would be of nothing.

        An attack may leave [0, 1] by as much as it moves an input; bytes and normalised inputs go farther.
        """
        if self.recalibration.about.get("units") != Values.UNIT.units or not inputs.numel():
            return
        low, high = (float(value) for value in inputs.aminmax())
        beyond = max(self.sigma, *self.recalibration.about.get("radii", ()), 0.01)
        if not (low >= -beyond and high <= 1 + beyond):
            wanted = "lie in [0, 1], as those of the map's evidence (normalisation is the model's first layer)"
            raise InputError.expected("inputs", wanted, f"values from {low:.4g} to {high:.4g}")

    def _forward(self, inputs: Tensor) -> RecalibratedPredictions:
        """The same for as many inputs as go through the model together."""
        votes = total = torch.zeros((), dtype=torch.float64, device=inputs.device)
        at_once = max(1, self.batch_size // max(len(inputs), 1))
        for start in range(0, self.draws, at_once):
            probs = self._probabilities(inputs, start, min(at_once, self.draws - start))
            votes = votes + nn.functional.one_hot(probs.argmax(dim=2), probs.shape[2]).sum(dim=1)
            total = total + self._scores(probs).sum(dim=1)
        self._seen += len(inputs)
        predicted = votes.argmax(dim=1)
        mean = (total.gather(1, predicted[:, None])[:, 0] / self.draws).clamp(0.0, 1.0)  # sums may round past 1
        return RecalibratedPredictions(predicted, torch.from_numpy(self._outside.transform(mean)).to(mean))

    def _scores(self, probs: Tensor) -> Tensor:
        """What the mean over the draws is taken of: the map of scores, if any, of each probability."""
        if self._levels is None:
            return probs
        cell = torch.bucketize(probs, torch.as_tensor(threshold_grid()[1:-1], device=probs.device), right=True)
        return self._levels.to(probs.device)[cell]

    def _probabilities(self, inputs: Tensor, first: int, draws: int) -> Tensor:
        """Class probabilities of noisy copies, from the first draw on, shape (n, draws, classes), float64."""
        noisy = inputs
        if self.sigma:
            noise = Noise(self._seed, Purpose.DEPLOYMENT, self.sigma)
            noisy = noise.copies(inputs, range(self._seen, self._seen + len(inputs)), first=first, draws=draws)
        answer = as_outputs(self.model(noisy), draws * len(inputs), kind=self.outputs)
        probs = as_probabilities(answer.double() / self._temperature, self.outputs)
        if bool(no_distribution(probs).any()):
            needs = "finite outputs" if self.outputs == "logits" else "probabilities, as `outputs` says"
            raise InputError.expected("model", f"give {needs}", "values that are none")
        return probs.reshape(len(inputs), draws, -1)

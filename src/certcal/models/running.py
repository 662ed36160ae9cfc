"""How a model is run: held still, under stated conditions, from inputs to probabilities."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from certcal.errors import InputError
from certcal.models.devices import AUTOCAST, autocast, layout_for
from certcal.models.fusion import fuse
from certcal.models.outputs import as_outputs, as_probabilities


@contextmanager
def held_still(model: nn.Module) -> Iterator[None]:
    """Within this context the model is in evaluation mode; afterwards each of its modules is as before.

    Gradients can be had within, though the caller be in inference mode.
    """
    if not isinstance(model, nn.Module):
        raise InputError.expected("model", "be a torch.nn.Module", type(model).__name__)
    modes = {module: module.training for module in model.modules()}  # a frozen batch-norm stays frozen
    model.eval()
    try:
        with torch.inference_mode(mode=False):
            yield
    finally:
        for module, training in modes.items():
            module.training = training


@dataclass(frozen=True)
class Conditions:
    """All that decides how the model's numbers are rounded and run, besides the model itself."""

    device: str  # the kind of device, or one of them
    precision: str = "float32"
    batch_size: int | None = None  # rows of a forward pass on a GPU; None: measured there
    fuse: bool = False
    compile: bool | None = False  # None: where it pays, of which nothing is recorded
    tf32: bool = True  # whether cuDNN may convolve in TF32

    def __str__(self) -> str:
        """What evidence records, such as "bfloat16 fused on cuda"."""
        kind = torch.device(self.device).type
        words = [self.precision, *["fused"] * self.fuse, *["compiled"] * bool(self.compile)]
        if kind == "cuda" and self.precision == "float32" and self.tf32:
            words.append("(tf32 convolutions)")
        return " ".join([*words, "on", kind])


class Runner:
    """An evaluation-mode model, already on its device, run as the conditions say: inputs in, probabilities out.

    `made_up` are inputs on that device, by which a fused model is checked. Another way to run a model is another class
    with `device`, `empty` and a call.
    """

    def __init__(
        self, model: nn.Module, conditions: Conditions, *, outputs: str, classes: int, made_up: Tensor
    ) -> None:
        self.device = made_up.device
        self._precision, self._outputs, self._classes = conditions.precision, outputs, classes
        self._plain = fuse(model, made_up[:4], AUTOCAST[conditions.precision]) if conditions.fuse else model
        self._model = self._compiled() if conditions.compile else self._plain

    def empty(self, rows: int, shape: torch.Size) -> Tensor:
        """Room for a batch of inputs of one shape, in the layout that is fastest."""
        layout = layout_for(self.device, shape)
        return torch.empty(rows, *shape, dtype=torch.float32, device=self.device, memory_format=layout)

    def outputs(self, batch: Tensor) -> Tensor:
        """What the model answers, shape (rows, k)."""
        return self._answer(self._model, batch)

    def plain_outputs(self, batch: Tensor) -> Tensor:
        """The same without the compiler: for a batch of a size that will not come again."""
        return self._answer(self._plain, batch)

    def compile_like(self, batch: Tensor) -> None:
        """Compile the model for batches of this size. One that cannot be, or then answers otherwise, stays as it is."""
        compiled = self._compiled()
        try:
            expected, got = self.plain_outputs(batch).float(), self._answer(compiled, batch).float()
        except Exception:  # whatever the compiler makes of code it was not made for
            return
        if torch.allclose(got, expected, rtol=0.0, atol=5e-2 * (1.0 + float(expected.abs().max()))):
            self._model = compiled

    def _compiled(self) -> nn.Module:
        # Batches have one or two shapes, those of selection and of estimation; each deserves code of its own.
        compiled: nn.Module = torch.compile(self._plain, dynamic=False)  # type: ignore[assignment]
        return compiled

    def __call__(self, batch: Tensor) -> Tensor:
        """Class probabilities in float32, shape (rows, k)."""
        return as_probabilities(self.outputs(batch).float(), self._outputs)

    def _answer(self, model: Callable[[Tensor], object], batch: Tensor) -> Tensor:
        with autocast(self._precision, self.device):
            answer = model(batch)
        return as_outputs(answer, len(batch), self._classes, kind=self._outputs)


def made_up_inputs(rows: int, shape: tuple[int, ...]) -> Tensor:
    """Inputs on which models are compared; the same everywhere, and the first rows whatever their number."""
    generator = torch.Generator().manual_seed(0)
    return torch.rand(rows, *shape, generator=generator, dtype=torch.float32)

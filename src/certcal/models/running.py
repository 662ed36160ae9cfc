"""How a model is run: held still, in the fastest layout, under stated conditions, from inputs to probabilities.

With their channels last in memory images go through a GPU's convolutions fastest. Not every model bears that: many call
`view` on what a convolution gave, which raises then, and convolutions of volumes know no such layout. So each is tried
on a few images, and runs on plain ones where it fails or answers otherwise.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from certcal.errors import InputError
from certcal.models.devices import AUTOCAST, autocast
from certcal.models.fusion import fuse
from certcal.models.outputs import as_outputs, as_probabilities

Model = TypeVar("Model", bound=nn.Module)
PLAIN, LAST = torch.contiguous_format, torch.channels_last


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


def on_device(model: Model, device: torch.device, shape: tuple[int, ...]) -> Model:
    """The model on a device, ready for inputs of a shape; on a GPU in the layout that is fastest."""
    model.to(device)
    # Tensor cores take channels side by side in eights; other widths are padded and moved about at every convolution.
    widths = [len(weight) for weight in model.parameters() if weight.dim() == 4]
    if device.type == "cuda" and len(shape) == 3 and all(width % 8 == 0 for width in widths):
        lay_out(model, made_up_inputs(4, shape).to(device))
    return model


def lay_out(model: nn.Module, images: Tensor) -> None:
    """Put the weights of a model with channels last too, if it then answers images as before."""
    if any(own.dim() == 5 for own in (*model.parameters(), *model.buffers())):
        return  # of convolutions of volumes, for which this layout is not defined
    images = _in_order(images)
    with held_still(model), torch.no_grad():
        before = _tried(model, images)
        model.to(memory_format=LAST)  # type: ignore[call-overload]
        if not all(_alike(_tried(model, own), before) for own in (images, _channels_last(images))):
            model.to(memory_format=PLAIN)  # type: ignore[call-overload]


def fastest_layout(answer: Callable[[Tensor], object], images: Tensor) -> torch.memory_format:
    """How to lay out batches like these for a model on a GPU: with channels last, if it answers those as plain ones."""
    images = _in_order(images)
    return LAST if _alike(_tried(answer, _channels_last(images)), _tried(answer, images)) else PLAIN


def _in_order(images: Tensor) -> Tensor:
    """The images, brighter from element to element: whoever reads them in another order answers otherwise."""
    return images * torch.linspace(0.0, 1.0, images[0].numel(), device=images.device).reshape(images.shape[1:])


def _channels_last(images: Tensor) -> Tensor:
    # Not `to`, which takes one channel to be last as it stands, where a convolution does not.
    return torch.empty(images.shape, device=images.device, memory_format=LAST).copy_(images)


def _tried(answer: Callable[[Tensor], object], images: Tensor) -> Tensor | None:
    """What a model answers to images; None if it fails. Room that was lacking for a moment must not decide a layout."""
    try:
        return as_outputs(answer(images), len(images)).float()
    except torch.OutOfMemoryError:
        raise
    except Exception:  # whatever a model does that was not made for images in this layout
        return None


def _alike(got: Tensor | None, expected: Tensor | None) -> bool:
    """Whether two ways to run a model give the same but for rounding."""
    if got is None or expected is None:
        return False
    return bool((got - expected).abs().max() <= 5e-2 * expected.abs().max())  # NaN: no


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
        images = made_up.is_cuda and made_up.dim() == 4
        self._layout = fastest_layout(self.plain_outputs, made_up[:4]) if images else PLAIN

    def empty(self, rows: int, shape: torch.Size) -> Tensor:
        """Room for a batch of inputs of one shape, in the layout that is fastest."""
        return torch.empty(rows, *shape, dtype=torch.float32, device=self.device, memory_format=self._layout)

    def outputs(self, batch: Tensor) -> Tensor:
        """What the model answers, shape (rows, k)."""
        return self._answer(self._model, batch)

    def plain_outputs(self, batch: Tensor) -> Tensor:
        """The same without the compiler: for a batch of a size that will not come again."""
        return self._answer(self._plain, batch)

    def compile_like(self, batch: Tensor) -> None:
        """Compile the model for batches of this size. One that cannot be, or then answers otherwise, stays as it is."""
        compiled = self._compiled()
        with suppress(torch.OutOfMemoryError):
            if _alike(_tried(lambda images: self._answer(compiled, images), batch), _tried(self.plain_outputs, batch)):
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

"""Under which conditions a model is sampled, and the sampler that follows from them: the same here and on a worker."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from certcal.errors import InputError
from certcal.models.fusion import fuse as fused
from certcal.smoothing.evidence import EvidenceHeader
from certcal.smoothing.sampler import PRECISIONS, Sampler


@dataclass(frozen=True)
class Conditions:
    """All that decides how the model's numbers are rounded and run, besides the model itself."""

    device: str  # the kind of device, or one of them
    precision: str
    batch_size: int | None
    fuse: bool
    compile: bool
    tf32: bool  # whether cuDNN may convolve in TF32

    def __str__(self) -> str:
        """What evidence records, such as "bfloat16 fused on cuda"."""
        kind = torch.device(self.device).type
        words = [self.precision, *["fused"] * self.fuse, *["compiled"] * self.compile]
        if kind == "cuda" and self.precision == "float32" and self.tf32:
            words.append("(tf32 convolutions)")
        return " ".join([*words, "on", kind])


def made_up_inputs(rows: int, shape: tuple[int, ...]) -> Tensor:
    """Inputs on which models are compared; the same everywhere, and the first rows whatever their number."""
    generator = torch.Generator().manual_seed(0)
    return torch.rand(rows, *shape, generator=generator)


def make_sampler(model: nn.Module, header: EvidenceHeader, conditions: Conditions, made_up: Tensor) -> Sampler:
    """A sampler of an evaluation-mode model that is already on its device, as are the made-up inputs."""
    place = made_up.device
    runner = fused(model, made_up[:4], PRECISIONS[conditions.precision]) if conditions.fuse else model
    return Sampler(
        runner,
        header,
        device=place,
        precision=conditions.precision,
        outputs=header.outputs,
        chunks_per_batch=capacity(conditions, header.chunk),
        compile=conditions.compile,
    )


def capacity(conditions: Conditions, chunk: int) -> int:
    """Chunks in one forward pass: one on a CPU, whose results then depend on nothing else in the batch."""
    return 1 if torch.device(conditions.device).type == "cpu" else max(1, (conditions.batch_size or 4000) // chunk)


def on_device(model: nn.Module, device: torch.device) -> nn.Module:
    """The model in evaluation mode on its device, in the layout that is fastest there."""
    model = model.to(device).eval()
    if device.type == "cuda":
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


@contextmanager
def fastest_convolutions() -> Iterator[None]:
    """Within this context cuDNN tries its algorithms once per shape and keeps the fastest; shapes here never change."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def device_of(model: nn.Module) -> str:
    """Where a model's parameters are."""
    return str(next((parameter.device for parameter in model.parameters()), torch.device("cpu")))


def count_classes(model: nn.Module, value: Tensor) -> int:
    """How many classes the model tells apart, from its answer to one input on its device."""
    try:
        out = model(value[None])
    except (RuntimeError, ValueError, TypeError) as error:
        got = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        raise InputError.expected("model", f"accept inputs of shape {tuple(value.shape)}", got) from error
    if not isinstance(out, Tensor) or out.ndim != 2 or out.shape[1] < 2:
        shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise InputError.expected("model", "give outputs of shape (batch, classes ≥ 2)", shape)
    return int(out.shape[1])

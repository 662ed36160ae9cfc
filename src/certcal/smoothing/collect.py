"""Collecting evidence: from a model and data to the sufficient statistic of its draws, resumable at any point."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from os import PathLike
from typing import Any

import torch
from torch import nn

from certcal.data.fingerprint import model_fingerprint
from certcal.errors import InputError
from certcal.inputs import check_choice, check_device, check_flag, check_integer, check_number, one_or_more
from certcal.smoothing.drawing import Plan, StoppingRule, sample_window, windows
from certcal.smoothing.evidence import MAX_CHUNK, MAX_DRAWS, Evidence, EvidenceHeader
from certcal.smoothing.fusion import fuse as fused
from certcal.smoothing.interrupts import deferred_interrupts
from certcal.smoothing.keeper import Keeper
from certcal.smoothing.progress import Progress
from certcal.smoothing.sampler import PRECISIONS, Sampler
from certcal.smoothing.sources import Item, Source
from certcal.smoothing.store import EvidenceStore
from certcal.threads import fastest_threads


def collect_evidence(
    model: nn.Module,
    data: Any,
    *,
    sigma: float,
    n: int = 100_000,
    n0: int = 100,
    seed: int = 0,
    chunk: int = 250,
    stages: Sequence[int] | None = None,
    stop: StoppingRule | None = None,
    outputs: str = "logits",
    device: str | None = None,
    precision: str = "float32",
    batch_size: int | None = None,
    fuse: bool = False,
    compile: bool = False,
    store: str | PathLike[str] | None = None,
    progress: bool | None = None,
) -> Evidence:
    """The evidence of a smoothed model: for each input, votes, sums and a histogram of its noisy predictions.

    Certificates at any radius and level follow from it without running the model again. On a CPU the evidence is the
    same bit for bit whatever the batch size, the order of inputs, interruptions, or how often draws were added.

    Paper: App. A.1.

    Args:
        model: gives logits of shape (batch, classes) for inputs in [0, 1]; normalisation is its first layer.
        data: (inputs, labels), a Dataset or an unshuffled DataLoader; `certcal.data.load_dataset` gives one.
        sigma: standard deviation of the noise, in the units of the inputs.
        n: estimation draws per input, rounded up to whole chunks.
        n0: selection draws per input, which only choose the class to certify.
        seed: of the noise. Noise depends on (seed, input, chunk) alone.
        chunk: draws that are generated, run and stored together.
        stages: draws after which sampling may stop for an input, rising to `n`; needs `stop`.
        stop: given the evidence of some inputs, says which of them need no more draws, such as
            `certcal.certificates.StopWhenDecided`. Each stage is a look at the data, and certificates divide alpha by
            their number.
        outputs: "logits", or "probabilities" if the model ends in a softmax.
        device: where to run; the model's own device by default.
        precision: "float32", or "bfloat16" / "float16" for autocast. The certificate is of the model run that way.
        batch_size: draws per forward pass on a GPU, 4000 by default, in whole chunks. On a CPU it is one chunk.
        fuse: fold batch-norm, ReLU and residual sums into convolutions: the fastest way on a GPU, with other rounding.
        compile: run the model through torch.compile.
        store: a folder to keep the evidence in. A run that was interrupted, or asks for more draws, goes on there.
        progress: show draws per second and time left; by default if standard error is a terminal.

    Raises:
        InputError: if an argument is wrong, or the store holds evidence of another model, noise or seed.
        CertcalError: if the model gives no probabilities, or evidence cannot be read or written.
    """
    check_number("sigma", sigma, "be a number > 0", lambda value: value > 0)
    for name, value, most in (("n", n, MAX_DRAWS), ("n0", n0, MAX_CHUNK), ("chunk", chunk, MAX_CHUNK)):
        check_integer(name, value, minimum=1, maximum=most)
    check_integer("batch_size", 4000 if batch_size is None else batch_size, minimum=1)
    check_flag("fuse", fuse)
    check_flag("compile", compile)
    check_integer("seed", seed, minimum=0, maximum=2**63 - 1)
    check_choice("outputs", outputs, ("logits", "probabilities"))
    check_choice("precision", precision, tuple(PRECISIONS))
    targets = _chunk_targets(n, chunk, stages, stop)
    plan = Plan(targets, stop)
    if not isinstance(model, nn.Module):
        raise InputError.expected("model", "be a torch.nn.Module", type(model).__name__)
    place = check_device("device", device or _device_of(model))
    source = Source(data)
    modes = {module: module.training for module in model.modules()}  # a frozen batch-norm stays frozen
    model = model.to(place).eval()
    if place.type == "cuda":
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    keeping: EvidenceStore | None = None
    try:
        with torch.inference_mode(), _fastest_convolutions():
            first = next(source.items(set()))
            header = EvidenceHeader(
                model=model_fingerprint(model),
                sigma=float(sigma),
                seed=seed,
                classes=_count_classes(model, first, place),
                n0=n0,
                chunk=chunk,
                precision=_describe_precision(precision, place, fuse=fuse, compile=compile),
                looks=len(targets),
                stages=() if stages is None else tuple(target * chunk for target in targets),
                outputs=outputs,
            )
            rows = max(chunk, n0) if place.type == "cpu" else 4  # a rehearsal on the CPU takes whole batches
            made_up = torch.rand(rows, *first.input.shape, generator=torch.Generator().manual_seed(0)).to(place)
            runner = fused(model, made_up[:4], PRECISIONS[precision]) if fuse else model
            sampler = Sampler(
                runner,
                header,
                device=place,
                precision=precision,
                outputs=outputs,
                chunks_per_batch=1 if place.type == "cpu" else max(1, (batch_size or 4000) // chunk),
                compile=compile,
            )
            if store is not None:
                keeping = EvidenceStore(store, header, probe=model(made_up[:1]).float().flatten().tolist())
            keeper = Keeper(header, keeping)
            keeper.check(first)  # the others are checked as they are read
            rehearse = place.type == "cpu" and len(plan.finished(keeper, source.indices)) < len(source)
            threads = fastest_threads(lambda: torch.cat([sampler.predict(made_up[:draws])[0] for draws in (chunk, n0)]))
            meter = Progress(len(source), targets[-1] * chunk, show=progress)
            with threads if rehearse else nullcontext(), meter, deferred_interrupts() as interrupted:
                try:
                    for window in windows(source, keeper, plan, meter):
                        sample_window(window, sampler, keeper, plan, meter, interrupted)
                finally:
                    keeper.save()
    finally:
        for module, training in modes.items():
            module.training = training
        if keeping is not None:
            keeping.close()
    return keeper.evidence(source.indices)


def _chunk_targets(n: int, chunk: int, stages: Sequence[int] | None, stop: StoppingRule | None) -> list[int]:
    """After how many chunks each stage ends; the last stage ends at n."""
    if (stages is None) != (stop is None):
        raise InputError.expected("stages and stop", "be given together", "stop" if stages is None else "stages alone")
    draws = [n] if stages is None else [check_integer("stages", s, minimum=1) for s in one_or_more("stages", stages)]
    targets = [-(-stage // chunk) for stage in draws]
    if targets != sorted(set(targets)) or targets[-1] != -(-n // chunk):
        raise InputError.expected("stages", f"rise to n = {n} by whole chunks of {chunk}", list(draws))
    return targets


@contextmanager
def _fastest_convolutions() -> Iterator[None]:
    """Within this context cuDNN tries its algorithms once per shape and keeps the fastest; shapes here never change."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def _describe_precision(precision: str, device: torch.device, *, fuse: bool, compile: bool) -> str:
    """All that decides how the model's numbers are rounded, such as "bfloat16 fused on cuda"."""
    words = [precision, *["fused"] * fuse, *["compiled"] * compile]
    if device.type == "cuda" and precision == "float32" and torch.backends.cudnn.allow_tf32:
        words.append("(tf32 convolutions)")
    return " ".join([*words, "on", device.type])


def _device_of(model: nn.Module) -> str:
    return str(next((parameter.device for parameter in model.parameters()), torch.device("cpu")))


def _count_classes(model: nn.Module, item: Item, device: torch.device) -> int:
    """How many classes the model tells apart, from its answer to one input."""
    try:
        out = model(item.input[None].to(device))
    except (RuntimeError, ValueError, TypeError) as error:
        got = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        raise InputError.expected("model", f"accept inputs of shape {tuple(item.input.shape)}", got) from error
    if not isinstance(out, torch.Tensor) or out.ndim != 2 or out.shape[1] < 2:
        shape = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
        raise InputError.expected("model", "give outputs of shape (batch, classes ≥ 2)", shape)
    return int(out.shape[1])

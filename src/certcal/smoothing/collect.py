"""Collecting evidence: from a model and data to the sufficient statistic of its draws, resumable at any point."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import nn

from certcal.data.fingerprint import model_fingerprint
from certcal.errors import InputError
from certcal.inputs import check_choice, check_device, check_integer, check_number
from certcal.smoothing.evidence import MAX_CHUNK, MAX_DRAWS, Evidence, EvidenceHeader
from certcal.smoothing.progress import Progress
from certcal.smoothing.sampler import PRECISIONS, Sampler
from certcal.smoothing.sources import Item, Source
from certcal.smoothing.store import EvidenceStore, Rows, concatenate, sum_rows
from certcal.threads import fastest_threads

StoppingRule = Callable[[Evidence], "np.typing.NDArray[np.bool_]"]

WINDOW = 32  # inputs whose statistics are on the device together
FLUSH_SECONDS = 5.0


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
    for name, value in (("n", n), ("n0", n0), ("chunk", chunk)):
        check_integer(name, value, minimum=1)
    for name, value, most in (("n", n, MAX_DRAWS), ("chunk", chunk, MAX_CHUNK)):
        check_number(name, value, f"be at most {most}", lambda number, most=most: number <= most)  # type: ignore[misc]
    check_integer("seed", seed, minimum=0)
    check_choice("outputs", outputs, ("logits", "probabilities"))
    check_choice("precision", precision, tuple(PRECISIONS))
    targets = _chunk_targets(n, chunk, stages, stop)
    place = check_device("device", device or _device_of(model))
    source = Source(data)
    was_training, model = model.training, model.to(place).eval()
    if place.type == "cuda":
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
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
                precision=" ".join([precision, *["fused"] * fuse, *["compiled"] * compile, "on", place.type]),
                looks=len(targets),
                outputs=outputs,
            )
            sampler = Sampler(
                model,
                header,
                device=place,
                precision=precision,
                outputs=outputs,
                chunks_per_batch=1 if place.type == "cpu" else max(1, (batch_size or 4000) // chunk),
                fuse=fuse,
                compile=compile,
            )
            keeper = Keeper(header, None if store is None else EvidenceStore(store, header))
            keeper.check(first)  # the others are checked as they are read
            rehearsal = first.input.expand(chunk, *first.input.shape)
            threads = fastest_threads(lambda: model(rehearsal)) if place.type == "cpu" else nullcontext()
            with threads, Progress(len(source), targets[-1] * chunk, show=progress) as meter:
                for window in _windows(source, keeper, targets, stop, meter):
                    _sample_window(window, sampler, keeper, targets, stop, meter)
    finally:
        model.train(was_training)
    return keeper.evidence(source.indices)


class Keeper:
    """What has been drawn so far: in memory, and in the store if there is one."""

    def __init__(self, header: EvidenceHeader, store: EvidenceStore | None) -> None:
        self.header, self._store = header, store
        self._parts = [] if store is None else [store.rows()]
        self.chunks: dict[int, int] = {}
        self.selected: dict[int, int] = {}
        self._known: dict[int, tuple[int, int]] = {}  # content and label
        for part in self._parts:
            self._note(part)

    def keep(self, rows: Rows) -> None:
        """Take rows in, on disk first."""
        if self._store is not None:
            self._store.append(rows)
        self._parts.append(rows)
        self._note(rows)

    def evidence(self, indices: Sequence[int]) -> Evidence:
        """The evidence of some inputs, in their order."""
        rows = concatenate(self._parts, self.header.classes)
        self._parts = [rows]
        wanted = np.isin(rows.index, np.asarray(indices))
        whole = sum_rows(Rows(**{name: getattr(rows, name)[wanted] for name in rows.__dataclass_fields__}), self.header)
        position = {int(index): place for place, index in enumerate(whole.index)}
        return whole.select(np.array([position[index] for index in indices if index in position], dtype=np.int64))

    def check(self, item: Item) -> None:
        """Refuse an input that is not the one its stored evidence was drawn from."""
        content, label = self._known.get(item.index, (item.content, item.label))
        if content != item.content:
            raise InputError(
                f"Expected input {item.index} to be the one its stored evidence was drawn from, but its values differ. "
                "Use another folder for other data."
            )
        if label != item.label:
            raise InputError.expected(
                "data", f"label input {item.index} {label}, as its stored evidence does", item.label
            )

    def _note(self, rows: Rows) -> None:
        columns = (rows.index, rows.content, rows.label, rows.selected, rows.stop)
        for index, content, label, selected, stop in zip(*(column.tolist() for column in columns), strict=True):
            self.chunks[index] = max(stop, self.chunks.get(index, 0))
            self.selected[index] = selected
            self._known[index] = content, label


def _windows(
    source: Source, keeper: Keeper, targets: list[int], stop: StoppingRule | None, meter: Progress
) -> Iterator[list[Item]]:
    """Groups of inputs that still need draws."""
    done = {index for index in source.indices if keeper.chunks.get(index, 0) >= targets[-1]}
    looked = [i for i in source.indices if i not in done and keeper.chunks.get(i, 0) in targets[:-1]]
    if stop is not None and looked:
        evidence = keeper.evidence(looked)
        done |= set(evidence.index[stop(evidence)].tolist())
    for index in source.indices:
        meter.known(keeper.chunks.get(index, 0) * keeper.header.chunk, finished=index in done)
    items = source.items(done)
    while window := list(islice(items, WINDOW)):
        yield window


def _sample_window(
    window: list[Item], sampler: Sampler, keeper: Keeper, targets: list[int], stop: StoppingRule | None, meter: Progress
) -> None:
    """Draw for the inputs of a window, stage by stage, keeping what is drawn every few seconds and at any end."""
    for item in window:
        keeper.check(item)
    sampler.open_window(window, keeper.selected)
    active = list(range(len(window)))
    for target in targets:
        work = [(slot, chunk) for slot in active for chunk in range(keeper.chunks.get(window[slot].index, 0), target)]
        _draw(work, window, sampler, keeper, meter)
        if stop is not None and target != targets[-1] and active:
            evidence = keeper.evidence([window[slot].index for slot in active])
            # A resumed input may be past this stage already: then this look was passed before.
            at_stage = evidence.draws == target * keeper.header.chunk
            finished = stop(evidence) & at_stage
            meter.stopped(evidence.draws[finished])
            active = [slot for slot, over in zip(active, finished, strict=True) if not over]


def _draw(work: list[tuple[int, int]], window: list[Item], sampler: Sampler, keeper: Keeper, meter: Progress) -> None:
    pending: list[tuple[int, int]] = []
    last = time.monotonic()
    size = sampler.capacity
    try:
        for start in range(0, len(work), size):
            batch = work[start : start + size]
            sampler.draw(batch)
            pending += batch
            meter.drew(len(batch) * keeper.header.chunk)
            if time.monotonic() - last > FLUSH_SECONDS:
                _keep(pending, window, sampler, keeper)
                pending, last = [], time.monotonic()
    except KeyboardInterrupt:
        _keep(pending, window, sampler, keeper)
        raise
    _keep(pending, window, sampler, keeper)


def _keep(pending: list[tuple[int, int]], window: list[Item], sampler: Sampler, keeper: Keeper) -> None:
    """Hand what the sampler has accumulated over the pending chunks to the keeper."""
    if not pending:
        return
    votes, score_units, square_units, histogram = sampler.collect()
    slots = sorted({slot for slot, _ in pending})
    chunks = [[chunk for slot, chunk in pending if slot == own] for own in slots]
    keeper.keep(
        Rows(
            index=np.array([window[slot].index for slot in slots]),
            content=np.array([window[slot].content for slot in slots]),
            label=np.array([window[slot].label for slot in slots]),
            selected=np.array([sampler.selected[slot] for slot in slots]),
            first=np.array([own[0] for own in chunks]),
            stop=np.array([own[-1] + 1 for own in chunks]),
            votes=votes[slots],
            score_units=score_units[slots],
            square_units=square_units[slots],
            histogram=histogram[slots],
        )
    )


def _chunk_targets(n: int, chunk: int, stages: Sequence[int] | None, stop: StoppingRule | None) -> list[int]:
    """After how many chunks each stage ends; the last stage ends at n."""
    if (stages is None) != (stop is None):
        raise InputError.expected("stages and stop", "be given together", "one of them")
    draws = [n] if stages is None else [check_integer("stages", stage, minimum=1) for stage in stages]
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

"""A training step on a GPU as CUDA graphs: the adversary's passes are then one launch instead of thousands.

Where an objective works on the host, one graph ends and the next begins.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from certcal.training.step import Objective, Step

Work = Callable[[], tuple[Tensor, ...]]
_RECORDING: ContextVar["Tape | None"] = ContextVar("recording", default=None)
WARM_UPS = 3  # passes before the capture, in which libraries choose their algorithms


def on_host(work: Work) -> tuple[Tensor, ...]:
    """What the work gives, without gradients; each replay of a recorded step does it anew, between two graphs.

    So it may ask the device for numbers, and must find all it reads in the step's tensors or leave it there itself.
    """
    tape = _RECORDING.get()
    with torch.no_grad():
        return work() if tape is None else tape.cut(work)


@dataclass(frozen=True, eq=False)
class _Part:
    """A graph, and the work after it with the tensors in which the next graph looks for its results."""

    graph: torch.cuda.CUDAGraph
    work: Work
    results: tuple[Tensor, ...]


class Tape:
    """What a function does on the current stream, to be done again: graphs with the host's work in between."""

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator
        self._pool = torch.cuda.graph_pool_handle()  # one for all parts: they run one after another
        self._parts: list[_Part] = []
        self._graph: torch.cuda.CUDAGraph | None = None  # the one under way, in the end the last

    def record(self, function: Callable[[], Tensor]) -> Tensor:
        """The tensor that the function gives, which every replay writes to. It is not computed yet."""
        self._begin()
        token = _RECORDING.set(self)
        try:
            return function()
        finally:
            _RECORDING.reset(token)
            if self._graph is not None:
                self._graph.capture_end()

    def cut(self, work: Work) -> tuple[Tensor, ...]:
        """End a graph, do the work on what it computes, and begin the next."""
        graph, self._graph = self._graph, None
        assert graph is not None
        graph.capture_end()
        graph.replay()  # a capture computes nothing, and the work wants numbers
        results = tuple(result.clone() for result in work())
        self._parts.append(_Part(graph, work, results))
        self._begin()
        return results

    def replay(self) -> None:
        """Do all of it again, with what its tensors hold now."""
        assert self._graph is not None
        with torch.no_grad():
            for part in self._parts:
                part.graph.replay()
                for kept, new in zip(part.results, part.work(), strict=True):
                    kept.copy_(new)
            self._graph.replay()

    def _begin(self) -> None:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
        self._graph = graph


@dataclass(frozen=True, eq=False)
class _Recorded:
    """Loss and gradients of one batch; a replay reads the batch from its own tensors and writes to its own."""

    tape: Tape
    inputs: Tensor
    labels: Tensor
    step: Step  # whose generator the tape draws from
    loss: Tensor
    gradients: list[Tensor | None]  # one for each parameter


class Descent:
    """The loss of a batch with its gradients left in the parameters, captured where that is possible.

    Where an objective works on the CPU in between, as ADMM and the exact worst case do, the graph is cut (`on_host`).
    Models that ask the device for numbers run as they are. Noise, seeds and results are those of the plain step.
    """

    def __init__(
        self, objective: Objective, model: nn.Module, autocast: Callable[[], AbstractContextManager[object]]
    ) -> None:
        self._objective, self._model, self._autocast = objective, model, autocast
        self._captured: _Recorded | None = None
        self._can_capture = True

    def __call__(self, inputs: Tensor, labels: Tensor, step: Step) -> Tensor:
        """The loss, detached. Old gradients are replaced."""
        if inputs.device.type == "cuda" and self._can_capture:
            found = self._captured
            if found is None or not _fits(found, inputs, labels, step):
                self._captured = found = self._capture(inputs, labels, step)
            if found is not None:
                return self._replay(found, inputs, labels, step)
        return self._plain(inputs, labels, step)

    def _plain(self, inputs: Tensor, labels: Tensor, step: Step) -> Tensor:
        self._model.zero_grad()
        with self._autocast():
            loss = self._objective(self._model, inputs, labels, step)
        torch.autograd.backward(loss)
        return loss.detach()

    def _replay(self, found: _Recorded, inputs: Tensor, labels: Tensor, step: Step) -> Tensor:
        found.inputs.copy_(inputs)
        found.labels.copy_(labels)
        found.step.generator.manual_seed(step.generator.initial_seed())
        with self._autocast():
            found.tape.replay()
        for parameter, gradient in zip(self._model.parameters(), found.gradients, strict=True):
            parameter.grad = gradient
        return found.loss

    def _capture(self, inputs: Tensor, labels: Tensor, step: Step) -> _Recorded | None:
        """The record of a step with this σ, ε and shape; None if there can be none.

        Warm-up passes are no steps: random numbers and running statistics are afterwards as they were.
        """
        self._captured = None  # frees the memory of the one before
        own = replace(step, generator=torch.Generator(inputs.device).manual_seed(step.generator.initial_seed()))
        x, y = inputs.clone(), labels.clone()
        tape, side = Tape(own.generator), torch.cuda.Stream(inputs.device)  # type: ignore[no-untyped-call]
        try:
            with torch.random.fork_rng([inputs.device]), _kept_buffers(self._model), _on(side):
                for _ in range(WARM_UPS):
                    self._plain(x, y, own)
                torch.cuda.synchronize(inputs.device)
                self._model.zero_grad()
                loss = tape.record(lambda: self._plain(x, y, own))
        except Exception:  # whatever it is: a step taken plainly meets it again, if it is more than the capture
            self._can_capture = False
            self._model.zero_grad()
            return None
        return _Recorded(tape, x, y, own, loss, [parameter.grad for parameter in self._model.parameters()])


class Reading:
    """Numbers on their way from the device. Waiting for them does not wait for what the device is given later."""

    def __init__(self, numbers: Tensor) -> None:
        self._numbers = numbers.to("cpu", non_blocking=True)
        self._sent = torch.cuda.Event() if numbers.is_cuda else None  # type: ignore[no-untyped-call]
        if self._sent is not None:
            self._sent.record(torch.cuda.current_stream(numbers.device))

    def numbers(self) -> list[float]:
        """The numbers, once they are here."""
        if self._sent is not None:
            self._sent.synchronize()
        numbers: list[float] = self._numbers.tolist()
        return numbers


def _fits(found: _Recorded, inputs: Tensor, labels: Tensor, step: Step) -> bool:
    same_schedule = (found.step.sigma, found.step.epsilon) == (step.sigma, step.epsilon)
    return same_schedule and found.inputs.shape == inputs.shape and found.labels.shape == labels.shape


@contextmanager
def _kept_buffers(model: nn.Module) -> Iterator[None]:
    """Afterwards running statistics are those from before."""
    before = [buffer.clone() for buffer in model.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, kept in zip(model.buffers(), before, strict=True):
                buffer.copy_(kept)


@contextmanager
def _on(side: torch.cuda.Stream) -> Iterator[None]:
    """Within this context work goes to another stream, after all before it and before all after it."""
    here = torch.cuda.current_stream(side.device)
    side.wait_stream(here)
    with torch.cuda.stream(side):
        yield
    here.wait_stream(side)


def no_number(model: nn.Module, device: torch.device) -> Tensor:
    """A loss that is no number, with gradients for the exchange between processes."""
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    return torch.full((), float("nan"), device=device)

"""A step recorded as CUDA graphs. Where an objective works on the host, one graph ends and the next begins."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor

Work = Callable[[], tuple[Tensor, ...]]

_RECORDING: ContextVar["Tape | None"] = ContextVar("recording", default=None)


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

"""Ctrl-C, and what schedulers send before they kill, wait for a safe point; time limits end work in the same way."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def deferred_interrupts() -> Iterator[Callable[[], bool]]:
    """Within this context Ctrl-C and SIGTERM are noted; the function given tells whether one came.

    A second one stops at once. After the context, what came has its usual effect: nobody may have asked again before
    the work was done, or failed by itself, and a Ctrl-C must not be lost then. Work that asked, was told, and raised
    has stopped because of it.
    """
    noted: list[int] = []
    told: list[bool] = []
    if threading.current_thread() is not threading.main_thread():  # Python interrupts the main thread only
        yield lambda: False
        return

    def note(number: int, frame: FrameType | None) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    def asked() -> bool:
        told.extend([True] * bool(noted))
        return bool(noted)

    before, finished = {number: signal.signal(number, note) for number in STOPS}, False
    try:
        yield asked
        finished = True
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for came in noted:
            if finished or not told or came == signal.SIGTERM:
                signal.raise_signal(came)


@contextmanager
def time_limit(seconds: float | None) -> Iterator[Callable[[], bool]]:
    """Within this context Ctrl-C comes by itself after so many seconds; the function given tells whether it did."""
    rung: list[bool] = []

    def ring(number: int, frame: FrameType | None) -> None:
        rung.append(True)
        signal.raise_signal(signal.SIGINT)

    if seconds is None:
        yield lambda: False
        return
    before = signal.signal(signal.SIGALRM, ring)
    # 0 would mean never. Again later, for the case that the first came when nobody asked any more.
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6), 15.0)
    try:
        yield lambda: bool(rung)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

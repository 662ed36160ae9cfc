"""Ctrl-C, and what schedulers send before they kill, wait for a safe point, so that no chunk is half counted."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def deferred_interrupts() -> Iterator[Callable[[], bool]]:
    """Within this context Ctrl-C and SIGTERM are noted; the function given tells whether one came.

    A second one stops at once. After the context, a SIGTERM that came has its usual effect.
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # Python interrupts the main thread only
        yield lambda: False
        return

    def note(number: int, frame: FrameType | None) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    before = {number: signal.signal(number, note) for number in STOPS}
    try:
        yield lambda: bool(noted)
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if signal.SIGTERM in noted:
            signal.raise_signal(signal.SIGTERM)

"""Ctrl-C that waits for a safe point, so that no chunk is half counted."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred_interrupts() -> Iterator[Callable[[], bool]]:
    """Within this context Ctrl-C is noted; the function given tells whether it came. A second one stops at once."""
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # Python interrupts the main thread only
        yield lambda: False
        return

    def note(number: int, frame: FrameType | None) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(noted)
    finally:
        signal.signal(signal.SIGINT, before)

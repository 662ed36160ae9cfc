"""How far long work is, how fast, and how long it will take: the one bar of every command."""

import math
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from html import escape
from importlib import import_module
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as RichProgress

LINE_SECONDS = 30.0


class Progress(AbstractContextManager["Progress"]):
    """Share done, draws per second, time left. A bar in a terminal or a notebook; elsewhere silent by default.

    Speed counts the draws made now; those found in a store or saved by stopping early only move the bar.

    Args:
        inputs: things to work on.
        draws: units of work for each of them.
        show: by default in a terminal or a notebook only. True: elsewhere a line now and then on standard error.
        doing: what is done.
        unit: what the units of work are called.
        transient: the bar leaves nothing behind, and there are no lines elsewhere.
    """

    def __init__(
        self,
        inputs: int,
        draws: int,
        *,
        show: bool | None,
        doing: str = "sampling",
        unit: str = "draws",
        done: str = "made",
        transient: bool = False,
    ) -> None:
        self._doing, self._unit, self._done, self._transient = doing, unit, done, transient
        self._draws, self._total, self._left = draws, inputs * draws, inputs * draws
        self._made, self._saved = 0, 0
        self._start = self._told = time.monotonic()
        self._bar = RichProgress(
            TextColumn(doing),
            BarColumn(),
            TextColumn("{task.percentage:3.0f}%"),
            TextColumn("[cyan]{task.fields[note]}"),
            console=Console(stderr=True),
            disable=not (sys.stderr.isatty() and show is not False),
            transient=transient,
        )
        self._cell = NotebookBar(doing) if show is not False and in_notebook() else None
        self._lines = bool(show) and self._bar.disable and not transient and self._cell is None
        self._task = self._bar.add_task("", total=self._total, note="")

    def known(self, draws: int, *, finished: bool) -> None:
        """Draws of one input that were there before; if it is finished, none of it is left."""
        self.advance(self._draws if finished else min(draws, self._draws))

    def stopped(self, draws: int) -> None:
        """One input stops early after so many draws: the rest is saved."""
        self._saved += self._draws - draws
        self.advance(self._draws - draws)

    def advance(self, draws: int) -> None:
        """Draws that need not be made."""
        self._left -= draws
        self._bar.advance(self._task, draws)

    def drew(self, draws: int, note: str = "") -> None:
        """Draws made now, and what to say before their speed."""
        self._made += draws
        self.advance(draws)
        speed = self._made / max(time.monotonic() - self._start, 1e-9)
        left = max(0, int(self._left / speed))
        clock = f"{left // 3600}:{left // 60 % 60:02}:{left % 60:02}"
        rate = f"{speed:,.0f}" if speed >= 100 else f"{speed:.3g}"
        text = f"{note}{rate} {self._unit}/s, about {clock} left"
        self._bar.update(self._task, note=text)
        if self._cell is not None:
            self._cell.show(1 - self._left / self._total, text)
        if self._lines and time.monotonic() - self._told > LINE_SECONDS:
            self._told = time.monotonic()
            print(f"{self._doing} {1 - self._left / self._total:4.0%}  {text}", file=sys.stderr, flush=True)

    def say(self, text: str, tell: Callable[[str], None]) -> None:
        """A line above the bar, or through `tell` where there is none."""
        if self._bar.disable:
            tell(text)
        else:
            self._bar.console.print(text, highlight=False, soft_wrap=True, style="dim")

    def __enter__(self) -> "Progress":
        self._start = time.monotonic()
        self._bar.start()
        return self

    def __exit__(self, error: object, *_: Any) -> None:
        self._bar.stop()
        if error is not None and not self._made:  # what went wrong is said elsewhere
            return
        saved = f", {self._saved:,} saved by stopping early" if self._saved else ""
        text = f"{self._made:,} {self._unit} {self._done}{saved}"
        if self._cell is not None:
            self._cell.end("" if self._transient else text)
        elif self._lines:
            print(text, file=sys.stderr, flush=True)
        elif not (self._bar.disable or self._transient):
            self._bar.console.print(text, highlight=False)


class NotebookBar:
    """One line of a notebook's output that is drawn again as work goes on. It needs no widgets."""

    SECONDS = 0.25  # from one drawing to the next

    def __init__(self, doing: str) -> None:
        self._doing, self._drawn = doing, -math.inf
        self._line: Any = None  # made when there is something to say

    def show(self, share: float, text: str) -> None:
        """How much is done, and a note."""
        if time.monotonic() - self._drawn >= self.SECONDS:
            self._drawn = time.monotonic()
            bar = f'<progress value="{share:.3f}" max="1" style="width: 14em; vertical-align: middle"></progress>'
            self._draw(f"{escape(self._doing)} {bar} {share:.0%} <small>{escape(text)}</small>")

    def end(self, text: str) -> None:
        """A last note in place of the bar; none leaves an empty line."""
        self._draw(f"<small>{escape(text)}</small>")

    def _draw(self, html: str) -> None:
        page: Any = import_module("IPython.display")
        if self._line is None:
            self._line = page.display(page.HTML(html), display_id=True)
        else:
            self._line.update(page.HTML(html))


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook, which shows HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def in_words(seconds: float) -> str:
    """A duration that nobody will hold us to.

    >>> in_words(0.1), in_words(150), in_words(100_000)
    ('1 s', '2.5 min', '28 h')
    """
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.1f} {unit}" if seconds < 10 * length else f"{seconds / length:.0f} {unit}"
    return f"{max(1.0, seconds):.0f} s"

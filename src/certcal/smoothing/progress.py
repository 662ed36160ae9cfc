"""How far sampling is, how fast, and how long it will take."""

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as RichProgress

LINE_SECONDS = 30.0


class Progress:
    """On standard error: share done, draws per second, time left. A bar in a terminal; elsewhere silent by default.

    Speed counts the draws made now; those found in a store or saved by stopping early only move the bar.
    """

    def __init__(
        self, inputs: int, draws: int, *, show: bool | None, doing: str = "sampling", unit: str = "draws"
    ) -> None:
        self._doing, self._unit = doing, unit
        self._draws, self._left = draws, inputs * draws
        self._made, self._saved, self._start = 0, 0, time.monotonic()
        self._bar = RichProgress(
            TextColumn(doing),
            BarColumn(),
            TextColumn("{task.percentage:3.0f}%"),
            TextColumn("[cyan]{task.fields[speed_text]}"),
            console=Console(stderr=True),
            disable=not (sys.stderr.isatty() and show is not False),
        )
        self._lines = bool(show) and self._bar.disable  # asked for where there is no terminal: a line now and then
        self._told, self._total = time.monotonic(), inputs * draws
        self._task = self._bar.add_task("", total=inputs * draws, speed_text="")

    def known(self, draws: int, *, finished: bool) -> None:
        """Draws of one input that were there before; if it is finished, none of it is left."""
        self._advance(self._draws if finished else min(draws, self._draws))

    def drew(self, draws: int) -> None:
        """Draws made now."""
        self._made += draws
        self._advance(draws)
        speed = self._made / max(time.monotonic() - self._start, 1e-9)
        left = max(0, int(self._left / speed))
        clock = f"{left // 3600}:{left // 60 % 60:02}:{left % 60:02}"
        text = f"{speed:,.0f} {self._unit}/s, at most {clock} left"
        self._bar.update(self._task, speed_text=text)
        if self._lines and time.monotonic() - self._told > LINE_SECONDS:
            self._told = time.monotonic()
            print(f"{self._doing} {1 - self._left / self._total:4.0%}  {text}", file=sys.stderr, flush=True)

    def stopped(self, draws: int) -> None:
        """One input stops early after so many draws: the rest is saved."""
        self._saved += self._draws - draws
        self._advance(self._draws - draws)

    def _advance(self, draws: int) -> None:
        self._left -= draws
        self._bar.advance(self._task, draws)

    def __enter__(self) -> "Progress":
        self._start = time.monotonic()
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        saved = f", {self._saved:,} saved by stopping early" if self._saved else ""
        if self._lines:
            print(f"{self._made:,} {self._unit} made{saved}", file=sys.stderr, flush=True)
        elif not self._bar.disable:
            self._bar.console.print(f"{self._made:,} {self._unit} made{saved}", highlight=False)

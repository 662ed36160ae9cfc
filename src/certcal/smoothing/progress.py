"""How far sampling is, how fast, and how long it will take."""

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from certcal.smoothing.evidence import Counts


class Progress:
    """A line on standard error: inputs done, draws per second, time left. Silent where nobody watches."""

    def __init__(self, inputs: int, draws: int, *, show: bool | None) -> None:
        self._draws, self._made, self._saved = draws, 0, 0
        self._bar = RichProgress(
            TextColumn("sampling"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f}%"),
            TextColumn("[cyan]{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not (sys.stderr.isatty() if show is None else show),
        )
        self._task = self._bar.add_task("", total=inputs * draws, rate="")

    def known(self, draws: int, *, finished: bool) -> None:
        """Draws of one input that were there before; if it is finished, none of it is left."""
        self._bar.advance(self._task, self._draws if finished else draws)

    def drew(self, draws: int) -> None:
        """Draws made now."""
        self._made += draws
        self._bar.advance(self._task, draws)
        speed = self._bar.tasks[0].finished_speed or self._bar.tasks[0].speed
        if speed:
            self._bar.update(self._task, rate=f"{speed:,.0f} draws/s")

    def stopped(self, draws: Counts) -> None:
        """Inputs that stop early after so many draws: the rest is saved."""
        saved = int((self._draws - draws).sum())
        self._saved += saved
        self._bar.advance(self._task, saved)

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        if not self._bar.disable:
            saved = f", {self._saved:,} saved by stopping early" if self._saved else ""
            self._bar.console.print(f"{self._made:,} draws made{saved}", highlight=False)

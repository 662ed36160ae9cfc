"""How far training is: a bar in a terminal, a line for each epoch everywhere."""

import sys
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as RichProgress


class TrainProgress:
    """On standard error. The line of an epoch goes through `tell`."""

    def __init__(self, steps: int, epochs: int, *, done: int, show: bool, tell: Callable[[str], None]) -> None:
        self._steps, self._epochs, self._tell, self._show = steps, epochs, tell, show
        self._bar = RichProgress(
            TextColumn("training"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f}%"),
            TextColumn("[cyan]{task.fields[note]}"),
            console=Console(stderr=True),
            disable=not (show and sys.stderr.isatty()),
            transient=True,
        )
        self._task = self._bar.add_task("", total=steps * epochs, completed=done, note="")
        self._start, self._made = time.monotonic(), 0

    def stepped(self, epoch: int, step: int, loss: float) -> None:
        """One more step is done."""
        self._made += 1
        rate = self._made / max(time.monotonic() - self._start, 1e-9)
        left = int((self._steps * self._epochs - epoch * self._steps - step) / rate)
        clock = f"{left // 3600}:{left // 60 % 60:02}:{left % 60:02}"
        note = f"epoch {epoch + 1}/{self._epochs}, loss {loss:.4g}, {rate:.3g} steps/s, {clock} left"
        self._bar.update(self._task, completed=epoch * self._steps + step, note=note)

    def finished_epoch(self, row: dict[str, float]) -> None:
        """One line of what an epoch came to."""
        if not self._show:
            return
        width = len(str(self._epochs))
        words = [
            f"epoch {int(row['epoch']):>{width}}/{self._epochs}",
            f"loss {row['loss']:.4f}",
            f"lr {row['learning_rate']:.4g}",
            f"σ {row['sigma']:.3g}",
            f"ε {row['epsilon']:.3g}",
            f"{row['seconds']:.1f} s",
            *_validation(row),
        ]
        if self._bar.disable:
            self._tell("  ".join(words))
        else:
            self._bar.console.print("  ".join(words), highlight=False, soft_wrap=True, style="dim")

    def __enter__(self) -> "TrainProgress":
        self._start = time.monotonic()
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


def _validation(row: dict[str, float]) -> list[str]:
    """Certified accuracy and calibration error at the largest radius at which anything is certified."""
    radii = [name.removeprefix("certified_accuracy_at_") for name in row if name.startswith("certified_accuracy_at_")]
    shown = next((radius for radius in reversed(radii) if row[f"certified_accuracy_at_{radius}"] > 0), None)
    if shown is None:
        return ["nothing certified yet"] if radii else []
    accuracy, error = row[f"certified_accuracy_at_{shown}"], row[f"certified_ece_at_{shown}"]
    return [f"held out, R = {shown}: CA {accuracy:.1%}, CCE {error:.1%}"]

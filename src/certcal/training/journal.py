"""What training tells of an epoch: a line for people, and curves for TensorBoard."""

import math
from pathlib import Path
from typing import Any

from certcal.errors import InputError


class TensorBoard:
    """Curves for TensorBoard in a folder."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InputError("TensorBoard is not installed here: pip install tensorboard.") from error
        self._writer: Any = SummaryWriter(str(folder))

    def add(self, row: dict[str, float]) -> None:
        """The values of an epoch."""
        for name, value in row.items():
            if name != "epoch" and not math.isnan(value):
                self._writer.add_scalar(name, value, int(row["epoch"]))
        self._writer.flush()


def epoch_line(row: dict[str, float], epochs: int) -> str:
    """The row of an epoch in the log, for people."""
    words = [
        f"epoch {int(row['epoch']):>{len(str(epochs))}}/{epochs}",
        f"loss {row['loss']:.4f}",
        f"lr {row['learning_rate']:.4g}",
        f"σ {row['sigma']:.3g}",
        f"ε {row['epsilon']:.3g}",
        f"{row['seconds']:.1f} s",
        *_validation(row),
    ]
    return "  ".join(words)


def _validation(row: dict[str, float]) -> list[str]:
    """Certified accuracy and calibration error at the largest radius at which anything is certified."""
    radii = [name.removeprefix("certified_accuracy_at_") for name in row if name.startswith("certified_accuracy_at_")]
    shown = next((radius for radius in reversed(radii) if row[f"certified_accuracy_at_{radius}"] > 0), None)
    if shown is None:
        return ["nothing certified yet"] if radii else []
    accuracy, error = row[f"certified_accuracy_at_{shown}"], row[f"certified_ece_at_{shown}"]
    return [f"held out, R = {shown}: CA {accuracy:.1%}, CCE {error:.1%}"]

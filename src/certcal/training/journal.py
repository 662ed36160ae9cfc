"""The log of training: log.csv always, TensorBoard if asked for."""

import csv
import io
import math
from pathlib import Path
from typing import Any

from certcal.errors import InputError
from certcal.files import replacing


def write_log(path: Path, history: list[dict[str, float]]) -> None:
    """One row for each epoch; written whole, so that it never disagrees with the checkpoint it belongs to."""
    columns = list(dict.fromkeys(name for row in history for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    with replacing(path) as part:
        part.write_text(text.getvalue(), encoding="utf-8")


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

"""Speed of operating points, free bins, groups and large tables."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import certcal
from bench.foundations import problem
from bench.harness import Figure, medians
from bench.product import call
from certcal.certificates import intervals_from_table
from certcal.worstcase import operating_curve


def figures() -> Iterator[Figure]:
    lower, upper, correct, clean = problem(10**6)
    points = np.linspace(0, 1, 1000)
    own = partial(operating_curve, lower, upper, correct, confidence=clean, thresholds=points)
    yield _processor("operating curve, N = 10⁶, 1000 thresholds", own, 1)

    lower, upper, _, _ = problem(10**4)
    for accuracy in (0.05, 0.5, 0.95):
        right = np.random.default_rng(1).random(10**4) < accuracy
        own = partial(certcal.any_binning_calibration_error, lower, upper, right)
        yield _processor(f"any binning, N = 10⁴, M = 15, {100 * accuracy:.0f} % right", own, 5)

    lower, upper, correct, clean = problem(10**5)
    label, predicted = np.zeros(10**5, dtype=np.int64), (correct == 0).astype(np.int64)
    frame = {"lower": lower, "upper": upper, "confidence": clean, "label": label, "predicted": predicted}
    bounds = intervals_from_table(frame | {"certified": lower > 0.5}, radius=0.25, alpha=0.001, norm="l2")
    own = partial(certcal.evaluate, bounds, groups=np.arange(10**5) % 100)
    yield _processor("evaluate 10⁵ inputs in 100 groups", own, 3)

    with tempfile.TemporaryDirectory() as folder:
        table, spent = Path(folder) / "table.parquet", []
        _write_table(table, 10**6)
        words = ("--bounds", str(table), "--norm", "linf", "--radius", "0.1", "--alpha", "0", "--no-figures")
        evaluate = {"": lambda: spent.append(call("evaluate", f"{folder}/run", *words).processor)}
        seconds = medians(evaluate, repeats=5)[""]
    note = (
        f"{statistics.median(spent):.1f} s of processor time; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    yield Figure("certcal evaluate, a table of 10⁶ rows, with start-up", seconds, "s", 3, note=note)


def _write_table(path: Path, rows: int) -> None:
    """Bounds of so many inputs, as another tool may give them."""
    rng = np.random.default_rng(0)
    confidence, label = rng.beta(6, 2, rows), rng.integers(0, 10, rows)
    right, width = rng.random(rows) < confidence, 0.1 * rng.random((2, rows))
    columns = {
        "label": label,
        "predicted": np.where(right, label, (label + 1) % 10),
        "confidence": confidence,
        "lower": np.maximum(confidence - width[0], 0.0),
        "upper": np.minimum(confidence + width[1], 1.0),
        "certified": rng.random(rows) < 0.8,
    }
    pq.write_table(pa.table(columns), path)


def _processor(name: str, call: Callable[[], object], limit: float) -> Figure:
    seconds = medians({name: call}, repeats=5, clock=time.process_time)[name]
    return Figure(name, seconds, "s", limit, note="of one processor")

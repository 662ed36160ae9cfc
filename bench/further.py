"""Speed of operating points, free bins and groups, in seconds of the processor: what else runs does not count."""

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

import certcal
from bench.foundations import problem
from bench.harness import Figure, medians
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
        own = partial(certcal.worstcase.any_binning_calibration_error, lower, upper, right)
        yield _processor(f"any binning, N = 10⁴, M = 15, {100 * accuracy:.0f} % right", own, 5)

    lower, upper, correct, clean = problem(10**5)
    label, predicted = np.zeros(10**5, dtype=np.int64), (correct == 0).astype(np.int64)
    frame = {"lower": lower, "upper": upper, "confidence": clean, "label": label, "predicted": predicted}
    bounds = intervals_from_table(frame | {"certified": lower > 0.5}, radius=0.25, alpha=0.001, norm="l2")
    own = partial(certcal.evaluate, bounds, groups=np.arange(10**5) % 100)
    yield _processor("evaluate 10⁵ inputs in 100 groups", own, 3)


def _processor(name: str, call: Callable[[], object], limit: float) -> Figure:
    seconds = medians({name: call}, repeats=5, clock=time.process_time)[name]
    return Figure(name, seconds, "s", limit, note="of one processor")

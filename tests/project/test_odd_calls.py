"""A few of the odd calls that `python -m tests.chaos --kinds calls` makes: each is answered, or refused in one line."""

import warnings
from pathlib import Path

import numpy as np
from tests.chaos import calls
from tests.chaos.harness import Tally


def test_odd_arguments_are_answered_or_refused_in_one_line(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    tally = Tally("calls")
    with warnings.catch_warnings(), np.errstate():
        calls.wreak(tmp_path, 500, lambda: False, np.random.default_rng(1), tally)
    assert not tally.bad
    assert tally.total == 500

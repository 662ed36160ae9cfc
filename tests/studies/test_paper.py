"""The paper's own numbers, and its tables that are made of them."""

import numpy as np
import pytest

from certcal.evaluation import Outcome
from certcal.studies import paper_table
from certcal.studies.paper import baselines_table, worked_example


def test_baselines_stand_beside_the_papers():
    made = [Outcome("AT", "s0.25-e0.50-m4-T2", 0.2, 0.6, 0.3, 0.25, baseline="s0.25-e0.50-m4-T2"),
            Outcome("AT", "mine", 0.2, 0.5, 0.4, 0.35, baseline="mine")]  # fmt: skip
    lines = baselines_table("cifar10", {"cifar10": made}).splitlines()
    assert len([line for line in lines if line.startswith("| s")]) == 22
    (own,) = [line for line in lines if "s0.25-e0.50-m4-T2 " in line]
    assert "60.00 (70.16)" in own
    assert "30.00 (21.39)" in own
    assert "25.00 (13.88)" in own
    (mine,) = [line for line in lines if line.startswith("| mine")]
    assert "50.00 |" in mine
    for data, total in (("cifar10", 8096.64), ("imagenet", 1692.54)):  # sums of all numbers in the paper's tables
        theirs = [one for name, one in paper_table(data, "baselines").items() if name != "radii"]
        assert np.nansum([list(one.values()) for one in theirs]) == pytest.approx(total)


def test_baselines_have_one_spelling_and_dashes_where_nothing_is_certified():
    made = [Outcome("AT", "s0.25-e9.00-m2-t2", 0.2, 0.6, 0.3, 0.25, baseline="s0.25-e9.00-m2-t2"),
            Outcome("AT", "s0.25-e9.00-m2-t2", 1.0, 0.0, np.nan, np.nan, baseline="s0.25-e9.00-m2-t2")]  # fmt: skip
    text = baselines_table("cifar10", {"cifar10": made})
    assert "-t2" not in text
    assert "| s0.25-e9.00-m2-T2 | — | 60.00 | — | — |" in text
    assert "0.00)" not in text.replace("(30.00)", "").replace("(22.00)", "")
    assert "None of ours is one of the paper's baselines." in text
    own = [Outcome("AT", "s0.25-e0.50-m4-t2", 0.2, 0.6, 0.3, 0.25, baseline="s0.25-e0.50-m4-t2")]
    shared = baselines_table("cifar10", {"cifar10": own})
    assert "s0.25-e0.50-m4-T2 | (76.00) | 60.00 (70.16)" in shared
    assert "None of ours" not in shared


def test_the_worked_example_is_the_papers():
    text = worked_example(None)
    assert "| 1 | C_A | C_A | 0.1 | 0.23 | 0.6 | 0.1 |" in text
    assert "| 2 | C_A | C_B | 0.5 | 0.78 | 0.9 | 0.9 |" in text
    assert "is 0.9000, exact" in text  # (1 - 0.1 + 0.9) / 2, in two bins

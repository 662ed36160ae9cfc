"""Which of the runs that are foreseen a plan advises."""

import math

from certcal.runs.plan import Foreseen, _best


def test_of_plans_the_one_that_certifies_most_is_best_where_few_are_certified():
    def foreseen(share, seconds):
        return Foreseen(0.25, 1000, seconds, 0.5, share, 0.3, 0.4 if share else math.nan)

    none, few, some = foreseen(0.0, 1), foreseen(0.1, 100), foreseen(0.3, 200)
    assert _best([none, few, some], None)[0] is some
    assert _best([none, few, some], 2)[0] is few
    assert _best([none, few, some], 0.1) == (few, "the shortest that certifies anything, but longer than asked")
    assert _best([none], 2)[0] is None

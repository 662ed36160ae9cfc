"""Which models are ranked against each other: every one once, of data sets that have enough of them."""

from collections.abc import Sequence

from certcal.errors import InputError, several
from certcal.studies.stored import Model

FEWEST = 8  # of fewer models a rank correlation says next to nothing


def by_data(models: Sequence[Model]) -> dict[str, list[Model]]:
    """The models of each data set."""
    return {data: [one for one in models if one.data == data] for data in dict.fromkeys(one.data for one in models)}


def each_once(models: Sequence[Model]) -> list[Model]:
    """The models without those that came before, on other inputs: the same weights would count twice."""
    first: dict[tuple[str, str], Model] = {}
    for one in models:
        first.setdefault((one.data, one.read().header.model), one)
    return list(first.values())


def enough(models: Sequence[Model]) -> tuple[list[Model], list[str]]:
    """The models of data sets that have enough of them, and what was left out.

    Raises: InputError if no data set has enough.
    """
    counts = {data: len(own) for data, own in by_data(models).items()}
    few = {data: count for data, count in counts.items() if count < FEWEST}
    if len(few) == len(counts):
        wanted = f"hold the evidence of at least {FEWEST} models of one data set"
        raise InputError.expected("from", wanted, str(max(few.values(), default=0)))
    told = [
        f"Left out: {data or 'no named data set'} with {several(count, 'model')}; rank correlations take {FEWEST}."
        for data, count in few.items()
    ]
    return [one for one in models if one.data not in few], told

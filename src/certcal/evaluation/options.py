"""What may be asked of evidence, and the checks that refuse the rest, with or without evidence at hand."""

from collections.abc import Iterable

from certcal.certificates import Method
from certcal.errors import InputError
from certcal.inputs import check_choice, check_flag, check_level, check_number, one_or_more
from certcal.metrics import Bins
from certcal.settings import Approximation, Population
from certcal.types import ArrayLike
from certcal.worstcase import choose_few_bins

APPROXIMATIONS = tuple(Approximation)


def check_evaluation(
    *,
    radii: Iterable[float] | float,
    alpha: float,
    delta: float,
    method: str,
    split_alpha: bool,
    population: str,
    n_bins: int,
    edges: ArrayLike | None = None,
    approximations: Iterable[str] = (),
) -> tuple[Population, list[str], Bins]:
    """Refuse what `evaluate` would refuse, before there is evidence; otherwise population, approximations and bins."""
    for radius in one_or_more("radii", radii):
        check_number("radii", radius, "be finite and ≥ 0", lambda number: number >= 0)
    check_level("alpha", alpha)
    check_level("delta", delta)
    check_choice("method", method, tuple(Method))
    check_flag("split_alpha", split_alpha)
    chosen = Population(check_choice("population", population, tuple(Population)))
    return chosen, _check_approximations(approximations, chosen), choose_few_bins(n_bins, edges)


def _check_approximations(names: Iterable[str], population: Population) -> list[str]:
    asked = [names] if isinstance(names, str) else list(names)
    for name in asked:
        check_choice("approximations", name, APPROXIMATIONS)
    if asked and population is Population.ALL:
        wanted = "be left out for population 'all', which they know nothing of"
        raise InputError.expected("approximations", wanted, ", ".join(asked))
    return asked

"""Which objective, with which options, as it stands in a recipe."""

from dataclasses import dataclass

from certcal.errors import InputError
from certcal.inputs import check_choice, check_flag, check_integer, check_level, check_number
from certcal.worstcase.problem import MAX_BINS

UPDATES = ("each", "smoothed")
GRADIENTS = ("backprop", "stein")
REDUCTIONS = ("sum", "mean")
POPULATIONS = ("all", "certified")
BASES = ("noise", "smoothadv")


@dataclass(frozen=True, kw_only=True)
class ObjectiveSettings:
    """An objective by name, and its options; docs/training.md says which objective uses which.

    Attributes:
        name: one of `certcal.training.OBJECTIVES`.
        draws: noisy copies of each input, V (m_train in Salman et al.).
        steps: of the adversary, T.
        step_factor: v; the adversary's steps are 2 v ε / T long.
        update: what the weights minimise on those copies: "each", the mean of their cross-entropies, or "smoothed", the
            cross-entropy of their mean probabilities.
        gradient: how the adversary of a smoothed model finds its direction, "backprop" or "stein".
        box: keep attacked inputs within [0, 1]; by default only those of "pgd".
        random_start: where "pgd" begins, at a random point of the ball or at the input.
        n_bins: of the calibration error.
        alpha: error probability of the Hoeffding limits of a few-draw confidence. By default no limits are taken: a few
            draws would give none but 0 and 1.
        rho, rho_growth: of ADMM; ρ is multiplied with 1 + rho_growth after each step.
        assignment_rate: α_a, step size of ADMM on the assignment to bins.
        eta: weight of the cross-entropy in "acce-act*".
        reduction: of the calibration error in "acce-act*", the paper's "sum" over inputs or their "mean".
        weight: λ, of the certificate in "certified-…".
        radius: R of that certificate; by default the ε of the step.
        population: whose certificates count, of "all" inputs or of those that seem "certified" at R.
        base: what "certified-…" adds its certificate to, "noise" or "smoothadv".
    """

    name: str
    draws: int = 2
    steps: int = 4
    step_factor: float = 1.0
    update: str = "each"
    gradient: str = "backprop"
    box: bool | None = None
    random_start: bool = True
    n_bins: int = 15
    alpha: float | None = None
    rho: float = 0.01
    rho_growth: float = 0.1
    assignment_rate: float = 0.1
    eta: float = 0.9
    reduction: str = "sum"
    weight: float = 1.0
    radius: float | None = None
    population: str = "all"
    base: str = "noise"

    def __post_init__(self) -> None:
        for name in ("draws", "steps"):
            check_integer(name, getattr(self, name), minimum=1)
        check_integer("n_bins", self.n_bins, minimum=1, maximum=MAX_BINS)
        choices = {
            "update": UPDATES,
            "gradient": GRADIENTS,
            "reduction": REDUCTIONS,
            "population": POPULATIONS,
            "base": BASES,
        }
        for name, allowed in choices.items():
            check_choice(name, getattr(self, name), allowed)
        for name in ("step_factor", "rho", "assignment_rate"):
            check_number(name, getattr(self, name), "lie in (0, 1e4]", lambda number: 0 < number <= 1e4)
        check_number("rho_growth", self.rho_growth, "lie in [0, 1e3]", lambda number: 0 <= number <= 1e3)
        check_number("eta", self.eta, "lie in [0, 1]", lambda number: 0 <= number <= 1)
        check_number("weight", self.weight, "be a finite number ≥ 0", lambda number: number >= 0)
        check_flag("random_start", self.random_start)
        if self.box is not None:
            check_flag("box", self.box)
        if self.alpha is not None:
            check_level("alpha", self.alpha)
        if self.radius is not None:
            check_number("radius", self.radius, "be a finite number ≥ 0", lambda number: number >= 0)
        if self.gradient == "stein" and (self.draws < 2 or self.name == "pgd"):
            needs = "be 'backprop' without noise and with a single draw of it"
            raise InputError.expected("gradient", needs, f"'stein' for {self.name!r} with draws = {self.draws}")

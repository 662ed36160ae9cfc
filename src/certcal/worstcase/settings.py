"""Settings of the paper's solvers, with the paper's values as defaults. Paper: App. G.2, I.1 and M.2."""

from dataclasses import dataclass
from itertools import product
from typing import Any

from certcal.inputs import check_choice, check_flag, check_integer, check_number, one_or_more

Grid = tuple[float, ...]
_STARTS = ("clean", "brier", "uniform", "gaussian")


@dataclass(frozen=True, kw_only=True)
class AdmmSettings:
    """Hyperparameters of the solver. The defaults are the paper's grid of 16 runs, of which the best is reported.

    `starts`, `confidence_rates`, `assignment_rates` and `rho_factors` span the grid; a single value in each is one run.
    """

    starts: tuple[str, ...] = ("clean", "brier")  # initial z
    confidence_rates: Grid = (0.001, 0.01)  # α_z
    assignment_rates: Grid = (0.01, 0.1)  # α_a
    rho_factors: Grid = (1.004, 1.01)  # multiplies every ρ_i after each step
    rho: float = 0.01  # initial value of every ρ_i
    rho_cap: float = 10.0
    gradient_clip: float = 5.0  # largest entry of the gradient of a
    value_clip: float = 1.2  # ‖a − ½‖_∞ ≤ value_clip · ‖q₂ − ½‖_∞
    steps: int = 3000
    device: str = "cpu"
    dtype: str = "float32"  # by name or as a torch.dtype; the value reported is measured in float64 in any case
    compile: bool = False
    diagnostics: bool = False
    snapshots: tuple[int, ...] = (0, 500, 3000)  # steps at which the first 150 entries of a are kept

    def __post_init__(self) -> None:
        for name in ("starts", "confidence_rates", "assignment_rates", "rho_factors", "snapshots"):
            object.__setattr__(self, name, one_or_more(name, getattr(self, name)))
        for start in self.starts:
            check_choice("starts", start, ("clean", "brier"))
        for name in ("confidence_rates", "assignment_rates"):
            for rate in getattr(self, name):
                check_number(name, rate, "hold numbers in (0, 1e4]", lambda number: 0 < number <= 1e4)
        for factor in self.rho_factors:
            check_number("rho_factors", factor, "hold numbers in [1, 1e4]", lambda number: 1 <= number <= 1e4)
        for name in ("rho", "rho_cap", "gradient_clip", "value_clip"):
            check_number(name, getattr(self, name), "lie in (0, 1e4]", lambda number: 0 < number <= 1e4)
        check_integer("steps", self.steps, minimum=1)
        for step in self.snapshots:
            check_integer("snapshots", step, minimum=0)
        for name in ("compile", "diagnostics"):
            check_flag(name, getattr(self, name))
        object.__setattr__(self, "dtype", str(self.dtype).removeprefix("torch."))
        check_choice("dtype", self.dtype, ("float16", "bfloat16", "float32", "float64"))

    def runs(self) -> list[dict[str, Any]]:
        """The grid spelled out, one dictionary per run."""
        names = ("start", "confidence_rate", "assignment_rate", "rho_factor")
        grid = product(self.starts, self.confidence_rates, self.assignment_rates, self.rho_factors)
        return [dict(zip(names, run, strict=True)) for run in grid]


@dataclass(frozen=True, kw_only=True)
class DeceSettings:
    """Hyperparameters of gradient ascent on the dECE. The temperature falls geometrically over the steps."""

    starts: tuple[str, ...] = _STARTS
    steps: int = 1000
    rate: float = 0.01  # step size on N · dECE
    gradient_clip: float = 5.0  # near a bin edge the gradient is of order 1 / temperature
    first_temperature: float = 1e-2
    last_temperature: float = 1e-6
    seed: int = 0  # of the random starts
    device: str = "cpu"

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", one_or_more("starts", self.starts))
        for start in self.starts:
            check_choice("starts", start, _STARTS)
        check_integer("steps", self.steps, minimum=1)
        check_integer("seed", self.seed, minimum=0)
        for name in ("rate", "gradient_clip", "first_temperature", "last_temperature"):
            check_number(name, getattr(self, name), "lie in [1e-12, 1e6]", lambda number: 1e-12 <= number <= 1e6)

"""Settings of the paper's solvers, with the paper's values as defaults. Paper: App. G.2, I.1 and M.2."""

from dataclasses import dataclass
from itertools import product
from typing import Any

from certcal.settings import Record, checks, setting

_RATE = checks.number("hold numbers in (0, 1e4]", lambda value: 0 < value <= 1e4)
_GROWTH = checks.number("hold numbers in [1, 1e4]", lambda value: 1 <= value <= 1e4)
_SCALE = checks.number("lie in [1e-12, 1e6]", lambda value: 1e-12 <= value <= 1e6)


def _device(name: str, value: Any) -> Any:
    return value  # checked by the solver, which has torch


def _dtype(name: str, value: Any) -> Any:
    return checks.one_of(("float16", "bfloat16", "float32", "float64"))(name, str(value).removeprefix("torch."))


@dataclass(frozen=True, kw_only=True)
class AdmmSettings(Record):
    """Hyperparameters of the solver. The defaults are the paper's grid of 16 runs, of which the best is reported.

    `starts`, `confidence_rates`, `assignment_rates` and `rho_factors` span the grid; a single value in each is one run.
    """

    starts: tuple[str, ...] = setting(("clean", "brier"), "initial z", choices=("clean", "brier"))
    confidence_rates: tuple[float, ...] = setting((0.001, 0.01), "α_z", check=_RATE)
    assignment_rates: tuple[float, ...] = setting((0.01, 0.1), "α_a", check=_RATE)
    rho_factors: tuple[float, ...] = setting((1.004, 1.01), "multiplies every ρ_i after each step", check=_GROWTH)
    rho: float = setting(0.01, "initial value of every ρ_i", check=checks.factor)
    rho_cap: float = setting(10.0, "largest ρ_i", check=checks.factor)
    gradient_clip: float = setting(5.0, "largest entry of the gradient of a", check=checks.factor)
    value_clip: float = setting(1.2, "‖a − ½‖_∞ ≤ value_clip · ‖q₂ − ½‖_∞", check=checks.factor)
    steps: int = setting(3000, "steps of each run", check=checks.at_least_1)
    device: str = setting("cpu", "where to compute", check=_device)
    dtype: str = setting("float32", "by name or as a torch.dtype; the value is measured in float64", check=_dtype)
    compile: bool = setting(False, "compile the step")
    diagnostics: bool = setting(False, "record every step")
    snapshots: tuple[int, ...] = setting(
        (0, 500, 3000), "steps at which the first 150 entries of a are kept", check=checks.at_least_0
    )

    def runs(self) -> list[dict[str, Any]]:
        """The grid spelled out, one dictionary per run."""
        names = ("start", "confidence_rate", "assignment_rate", "rho_factor")
        grid = product(self.starts, self.confidence_rates, self.assignment_rates, self.rho_factors)
        return [dict(zip(names, run, strict=True)) for run in grid]


@dataclass(frozen=True, kw_only=True)
class DeceSettings(Record):
    """Hyperparameters of gradient ascent on the dECE. The temperature falls geometrically over the steps."""

    starts: tuple[str, ...] = setting(
        ("clean", "brier", "uniform", "gaussian"), "initial z", choices=("clean", "brier", "uniform", "gaussian")
    )
    steps: int = setting(1000, "steps from each start", check=checks.at_least_1)
    rate: float = setting(0.01, "step size on N · dECE", check=_SCALE)
    gradient_clip: float = setting(5.0, "near a bin edge the gradient is of order 1 / temperature", check=_SCALE)
    first_temperature: float = setting(1e-2, "of the first step", check=_SCALE)
    last_temperature: float = setting(1e-6, "of the last step", check=_SCALE)
    seed: int = setting(0, "of the random starts", check=checks.at_least_0)
    device: str = setting("cpu", "where to compute", check=_device)

"""Which objective, with which options, as it stands in a recipe."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ObjectiveSettings:
    """An objective by name, and its options; each objective says which it uses."""

    name: str  # one of `certcal.training.OBJECTIVES`
    draws: int = 2  # noisy copies of each input, V (m_train in Salman et al.)
    steps: int = 4  # of the adversary, T
    step_factor: float = 1.0  # v: the adversary steps 2 v ε / T

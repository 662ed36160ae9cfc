"""How `certcal recalibrate` fits a map and tests it."""

from dataclasses import dataclass

from certcal.errors import InputError
from certcal.settings.checks import at_least_1, inner_share, not_negative, radius, seed, share, whole
from certcal.settings.choices import MapKind, Objective, OnFailure
from certcal.settings.declare import Record, setting
from certcal.settings.runs import NUMBERS

CLEAN_WEIGHT = 0.5  # with 0 the certified score gets least, and the map is often constant
CLEAN_WEIGHTS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)  # of a trade-off


@dataclass(frozen=True, kw_only=True)
class RecalibrateSettings(Record, panel="How to fit"):
    """How a map is fitted and tested, as for `certcal.recalibration.held_out_scores`."""

    radii: tuple[float, ...] | None = setting(
        None, "Radii to fit at, together", check=radius, metavar=NUMBERS, shown="the largest learnable"
    )
    radius_weights: tuple[float, ...] | None = setting(
        None, "Weights of these radii", check=not_negative, metavar=NUMBERS, shown="equal", was="weights"
    )
    method: str = setting("isotonic", "Kind of map", choices=MapKind)
    objective: str = setting("brier", "Certified score to make small", choices=Objective)
    clean_weight: float = setting(CLEAN_WEIGHT, "Weight of the score without an attack, 0 to 1", check=share)
    holdout: float = setting(0.5, "Share of inputs to hold out", check=inner_share)
    folds: int | None = setting(None, "Hold out each of so many parts in turn instead.", check=whole(2))
    repeats: int = setting(20, "Random splits to average over", check=at_least_1)
    seed: int = setting(0, "Seed of the splits", check=seed)
    on_failure: str = setting("raise", "What to do where nothing can be learned", choices=OnFailure)

    def check_together(self) -> None:
        """Weights come with radii, and radii differ."""
        if self.radii is None and self.radius_weights is not None:
            raise InputError.expected("radius_weights", "come with radii, one weight for each", "no radii")
        if self.radii is not None and len(set(self.radii)) < len(self.radii):
            raise InputError.expected("radii", "be different from each other", ", ".join(map(str, self.radii)))

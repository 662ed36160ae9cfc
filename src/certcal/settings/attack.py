"""Which attacks `certcal attack` makes, and how."""

from collections.abc import Iterable
from dataclasses import dataclass

from certcal.errors import InputError
from certcal.settings.checks import at_least_1, each_once, positive, radius, seed
from certcal.settings.choices import Adversary, Family
from certcal.settings.declare import Record, setting
from certcal.settings.runs import NUMBERS

WHICH = "Which attacks"


@dataclass(frozen=True, kw_only=True)
class AttackSettings(Record, panel="How to attack"):
    """Which attacks, on how many inputs, as for `attack_certificates` and `run_ace_attacks` of `certcal.attacks`."""

    family: str = setting("both", "Attacks to make", choices=Family, panel=WHICH)
    radii: tuple[float, ...] | None = setting(
        None, "Radii of the smoothed attacks", check=radius, metavar=NUMBERS, panel=WHICH, shown="the run's"
    )
    adversaries: tuple[str, ...] = setting(
        ("brier", "reach"), "What the smoothed attacks want", choices=Adversary, metavar=NUMBERS, panel=WHICH
    )
    epsilons: tuple[float, ...] = setting(
        (3 / 255,),
        "ℓ∞ budgets of ACE, as 2/255,0.03",
        check=lambda _, value: positive("epsilon", value),
        option="--epsilon",
        metavar=NUMBERS,
        panel=WHICH,
        shown="3/255",
    )
    galil: bool = setting(False, "Also the original ACE of Galil and El-Yaniv.", panel=WHICH)
    stronger: bool = setting(False, "ACE that turns back at a label's border, where the paper's stops.", panel=WHICH)
    limit: int | None = setting(None, "Attack at most this many inputs, evenly spread", check=at_least_1, shown="all")
    draws: int = setting(1000, "Fresh draws that judge an input", check=at_least_1)
    attack_draws: int = setting(32, "Draws that attacks see", check=at_least_1)
    steps: int = setting(20, "Steps of the smoothed attacks", check=at_least_1)
    ace_steps: int | None = setting(
        None, "Steps of ACE", check=at_least_1, shown="100 as in the paper; 30 with --stronger"
    )
    seed: int = setting(0, "Seed of the attacks' and the judging noise", check=seed)
    device: str | None = setting(None, "cpu, cuda, …", shown="that of the run")
    batch_size: int | None = setting(None, "Noisy copies, or inputs without noise, per forward pass.", check=at_least_1)

    def check_together(self) -> None:
        """Budgets fit the box [0, 1], and nothing is named twice."""
        check_fits_box(self.epsilons)
        each_once("epsilon", [as_budget(epsilon) for epsilon in self.epsilons])
        each_once("adversaries", self.adversaries)


def check_fits_box(epsilons: Iterable[float]) -> None:
    """Refuse budgets in ℓ∞ beyond the box [0, 1], which are steps of a byte that were not divided."""
    for epsilon in epsilons:
        if epsilon > 1:
            got = f"{epsilon:g} (did you mean {epsilon:g}/255?)"
            raise InputError.expected("epsilon", "be at most 1, as inputs lie in [0, 1]", got)


def as_budget(epsilon: float) -> str:
    """A budget as people write it: 3/255 where it is so many steps of a byte."""
    steps, short = round(epsilon * 255), f"{epsilon:g}"
    if steps and steps / 255 == epsilon:
        return f"{steps}/255"
    return short if float(short) == epsilon else repr(float(epsilon))

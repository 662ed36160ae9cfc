"""What the verbs of the command line take beside a run's settings."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from certcal.errors import InputError
from certcal.scalars import exactly
from certcal.settings import checks
from certcal.settings.choices import Adversary, MapKind, Objective, OnFailure, Tracker
from certcal.settings.declare import Record, setting
from certcal.settings.runs import NUMBERS

WHICH = "Which attacks"
CLEAN_WEIGHT = 0.5  # with 0 the certified score gets least, and the map is often constant
STEPS_WEIGHT = 0.9  # of maps of steps, which 0.5 still makes constant
AUROC_LOSS = 0.01  # that a map which is chosen by itself may give up
BRIER_LOSS = 0.01  # by which it may raise the Brier score of all inputs: AUROC does not see how far apart they are
LIMITS = ("auroc_loss", "brier_loss")
CLEAN_WEIGHTS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)  # of a trade-off


def usual_weight(method: str | None) -> float:
    """The weight of clean points that maps of a kind get where none is given."""
    return STEPS_WEIGHT if method == MapKind.STEPS else CLEAN_WEIGHT


@dataclass(frozen=True, kw_only=True)
class RecalibrateSettings(Record, panel="How to fit"):
    """How a map is fitted and tested, as for `certcal.recalibration.held_out_scores`."""

    radii: tuple[float, ...] | None = setting(
        None, "Radii to fit at, together", check=checks.radius, metavar=NUMBERS, shown="the largest learnable"
    )
    radius_weights: tuple[float, ...] | None = setting(
        None, "Weights of these radii", check=checks.not_negative, metavar=NUMBERS, shown="equal", was="weights"
    )
    automatic: bool = setting(False, "Choose the kind of map and its weights on the inputs to fit on.")
    auroc_loss: float = setting(AUROC_LOSS, "With --automatic: AUROC that may be given up", check=checks.share)
    brier_loss: float = setting(
        BRIER_LOSS, "With --automatic: by how much the clean Brier score of all inputs may rise", check=checks.share
    )
    inside: bool = setting(
        False, "Map each draw's score before the mean, then the mean if that does better; with --method, always."
    )
    method: str | None = setting(
        None,
        "Kind of map of the mean",
        choices=MapKind,
        shown="isotonic; with --inside, none or isotonic, by cross-validation",
    )
    objective: str | None = setting(
        None, "Certified score to make small", choices=Objective, shown="brier; calibration for steps"
    )
    clean_weight: float | None = setting(
        None,
        "Weight of the score without an attack, 0 to 1",
        check=checks.share,
        shown=f"{CLEAN_WEIGHT:g}; {STEPS_WEIGHT:g} for steps",
    )
    holdout: float = setting(0.5, "Share of inputs to hold out", check=checks.inner_share)
    folds: int | None = setting(None, "Hold out each of so many parts in turn instead.", check=checks.whole(2, 10_000))
    repeats: int = setting(20, "Random splits to average over", check=checks.whole(1, 10_000))
    seed: int = setting(0, "Seed of the splits", check=checks.seed)
    on_failure: str = setting("raise", "What to do where nothing can be learned", choices=OnFailure)

    @property
    def weight(self) -> float:
        """The weight of the score without an attack, given or usual."""
        return usual_weight(self.method) if self.clean_weight is None else self.clean_weight

    @property
    def splits(self) -> dict[str, Any]:
        """How inputs are split, as for `certcal.recalibration.split_inputs`."""
        return {name: getattr(self, name) for name in ("holdout", "folds", "repeats", "seed")}

    def check_together(self) -> None:
        """Weights come with radii, and radii differ. What is chosen is not given; limits are those of a choice."""
        chosen = ("inside", "method", "objective", "clean_weight")
        for name in chosen if self.automatic else LIMITS:
            if getattr(self, name) != getattr(type(self), name):
                why = "be left out with --automatic, which chooses it" if self.automatic else "come with --automatic"
                raise InputError.expected(name, why, getattr(self, name))
        if self.inside and self.objective == Objective.LOG:
            raise InputError.expected("objective", "be 'brier' or 'calibration' with inside", "'log'")
        if self.radii is None and self.radius_weights is not None:
            raise InputError.expected("radius_weights", "come with radii, one weight for each", "no radii")
        if self.radii is not None and len(set(self.radii)) < len(self.radii):
            raise InputError.expected("radii", "be different from each other", ", ".join(map(str, self.radii)))


@dataclass(frozen=True, kw_only=True)
class AttackSettings(Record, panel="How to attack"):
    """Which attacks, on how many inputs, as for `attack_certificates` and `run_ace_attacks` of `certcal.attacks`."""

    # On the smoothed model, within the radii of its certificates, or on the network without noise.
    family: str = setting("both", "Attacks to make", choices=("smoothed", "ace", "both"), panel=WHICH)
    radii: tuple[float, ...] | None = setting(
        None,
        "Radii of the smoothed attacks",
        check=checks.radius,
        metavar=NUMBERS,
        panel=WHICH,
        shown="three of the run's",
    )
    adversaries: tuple[str, ...] = setting(
        ("brier", "reach"), "What the smoothed attacks want", choices=Adversary, metavar=NUMBERS, panel=WHICH
    )
    epsilons: tuple[float, ...] = setting(
        (3 / 255,),
        "ℓ∞ budgets of ACE, as 2/255,0.03",
        check=lambda _, value: checks.positive("epsilon", value),
        option="--epsilon",
        metavar=NUMBERS,
        panel=WHICH,
        shown="3/255",
    )
    galil: bool = setting(False, "Also the original ACE of Galil and El-Yaniv.", panel=WHICH)
    stronger: bool = setting(False, "ACE that turns back at a label's border, where the paper's stops.", panel=WHICH)
    limit: int | None = setting(50, "Attack at most this many inputs, evenly spread", check=checks.at_least_1)
    draws: int = setting(1000, "Fresh draws that judge an input", check=checks.draws)
    attack_draws: int = setting(32, "Draws that attacks see", check=checks.up_to_a_million)
    steps: int = setting(20, "Steps of the smoothed attacks", check=checks.up_to_a_million)
    ace_steps: int | None = setting(
        None, "Steps of ACE", check=checks.up_to_a_million, shown="100 as in the paper; 30 with --stronger"
    )
    seed: int = setting(0, "Seed of the attacks' and the judging noise", check=checks.seed)
    device: str | None = setting(None, "cpu, cuda, …", shown="that of the run")
    batch_size: int | None = setting(
        None, "Noisy copies, or inputs without noise, per forward pass.", check=checks.at_least_1
    )

    def check_together(self) -> None:
        """Budgets fit the box [0, 1], and nothing is named twice."""
        check_fits_box(self.epsilons)
        checks.each_once("epsilon", [exactly(epsilon) for epsilon in self.epsilons])
        checks.each_once("adversaries", self.adversaries)


def check_fits_box(epsilons: Iterable[float]) -> None:
    """Refuse budgets in ℓ∞ beyond the box [0, 1], which are steps of a byte that were not divided."""
    for epsilon in epsilons:
        if epsilon > 1:
            got = f"{epsilon:g} (did you mean {epsilon:g}/255?)"
            raise InputError.expected("epsilon", "be at most 1, as inputs lie in [0, 1]", got)


@dataclass(frozen=True, kw_only=True)
class BenchSettings(Record, panel="What to measure"):
    """A model, its inputs, and the run to estimate."""

    model: str = setting("lenet", "A known network, or package.module:factory")
    shape: tuple[int, ...] = setting(
        (1, 28, 28), "Channels, height and width of the inputs", check=checks.side, metavar="C,H,W"
    )
    classes: int = setting(10, "Classes of the model", check=checks.classes)
    inputs: int = setting(1000, "Inputs of the run to estimate", check=checks.at_least_1)
    n: int = setting(100_000, "Draws per input of the run to estimate", check=checks.at_least_1)

    def check_together(self) -> None:
        """Inputs are square."""
        if len(self.shape) != 3 or self.shape[1] != self.shape[2] or min(self.shape) < 1:
            got = repr(",".join(map(str, self.shape)))
            raise InputError.expected("shape", "be channels, height and the same width, as 3,32,32", got)


@dataclass(frozen=True, kw_only=True)
class LogSettings(Record, panel="Output"):
    """Which tools the results are logged to, as for `certcal.integrations.log_report`."""

    log: tuple[str, ...] = setting((), "Also log metrics and page to", choices=Tracker, metavar="NAME,…")


@dataclass(frozen=True, kw_only=True)
class StudyShare(Record, panel="What to run"):
    """How much of a study to run now, as for `certcal.studies.run_study`."""

    sample: int | None = setting(
        None, "At most so many settings of each method; 0: baselines only.", check=checks.whole(0, 10**9)
    )
    like: str | None = setting(None, "Only what the study in this folder selected, as for another seed.", metavar="RUN")
    quote: bool = setting(False, "Train nothing: certify what is selected with all draws, after about.screen of them.")
    minutes: float | None = setting(
        None, "Keep how far all is after so long, and stop.", check=checks.positive, metavar="N"
    )

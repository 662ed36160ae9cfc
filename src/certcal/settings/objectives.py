"""One record per training objective, with its own options only; docs/training.md says what they do."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, ClassVar

from certcal.errors import InputError
from certcal.scalars import check_choice
from certcal.settings.checks import at_least_1, bins, factor, level, not_negative, number, share, whole
from certcal.settings.choices import Population
from certcal.settings.declare import Record, setting


@dataclass(frozen=True, kw_only=True)
class ObjectiveSettings(Record, panel="What to learn"):
    """An objective by name, with its options: what is made is the record of that objective.

    >>> ObjectiveSettings(name="noise", draws=4)
    NoiseSettings(name='noise', draws=4, update='each')

    Raises: InputError if there is no such objective, or the option is one of other objectives.
    """

    kinds: ClassVar[Mapping[str, type["ObjectiveSettings"]]] = {}

    name: str = setting(
        ..., "What to minimise: noise, consistency, smoothadv, cce-act, certified-brier, … (docs/training.md).",
        option="--objective",
    )  # fmt: skip

    def __new__(cls, *, name: str | None = None, **options: Any) -> "ObjectiveSettings":
        if name is None:  # by pickle and copy, which fill it in later
            return object.__new__(cls)
        kind = cls.kinds[check_choice("objective", name, tuple(cls.kinds))]
        for option in options:
            if option not in options_of(name):
                owners = [other for other in cls.kinds if option in options_of(other)]
                belongs = f", as it belongs to {', '.join(owners)}" if owners else ""
                wanted = f"be left out for the objective {name!r}{belongs}"
                raise InputError.expected(option, wanted, repr(options[option]))
        return object.__new__(kind)


@dataclass(frozen=True, kw_only=True)
class PlainSettings(ObjectiveSettings):
    """Cross-entropy on the inputs as they are."""


@dataclass(frozen=True, kw_only=True)
class NoiseSettings(ObjectiveSettings):
    """Cross-entropy on noisy copies.

    With `update` "each" the weights minimise the mean of the copies' cross-entropies, with "smoothed" the cross-entropy
    of their mean probabilities.
    """

    draws: int = setting(2, "Noisy copies of each input, V (m_train in Salman et al.)", check=at_least_1)
    update: str = setting("each", "What the weights minimise on these copies", choices=("each", "smoothed"))


@dataclass(frozen=True, kw_only=True)
class ConsistencySettings(NoiseSettings):
    """Cross-entropy on noisy copies + λ · their divergence from their mean + η · the entropy of that mean."""

    draws: int = setting(2, "Noisy copies of each input, V (m_train in Salman et al.)", check=whole(2, 1_000_000))
    consistency: float = setting(10.0, "Weight of the copies' divergence from their mean, λ", check=not_negative)
    entropy: float = setting(0.5, "Weight of the entropy of the copies' mean, η", check=not_negative)


@dataclass(frozen=True, kw_only=True)
class SmoothAdvSettings(NoiseSettings):
    """Cross-entropy on noisy copies of attacked inputs."""

    steps: int = setting(4, "Steps of the adversary, T", check=at_least_1)
    step_factor: float = setting(1.0, "v: the adversary's steps are 2 v ε / T long", check=factor)
    gradient: str = setting("backprop", "How the adversary finds its direction", choices=("backprop", "stein"))
    box: bool | None = setting(None, "Keep attacked inputs within [0, 1]", shown="no")

    def check_together(self) -> None:
        """Stein's direction is a difference of draws."""
        if self.gradient == "stein" and self.draws < 2:
            raise InputError.expected("gradient", "be 'backprop' with a single draw", f"'stein' for {self.name!r}")


@dataclass(frozen=True, kw_only=True)
class CceActSettings(SmoothAdvSettings):
    """The adversary wants the exact worst case of the calibration error."""

    n_bins: int = setting(15, "Bins of the calibration error", check=bins)
    # A few draws would give no limits but 0 and 1.
    alpha: float | None = setting(
        None, "Error probability of Hoeffding limits of a few-draw confidence", check=level, shown="no limits"
    )


@dataclass(frozen=True, kw_only=True)
class AcceActSettings(CceActSettings):
    """The adversary wants a large calibration error, by ADMM."""

    rho: float = setting(0.01, "ρ of ADMM at the start", check=factor)
    rho_growth: float = setting(
        0.1, "ρ is multiplied with 1 + this after each step",
        check=number("lie in [0, 1e3]", lambda value: 0 <= value <= 1e3),
    )  # fmt: skip
    assignment_rate: float = setting(0.1, "α_a, step size of ADMM on the assignment to bins", check=factor)


@dataclass(frozen=True, kw_only=True)
class AcceActStarSettings(AcceActSettings):
    """η · cross-entropy + (1 − η) · calibration error on attacked inputs."""

    eta: float = setting(0.9, "Weight of the cross-entropy, η", check=share)
    reduction: str = setting(
        "sum", "The calibration error is the paper's sum over inputs, or their mean", choices=("sum", "mean")
    )


@dataclass(frozen=True, kw_only=True)
class PgdSettings(ObjectiveSettings):
    """Cross-entropy on inputs attacked in ℓ∞, without noise."""

    steps: int = setting(4, "Steps of the adversary, T", check=at_least_1)
    step_factor: float = setting(1.0, "v: the adversary's steps are 2 v ε / T long", check=factor)
    box: bool | None = setting(None, "Keep attacked inputs within [0, 1]", shown="yes")
    random_start: bool = setting(True, "Begin at a random point of the ball instead of the input.")


@dataclass(frozen=True, kw_only=True)
class CertifiedSettings(SmoothAdvSettings):
    """Cross-entropy + λ · a certified score. The adversary's options count for the base "smoothadv"."""

    weight: float = setting(1.0, "Weight of the certificate, λ", check=not_negative)
    radius: float | None = setting(None, "R of the certificate", check=not_negative, shown="ε of the step")
    alpha: float | None = setting(
        None, "Error probability of Hoeffding limits of a few-draw confidence", check=level, shown="no limits"
    )
    population: str = setting("all", "Inputs whose certificates count", choices=Population)
    base: str = setting("noise", "What the certificate is added to", choices=("noise", "smoothadv"))


@dataclass(frozen=True, kw_only=True)
class CertifiedCceSettings(CertifiedSettings):
    """Cross-entropy + λ · the certified calibration error."""

    n_bins: int = setting(15, "Bins of the calibration error", check=bins)


ObjectiveSettings.kinds = MappingProxyType(
    {
        "ce": PlainSettings,
        "noise": NoiseSettings,
        "consistency": ConsistencySettings,
        "smoothadv": SmoothAdvSettings,
        "brier-act": SmoothAdvSettings,
        "acce-act": AcceActSettings,
        "acce-act*": AcceActStarSettings,
        "cce-act": CceActSettings,
        "pgd": PgdSettings,
        "certified-brier": CertifiedSettings,
        "certified-log": CertifiedSettings,
        "certified-cce": CertifiedCceSettings,
    }
)


def options_of(name: str) -> tuple[str, ...]:
    """The options that an objective has."""
    kind = ObjectiveSettings.kinds.get(name, ObjectiveSettings)
    return tuple(one.name for one in fields(kind) if one.name != "name")

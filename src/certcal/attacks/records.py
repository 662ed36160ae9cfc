"""What attacks found, as nouns that need no torch: attacks make them, files keep them, reports show them."""

from base64 import b64decode, b64encode
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from certcal.metrics import ReliabilityCurve
from certcal.settings import Adversary, Norm
from certcal.shown import ShownRows, ShownTable, by_row
from certcal.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from torch import Tensor

GALIL = "galil"


@dataclass(frozen=True)
class SandwichRow:
    """One radius and one adversary, on the inputs certified there. NaN where there are none.

    Clean and attacked values are estimates from fresh draws: they scatter around the smoothed model's own, and errors
    of few inputs are biased upwards. Certified values bound the smoothed model's own. The two `limit` columns are what
    the *estimates* may show at most if the certificates are sound; see `Sandwich`.
    """

    radius: float
    adversary: str
    inputs: int  # certified at this radius
    accuracy: float  # of the smoothed predictions on them, the same before and after
    clean_ece: float
    attacked_ece: float
    certified_ece: float
    limit_ece: float
    clean_brier: float
    attacked_brier: float
    certified_brier: float
    limit_brier: float
    contradictions: int  # inputs seen outside their certified bounds, or with another class ahead
    allowed: int  # how many of these chance may bring about
    excess: float  # how far confidences lie beyond their bounds on average, at the least; ≤ 0 if these are sound

    @property
    def holds(self) -> bool:
        """Whether nothing seen contradicts the certificates."""
        below = self.attacked_ece <= self.limit_ece and self.attacked_brier <= self.limit_brier
        return self.inputs == 0 or (below and self.contradictions <= self.allowed and self.excess <= 0)


@dataclass(frozen=True)
class Terms:
    """With which certificates and draws a sandwich was made."""

    alpha: float
    delta: float
    method: str
    split_alpha: bool
    prediction_share: float
    runner_up: str
    n_bins: int
    draws: int  # fresh ones per estimate
    attack_draws: int  # those that attacks saw
    steps: int
    seed: int


@dataclass(frozen=True)
class Moved:
    """The input whose confidence an attack changed most, and how it moved: enough for a picture, without the input."""

    index: int
    before: float  # its confidence, as fresh draws estimate it
    after: float
    largest: float  # change of any of its values
    change: str  # of each value in 127ths of the largest, as bytes in base64

    @classmethod
    def of(cls, index: int, before: float, after: float, change: FloatArray) -> "Moved":
        """The same from the change of each value."""
        largest = float(np.abs(change).max())
        parts = np.rint(change * (127 / largest if largest else 0.0)).astype(np.int8)
        return cls(index, before, after, largest, b64encode(parts.tobytes()).decode())

    def as_array(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """The change of each value. Raises: ValueError if there are not as many as in the shape."""
        parts = np.frombuffer(b64decode(self.change, validate=True), dtype=np.int8).reshape(shape)
        return (parts * (self.largest / 127)).astype(np.float32)


@dataclass(frozen=True, eq=False, repr=False)
class Sandwich(ShownTable[SandwichRow]):
    """Rows for each radius and adversary, with the reliability curves before and after.

    If the certificates are sound, then with probability at least 1 - delta over all draws every row holds: at most
    `allowed` certificates fail (each with probability alpha), every other attacked confidence is estimated within its
    limits, and so are their sums. A row that does not hold is evidence against the certificates, or of a model that is
    not the one that the evidence was drawn from.
    """

    rows: tuple[SandwichRow, ...]
    before: tuple[ReliabilityCurve | None, ...]  # beside the rows; None where no input is certified
    after: tuple[ReliabilityCurve | None, ...]
    inputs: int  # attacked at most
    terms: Terms
    of: int | None = None  # inputs that those attacked were chosen from; None if all were
    moved: tuple[Moved | None, ...] = ()  # beside the rows, or empty: of attacks on the smoothed model

    def __repr__(self) -> str:
        radii = ", ".join(dict.fromkeys(f"{row.radius:g}" for row in self.rows))
        names = ", ".join(dict.fromkeys(row.adversary for row in self.rows))
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        return f"Sandwich({self.inputs} inputs, R = {radii}, {names}, {self.terms.draws} draws: {verdict})"

    @property
    def holds(self) -> bool:
        """Whether every row does."""
        return all(row.holds for row in self.rows)

    def strongest(self) -> list[int]:
        """For each radius, in rising order, the position of the row with the largest attacked calibration error.

        What cannot be told apart at the digits that are shown goes to the attack that was asked for first.
        """
        best: dict[float, int] = {}
        for place, row in enumerate(self.rows):
            own = best.setdefault(row.radius, place)
            if round(row.attacked_ece, 4) > round(self.rows[own].attacked_ece, 4):
                best[row.radius] = place
        return [best[radius] for radius in sorted(best)]

    def nearest(self, radius: float) -> int:
        """The position of the strongest row at the attacked radius that is closest to this one."""
        return min(self.strongest(), key=lambda place: abs(self.rows[place].radius - radius))

    def moved_at(self, radius: float) -> tuple[str, Moved] | None:
        """The strongest attack at this radius and what it moved; None if there is none, or it is not known."""
        places = [place for place in self.strongest() if self.rows[place].radius == radius and self.moved]
        own = self.moved[places[0]] if places else None
        return None if own is None else (self.rows[places[0]].adversary, own)

    def as_dicts(self) -> list[dict[str, Any]]:
        """The rows as plain dictionaries, for JSON or a data frame."""
        return [asdict(row) | {"holds": row.holds} for row in self.rows]


@dataclass(frozen=True)
class AceRow:
    """A model under one attack; the first row of a table, with η = 0, ω empty and ε = 0, is without attack.

    Rows of the original ACE of Galil and El-Yaniv have η = 0 and ω = "galil".
    """

    eta: int
    omega: str
    epsilon: float
    inputs: int
    accuracy: float
    ece: float
    adaptive_ece: float
    brier: float  # top-label
    mean_confidence: float
    label_changes: int  # predictions that differ from those without attack; none should
    moved: int  # inputs that took at least one update
    stopped_by_label: int  # inputs whose next update would have changed their label


@dataclass(frozen=True, eq=False, repr=False)
class AceTable(ShownTable[AceRow]):
    """Rows of the paper's Table 1 and, in the same order, the reliability curves of its appendix."""

    rows: tuple[AceRow, ...]
    curves: tuple[ReliabilityCurve, ...]
    stronger: bool = False  # turns back where a step would change a label; the paper's attack stops there
    of: int | None = None  # inputs that those attacked were chosen from; None if all were

    def __repr__(self) -> str:
        worst = self.rows[self.strongest()]
        change = f"AdaECE {self.rows[0].adaptive_ece:.4f}, {worst.adaptive_ece:.4f} under the strongest"
        return f"AceTable({self.inputs} inputs, {len(self) - 1} attacks, {change})"

    @property
    def inputs(self) -> int:
        """How many were attacked."""
        return self.rows[0].inputs

    @property
    def epsilons(self) -> list[float]:
        """The budgets, in their order."""
        return list(dict.fromkeys(row.epsilon for row in self.rows[1:]))

    @property
    def galil(self) -> bool:
        """Whether the original ACE is among them."""
        return any(row.omega == GALIL for row in self.rows)

    def strongest(self) -> int:
        """The position of the attack with the largest AdaECE."""
        return max(range(1, len(self.rows)), key=lambda place: self.rows[place].adaptive_ece)

    def as_dicts(self) -> list[dict[str, Any]]:
        """The rows as plain dictionaries, for JSON or a data frame."""
        return [asdict(row) for row in self.rows]


@dataclass(frozen=True, eq=False, repr=False)
class Attacked(ShownRows):
    """Inputs after an attack, and what it did. Arrays run over the n inputs.

    Every input lies in its ball and box to the last bit, and its loss is at least that of the input it came from.
    """

    inputs: "Tensor"  # (n, …), on the device and in the dtype of the inputs given
    epsilon: float
    norm: Norm
    clean_loss: FloatArray  # (n,) at the inputs given
    loss: FloatArray  # (n,) at the inputs returned
    updates: NDArray[np.int64]  # (n,) how many were taken
    end: NDArray[np.str_]  # (n,) why each input was left where it is, an `End`

    def __len__(self) -> int:
        return len(self.loss)

    def __repr__(self) -> str:
        gain = float((self.loss - self.clean_loss).mean())
        return f"Attacked({len(self)} inputs, {self.norm} ≤ {self.epsilon:.4g}, mean gain in loss {gain:.4g})"

    def as_dicts(self) -> list[dict[str, Any]]:
        """One row per input."""
        return by_row({name: getattr(self, name).tolist() for name in ("clean_loss", "loss", "updates", "end")})


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationAttack(ShownRows):
    """Inputs after an attack on the smoothed model. Arrays run over the n inputs.

    The two `seen` confidences come from the attack's own few draws, on which it was optimised: they are too extreme.
    `estimate_smoothed` with other draws says what the attack is worth.
    """

    inputs: "Tensor"  # (n, …), within epsilon of those given
    epsilon: float
    adversary: Adversary
    predicted: "Tensor"  # (n,) the class whose confidence was attacked
    correct: BoolArray  # (n,) whether it is the label
    seen_before: FloatArray  # (n,)
    seen_after: FloatArray  # (n,)

    def __len__(self) -> int:
        return len(self.correct)

    def __repr__(self) -> str:
        return f"CalibrationAttack({self.adversary}, {len(self)} inputs, l2 ≤ {self.epsilon:.4g})"

    def as_dicts(self) -> list[dict[str, Any]]:
        """One row per input."""
        names = ("predicted", "correct", "seen_before", "seen_after")
        return by_row({name: getattr(self, name).tolist() for name in names})

"""Evidence: all that certificates need to know of a smoothed model's draws, whatever the radius, level or bound."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certcal.errors import InputError, several
from certcal.shown import ShownRows, by_row
from certcal.types import BoolArray, FloatArray

Counts = NDArray[np.int64]

# Each draw's score is rounded to a whole multiple of 2^-40, so that sums add up exactly in any order. 64-bit integers
# then hold the sums of 2^23 draws. (Evidence of schema 1 rounded the sum of each chunk.)
SCORE_UNIT = 2.0**-40
CELLS = 256


def threshold_grid() -> FloatArray:
    """The 257 fixed thresholds 0 = s_0 < s_1 < … < s_256 = 1 on which scores are counted, dense near 0 and 1.

    s_j = sin²(π j / 512): spacing proportional to √(s (1 − s)), the standard deviation of what is counted. Each is a
    float32, so that comparing a float32 score with it is exact.
    """
    grid: FloatArray = np.square(np.sin(np.arange(CELLS + 1) * (np.pi / (2 * CELLS))))
    return np.asarray(grid, dtype=np.float32).astype(np.float64)


def cell_middles() -> FloatArray:
    """The middles of the 256 cells between the thresholds: what a score is taken for whose cell alone is known."""
    grid = threshold_grid()
    return (grid[1:] + grid[:-1]) / 2


def grid_reach(elements: int, step: float) -> float:
    """How far two roundings to a grid can move an input of so many elements: √d · step.   Errs: high."""
    return math.nextafter(math.sqrt(elements) * step, math.inf) if step else 0.0


def noise_slip(elements: int) -> float:
    """How far one draw of the noise "philox-2" is from rounded normals, in total variation.   Errs: high.

    No event has a probability, and no score in [0, 1] a mean, that is further off. docs/noise.md has the proof,
    tests/models/test_normals.py computes the constants.
    """
    return 1.2e-8 * math.sqrt(elements) + 2e-11 * elements


@dataclass(frozen=True)
class EvidenceHeader:
    """What the draws were drawn from. Evidence with different headers is never mixed."""

    model: str  # fingerprint of the weights and classes
    sigma: float  # standard deviation of the Gaussian noise, in `units`
    seed: int
    classes: int
    n0: int  # selection draws per input
    chunk: int  # estimation draws per chunk, the unit in which they are stored
    precision: str  # what the model ran in, such as "float32 on cpu": the certificate is of that model
    looks: int = 1  # how many looks at the data were planned before the first draw
    stages: tuple[int, ...] = ()  # the plan: after how many draws; empty in schema 1, which kept none for sure
    outputs: str = "logits"  # how the model's outputs were read, or "probabilities"
    noise: str = "torch"  # the generator: its name and version, or "torch" in evidence of schema 1
    grid: float = 0.0  # the step of the grid to which inputs and noise were rounded; 0 if they were not
    elements: int = 0  # numbers in one input; 0 in evidence of schema 1
    units: str = "inputs in [0, 1]"  # what σ and radii are measured in
    schema: int = 2  # 3 with several temperatures
    temperatures: tuple[float, ...] = ()  # that logits were divided by, each with counts of its own; empty: as they are

    @property
    def kinds(self) -> int:
        """How many temperatures scores were counted at."""
        return max(1, len(self.temperatures))

    def as_dict(self) -> dict[str, Any]:
        """Plain data. What earlier versions did not know is left out where it says nothing."""
        return {name: value for name, value in asdict(self).items() if name != "temperatures" or value}

    @classmethod
    def from_dict(cls, held: dict[str, Any]) -> "EvidenceHeader":
        """The header of plain data."""
        lists = {name: tuple(held.get(name, ())) for name in ("stages", "temperatures")}
        return cls(**(held | lists))

    @property
    def reach(self) -> float:
        """How far two roundings to the grid can move an input, which every radius has to allow for."""
        return grid_reach(self.elements, self.grid)

    @property
    def slip(self) -> float:
        """What every limit of a probability has to allow for, since noise is drawn by integers; unknown before them."""
        return noise_slip(self.elements) if self.noise == "philox-2" else 0.0

    @property
    def origin(self) -> dict[str, Any]:
        """Which smoothed model the evidence is of, and the units of its inputs."""
        return {"sigma": self.sigma, "model": self.model, "units": self.units}

    def shift(self, radius: float) -> float:
        """By how many σ the noisy input moves, at most, when the input moves by up to `radius`.   Errs: high.

        Not at all at radius 0: the smoothed model rounds its input itself, so what holds at the rounded input holds at
        the input. Otherwise the rounded inputs may be `reach` further apart than the inputs are; docs/noise.md.
        """
        return (radius + self.reach) / self.sigma if radius else 0.0

    def planned(self, draws: Counts) -> BoolArray:
        """Which of these numbers of draws are those of a planned look; none in evidence without a plan."""
        return np.asarray(np.isin(draws, self.stages))


@dataclass(frozen=True, eq=False, repr=False)
class Evidence(ShownRows):
    """Per input, the sufficient statistic of its noisy predictions. Arrays run over the n inputs.

    Selection draws only choose the class; everything else comes from separate estimation draws.
    """

    header: EvidenceHeader
    index: Counts  # (n,) position of the input in its data set
    content: Counts  # (n,) hash of the input's values, by which a store notices other data under the same positions
    label: Counts  # (n,) true class
    selected: Counts  # (n,) class A chosen by the selection draws
    draws: Counts  # (n,) estimation draws; inputs may differ after staged sampling
    votes: Counts  # (n, k) estimation draws whose arg max was each class
    score_sum: FloatArray  # (n,) Σ of the selected class's probability over the draws
    score_square_sum: FloatArray  # (n,) Σ of its square
    histogram: Counts  # (n, 256) draws whose selected-class probability lies in [s_j, s_{j+1}), the last cell closed
    tempered: tuple["Scores", ...] = ()  # the last three at each temperature of the header, where it has several
    temperature: float = 1.0  # of those that stand above

    def __len__(self) -> int:
        return len(self.index)

    @property
    def thresholds(self) -> FloatArray:
        """The grid on which `histogram` counts, shape (257,)."""
        return threshold_grid()

    @property
    def confidence(self) -> FloatArray:
        """The estimated smoothed probability of the selected class, shape (n,)."""
        return self.score_sum / self.draws

    @property
    def drawn(self) -> Counts:
        """By what the draws of each input are known: their seed, plan and number, shape (n,)."""
        plan = self.header.seed, self.header.noise, self.header.n0, self.header.stages, self.header.looks
        return int.from_bytes(hashlib.sha256(repr(plan).encode()).digest()[:7]) + self.draws

    @property
    def score_rounding(self) -> FloatArray:
        """How far each of the two sums may be off: half a unit per draw, shape (n,).

        In schema 1 it is one unit per chunk, whose sum in float64 was rounded.
        """
        if self.header.schema == 1:
            return self.draws / self.header.chunk * SCORE_UNIT
        return self.draws / 2 * SCORE_UNIT

    @property
    def correct(self) -> BoolArray:
        """Whether the selected class is the label, shape (n,)."""
        return np.asarray(self.selected == self.label)

    @property
    def reached(self) -> Counts:
        """How many draws have a score of at least each of the 255 inner thresholds, shape (n, 255)."""
        return np.asarray(self.histogram[:, :0:-1].cumsum(axis=1)[:, ::-1])

    def with_histogram(self, histogram: Counts, scores: FloatArray | None = None) -> "Evidence":
        """The evidence with other counts, as if the draws of each cell had its score; by default that of its middle."""
        own = cell_middles() if scores is None else scores
        total, squares = (np.asarray(histogram @ values, dtype=np.float64) for values in (own, np.square(own)))
        return replace(self, histogram=histogram, score_sum=total, score_square_sum=squares)

    def draws_saved(self, n: int | None = None) -> int:
        """How many of n draws for each input staged sampling did without; by default, of its last stage."""
        planned = n if n is not None else max(self.header.stages, default=0)
        return int(np.maximum(planned - self.draws, 0).sum())

    def __repr__(self) -> str:
        return f"Evidence({several(len(self))}, {self.draws.sum():,} draws, sigma={self.header.sigma:g})"

    def as_dicts(self) -> list[dict[str, Any]]:
        """One row per input, as plain dictionaries."""
        return by_row({name: getattr(self, name).tolist() for name in _PER_INPUT})

    def select(self, keep: BoolArray | Counts) -> "Evidence":
        """The evidence of some of the inputs, chosen by a mask or by positions."""
        arrays = {name: getattr(self, name)[keep] for name in ARRAYS}
        tempered = tuple(Scores(*(getattr(own, name)[keep] for name in SCORES)) for own in self.tempered)
        return replace(self, **arrays, tempered=tempered)

    def at_temperature(self, temperature: float) -> "Evidence":
        """The evidence of the same draws with logits divided by one of the temperatures it was drawn for.

        What is certified from it holds by itself, with the probability that it states, for a temperature that was
        fixed without looking at these draws.

        Raises: InputError if scores were not counted at this temperature.
        """
        if temperature == self.temperature:
            return self
        known = self.header.temperatures
        if temperature not in known:
            wanted = f"be one that scores were counted at, {', '.join(f'{own:g}' for own in known or (1.0,))}"
            raise InputError.expected("temperature", wanted, temperature)
        own = self.tempered[known.index(temperature)]
        return replace(self, **{name: getattr(own, name) for name in SCORES}, temperature=temperature)


@dataclass(frozen=True, eq=False)
class Scores:
    """What `Evidence` says of the scores at one temperature."""

    score_sum: FloatArray
    score_square_sum: FloatArray
    histogram: Counts


_PER_INPUT = ("index", "label", "selected", "correct", "confidence", "draws")
SCORES = ("score_sum", "score_square_sum", "histogram")
ARRAYS = ("index", "content", "label", "selected", "draws", "votes", "score_sum", "score_square_sum", "histogram")


def evidence_digest(evidence: Evidence) -> str:
    """SHA-256 of what the evidence says: header and numbers, whatever file it is in and when that was written."""
    digest = hashlib.sha256(json.dumps(evidence.header.as_dict(), sort_keys=True).encode())
    named = [(name, getattr(evidence, name)) for name in ARRAYS]
    named += [(f"{name} at {n}", getattr(own, name)) for n, own in enumerate(evidence.tempered) for name in SCORES]
    for name, values in named:
        digest.update(f"{name}:{values.shape}".encode())
        digest.update(np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()


def check_same_header(found: EvidenceHeader, wanted: EvidenceHeader, where: str, *, drawing: bool = True) -> None:
    """Refuse to mix draws of another model, noise or seed, naming all that differs. Plans of looks may differ."""
    if found.noise != wanted.noise and drawing:
        raise InputError(
            f"Expected the evidence in {where} to have noise = {wanted.noise}, but it has noise = {found.noise}, of "
            "another version of certcal, which cannot be drawn on. Draw into a new folder, or evaluate what is there."
        )
    names = [name for name in EvidenceHeader.__dataclass_fields__ if name not in ("looks", "stages")]
    differ = [name for name in names if getattr(found, name) != getattr(wanted, name)]
    if differ:
        new, old = (
            ", ".join(f"{name} = {_short(name, getattr(header, name))}" for name in differ)
            for header in (wanted, found)
        )
        remedy = "Use another folder for this run, or the settings that folder was made with."
        if not drawing:
            remedy = "Only draws of one model, noise and seed merge; evaluate each by itself, or compare them."
        raise InputError(f"Expected the evidence in {where} to have {new}, but it has {old}. {remedy}")


def _short(name: str, value: object) -> str:
    return f"model {str(value)[:12]}…" if name == "model" else f"{value}"

"""What a training run is made of: its schedules, its validation, the machines it runs on, and the recipe of all."""

from dataclasses import dataclass, field
from pathlib import Path

from certcal.errors import InputError
from certcal.settings import checks
from certcal.settings.choices import Method, Precision
from certcal.settings.declare import Record, setting
from certcal.settings.objectives import ObjectiveSettings
from certcal.settings.runs import DataSettings, ModelSettings
from certcal.settings.toml import Sections, build_sections, merged, read_toml, toml_text


@dataclass(frozen=True, kw_only=True)
class TrainSettings(Record, panel="What to learn"):
    """What is learned, in which steps. Only `epochs` may grow once a run has begun."""

    sigma: float = setting(..., "Noise that the model will be smoothed with.", check=checks.not_negative)
    epsilon: float = setting(0.0, "Radius of the adversary in training", check=checks.not_negative)
    epochs: int = setting(150, "Passes over the data", check=checks.up_to_a_million)
    # What is left of an epoch waits for the next shuffle.
    batch_size: int = setting(256, "Inputs per step, over all devices together", check=checks.up_to_a_million)
    learning_rate: float = setting(0.1, "Learning rate at the start", check=checks.positive)
    momentum: float = setting(
        0.9, "Momentum", check=checks.number("lie in [0, 1)", lambda value: 0 <= value < 1), option=None
    )
    weight_decay: float = setting(1e-4, "Weight decay", check=checks.not_negative, option=None)
    decay_every: int = setting(50, "Epochs between decays of the learning rate", check=checks.at_least_1, option=None)
    decay: float = setting(
        0.1,
        "Factor of the learning rate",
        check=checks.number("lie in (0, 1]", lambda value: 0 < value <= 1),
        option=None,
    )
    sigma_warmup: int = setting(0, "Epochs over which σ grows linearly", check=checks.at_least_0, option=None)
    epsilon_zero: int = setting(0, "Epochs without an adversary", check=checks.at_least_0, option=None)
    epsilon_warmup: int = setting(0, "Epochs over which ε then grows linearly", check=checks.at_least_0, option=None)
    augment: str = setting("none", "Random changes of images", choices=("none", "flip", "crop-flip"))
    seed: int = setting(0, "Seed of weights, order and noise", check=checks.seed)


@dataclass(frozen=True, kw_only=True)
class ValidationSettings(Record, panel="What to learn"):
    """Certified metrics on held-out training data while training goes on."""

    every: int = setting(
        0, "Epochs between certified metrics of held-out training data; 0: none", check=checks.at_least_0,
        option="--validate-every",
    )  # fmt: skip
    fraction: float = setting(0.02, "Share of the training data to hold out", check=checks.inner_share, option=None)
    inputs: int = setting(500, "Of those, use at most this many", check=checks.at_least_1, option=None)
    radii: tuple[float, ...] | None = setting(
        None, "Radii", check=checks.not_negative, option=None, shown="σ/2, σ, 3σ/2"
    )
    draws: int = setting(1000, "Draws per input", check=checks.draws, option=None)
    n0: int = setting(100, "Draws that select the class", check=checks.chunk, option=None)
    alpha: float = setting(0.001, "Error probability per input", check=checks.level, option=None)
    method: str = setting("cdf-cp", "Confidence certificate", choices=Method, option=None)
    n_bins: int = setting(15, "Bins of the calibration error", check=checks.bins, option=None)


@dataclass(frozen=True, kw_only=True)
class MachineSettings(Record, panel="Where to run"):
    """Where and how training runs; nothing here says what is learned."""

    device: str | None = setting(None, "cpu, cuda, …", shown="a GPU if there is one")
    devices: int = setting(1, "Devices of each node", check=checks.whole(1, 1024))
    nodes: int = setting(1, "Nodes", check=checks.whole(1, 65536))
    precision: str = setting(
        "float32", "Numbers that the model runs in", choices=(Precision.FLOAT32, Precision.BFLOAT16)
    )
    compile: bool = setting(False, "Run the model through torch.compile.")
    workers: int = setting(
        4, "Processes that decode images which do not fit in memory", check=checks.whole(0, 256), option=None
    )
    checkpoint_minutes: float = setting(10.0, "Minutes between checkpoints", check=checks.positive, option=None)
    checkpoint_steps: int | None = setting(
        None, "Steps between checkpoints", check=checks.at_least_1, option="--checkpoint-every",
        shown="every 10 minutes and epoch",
    )  # fmt: skip
    tensorboard: bool = setting(False, "Write curves for TensorBoard too.")


@dataclass(frozen=True, kw_only=True)
class TrainRecipe:
    """One training run. `model.weights` are those it starts from."""

    model: ModelSettings
    data: DataSettings
    objective: ObjectiveSettings
    train: TrainSettings
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    machine: MachineSettings = field(default_factory=MachineSettings, metadata={"was": "engine"})


def load_recipe(path: Path | None, changes: Sections) -> TrainRecipe:
    """The recipe of a TOML file (or none), changed by what is given beside it: {section: {key: value}}."""
    read = read_toml(path)
    if "sweep" in read:
        raise InputError(f"{path} has a [sweep] section: run it with `certcal sweep`.")
    return build_sections(TrainRecipe, merged(read, changes), str(path or "options"))


def recipe_text(recipe: TrainRecipe) -> str:
    """A recipe as TOML."""
    return toml_text(recipe, head="What this was trained with; `certcal train --recipe` takes it back.")

"""How training goes: its schedules, its validation, and the machines it runs on."""

from dataclasses import dataclass

from certcal.settings.checks import (
    MAX_CHUNK,
    at_least_0,
    at_least_1,
    bins,
    draws,
    level,
    not_negative,
    number,
    positive,
    seed,
    up_to_a_million,
    whole,
)
from certcal.settings.choices import Augment, Method, Precision
from certcal.settings.declare import Record, setting


@dataclass(frozen=True, kw_only=True)
class TrainSettings(Record, panel="What to learn"):
    """What is learned, in which steps. Only `epochs` may grow once a run has begun."""

    sigma: float = setting(..., "Noise that the model will be smoothed with.", check=not_negative)
    epsilon: float = setting(0.0, "Radius of the adversary in training", check=not_negative)
    epochs: int = setting(150, "Passes over the data", check=up_to_a_million)
    # What is left of an epoch waits for the next shuffle.
    batch_size: int = setting(256, "Inputs per step, over all devices together", check=up_to_a_million)
    learning_rate: float = setting(0.1, "Learning rate at the start", check=positive)
    momentum: float = setting(0.9, "Momentum", check=number("lie in [0, 1)", lambda value: 0 <= value < 1), option=None)
    weight_decay: float = setting(1e-4, "Weight decay", check=not_negative, option=None)
    decay_every: int = setting(50, "Epochs between decays of the learning rate", check=at_least_1, option=None)
    decay: float = setting(
        0.1, "Factor of the learning rate", check=number("lie in (0, 1]", lambda value: 0 < value <= 1), option=None
    )
    sigma_warmup: int = setting(0, "Epochs over which σ grows linearly", check=at_least_0, option=None)
    epsilon_zero: int = setting(0, "Epochs without an adversary", check=at_least_0, option=None)
    epsilon_warmup: int = setting(0, "Epochs over which ε then grows linearly", check=at_least_0, option=None)
    augment: str = setting("none", "Random changes of images", choices=Augment)
    seed: int = setting(0, "Seed of weights, order and noise", check=seed)


@dataclass(frozen=True, kw_only=True)
class ValidationSettings(Record, panel="What to learn"):
    """Certified metrics on held-out training data while training goes on."""

    every: int = setting(
        0, "Epochs between certified metrics of held-out training data; 0: none", check=at_least_0,
        option="--validate-every",
    )  # fmt: skip
    fraction: float = setting(
        0.02,
        "Share of the training data to hold out",
        check=number("lie in the open interval (0, 1)", lambda value: 0 < value < 1),
        option=None,
    )
    inputs: int = setting(500, "Of those, use at most this many", check=at_least_1, option=None)
    radii: tuple[float, ...] | None = setting(None, "Radii", check=not_negative, option=None, shown="σ/2, σ, 3σ/2")
    draws: int = setting(1000, "Draws per input", check=draws, option=None)
    n0: int = setting(100, "Draws that select the class", check=whole(1, MAX_CHUNK), option=None)
    alpha: float = setting(0.001, "Error probability per input", check=level, option=None)
    method: str = setting("cdf-cp", "Confidence certificate", choices=Method, option=None)
    n_bins: int = setting(15, "Bins of the calibration error", check=bins, option=None)


@dataclass(frozen=True, kw_only=True)
class MachineSettings(Record, panel="Where to run"):
    """Where and how training runs; nothing here says what is learned."""

    device: str | None = setting(None, "cpu, cuda, …", shown="a GPU if there is one")
    devices: int = setting(1, "Devices of each node", check=whole(1, 1024))
    nodes: int = setting(1, "Nodes", check=whole(1, 65536))
    precision: str = setting(
        "float32", "Numbers that the model runs in", choices=(Precision.FLOAT32, Precision.BFLOAT16)
    )
    compile: bool = setting(False, "Run the model through torch.compile.")
    workers: int = setting(
        4, "Processes that decode images which do not fit in memory", check=whole(0, 256), option=None
    )
    checkpoint_minutes: float = setting(10.0, "Minutes between checkpoints", check=positive, option=None)
    checkpoint_steps: int | None = setting(
        None, "Steps between checkpoints", check=at_least_1, option="--checkpoint-every",
        shown="every 10 minutes and epoch",
    )  # fmt: skip
    tensorboard: bool = setting(False, "Write curves for TensorBoard too.")

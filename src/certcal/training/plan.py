"""How training goes: its schedules, its validation, and the machines it runs on."""

from dataclasses import dataclass

from certcal.certificates import Method
from certcal.inputs import check_choice, check_flag, check_integer, check_level, check_number, one_or_more
from certcal.training.augment import AUGMENTATIONS

PRECISIONS = {"float32": "32-true", "bfloat16": "bf16-mixed"}  # ours, and what Fabric calls them


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """What is learned, in which steps. Only `epochs` may grow once a run has begun."""

    sigma: float  # of the noise that the model will be smoothed with
    epsilon: float = 0.0  # radius of the adversary, for objectives that have one
    epochs: int = 150
    batch_size: int = 256  # over all devices together; what is left of an epoch waits for the next shuffle
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-4
    decay_every: int = 50  # epochs
    decay: float = 0.1  # factor of the learning rate
    sigma_warmup: int = 0  # epochs over which σ grows linearly
    epsilon_zero: int = 0  # epochs without an adversary
    epsilon_warmup: int = 0  # epochs over which ε then grows linearly
    augment: str = "none"
    seed: int = 0

    def __post_init__(self) -> None:
        check_number("sigma", self.sigma, "be a number ≥ 0", lambda value: value >= 0)
        check_number("epsilon", self.epsilon, "be a number ≥ 0", lambda value: value >= 0)
        for name in ("epochs", "batch_size", "decay_every"):
            check_integer(name, getattr(self, name), minimum=1)
        for name in ("sigma_warmup", "epsilon_zero", "epsilon_warmup", "seed"):
            check_integer(name, getattr(self, name), minimum=0)
        check_number("learning_rate", self.learning_rate, "be a number > 0", lambda value: value > 0)
        check_number("momentum", self.momentum, "lie in [0, 1)", lambda value: 0 <= value < 1)
        check_number("weight_decay", self.weight_decay, "be a number ≥ 0", lambda value: value >= 0)
        check_number("decay", self.decay, "lie in (0, 1]", lambda value: 0 < value <= 1)
        check_choice("augment", self.augment, tuple(AUGMENTATIONS))


@dataclass(frozen=True, kw_only=True)
class ValidationSettings:
    """Certified metrics on held-out training data while training goes on."""

    every: int = 0  # epochs; 0 holds nothing out and validates never
    fraction: float = 0.02  # of the training data, held out
    inputs: int = 500  # of those, at most
    radii: tuple[float, ...] | None = None  # by default σ/2, σ, 3σ/2
    draws: int = 1000
    n0: int = 100
    alpha: float = 0.001
    method: str = "cdf-cp"
    n_bins: int = 15

    def __post_init__(self) -> None:
        check_integer("every", self.every, minimum=0)
        check_number("fraction", self.fraction, "lie in the open interval (0, 1)", lambda part: 0 < part < 1)
        for name in ("inputs", "draws", "n0", "n_bins"):
            check_integer(name, getattr(self, name), minimum=1)
        check_level("alpha", self.alpha)
        check_choice("method", self.method, tuple(Method))
        for radius in () if self.radii is None else one_or_more("radii", self.radii):
            check_number("radii", radius, "be numbers ≥ 0", lambda value: value >= 0)


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """Where and how training runs; nothing here says what is learned."""

    device: str | None = None  # cpu, cuda, …; a GPU if there is one
    devices: int = 1  # of each node
    nodes: int = 1
    precision: str = "float32"
    workers: int = 4  # processes that decode images which do not fit in memory
    checkpoint_minutes: float = 10.0  # also after every epoch
    checkpoint_steps: int | None = None
    tensorboard: bool = False

    def __post_init__(self) -> None:
        check_integer("devices", self.devices, minimum=1)
        check_integer("nodes", self.nodes, minimum=1)
        check_choice("precision", self.precision, tuple(PRECISIONS))
        check_integer("workers", self.workers, minimum=0)
        check_number("checkpoint_minutes", self.checkpoint_minutes, "be a number > 0", lambda value: value > 0)
        if self.checkpoint_steps is not None:
            check_integer("checkpoint_steps", self.checkpoint_steps, minimum=1)
        check_flag("tensorboard", self.tensorboard)

"""What `certcal bench` measures."""

from dataclasses import dataclass

from certcal.errors import InputError
from certcal.settings.checks import at_least_1
from certcal.settings.declare import Record, setting


@dataclass(frozen=True, kw_only=True)
class BenchSettings(Record, panel="What to measure"):
    """A model, its inputs, and the run to estimate."""

    model: str = setting("lenet", "A known network, or package.module:factory")
    shape: tuple[int, ...] = setting((1, 28, 28), "Channels, height and width of the inputs", metavar="C,H,W")
    classes: int = setting(10, "Classes of the model", check=at_least_1)
    inputs: int = setting(1000, "Inputs of the run to estimate", check=at_least_1)
    n: int = setting(100_000, "Draws per input of the run to estimate", check=at_least_1)

    def check_together(self) -> None:
        """Inputs are square."""
        if len(self.shape) != 3 or self.shape[1] != self.shape[2] or min(self.shape) < 1:
            got = repr(",".join(map(str, self.shape)))
            raise InputError.expected("shape", "be channels, height and the same width, as 3,32,32", got)

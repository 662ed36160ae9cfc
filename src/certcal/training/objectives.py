"""What training minimises: one small function on a batch per method."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from certcal.inputs import check_choice
from certcal.training.settings import ObjectiveSettings
from certcal.training.step import Objective, Step

__all__ = ["OBJECTIVES", "Objective", "ObjectiveSettings", "Step", "make_objective"]


def plain(settings: ObjectiveSettings) -> Objective:
    """Cross-entropy on the inputs as they are."""

    def loss(model: nn.Module, inputs: Tensor, labels: Tensor, step: Step) -> Tensor:
        return cross_entropy(model(inputs), labels)

    return loss


def noise(settings: ObjectiveSettings) -> Objective:
    """Cross-entropy on noisy copies. Cohen et al. (2019)."""

    def loss(model: nn.Module, inputs: Tensor, labels: Tensor, step: Step) -> Tensor:
        copies = inputs.repeat_interleave(settings.draws, dim=0)
        return cross_entropy(model(copies + step.noise(copies.shape, copies)), labels.repeat_interleave(settings.draws))

    return loss


OBJECTIVES: dict[str, Callable[[ObjectiveSettings], Objective]] = {"ce": plain, "noise": noise}


def make_objective(settings: ObjectiveSettings) -> Objective:
    """The objective of the settings."""
    return OBJECTIVES[check_choice("objective", settings.name, tuple(OBJECTIVES))](settings)

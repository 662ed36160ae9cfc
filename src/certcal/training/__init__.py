"""Training for smoothing: objectives on a batch, and the loop, schedules and checkpoints around them."""

from certcal.settings import MachineSettings, ObjectiveSettings, TrainSettings, ValidationSettings
from certcal.training.loop import TrainResult, train
from certcal.training.objectives import OBJECTIVES, make_objective
from certcal.training.step import Objective, Step

__all__ = [
    "OBJECTIVES",
    "MachineSettings",
    "Objective",
    "ObjectiveSettings",
    "Step",
    "TrainResult",
    "TrainSettings",
    "ValidationSettings",
    "make_objective",
    "train",
]

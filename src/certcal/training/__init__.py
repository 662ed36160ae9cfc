"""Training for smoothing: objectives on a batch, and the loop, schedules and checkpoints around them."""

from certcal.settings import MachineSettings, ObjectiveSettings, TrainSettings, ValidationSettings
from certcal.training.fabric import leave_group
from certcal.training.fit import TrainCost, estimate_cost, train
from certcal.training.loop import Trainer, TrainResult
from certcal.training.objectives import OBJECTIVES, make_objective
from certcal.training.step import Objective, Step
from certcal.training.validation import validate

__all__ = [
    "OBJECTIVES",
    "MachineSettings",
    "Objective",
    "ObjectiveSettings",
    "Step",
    "TrainCost",
    "TrainResult",
    "TrainSettings",
    "Trainer",
    "ValidationSettings",
    "estimate_cost",
    "leave_group",
    "make_objective",
    "train",
    "validate",
]

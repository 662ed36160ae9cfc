"""Training for smoothing: objectives on a batch, and the loop, schedules and checkpoints around them."""

from certcal.training.loop import TrainResult, train
from certcal.training.objectives import OBJECTIVES, Objective, ObjectiveSettings, Step, make_objective
from certcal.training.plan import EngineSettings, TrainSettings, ValidationSettings
from certcal.training.sweep import SweepSettings, expand

__all__ = [
    "OBJECTIVES",
    "EngineSettings",
    "Objective",
    "ObjectiveSettings",
    "Step",
    "SweepSettings",
    "TrainResult",
    "TrainSettings",
    "ValidationSettings",
    "expand",
    "make_objective",
    "train",
]

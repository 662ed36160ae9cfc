"""Training for smoothing: objectives on a batch, and the loop, schedules and checkpoints around them."""

from certcal.training.loop import TrainResult, train
from certcal.training.objectives import OBJECTIVES, Objective, ObjectiveSettings, Step, make_objective
from certcal.training.plan import EngineSettings, TrainSettings, ValidationSettings

__all__ = [
    "OBJECTIVES",
    "EngineSettings",
    "Objective",
    "ObjectiveSettings",
    "Step",
    "TrainResult",
    "TrainSettings",
    "ValidationSettings",
    "make_objective",
    "train",
]

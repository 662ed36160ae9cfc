"""Training for smoothing: objectives on a batch, and the loop, schedules and checkpoints around them."""

from certcal.training.objectives import OBJECTIVES, Objective, ObjectiveSettings, Step, make_objective

__all__ = ["OBJECTIVES", "Objective", "ObjectiveSettings", "Step", "make_objective"]

"""Certificates of one input at a time: its prediction stays (C1), its confidence stays within bounds (C2)."""

from typing import TYPE_CHECKING

from certcal.certificates.cells import MeanLimits
from certcal.certificates.confidence import (
    PAPER,
    StepFunction,
    TailLimits,
    after_scores,
    as_levels,
    confidence_bounds,
    confidence_bounds_at,
    remembered,
)
from certcal.certificates.intervals import ConfidenceIntervals, check_of_one_model
from certcal.certificates.logs import LOG_METHOD, intervals_from_log, read_certification_log, write_certification_log
from certcal.certificates.looks import PLANNED_SHARE, share_of_delta
from certcal.certificates.margins import intervals_from_lipschitz, intervals_from_logits, intervals_from_margins
from certcal.certificates.radius import (
    NO_CLASS,
    Decision,
    Predictions,
    Radii,
    average_certified_radius,
    certified_accuracy,
    certified_radius,
    certified_radius_with_runner_up,
    certify_radii,
    predict_classes,
    rival_votes,
)
from certcal.certificates.stopping import StopWhenDecided
from certcal.certificates.tables import intervals_by_radius, intervals_from_table, table_of
from certcal.certificates.votes import intervals_from_votes
from certcal.later import later
from certcal.settings import Method, RunnerUp

if TYPE_CHECKING:
    from certcal.certificates.lipschitz import lipschitz_constant
    from certcal.certificates.networks import intervals_by_lipschitz, intervals_by_lirpa

__all__ = [
    "LOG_METHOD",
    "NO_CLASS",
    "PAPER",
    "PLANNED_SHARE",
    "ConfidenceIntervals",
    "Decision",
    "MeanLimits",
    "Method",
    "Predictions",
    "Radii",
    "RunnerUp",
    "StepFunction",
    "StopWhenDecided",
    "TailLimits",
    "after_scores",
    "as_levels",
    "average_certified_radius",
    "certified_accuracy",
    "certified_radius",
    "certified_radius_with_runner_up",
    "certify_radii",
    "check_of_one_model",
    "confidence_bounds",
    "confidence_bounds_at",
    "intervals_by_lipschitz",
    "intervals_by_lirpa",
    "intervals_by_radius",
    "intervals_from_lipschitz",
    "intervals_from_log",
    "intervals_from_logits",
    "intervals_from_margins",
    "intervals_from_table",
    "intervals_from_votes",
    "lipschitz_constant",
    "predict_classes",
    "read_certification_log",
    "remembered",
    "rival_votes",
    "share_of_delta",
    "table_of",
    "write_certification_log",
]

# These need torch.
__getattr__ = later(__name__, lipschitz="lipschitz_constant", networks="intervals_by_lipschitz intervals_by_lirpa")

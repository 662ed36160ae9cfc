"""What a run's report advises: where its guaranteed error comes from, and what would lower it."""

from contextlib import suppress
from typing import Any

from certcal.errors import InputError
from certcal.evaluation import Report, split_gap
from certcal.recalibration import held_out_scores
from certcal.report import advice_section, by_radius, default_view
from certcal.runs.folder import RunFolder

SPLITS = 3  # by which the effect of recalibration is foreseen


def advise(report: Report, run: RunFolder) -> dict[str, Any] | None:
    """The section of a report on its guaranteed error, None for mapped confidences and bounds from elsewhere.

    Paper: —; estimates.
    """
    if report.recalibration is not None or report.evidence is None:
        return None
    draws, sigma = int(report.evidence.draws.max()), report.evidence.header.sigma
    report = by_radius(report)
    return advice_section(
        split_gap(report), sigma=sigma, draws=draws, run=run.path.name, recalibrated=_recalibrated(report)
    )


def _recalibrated(report: Report) -> dict[float, float]:
    """About the guaranteed error that a map would leave at the radius shown first, on inputs it was not fitted on."""
    shown = default_view(report)
    row, bounds = report.rows[shown], report.bounds[shown]
    with suppress(InputError):  # nothing to learn from
        before, after = held_out_scores([bounds], n_bins=len(report.bins), repeats=SPLITS).mean(row.radius)
        # Both on the half that is held out, whose sampling error is larger; the gain is what carries over.
        return {row.radius: max(0.0, row.joint_ece - (before.certified_ece - after.certified_ece))}
    return {}

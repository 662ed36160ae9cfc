"""The guarantee in words: what is claimed at a radius, with which probability, and what is not."""

from decimal import Decimal

from certcal.report.evaluation import Population, Report
from certcal.report.tables import Rounding, number, percent


def guarantee(report: Report, position: int) -> str:
    """One sentence that says what holds at a row's radius, for all inputs of the evidence together.

    Paper: —; the joint claim is ours, docs/guarantee.md.   Errs: every number is rounded to the cautious side.
    """
    row, worst = report.rows[position], report.worst[position]
    radius = f"R = {row.radius:g}"
    if worst is None:
        return f"At {radius} no input is certified, so nothing is claimed there."
    moved = (
        "without an attack" if row.radius == 0 else f"under any ℓ2 perturbation of each input by up to {row.radius:g}"
    )
    model = "smoothed model" if report.recalibration is None else "recalibrated smoothed model"
    on = f"on the {row.inputs:,} of {report.inputs:,} inputs that are certified at {radius}"
    if report.population is Population.ALL:
        on = f"on all {report.inputs:,} inputs"
    return (
        f"With probability at least {_complement(report.delta)} over the noise "
        f"draws, {moved}, the {model}'s expected calibration error {on} is at most "
        f"{percent(row.joint_ece, Rounding.UP)} and its Brier score at most "
        f"{number(row.joint_brier, Rounding.UP)}; its prediction stays right on at least "
        f"{percent(row.joint_accuracy, Rounding.DOWN)} of all {report.inputs:,} inputs."
    )


def explanation(report: Report, position: int) -> str:
    """How the sentence comes about: failures allowed for, and the value without any."""
    row = report.rows[position]
    if report.worst[position] is None:
        return ""
    level = report.alpha if report.joint else 2 * report.alpha
    return (
        f"Each input's certificates fail with probability at most {level:g}; among {report.inputs:,} inputs, with "
        f"probability {_complement(report.delta)} no more than {report.failures} fail, and these numbers allow for the "
        f"worst {report.failures}. If none fails, the calibration error is at most "
        f"{percent(row.certified_ece, Rounding.UP)}. Without an attack it is estimated at "
        f"{percent(row.ece, Rounding.NEAREST)}."
    )


def caveats(report: Report) -> list[str]:
    """What the guarantee does not mean, in short sentences."""
    header = report.evidence.header
    about = [
        "It is about these inputs: the calibration error of this set, not of inputs that were not certified here.",
        f"It is about the smoothed model: predictions averaged over Gaussian noise with σ = {header.sigma:g}, run as "
        f"“{header.precision}”. The network without noise has no certificate.",
        "Perturbations are ℓ2, in the units of inputs in [0, 1], one for each input, chosen by an adversary who knows "
        "everything. Rotations, blur or a shift of the data are not covered.",
        f"Calibration error means the binned one of the predicted class, with {len(report.bins)} bins; confidence is "
        "the smoothed probability of that class.",
    ]
    if report.population is Population.CERTIFIED:
        about.append(
            "At each radius, inputs that are not certified there are left out of errors and scores, as in the paper; "
            "they do count against accuracy. Population “all” counts them, at their worst."
        )
    if report.recalibration is not None:
        about.append(
            f"Confidences have gone through a {report.recalibration.kind} map that never falls, fitted on other inputs "
            "than these; predictions are those without it. The map is of the smoothed confidence."
        )
    if not report.joint:
        about.append(
            f"As in the paper, α = {report.alpha:g} is given to each of the two certificates of an input, so that both "
            f"hold with probability {1 - 2 * report.alpha:g}; the joint values account for this."
        )
    return about


def _complement(level: float) -> str:
    """1 − level in percent, every digit of it."""
    share = 100 * (1 - Decimal(repr(level)))
    return f"{share.normalize():f} %"

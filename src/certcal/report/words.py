"""The guarantee in words: what is claimed at a radius, with which probability, and what is not."""

import math

from certcal.certificates import LOG_METHOD
from certcal.errors import several
from certcal.evaluation import Report, Rounding, Row, number, percent
from certcal.recalibration import caution_about
from certcal.report.tables import complement, small, small_chance
from certcal.scalars import exactly, guarded
from certcal.settings import Domain, Norm, Population, Values
from certcal.smoothing import EvidenceHeader

_NORMS = {Norm.L2: "ℓ2", Norm.LINF: "ℓ∞", Norm.L1: "ℓ1"}
_OTHERS = {
    Norm.PATCH: "of one square of pixels, anywhere",
    Norm.DECLARED: "those that the maker of the bounds declares",
}


_ONE_TEMPERATURE = (
    "Scores were counted at several temperatures. The guarantee is for one that was chosen without looking at these "
    "inputs' draws: the least of several guaranteed values is not guaranteed. `certcal recalibrate --automatic` "
    "chooses one on other inputs."
)
_WAYS = {
    "failures": "failed certificates",
    "alpha_for_set": "an α that suits the set",
    "pooled": "pooling errors over inputs",
}


@guarded
def answer(report: Report, position: int) -> str:
    """The calibration error without and under attack at a row's radius, in one short line; `guarantee` has the terms.

    With the caution about the map, where there is one: whoever reads only this has to know.

    Paper: —.   Errs: the error under attack is rounded up.
    """
    row = report[position]
    at = f"R = {exactly(row.radius)}"
    if row.worst is None:
        return f"Nothing is certified at {at}"
    if report.population is not Population.ALL and row.certified < report.inputs:
        at += f"; {row.inputs:,} of {several(report.inputs)}"
    most = percent(row.joint_ece, Rounding.UP)
    under = f"surely at most {most} ({at})" if row.radius == 0 else f"at most {most} under attack ({at})"
    told = f"Calibration error: {percent(row.ece, Rounding.NEAREST)} without an attack, {under}"
    told = told.replace(" %", "\u00a0%")
    caution = caution_about(report.recalibration)
    return f"{told}. {caution}" if caution else told


@guarded
def answer_about(report: Report, position: int) -> str:
    """Which inputs the short answer is about, and the units of R where inputs do not lie in [0, 1]."""
    row, all_inputs = report[position], _all(report)
    clean = percent(row.ece_all, Rounding.NEAREST)
    units = f" R is {_units(report)}." if _units(report) else ""
    if row.worst is None:
        no = "No prediction is proven to stay within that radius"
        return f"{no}; without an attack the calibration error is {clean}.{units}"
    if report.population is Population.ALL or row.certified == report.inputs:
        return f"Of {all_inputs}.{units}"
    share = percent(row.certified_share, Rounding.DOWN, 0)
    return (
        f"Both are of the {several(row.inputs)} ({share}) whose prediction is certified at R = "
        f"{exactly(row.radius)}. Of {all_inputs} it is {clean} without an attack.{units}"
    )


def _all(report: Report) -> str:
    return f"{'the' if report.inputs == 1 else 'all'} {several(report.inputs)}"


def clean_words(report: Report) -> str:
    """Why the clean error changes with R, where it does: it is of other inputs."""
    if report.population is Population.ALL or all(row.certified == report.inputs for row in report.rows):
        return ""
    clean = percent(report.rows[0].ece_all, Rounding.NEAREST)
    return (
        f"Clean ECE is that of the inputs certified at R: fewer and easier ones as R grows. Of {_all(report)} it is "
        f"{clean}."
    )


@guarded
def guarantee(report: Report, position: int) -> str:
    """One sentence that says what holds at a row's radius, for all inputs of the evidence together.

    Paper: —; the joint claim is ours, docs/guarantee.md.   Errs: every number is rounded to the cautious side.
    """
    row = report[position]
    radius = f"R = {exactly(row.radius)}"
    if row.worst is None:
        return f"At {radius} no input is certified, so nothing is claimed there."
    moved = "without an attack" if row.radius == 0 else f"under any {perturbation(report, row.radius)}"
    model = model_words(report)
    verb = "is" if row.inputs == 1 else "are"
    on = f"on the {row.inputs:,} of {several(report.inputs)} that {verb} certified at {radius}"
    if report.population is Population.ALL:
        on = f"on {_all(report)}"
    over = "the noise draws" if report.evidence is not None else "the chance in the certificates"
    chance = f"With probability at least {complement(report.delta)} over {over}, {moved}"
    start = chance if report.level else f"{moved[0].upper()}{moved[1:]}"
    if report.temperature != 1:
        start += f", with logits divided by {report.temperature:g}"
    return (
        f"{start}, the {model}'s expected calibration error {on} is at most "
        f"{percent(row.joint_ece, Rounding.UP)} and its Brier score at most "
        f"{number(row.joint_brier, Rounding.UP)}; its prediction stays right on at least "
        f"{percent(row.joint_accuracy, Rounding.DOWN)} of {_all(report)}."
    )


def model_words(report: Report) -> str:
    """What the claim is about: a smoothed model, or the network itself."""
    words = ["recalibrated"] * (report.recalibration is not None) + ["smoothed"] * (report.evidence is not None)
    return " ".join([*words, "model"])


def perturbation(report: Report, radius: float) -> str:
    """What may happen to each input."""
    own, units = report.bounds[0], _units(report)
    size = exactly(radius) + f" ({units})" * bool(units)
    said = {
        Norm.PATCH: f"change of a square of each input, of side up to {size} pixels",
        Norm.DECLARED: f"perturbation of each input of size up to {size}, as the bounds declare it",
    }.get(own.norm, f"{_NORMS.get(own.norm)} perturbation of each input by up to {size}")
    return f"{said} that stays in [0, 1]" if own.domain == Domain.BOX else said


def _of_the_model(report: Report) -> list[str]:
    """Which function is certified, and by whom."""
    if report.evidence is not None:
        header = report.evidence.header
        divided = "" if report.temperature == 1 else f" with its logits divided by {report.temperature:g}"
        told = [
            f"It is about the smoothed model: predictions averaged over Gaussian noise with σ = {header.sigma:g}, run "
            f"as “{header.precision}”{divided}. The network without noise has no certificate."
        ]
        return told + [_ONE_TEMPERATURE] * (len(header.temperatures) > 1)
    if report.method == LOG_METHOD:
        return [
            "Its certificates come from a certification log, which holds a radius per input. From it follows a lower "
            "bound of the share of noisy votes for the class, and that share is the confidence here. Nothing can be "
            "concluded about the network's own probabilities, about an upper bound below 1 (so a wrong prediction "
            "counts as sure of itself), or about inputs that the log abstained on. Values without an attack are those "
            "of the lower limit of the share, as the share itself is not in the log."
        ]
    if report.method.startswith("lirpa"):
        return [
            f"Its certificates are of the network itself, from auto_LiRPA's bounds of its margins ({report.method}). "
            "It is assumed that auto_LiRPA is right, that rounding in float32 stays within the margin by which bounds "
            "were widened, and that the network does the same operations for every input (docs/certificates.md)."
        ]
    if report.method == "lipschitz":
        return [
            "Its certificates are of the network itself, from a Lipschitz constant of its logits. It is assumed that "
            "the constant is one, and that rounding in float32 stays within what was allowed for it."
        ]
    return [
        f"Its certificates come from elsewhere (method: {report.method}). What they state is taken as true: that at "
        "every point within R the confidence lies between its bounds and a certified class stays. The model is the one "
        "that they are about, as they say it is run."
    ]


def _of_the_claim(report: Report) -> list[str]:
    """What the probability covers, and what is assumed."""
    if report.evidence is not None:
        return [
            "The probabilities are for an α, δ, seed and kind of certificate that were fixed before results were seen. "
            "All radii together are covered, and all looks at the draws: they may be added at any time. Choosing among "
            "several reports is not: divide α and δ by their number.",
            _rounding(report.evidence.header),
        ]
    if report.level == 0:
        return ["No chance is involved but in population ECE, which speaks of a random sample."]
    return [
        f"α = {report.alpha!r} is taken to cover all certificates of an input, at all radii, independently over "
        "inputs, and to have been fixed before results were seen."
    ]


@guarded
def explanation(report: Report, position: int) -> str:
    """How the sentence comes about: failures allowed for, and the value without any."""
    row, count = report[position], report.failures
    if row.worst is None:
        return ""
    clean = percent(row.ece, Rounding.NEAREST)
    if report.level == 0:
        return (
            f"The bounds are stated to be proven (α = 0): no certificate fails, and no chance is involved. "
            f"Without an attack the calibration error is {clean}."
        )
    fails = f"Each input's certificates fail with probability at most {small_chance(report.level)}"
    surely = f"among {several(report.inputs)}, with probability at least {complement(report.delta)}"
    without = clean if report.evidence is None else f"estimated at {clean}"
    if count == 0 and not row.claims:
        return (
            f"{fails}; {surely} none fails, so that nothing had to be added for those that may. Without an attack the "
            f"calibration error is {without}."
        )
    # The bound of each input's certificate may be above the stated one: it has a sampling error of its own.
    alone = "by each input's own certificate " if row.claims else ""
    share = "none fails" if count == 0 else "at most 1 fails" if count == 1 else f"at most {count} fail"
    return (
        f"{fails}; {surely} {share}, and these numbers allow for the worst choice. {_ways(row)}"
        f"If none fails, {alone}the calibration error is at most {percent(row.certified_ece, Rounding.UP)}. "
        f"Without an attack it is {without}."
    )


def _ways(row: Row) -> str:
    """By which of several bounds the guaranteed calibration error is least."""
    if not row.claims:
        return ""
    least = row.claim
    others = [f"by {_WAYS[name]} {percent(value, Rounding.UP)}" for name, value in row.claims.items() if name != least]
    return (
        f"The calibration error is bounded in {len(row.claims)} ways that share this probability and hold together; "
        f"the least bound, by {_WAYS[least]}, is stated ({', '.join(others)}). "
    )


def _units(report: Report, usual: str = "") -> str:
    """What R is measured in; `usual` for inputs in [0, 1]."""
    units = Values.UNIT.units if report.evidence is None else report.evidence.header.units
    return usual if units == Values.UNIT.units else f"in the units of {units}"


def _measured(report: Report) -> str:
    """Which perturbations, and in which units."""
    norm = report.bounds[0].norm
    units = _units(report, f"in the units of {Values.UNIT.units}")
    return f"{_NORMS[norm]}, {units}" if norm in _NORMS else _OTHERS[norm]


@guarded
def caveats(report: Report) -> list[str]:
    """What the guarantee does not mean, in short sentences."""
    about = [
        "It is about these inputs: the calibration error of this set, not of inputs that were not certified here.",
        "Population ECE, in the table, is a separate bound for what these inputs were drawn from: at each R by itself, "
        f"with probability at least {complement(report.delta)}, if they are independent draws and model, R, bins and "
        "any map were fixed without them. It counts every input, and says nothing of calibration without bins, of "
        "other distributions, or of the certified inputs alone.",
        *_of_the_model(report),
        f"Perturbations are {_measured(report)}, one for each input, chosen by an adversary who knows "
        "everything. Rotations, blur or a shift of the data are not covered.",
        f"Calibration error means the binned one of the predicted class, with {len(report.bins)} bins; confidence is "
        f"the {'model’s' if report.evidence is None else 'smoothed'} probability of that class.",
        *_of_the_claim(report),
    ]
    if report.population is Population.CERTIFIED:
        about.append(
            "At each radius, inputs that are not certified there are left out of errors and scores, as in the paper; "
            "they do count against accuracy. Population “all” counts them, at their worst."
        )
    if report.recalibration is not None:
        about.append(
            f"Confidences have gone through a map that never falls (kind: {report.recalibration.kind}); predictions "
            "are those without it. The guarantee holds for these inputs whatever the map was fitted on; how it does on "
            "others is seen only on inputs that it was not fitted on. The map is of the "
            f"{'model’s' if report.evidence is None else 'smoothed'} confidence."
        )
    if not report.bounds[0].split_alpha:
        about.append(
            f"As in the paper, α = {report.alpha!r} is given to each of the two certificates of an input, so that one "
            f"of them fails with probability at most {report.level!r}; the joint values account for this."
        )
    return about


def _rounding(header: EvidenceHeader) -> str:
    if not header.grid:
        return (
            "Its noise was not rounded to a grid, as that of newer versions is: the guarantee leaves aside what the "
            "low bits of floating-point sums may tell the network of its input (docs/noise.md)."
        )
    exact = (
        f"The smoothed model rounds inputs and noise to multiples of 2^{math.log2(header.grid):.0f}, so that their "
        f"sums are exact in floating point: every R > 0 allows for {small(header.reach)} more, and R = 0 "
        "is about the input itself."
    )
    if not header.slip:
        return f"{exact} It is assumed that the network does not read its input from the pattern of the noise."
    return (
        f"{exact} Noise is drawn by integers, within {small(header.slip)} of Gaussian in total "
        "variation, for which every limit allows."
    )

"""How wrong can the confidences of a classifier become as a set, if every input may be moved by up to R?

Makes a small problem with known confidence certificates, prints the worst case over a range of radii and draws it.
Everything after `make_problem` is what you would do with your own bounds.
"""

import time
from pathlib import Path

import matplotlib
import numpy as np
from scipy.special import ndtr, ndtri

import certcal
from certcal.evaluation import Rounding, number, percent
from certcal.report import plot_certified_boxes, plot_reliability, prepare_certified_boxes
from certcal.worstcase import WorstCaseProblem

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SIGMA, RADII, SHOWN = 0.5, (0.0, 0.1, 0.25, 0.5, 0.75, 1.0), 0.25


def make_problem(inputs: int = 2000, seed: int = 0):
    """Confidences of a smoothed classifier, known exactly, and whether it is right: slightly over-confident."""
    rng = np.random.default_rng(seed)
    confidence = 0.5 + 0.5 * rng.beta(2.2, 1.1, inputs)
    return confidence, rng.random(inputs) < confidence - 0.04


def bounds_at(confidence, radius):
    """Standard certificate of Gaussian smoothing: moving the input by R shifts Φ⁻¹(confidence) by at most R / σ."""
    return ndtr(ndtri(confidence) - radius / SIGMA), ndtr(ndtri(confidence) + radius / SIGMA)


def shown_up(solution, digits):
    """A certified error for people: rounded up, never down."""
    return percent(solution.value, Rounding.UP, digits)


def print_table(confidence, correct) -> None:
    print(
        f"{len(confidence)} inputs, accuracy {correct.mean():.1%}, noise σ = {SIGMA}; every input may move by R in ℓ2\n"
    )
    print("     R   ECE clean   certified ECE   Brier clean   certified Brier   time of certified ECE")
    clean = certcal.expected_calibration_error(confidence, correct)
    brier = certcal.top_label_brier_score(confidence, correct)
    for radius in RADII:
        lower, upper = bounds_at(confidence, radius)
        start = time.perf_counter()
        worst = certcal.certified_calibration_error(lower, upper, correct)
        milliseconds = 1000 * (time.perf_counter() - start)
        score = certcal.certified_brier_score(lower, upper, correct)
        errors = f"{clean:9.1%}   {shown_up(worst, 1):>13}   {brier:11.3f}   {number(score.value, Rounding.UP, 3):>15}"
        print(f"  {radius:4.2f}   {errors}   {milliseconds:.1f} ms")


def compare(confidence, correct) -> None:
    """The exact value beside the approximations of the literature, which find a feasible point and so err low."""
    lower, upper = bounds_at(confidence, SHOWN)
    print(f"\nThe worst case at R = {SHOWN}, exactly and as others approximate it from below:")
    exact = certcal.certified_calibration_error(lower, upper, correct)
    print(f"  exact (certcal)             {shown_up(exact, 1)}")
    for label, settings in (
        (
            "ADMM, one run of its grid",
            {"starts": "brier", "confidence_rates": 0.01, "assignment_rates": 0.1, "rho_factors": 1.004},
        ),
        ("dECE ascent, 300 steps", {"method": "dece", "steps": 300}),
        ("Brier confidences", {"method": "brier"}),
    ):
        start = time.perf_counter()
        found = certcal.worstcase.approximate_certified_calibration_error(
            lower, upper, correct, confidence=confidence, **settings
        )
        print(f"  {label:<26}  {found:.1%}   {time.perf_counter() - start:.1f} s")


def draw(confidence, correct, path: Path) -> None:
    lower, upper = bounds_at(confidence, SHOWN)
    worst = certcal.certified_calibration_error(lower, upper, correct)
    boxes = prepare_certified_boxes(WorstCaseProblem.checked(lower, upper, correct), worst=worst.confidence)
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.6), layout="constrained")
    plot_certified_boxes(boxes, ax=left).set_title(f"certified confidences at R = {SHOWN}")
    plot_reliability(certcal.reliability_curve(confidence, correct), ax=middle)
    middle.set_title(f"clean: ECE {certcal.expected_calibration_error(confidence, correct):.1%}")
    plot_reliability(certcal.reliability_curve(worst.confidence, correct), ax=right, colour="#d1495b", interval=False)
    right.set_title(f"worst case: ECE {shown_up(worst, 1)}")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    confidence, correct = make_problem()
    print_table(confidence, correct)
    compare(confidence, correct)
    picture = Path("demo") / "certified_calibration.png"
    draw(confidence, correct, picture)
    print(f"\nPicture: {picture}")

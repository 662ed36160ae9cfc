"""Sums and minima that are the same in any order and on any machine, and what is fitted with them."""

import json
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from certcal.recalibration import fit_score_map
from certcal.recalibration.inside import ScoreData
from certcal.recalibration.simplex import STEPS, as_steps, gram, least_on_simplex, means
from certcal.smoothing import load_evidence
from laws import examples
from places import ROOT

EVIDENCE = ROOT / "reference" / "evidence" / "fashion-mnist-s0.50-e1.00-m4-t10-seed0.parquet"


@examples(20)
@given(st.integers(0, 10_000))
def test_sums_are_those_of_exact_numbers_in_any_order(seed):
    rng = np.random.default_rng(seed)
    rows, steps = rng.uniform(-1, 1, (30, 7)), as_steps(rng.exponential(size=7))
    turned, order = rng.permutation(len(rows)), rng.permutation(7)
    assert sum(map(Fraction, steps)) == 1
    assert (steps * STEPS == np.rint(steps * STEPS)).all()
    found = means(rows, steps)
    assert np.array_equal(means(rows[:, order], steps[order]), found)
    assert np.array_equal(gram(rows[turned]), gram(rows))
    for row, mean in zip(rows, found, strict=True):
        exact = sum(Fraction(x) * Fraction(v) for x, v in zip(row, steps, strict=True))
        assert abs(float(exact - Fraction(mean))) < 1e-12
    exact = sum(Fraction(x) * Fraction(y) for x, y in zip(rows[:, 0], rows[:, 1], strict=True))
    assert abs(float(exact - Fraction(gram(rows)[0, 1]))) < 1e-10


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("radius", [0.0, 0.5])
def test_the_minimum_is_that_of_scipys_least_squares(share, radius):
    evidence = load_evidence(EVIDENCE)
    quadratic = ScoreData.of(evidence, radii=radius, alpha=0.001, clean_weight=share).quadratic()
    values, vectors = np.linalg.eigh(quadratic)
    root = np.sqrt(np.clip(values, 0, None))[:, None] * vectors.T
    other, _ = nnls(np.vstack([root, np.ones(257)]), np.append(np.zeros(257), 1.0), maxiter=10_000)
    other /= other.sum()
    found = least_on_simplex(quadratic)
    assert found @ quadratic @ found == pytest.approx(other @ quadratic @ other, abs=1e-13)
    slope = quadratic @ found
    assert slope.min() >= slope @ found - 1e-9  # no other step is better (Karush, Kuhn and Tucker)


@pytest.mark.parametrize(
    "quadratic",
    [np.zeros((3, 3)), np.ones((4, 4)), np.eye(5), np.diag([1.0, 0.0, 1.0]), np.array([[1.0, 2.0], [2.0, 4.0]])],
    ids=["nothing", "all the same", "apart", "one is free", "one explains the other"],
)
def test_what_is_no_problem_has_an_answer(quadratic):
    found = least_on_simplex(quadratic)
    assert found.sum() == 1
    assert (found >= 0).all()
    ends = [row @ quadratic @ row for row in np.eye(len(quadratic))]
    assert found @ quadratic @ found <= min(ends) + 1e-9


FIT = """
import json, sys
from certcal.recalibration import fit_score_map, recalibrate_bounds
from certcal.recalibration.inside import fit_inside
from certcal.recalibration.nested import fit_nested
from certcal.smoothing import load_evidence
evidence, how = load_evidence(sys.argv[1]), {"radii": 0.5, "alpha": 0.001, "clean_weight": 0.25}
found = [fit_score_map(evidence, objective=goal, **how).levels.tolist() for goal in ("brier", "calibration")]
both = [fit_inside(evidence, objective="calibration", outside=kind, **how) for kind in ("isotonic", "beta")]
both.append(fit_nested(evidence, **how))
bounds = [own.certify(evidence, radii=1.0, alpha=0.001)[0] for own in both]
bounds += [recalibrate_bounds(bounds[0], method="beta", objective="calibration").intervals(bounds[0])]
print(json.dumps([found, [[own.lower.tolist(), own.upper.tolist()] for own in bounds]]))
"""


@pytest.mark.slow
def test_another_processor_finds_the_same_maps():
    """Linear algebra and NumPy as on a processor without their newest instructions; once a fit differed by points."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    newest = " ".join(name for name in __cpu_dispatch__ if __cpu_features__.get(name))
    plain = {"OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": newest, "OPENBLAS_NUM_THREADS": "1"}
    (inside, bounds), (others, their_bounds) = (
        json.loads(subprocess.check_output([sys.executable, "-c", FIT, str(EVIDENCE)], env=os.environ | env))
        for env in ({"OPENBLAS_NUM_THREADS": "2"}, plain)
    )
    assert inside == others
    assert np.abs(np.array(bounds) - their_bounds).max() < 1e-9


def test_steps_of_a_map_stand_on_their_grid():
    """So that means of counted scores are exact sums."""
    evidence = load_evidence(EVIDENCE)
    for goal in ("brier", "calibration"):
        levels = fit_score_map(evidence, radii=0.5, alpha=0.001, objective=goal).levels
        assert (levels * STEPS == np.rint(levels * STEPS)).all()
        mean = evidence.histogram @ levels
        assert np.array_equal(mean, evidence.histogram[:, ::-1].copy() @ levels[::-1].copy())

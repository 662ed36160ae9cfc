"""Certification logs: what is written is never more than was certified, and what is malformed is named."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from certcal.certificates import (
    NO_CLASS,
    Decision,
    Radii,
    average_certified_radius,
    certified_accuracy,
    certified_radius_with_runner_up,
    intervals_from_log,
    read_certification_log,
    write_certification_log,
)
from certcal.certificates.logs import format_radius
from certcal.errors import InputError
from certcal.settings import RunnerUp

HEADER = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n"


@pytest.fixture
def radii():
    return Radii(
        index=np.array([0, 20, 40]),
        label=np.array([3, 8, 1]),
        predicted=np.array([3, 0, 1]),
        radius=np.array([0.1239999, math.nan, 1.5]),
        alpha=0.001,
    )


def test_what_is_written_looks_like_the_field_writes_it(tmp_path, radii):
    path = tmp_path / "log.tsv"
    write_certification_log(path, radii, seconds=[0.5, 61.0, 0.0])
    assert path.read_text() == (
        HEADER
        + "0\t3\t3\t0.123999\t1\t0:00:00.500000\n"
        + "20\t8\t-1\t0.000000\t0\t0:01:01\n"
        + "40\t1\t1\t1.500000\t1\t0:00:00\n"
    )


def test_what_is_written_is_read_back(tmp_path, radii):
    path = tmp_path / "log.tsv"
    write_certification_log(str(path), radii)
    back = read_certification_log(path)
    assert back.index.tolist() == [0, 20, 40]
    assert back.label.tolist() == [3, 8, 1]
    assert back.predicted.tolist() == [3, NO_CLASS, 1]
    assert back.decision.tolist() == [Decision.CERTIFIED, Decision.ABSTAINED, Decision.CERTIFIED]
    assert back.correct.tolist() == [True, False, True]
    assert back.radius[[0, 2]].tolist() == [0.123999, 1.5]
    assert back.alpha is None
    assert certified_accuracy(back.radius, back.correct, at=0.0) == pytest.approx(2 / 3)
    assert average_certified_radius(back.radius, back.correct) == pytest.approx((0.123999 + 1.5) / 3)


@given(st.floats(min_value=0.0, max_value=1e6))
def test_no_radius_is_written_or_read_back_larger(radius):
    shown = format_radius(radius)
    assert float(shown) <= radius
    assert radius - float(shown) <= 1.1e-6


def test_a_log_with_short_radii_and_other_columns_is_read(tmp_path):
    path = tmp_path / "log.tsv"
    path.write_text("radius\tidx\tlabel\tpredict\tcorrect\tnote\n0.28\t7\t2\t2\t1\tx\n0.0\t8\t2\t-1\t0\ty\n\n")
    found = read_certification_log(path)
    assert found.index.tolist() == [7, 8]
    assert found.radius[0] == 0.28
    assert math.isnan(found.radius[1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ", line 1` to name the columns idx, label, predict, radius, correct, time, but got no 'idx'."),
        ("idx\tlabel\tpredict\tcorrect\ttime\n", ", line 1` to name the columns"),
        (HEADER, "` to hold at least one input, but got none."),
        (HEADER + "0\t1\t1\t0.5\t1\t0\n1\t1\t1\t0.5\n", ", line 3` to have 6 tab-separated fields, but got 4."),
        (HEADER + "0\t1\t1\tfar\t1\t0\n", ", line 2, radius` to be a finite number ≥ 0, but got 'far'."),
        (HEADER + "0\t1\t1\t-0.1\t1\t0\n", ", line 2, radius` to be a finite number ≥ 0, but got '-0.1'."),
        (HEADER + "0\t1\t1\tnan\t1\t0\n", ", line 2, radius` to be a finite number ≥ 0, but got 'nan'."),
        (HEADER + "0\t1\t1\tinf\t1\t0\n", ", line 2, radius` to be a finite number ≥ 0, but got 'inf'."),
        (HEADER + "0\tcat\t1\t0.1\t1\t0\n", ", line 2, label` to be an integer ≥ 0, but got 'cat'."),
        (HEADER + "0\t1\t-2\t0.1\t0\t0\n", ", line 2, predict` to be an integer ≥ 0, but got '-2'."),
        (HEADER + "0\t1\t1\t0.1\t0\t0\n", ", line 2, correct` to be 1 if `predict` equals `label`, else 0"),
    ],
)
def test_a_malformed_log_is_named_with_its_line(tmp_path, text, message):
    path = tmp_path / "log.tsv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_certification_log(path)
    assert str(caught.value).startswith(f"Expected `{path}{message}")
    assert "\n" not in str(caught.value)


def test_a_log_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "log.tsv"
    path.write_bytes(b"\x1f\x8b\xff\xfe")
    with pytest.raises(InputError, match="to be a UTF-8 text file"):
        read_certification_log(path)


def test_times_must_match_the_inputs(tmp_path, radii):
    with pytest.raises(InputError, match="Expected `seconds` to have as many entries"):
        write_certification_log(tmp_path / "log.tsv", radii, seconds=[1.0])


def test_rounded_radii_become_sound_bounds_of_the_vote_share(tmp_path, rng):
    """Whatever was rounded to three digits, the share that was proven is never exceeded."""
    proven = np.concatenate([rng.uniform(0.001, 3, 300), [0.9996, 1.0004, 0.0999600001, 2.0049]])
    lines = ["idx\tlabel\tpredict\tradius\tcorrect\ttime"]
    lines += [f"{n}\t1\t1\t{value:.3}\t1\t0:00:01" for n, value in enumerate(proven)]
    lines.append(f"{len(proven)}\t1\t-1\t0.0\t0\t0:00:01")
    path = tmp_path / "field.tsv"
    path.write_text("\n".join(lines) + "\n")
    for radius in (0.0, 0.25, 1.0):
        made = intervals_from_log(path, sigma=0.5, radius=radius, alpha=0.001)
        truth = special.ndtr((proven - radius) / 0.5)
        assert (np.asarray(made.lower)[:-1] <= truth).all()
        assert (np.asarray(made.lower)[:-1] >= special.ndtr((proven * 0.989 - radius) / 0.5) - 1e-9).all()
        assert (made.certified[:-1] <= (proven >= radius)).all()
        assert (made.lower[-1], made.upper[-1], made.certified[-1], made.correct[-1]) == (0.0, 1.0, False, False)
        assert (made.upper == 1).all()
        assert made.level == 0.001
    exact = intervals_from_log(path, sigma=0.5, radius=0.25, alpha=0.001, rounded=False)
    assert exact.certified.sum() >= intervals_from_log(path, sigma=0.5, radius=0.25, alpha=0.001).certified.sum()


@pytest.mark.parametrize("written", ["{:.3f}", "{:.2f}", "{:.4}", "{!r}", "{:.3g}", "{:.2e}"])
def test_however_radii_were_rounded_no_share_is_over_trusted(tmp_path, rng, written):
    """Fixed decimals or digits that count, zeros at the end cut off or not: what was proven is never exceeded."""
    proven = 10 ** rng.uniform(-2.5, 0.5, 200)
    lines = [f"{n}\t1\t1\t{written.format(value)}\t1\t0" for n, value in enumerate(proven.tolist())]
    path = tmp_path / "field.tsv"
    path.write_text(HEADER + "\n".join(lines) + "\n")
    made = intervals_from_log(path, sigma=0.5, radius=0.1, alpha=0.001)
    assert (np.nan_to_num(made.certified_radius) <= proven).all()
    assert (made.lower <= special.ndtr((proven - 0.1) / 0.5)).all()
    assert (made.certified_radius[proven > 1] >= proven[proven > 1] * 0.9).all()  # and little is given away


def test_a_sigma_that_no_sample_can_have_reached_the_radii_with_is_refused(tmp_path):
    path = tmp_path / "field.tsv"
    path.write_text(HEADER + "0\t1\t1\t1.5\t1\t0\n")
    with pytest.raises(
        InputError, match="Expected `sigma` to be the σ of the log, whose radii are at most 7 σ: no sample"
    ):
        intervals_from_log(path, sigma=0.1, radius=0.1, alpha=0.001)
    assert intervals_from_log(path, sigma=0.25, radius=0.1, alpha=0.001).certified.all()


def test_an_input_that_a_log_has_twice_is_refused(tmp_path):
    path = tmp_path / "field.tsv"
    path.write_text(HEADER + "0\t1\t1\t0.5\t1\t0\n" * 2)
    with pytest.raises(InputError, match="Expected `index` to name each input once, but got 0 2 times"):
        intervals_from_log(path, sigma=0.5, radius=0.1, alpha=0.001)


def test_radii_with_a_bounded_runner_up_are_marked_and_give_no_vote_share(tmp_path):
    """They are larger than σ Φ⁻¹(p_A): a share of 42 % would be read as one of 69 %."""
    radius = certified_radius_with_runner_up([[4200, 1000] + [600] * 8], [0], sigma=0.5, alpha=0.001)
    assert special.ndtr(radius[0] / 0.5) > 0.42
    path, zero = tmp_path / "log.tsv", np.array([0])
    write_certification_log(path, Radii(zero, zero, zero, radius, alpha=0.001, runner_up=RunnerUp.BOUNDED))
    assert path.read_text().splitlines()[0] == HEADER.strip() + "\trunner_up"
    back = read_certification_log(path)
    assert (back.runner_up, back.radius[0]) == (RunnerUp.BOUNDED, pytest.approx(radius[0], abs=1e-6))
    with pytest.raises(InputError, match=r"hold radii σ Φ⁻¹.*but got radii with a bounded runner-up, which are larger"):
        intervals_from_log(path, sigma=0.5, radius=0.1, alpha=0.001)

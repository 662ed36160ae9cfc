"""Inputs in other units than the model or the noise: told, with the remedy, before a long run."""

import json

import numpy as np
import pytest

from command import certcal
from squares import refused_in, squares_in


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    return squares_in(tmp_path_factory.mktemp("units"))


def test_a_normalisation_that_would_help_clearly_is_told_of(desk):
    held = dict(np.load(desk / "squares.npz"))
    dim = np.where(np.arange(120) // 5 % 5 == 0, 0.5, 1.0).astype(np.float32)[:, None, None, None]
    np.savez(desk / "dim.npz", inputs=np.tile(held["inputs"], (3, 1, 1, 1)) * dim, labels=np.tile(held["labels"], 3))
    words = ("--data", "dim.npz", "--sigma", "0.01", "--n", 250, "--radii", "0", "--no-figures", "--json")
    out, error = certcal("certify", "dim", "--model", "nets:rather", *words, cwd=desk)
    (told,) = json.loads(out)["checks"]["warnings"]
    assert "% with another normalisation: normalisation forgotten? (give --mean 0." in told
    assert told in error


def test_whole_numbers_of_few_bits_are_told_apart_from_a_forgotten_normalisation(desk):
    """Digits of scikit-learn are bytes up to 16, pixels of a scanner have 12 bits: no mean and std mend that for σ."""
    held = dict(np.load(desk / "squares.npz"))
    for name, inputs in (
        ("four", (held["inputs"] * 16).astype(np.uint8)),
        ("twelve", (held["inputs"] * 4095).astype(np.uint16)),
    ):
        np.savez(desk / f"{name}.npz", inputs=inputs, labels=held["labels"])
        line = ("--data", f"{name}.npz", "--sigma", "0.25")
        _, error = certcal("certify", "no", "--model", "nets:shifted", *line, cwd=desk, code=2)
        assert "but got 0.06" in error
        assert "whole numbers of fewer bits than their type has? (give floats, divided by the largest" in error
    _, error = certcal("certify", "no", "--model", "nets:make", *line, "--dry-run", cwd=desk)
    assert "which is in the units of the inputs and 4 times their range (0 to 0.062): are they divided by more" in error


def test_means_of_bytes_and_a_sigma_of_bytes_are_named(desk):
    error = refused_in(desk, "shifted", "--mean", "127.5,127.5,127.5", "--std", "51,51,51")
    told = "a mean of 127.5: those of bytes? (divided by 255 they are --mean 0.5,0.5,0.5 --std 0.2,0.2,0.2)"
    assert told in error
    line = ("--data", "squares.npz", "--sigma", "25", "--dry-run")
    _, error = certcal("certify", "no", "--model", "nets:make", *line, cwd=desk)
    assert "units of the inputs and 25 times their range (0 to 1): was 25/255 meant?" in error


def test_a_table_in_its_own_units_is_refused_before_any_draw(desk):
    held = dict(np.load(desk / "squares.npz"))
    inputs = held["inputs"].reshape(40, 48)
    inputs[-1] *= 3000  # beyond the inputs that are looked at first, perhaps
    np.savez(desk / "table.npz", inputs=inputs, labels=held["labels"])
    line = ("--data", "table.npz", "--values", "any", "--sigma", "0.25")
    for more in ((), ("--dry-run",)):
        _, error = certcal("certify", "no", "--model", "nets:make", *line, *more, cwd=desk, code=2)
        assert "but got 3000; scale inputs, sigma and radii alike (--scale std, in Python ImageData.scaled)." in error


def test_data_that_was_normalised_or_is_broken_is_refused_with_the_remedy(desk):
    held = dict(np.load(desk / "squares.npz"))
    for name, inputs, told in (
        (
            "normed",
            held["inputs"] * 4 - 1,
            "normalised already? (give the images as they were, and their normalisation",
        ),
        ("bytes", held["inputs"] * 255, "values from 0 to 255: divide them by 255"),
        (
            "nan",
            np.where(np.arange(40)[:, None, None, None] == 3, np.nan, held["inputs"]),
            "in 1 of 40 inputs, the first",
        ),
    ):
        np.savez(desk / f"{name}.npz", inputs=inputs, labels=held["labels"])
        line = ("certify", "no", "--model", "nets:make", "--data", f"{name}.npz", "--sigma", "0.1")
        assert told in certcal(*line, cwd=desk, code=2)[1]

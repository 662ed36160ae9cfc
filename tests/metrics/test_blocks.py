"""Vectors in blocks: every number once and in order, and the same bits on any number of cores."""

import threading

import numpy as np
import pytest

import certcal
from certcal import blocks
from certcal.blocks import BLOCK, over_blocks


@pytest.mark.parametrize("length", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 20 * BLOCK + 7])
@pytest.mark.parametrize("cores", [1, 2, 3, 16])
def test_blocks_come_once_and_in_order(monkeypatch, length, cores):
    monkeypatch.setattr(blocks, "_cores", lambda: cores)
    numbers = np.arange(length)
    parts = list(over_blocks(length, lambda block: numbers[block]))
    assert np.array_equal(np.concatenate([*parts, numbers[:0]]), numbers)


def test_long_vectors_are_shared_and_short_ones_are_not(monkeypatch):
    monkeypatch.setattr(blocks, "_cores", lambda: 2)
    for length, alone in ((7 * BLOCK, True), (8 * BLOCK, False)):
        seen = set(over_blocks(length, lambda block: threading.get_ident()))
        assert (seen == {threading.get_ident()}) == alone


def test_what_fails_in_a_thread_is_raised(monkeypatch):
    monkeypatch.setattr(blocks, "_cores", lambda: 2)
    with pytest.raises(ZeroDivisionError):
        list(over_blocks(100 * BLOCK, lambda block: 1 // (block.start - 99 * BLOCK)))


def test_no_bit_depends_on_the_cores(monkeypatch):
    rng = np.random.default_rng(0)
    confidence = rng.random(20 * BLOCK + 5)
    lower, upper = confidence * rng.random(len(confidence)), confidence + (1 - confidence) * rng.random(len(confidence))
    correct = rng.random(len(confidence)) < confidence
    found = []
    for cores in (1, 2, 5):
        monkeypatch.setattr(blocks, "_cores", lambda cores=cores: cores)
        worst = certcal.certified_calibration_error(lower, upper, correct)
        ece = certcal.expected_calibration_error(confidence, correct)
        found.append((worst.value, ece, worst.confidence.tobytes(), worst.bins.tobytes()))
    assert found[0] == found[1] == found[2]

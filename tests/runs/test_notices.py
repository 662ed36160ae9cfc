"""What a run says of its draws."""

from dataclasses import replace

import numpy as np
import pytest

from certcal.runs.notices import tell_saved, tell_slower
from certcal.settings import CertifySettings
from smoothing_oracles import random_evidence

STAGED = CertifySettings(sigma=0.25, n=1000, stages=(250, 1000))


@pytest.mark.parametrize(("early", "told"), [
    (0, "stages: 0 of 5 inputs stopped early, 0 draws saved: an input stops where it is decided at all radii"),
    (2, "stages: 2 of 5 inputs stopped early, 1,500 draws saved"),
])  # fmt: skip
def test_what_stages_saved_is_told(rng, early, told):
    evidence, said = random_evidence(rng, inputs=5, draws=1000), []
    draws = np.where(np.arange(5) < early, 250, 1000)
    evidence = replace(evidence, draws=draws, header=replace(evidence.header, stages=(250, 1000)))
    tell_saved(evidence, STAGED, said.append)
    assert len(said) == 1
    assert said[0].startswith(told)
    tell_saved(evidence, replace(STAGED, stages=None), said.append)
    assert len(said) == 1


def test_options_for_a_gpu_are_told_on_a_cpu():
    said = []
    tell_slower(replace(STAGED, precision="bfloat16", compile=True), "cpu", said.append)
    assert said == ["speed: --precision bfloat16 and --compile may be slower on a CPU than without"]
    tell_slower(STAGED, "cpu", said.append)
    tell_slower(replace(STAGED, precision="bfloat16"), "cuda", said.append)
    assert len(said) == 1

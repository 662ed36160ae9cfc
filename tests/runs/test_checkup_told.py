"""What a run says of its draws."""

from dataclasses import replace

import numpy as np
import pytest

from certcal.data import load_dataset
from certcal.files import sealed
from certcal.runs.checkup import Checkup, about_training, after_drawing, before_drawing, tell_checkup
from certcal.runs.folder import SOURCES, RunFolder
from certcal.runs.look import Scanned
from certcal.settings import CertifySettings, DataSettings, ModelSettings, RunSettings
from smoothing_oracles import random_evidence

STAGED = CertifySettings(sigma=0.25, n=1000, stages=(250, 1000))


@pytest.mark.parametrize(("early", "told"), [
    (0, "stages: 0 of 5 inputs stopped early, 0 draws saved: an input stops where it is decided at all radii"),
    (2, "stages: 2 of 5 inputs stopped early, 1,500 draws saved"),
])  # fmt: skip
def test_what_stages_saved_is_told(rng, early, told):
    evidence = random_evidence(rng, inputs=5, draws=1000)
    draws = np.where(np.arange(5) < early, 250, 1000)
    evidence = replace(evidence, draws=draws, header=replace(evidence.header, stages=(250, 1000)))
    (said,) = after_drawing(evidence, STAGED)
    assert said.startswith(told)
    assert list(after_drawing(evidence, replace(STAGED, stages=None))) == []


def test_options_for_a_gpu_are_told_on_a_cpu(tmp_path):
    run = RunFolder(tmp_path)
    said = list(before_drawing(run, replace(STAGED, precision="bfloat16", compile=True), "cpu", 5))
    assert said == ["speed: --precision bfloat16 and --compile may be slower on a CPU than without"]
    assert list(before_drawing(run, STAGED, "cpu", 5)) == []
    assert list(before_drawing(run, replace(STAGED, precision="bfloat16"), "cuda", 5)) == []


def test_checks_have_a_line_for_each_noise_that_fits_a_terminal():
    scan = (Scanned(0.0625, 1.0, 0.12345, at_least=True), Scanned(0.25, 0.984, 0.31))
    found = Checkup(256, 0.98, scan, {}, ("Beware.",), 1.0, 1000.0)
    data = load_dataset("digits", limit=10)
    said = []
    tell_checkup(data, found, said.append)
    assert said[0].startswith("data: digits")
    assert said[1:] == [
        "checks: 98% of 256 inputs are right without noise",
        "checks: under noise, and the radius up to which half stay right (estimates):",
        "checks:   σ = 0.0625  100% right, R ≥ 0.12, as far as so few draws show",
        "checks:   σ = 0.25     98% right, R ≈ 0.31",
        "warning: Beware.",
    ]
    assert max(map(len, said[1:])) <= 80


@pytest.mark.parametrize("recorded", ["train", None])  # None: by earlier versions, which wrote what was given
@pytest.mark.parametrize(("split", "seen"), [(None, False), ("test", False), ("train", True)])
def test_the_training_part_of_named_data_is_known_by_its_split(tmp_path, recorded, split, seen):
    RunFolder(tmp_path).write_json(SOURCES, sealed({"train": {"source": ["scikit-learn", recorded]}}))
    model, own = (
        ModelSettings(name="lenet", weights=str(tmp_path / "model.pt")),
        DataSettings(name="digits", split=split),
    )
    settings = RunSettings(model=model, data=own, certify=STAGED)
    told = about_training(settings, load_dataset("digits", split=split))
    assert told == ["digits train is what the model was trained on: certify inputs that it has not seen."] * seen

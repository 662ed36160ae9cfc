"""Commands that a report advises can be typed as they stand, and ask for what was foreseen."""

import json
import shlex
from dataclasses import replace

import numpy as np
import pytest

from certcal.files import sealed, unsealed
from certcal.runs import RunFolder
from certcal.runs.advice import _tempered
from certcal.smoothing import load_evidence
from command import certcal
from smoothing_oracles import random_evidence

WORDS = ["--model", "small-cnn", "--data", "data.npz", "--sigma", 0.25, "--n", 250, "--radii", "0,0.1", "--no-figures"]


@pytest.fixture
def desk(tmp_path, rng):
    np.savez(tmp_path / "data.npz", inputs=rng.random((6, 1, 4, 4), dtype=np.float32), labels=np.arange(6) % 3)
    return tmp_path


def test_advised_commands_run_as_they_stand(desk, monkeypatch):
    certcal("certify", "my runs/a b", *WORDS, "--temperature", 2, cwd=desk)
    monkeypatch.chdir(desk)
    run = RunFolder.named("my runs/a b")
    _, command = _tempered(load_evidence(run.evidence), run, "0.25")
    certcal(*shlex.split(command)[1:], "--n", 500, "--no-figures", "--no-checks", cwd=desk)
    made = RunFolder.named("my runs/a b-t0.25").settings()
    assert (made.model.temperature, made.certify.n, made.certify.seed) == (0.5, 500, 1)


def test_a_temperature_that_scores_were_counted_at_needs_no_new_draws(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    drawn, run = random_evidence(rng, inputs=3, draws=50), RunFolder.named("mine")
    several = replace(drawn, header=replace(drawn.header, temperatures=(1.0, 0.25)))
    assert _tempered(several, run, "0.25") == (
        "divide logits by 0.25, at which scores were counted too",
        "certcal recalibrate mine --automatic",
    )
    assert "in a new run" in _tempered(several, run, "2")[0]
    assert "in a new run" in _tempered(drawn, run, "0.25")[0]


def test_an_unfinished_run_says_so_and_is_not_judged(desk):
    certcal("certify", "made", *WORDS, cwd=desk)
    path = desk / "runs/made/provenance.json"
    content = unsealed(json.loads(path.read_text()))
    content["data"]["inputs"] = 9
    path.write_text(json.dumps(sealed(content)))
    _, error = certcal("evaluate", "made", "--no-figures", cwd=desk)
    assert "not finished: So far it is about 6 of 9 inputs" in " ".join(error.split())
    _, error = certcal("check", "made", "--require", "guaranteed_ece@0.1 <= 1", cwd=desk, code=2)
    assert "cannot be judged" in " ".join(error.split())

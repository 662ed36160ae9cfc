"""A run on its way: first answers, interruption, and what they leave of the result."""

import base64
import io
import json
import signal
import textwrap
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.distance import pdist

from certcal import load_evidence
from certcal.runs import RunFolder, certify_run, evaluate_run
from certcal.runs import certify as module
from certcal.settings import CertifySettings, DataSettings, EvaluateSettings, ModelSettings, RunSettings
from certcal.smoothing import load_so_far
from command import certcal


@pytest.fixture
def settings(tmp_path, rng, monkeypatch):
    labels = rng.integers(0, 3, 60)
    inputs = np.clip(
        rng.random((60, 1, 4, 4)) * 0.3 + 0.7 * (np.arange(16) == labels[:, None]).reshape(60, 1, 4, 4), 0, 1
    )
    np.savez(tmp_path / "data.npz", inputs=inputs, labels=labels)
    (tmp_path / "first_nets.py").write_text(
        textwrap.dedent("""
            import torch

            def make(classes):
                net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, classes))
                torch.nn.init.zeros_(net[1].bias)
                net[1].weight.data = 6 * torch.eye(16)[:classes]
                return net
        """)
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return RunSettings(
        model=ModelSettings(name="first_nets:make"),
        data=DataSettings(name="data.npz"),
        certify=CertifySettings(sigma=0.2, n=2000, device="cpu"),
        evaluate=EvaluateSettings(radii=(0.0, 0.1)),
    )


@pytest.fixture
def eager(monkeypatch):
    """As if every run took long: looks after 250 draws of 24 inputs, of all, and so on."""
    monkeypatch.setattr(module, "LONG", 0.0)
    monkeypatch.setattr(module, "FIRST_DRAWS", 250)
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.0)


def test_first_looks_are_certified_and_change_nothing_of_the_result(settings, eager, tmp_path):
    run, seen = RunFolder(tmp_path / "run"), []

    def first():
        results = evaluate_run(run, settings.evaluate, figures=False)
        page = results.page.read_text()
        assert "A first look." in page
        evidence = results.report.evidence
        seen.append((len(evidence), int(evidence.draws.max())))
        assert not evidence.header.planned(evidence.draws).any()  # limits that hold at every number of draws
        assert evidence.header.stages == (2000,)

    evidence = certify_run(run, settings, first=first)
    assert seen == [(24, 250), (60, 250)]
    plain = certify_run(RunFolder(tmp_path / "plain"), settings)
    assert evidence.header == plain.header
    for name in ("index", "votes", "histogram", "score_sum", "draws"):
        assert np.array_equal(getattr(evidence, name), getattr(plain, name)), name
    assert "A first look." not in evaluate_run(run, settings.evaluate, figures=False).page.read_text()


@pytest.mark.slow
def test_a_run_that_was_interrupted_can_be_evaluated_as_it_is(settings, eager, tmp_path):
    run, looks = RunFolder(tmp_path / "runs" / "cut"), []

    def first():
        looks.append(1)
        if len(looks) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        certify_run(run, settings, first=first)
    out, _ = certcal("evaluate", "cut", "--no-figures", cwd=tmp_path)
    assert "Calibration error:" in out
    kept = load_evidence(run.evidence)
    assert (len(kept), set(kept.draws)) == (60, {250})
    run.evidence.unlink()  # as after a run that was killed: shards alone
    out, _ = certcal("evaluate", "cut", "--no-figures", cwd=tmp_path)
    assert "Calibration error:" in out
    assert np.array_equal(load_so_far(run.shards).votes, kept.votes)
    evidence = certify_run(run, settings)
    assert set(evidence.draws) == {2000}


def test_ctrl_c_in_a_first_look_stops_after_it(settings, eager, tmp_path):
    run, looks = RunFolder(tmp_path / "run"), []

    def first():
        with suppress(KeyboardInterrupt):  # as an import would lose it
            signal.raise_signal(signal.SIGINT)
        looks.append(1)

    with pytest.raises(KeyboardInterrupt):
        certify_run(run, settings, first=first)
    assert looks == [1]
    assert len(load_evidence(run.evidence)) == 24


def test_an_interrupted_run_has_inputs_of_all_classes_though_a_folder_has_one_after_the_other(settings, monkeypatch):
    from certcal.smoothing import job

    held = dict(np.load("data.npz"))
    order = np.argsort(held["labels"], kind="stable")
    np.savez("data.npz", inputs=held["inputs"][order], labels=held["labels"][order])
    windows, sample = [], job._sample_window

    def cut(*arguments):
        if len(windows) == 1:
            raise KeyboardInterrupt
        windows.append(1)
        sample(*arguments)

    monkeypatch.setattr(job, "_sample_window", cut)
    monkeypatch.setattr(job, "WINDOW", 8)
    run = RunFolder.named("cut")
    with pytest.raises(KeyboardInterrupt):
        certify_run(run, settings)
    assert len(load_evidence(run.evidence)) == 8
    assert set(load_evidence(run.evidence).label.tolist()) == {0, 1, 2}
    assert "Calibration error:" in certcal("evaluate", "cut", "--no-figures", cwd=".")[0]


@pytest.mark.slow
def test_short_runs_take_no_first_look(settings, tmp_path):
    looks = []
    certify_run(RunFolder(tmp_path / "run"), settings, first=lambda: looks.append(1))
    assert looks == []


@pytest.mark.slow
def test_draws_added_to_a_finished_run_are_told_and_are_no_first_look(settings, tmp_path):
    run, told = RunFolder(tmp_path / "run"), []
    for n in (250, 500):
        own = replace(settings, certify=replace(settings.certify, n=n))
        certify_run(run, own, tell=told.append)
    page = evaluate_run(run, own.evaluate, figures=False).page.read_text()
    assert "A first look." not in page
    assert '<a href="#assumptions">' in page
    late = [text for text in told if "planned were 250, and 60 of 60 inputs have others, with wider limits" in text]
    assert len(late) == 1


def test_state_is_told_forgotten_and_kept_apart(settings, tmp_path):
    words = ("--model", "first_nets:make", "--data", "data.npz", "--sigma", "0.2", "--n", 250, "--no-figures")
    certcal("certify", "mine", *words, "--radii", "0,0.1", cwd=tmp_path)
    run = tmp_path / "runs" / "mine"
    _, error = certcal("evaluate", "mine", "--alpha", "0.01", "--no-figures", cwd=tmp_path)
    assert "remembered from runs/mine (--reset forgets it): --radii 0.0,0.1" in error
    page = (run / "report.html").read_bytes()
    out, error = certcal("evaluate", "mine", "--reset", "--out", "apart", "--no-figures", "--json", cwd=tmp_path)
    assert "remembered" not in error
    assert len(json.loads(out)["rows"]) == 9  # the usual radii again
    assert json.loads(out)["alpha"] == 0.001
    assert (run / "report.html").read_bytes() == page
    assert (tmp_path / "apart" / "report.html").is_file()
    _, error = certcal("evaluate", "mine", "--out", "runs", cwd=tmp_path, code=2)
    assert "Expected `--out` to be a new folder" in error
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "evidence.parquet").write_bytes((run / "evidence.parquet").read_bytes())
    out, _ = certcal("evaluate", "alone", "--radii", "0.1", "--no-figures", "--json", cwd=tmp_path)
    assert json.loads(out)["sigma"] == 0.2
    before = (run / "config.toml").read_bytes()
    certcal("certify", "mine", "--sigma", "0.3", cwd=tmp_path, code=2)
    assert (run / "config.toml").read_bytes() == before  # a failed run's options are forgotten


def page_of(run):
    text = (run / "report.html").read_text()
    return json.loads(text.split('id="data">')[1].split("</script>")[0]), text


def test_one_picture_many_times_has_no_typical_distance(settings, tmp_path):
    np.savez(tmp_path / "same.npz", inputs=np.full((4, 1, 4, 4), 90, dtype=np.uint8), labels=[0, 1, 0, 1])
    words = ("--model", "first_nets:make", "--data", "same.npz", "--sigma", "0.2", "--n", 250, "--radii", "0,0.1")
    certcal("certify", "same", *words, "--no-checks", "--no-figures", cwd=tmp_path)
    assert "typical distance" not in page_of(tmp_path / "runs/same")[1]


@pytest.mark.slow
def test_pictures_are_those_of_the_inputs_and_can_be_left_out(settings, tmp_path):
    words = ("--model", "first_nets:make", "--data", "data.npz", "--sigma", "0.2", "--n", 250, "--radii", "0,0.1")
    certcal("certify", "seen", *words, "--no-figures", cwd=tmp_path)
    run = tmp_path / "runs" / "seen"
    page, text = page_of(run)
    inputs = np.load(tmp_path / "data.npz")["inputs"]
    index, found = next(iter(page["images"].items()))
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(found["src"].partition(",")[2]))))
    assert np.array_equal(picture, np.round(np.float32(inputs[int(index), 0]) * 255))
    assert {str(one["index"]) for one in page["views"][page["default_view"]]["top"]} <= set(page["images"])
    each, far = 255 * 0.1 / 4, pdist(inputs.reshape(60, -1).astype(np.float32))
    assert f"moves every value by {each:.2g}/255" in page["strip"]["units"]
    assert f"{0.1 / np.median(far):.1%} of the typical distance" in page["strip"]["units"]
    assert len(text) < 1_500_000
    certcal("evaluate", "seen", "--no-images", "--no-figures", cwd=tmp_path)
    certcal("evaluate", "seen", "--alpha", "0.01", "--no-figures", cwd=tmp_path)  # remembered
    page, text = page_of(run)
    assert "images" not in page
    assert "data:image/png" not in text
    certcal("evaluate", "seen", "--images", "--no-figures", cwd=tmp_path)
    assert "images" in page_of(run)[0]
    np.savez(tmp_path / "data.npz", inputs=1 - inputs, labels=np.zeros(60, dtype=int))  # other pictures by now
    certcal("report", "seen", "--no-figures", cwd=tmp_path)
    assert "images" not in page_of(run)[0]

"""What is looked at before a long run: each ordinary mistake is stopped or warned of, with its cause, on the way in."""

import json
import re

import numpy as np
import pytest

from command import certcal
from squares import CLASSES, WORDS, squares_in
from squares import refused_in as refused


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    return squares_in(tmp_path_factory.mktemp("checkup"))


def test_a_softmax_read_as_logits_is_stopped(desk):
    assert "the model ends in a softmax (give --outputs probabilities, in Python outputs='probabilities')" in refused(
        desk, "soft"
    )
    assert "these are logits (give --outputs logits)" in refused(desk, "make", "--outputs", "probabilities")


def test_a_sigmoid_for_each_class_is_stopped_whatever_it_is_called(desk):
    for outputs in ("logits", "probabilities"):
        error = refused(desk, "sigmoids", "--outputs", outputs)
        assert "a sigmoid for each class (let the model return what goes into it, or divide by the sum" in error


def test_labels_that_mean_other_classes_are_stopped_or_warned_of(desk):
    held = dict(np.load(desk / "squares.npz"))
    np.savez(desk / "shifted.npz", inputs=held["inputs"], labels=(held["labels"] + 1) % CLASSES)
    words = ("--sigma", "0.1", "--n", 250, "--radii", "0,0.05", "--no-figures")
    _, error = certcal("certify", "no", "--model", "nets:make", "--data", "shifted.npz", *words, cwd=desk, code=2)
    assert "0% accuracy, and 100% with each label minus 1: they are shifted by one." in error
    twice = {"inputs": np.concatenate([held["inputs"]] * 2), "labels": np.array([2, 4, 1, 0, 3] * 16)}
    np.savez(desk / "mixed.npz", **twice)
    _, error = certcal("certify", "no", "--model", "nets:make", "--data", "mixed.npz", *words, cwd=desk, code=2)
    assert "0% accuracy, and 100% with the classes in another order: renumber them." in error
    away = np.array([2, 3, 4, 0, 1] * 16)  # of four classes of five: one may be taken for another
    np.savez(desk / "some.npz", inputs=twice["inputs"][away > 0], labels=away[away > 0])
    _, error = certcal("certify", "some", "--model", "nets:make", "--data", "some.npz", *words, cwd=desk)
    assert "with the classes in another order: does the data number its classes as the training data did?" in error
    twice["labels"][::3] = 2  # of whom it is less clear
    np.savez(desk / "mixed.npz", **twice)
    out, _ = certcal("certify", "mixed", "--model", "nets:make", "--data", "mixed.npz", *words, "--json", cwd=desk)
    assert "with the classes in another order: does the data" in json.loads(out)["checks"]["warnings"][0]
    twice["labels"] = np.arange(80) % CLASSES
    twice["labels"] = np.where(twice["labels"] < 2, 1 - twice["labels"], twice["labels"])  # two of five exchanged
    np.savez(desk / "mixed.npz", **twice)
    out, _ = certcal("certify", "two", "--model", "nets:make", "--data", "mixed.npz", *words, "--json", cwd=desk)
    (told,) = json.loads(out)["checks"]["warnings"]
    assert told.startswith("Labels have 60% accuracy, and 100% with the classes in another order: does the data")
    np.savez(desk / "from1.npz", inputs=held["inputs"], labels=held["labels"] + 1)
    for model in ("make", "buggy"):
        more = ("--classes", 5) if model == "make" else ()
        line = ("certify", "no", "--model", f"nets:{model}", "--data", "from1.npz", *words, *more)
        _, error = certcal(*line, cwd=desk, code=2)
        assert model == "buggy" or "labels from 1 to 5, where classes count from 0 (subtract 1?)" in error


def test_a_bug_in_the_models_own_code_is_named_with_its_place(desk):
    _, error = certcal("certify", "no", "--model", "nets:buggy", *WORDS, cwd=desk, code=2)
    line = 1 + (desk / "nets.py").read_text().splitlines().index('        return {}["head"]')
    assert f"but got KeyError: 'head' in nets.py, line {line}." in error


def test_weights_named_as_a_model_are_told_apart_from_programs_before_trust_is_asked_for(desk):
    import torch

    torch.save({"weight": torch.zeros(3)}, desk / "net.pt")
    _, error = certcal("certify", "no", "--model", "net.pt", *WORDS, cwd=desk, code=2)
    assert "net.pt, weights alone: give them as --weights, beside --model NAME or your factory." in error
    assert "--trust" not in error


@pytest.mark.slow
def test_fewer_inputs_than_a_run_has_are_told(desk):
    certcal("certify", "fewer", "--model", "nets:make", *WORDS, cwd=desk)
    _, error = certcal("certify", "fewer", "--limit", 10, "--no-figures", cwd=desk)
    assert "inputs: the run has 40, and is now about 10 of them" in error


def test_a_forgotten_normalisation_is_stopped_and_named(desk):
    error = refused(desk, "shifted")
    assert "normalisation forgotten? (give --mean 0." in error
    assert "% accuracy, and 100% with others" in error
    told = error.split("(give ")[1].split(", or those")[0].split()
    out, _ = certcal("certify", "mended", "--model", "nets:shifted", *WORDS, *told, "--json", cwd=desk)
    assert json.loads(out)["checks"]["accuracy"] == 1.0
    assert "leave out --mean and --std" in refused(desk, "plain", "--mean", "0.5,0.5,0.5", "--std", "0.5,0.5,0.5")


def test_classes_that_do_not_fit_are_stopped(desk):
    assert "tell apart the 5 classes of the data, but got 1000 outputs" in refused(desk, "wide")
    assert "class mismatch" in refused(desk, "wide")
    assert "an output for every label up to 4" in refused(desk, "make", "--classes", 3)


def test_answers_that_depend_on_their_batch_or_on_chance_are_stopped(desk):
    assert "depend on the other inputs of their batch: batch statistics in evaluation mode" in refused(desk, "mixing")
    assert "random outputs: dropout or noise" in refused(desk, "random")


def test_nan_is_told_apart_from_wrong_outputs(desk):
    for outputs in ("logits", "probabilities"):
        assert "to give finite outputs, but got NaN or infinity for 40 of 40" in refused(
            desk, "broken", "--outputs", outputs
        )


def test_a_model_that_never_saw_noise_is_warned_of_on_screen_in_metrics_and_on_the_page(desk):
    out, error = certcal("certify", "shy", "--model", "nets:shy", *WORDS, "--json", cwd=desk)
    (warning,) = json.loads(out)["checks"]["warnings"]
    assert "never saw noise? It needs training under noise" in warning
    assert "Accuracy falls from 100% without noise" in warning
    assert not any(one["at_least"] for one in json.loads(out)["checks"]["scan"])
    assert ", R ≈ 0" in error
    assert warning in error
    page = (desk / "runs" / "shy" / "report.html").read_text()
    assert 'id="checks"' in page
    assert "never saw noise?" in page
    assert page.index('id="answer"') < page.index('id="checks"')
    again, _ = certcal("evaluate", "shy", "--radii", "0,0.1", "--no-figures", "--json", cwd=desk)
    assert json.loads(again)["checks"]["warnings"] == [warning]


def test_an_untrained_model_is_warned_of_and_checks_can_be_left_out(desk):
    out, error = certcal("certify", "raw", "--model", "nets:untrained", *WORDS, "--json", cwd=desk)
    assert "not clearly better than guessing: is the model trained" in json.loads(out)["checks"]["warnings"][0]
    assert "5 of 5 classes (0 8, 1 8, 2 8, 3 8, 4 8)" in error
    page = (desk / "runs/raw/report.html").read_text()
    assert page.index('id="checks"') < page.index('id="answer"')  # the doubts come first
    out, error = certcal("certify", "free", "--model", "nets:soft", *WORDS, "--no-checks", "--json", cwd=desk)
    assert json.loads(out)["checks"] is None
    assert "warning" not in error


def test_a_model_that_always_says_the_same_is_told_of_however_often_it_is_right(desk):
    held = np.load(desk / "squares.npz")
    labels = np.array([3] * 36 + [1] * 4)
    np.savez(desk / "uneven.npz", inputs=held["inputs"], labels=labels)
    words = ("--model", "nets:constant", "--data", "uneven.npz", "--sigma", "0.1", "--n", 250, "--radii", "0,0.05")
    out, _ = certcal("certify", "same", *words, "--no-figures", "--json", cwd=desk)
    told = "The model says '3' of all 40 inputs, which are of several classes"
    assert any(told in one for one in json.loads(out)["checks"]["warnings"])
    assert json.loads(out)["checks"]["at_chance"]


def test_some_classes_of_many_are_no_mismatch(desk):
    """A model of 100 classes that is right on half of two of them does not guess."""
    held = np.load(desk / "squares.npz")
    two = held["labels"] < 2
    np.savez(desk / "two.npz", inputs=held["inputs"][two], labels=held["labels"][two])
    words = ("--model", "nets:hundred", "--data", "two.npz", "--sigma", "0.1", "--n", 250, "--radii", "0,0.05")
    certcal("certify", "two-of-many", *words, "--no-figures", cwd=desk)


def test_a_good_model_passes_in_silence(desk):
    out, error = certcal("certify", "good", "--model", "nets:make", *WORDS, "--json", cwd=desk)
    checks = json.loads(out)["checks"]
    assert (checks["warnings"], checks["accuracy"], checks["inputs"]) == ([], 1.0, 40)
    assert [one["sigma"] for one in checks["scan"]] == pytest.approx([0.025, 0.05, 0.1, 0.2])
    assert all(one["accuracy"] > 0.9 for one in checks["scan"])
    assert "checks: 100% of 40 inputs are right without noise" in error
    assert all(one["at_least"] for one in checks["scan"])  # of half of the inputs all draws are right
    assert "σ = 0.1     100% right, R ≥ 0.1" in error
    assert 'id="checks"' not in (desk / "runs" / "good" / "report.html").read_text()


def test_a_dry_run_checks_and_draws_nothing(desk):
    out, error = certcal("certify", "dry", "--model", "nets:make", *WORDS, "--dry-run", cwd=desk)
    assert "40 inputs × 250 draws: about" in out
    assert "checks: 100% of 40 inputs are right without noise" in error
    assert not (desk / "runs" / "dry").exists()
    certcal("certify", "dry", "--model", "nets:soft", *WORDS, "--dry-run", cwd=desk, code=2)


def test_what_only_looks_has_nothing_to_keep_when_it_is_stopped(desk, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("certcal.runs.check_run", interrupted)
    monkeypatch.setattr("certcal.runs.plan_run", interrupted)
    words = ("--model", "nets:make", "--data", "squares.npz", "--sigma", "0.1")
    for line in (("certify", "dry", *words, "--dry-run"), ("plan", *words)):
        assert certcal(*line, cwd=desk, code=130)[1].splitlines()[-1] == "Stopped. Nothing was written."


@pytest.mark.slow
def test_one_input_is_one(desk):
    """In every line and on the page, and no accuracy of all inputs is called guessing."""
    held = dict(np.load(desk / "squares.npz"))
    for count in (1, 2):
        np.savez(desk / f"{count}.npz", inputs=held["inputs"][:count], labels=held["labels"][:count])
        words = ("--data", f"{count}.npz", "--classes", 5, *WORDS[2:])
        out, error = certcal("certify", f"one{count}", "--model", "nets:make", *words, cwd=desk)
        assert "not clearly better than guessing" not in error
    certcal("certify", "one1", "--no-figures", cwd=desk)
    page = (desk / "runs/one1/report.html").read_text()
    for text in (error, page, (desk / "runs/one1/log.txt").read_text()):
        assert not re.findall(r"\b1 (?:certified )?(?:inputs|threads|radii)\b", text)
    assert "of all 2 inputs" in " ".join(out.split())
    assert "of the 1 input." in page


@pytest.mark.slow
def test_stages_on_a_folder_that_was_begun_are_told_to_be_unplanned(desk):
    certcal("certify", "begun", "--model", "nets:make", *WORDS, cwd=desk)
    _, error = certcal("certify", "begun", "--n", 500, "--stages", "250,500", "--no-figures", cwd=desk)
    assert (
        "stages: the looks of this folder were planned when it was begun (250); other numbers are not planned" in error
    )


@pytest.mark.slow
def test_a_limit_is_spread_over_class_folders(desk, tmp_path):
    from PIL import Image

    for name in ("cat", "dog", "owl", "yak"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for n in range(10):
            Image.new("RGB", (4, 4), (20 * n, 9, 9)).save(tmp_path / "photos" / name / f"{n}.png")
    (tmp_path / "nets.py").write_text((desk / "nets.py").read_text())
    words = ("--model", "nets:untrained", "--data", "photos/", "--sigma", "0.1", "--n", 250, "--no-figures")
    _, error = certcal("certify", "few", *words, "--limit", 8, cwd=tmp_path)
    assert "8 inputs of 4 of 4 classes (cat 2, dog 2, owl 2, yak 2)" in error
    assert " of all 8 inputs, which are of several classes" in error
    for name in ("dog", "owl", "yak"):
        for path in (tmp_path / "photos" / name).iterdir():
            path.rename(tmp_path / "photos" / "cat" / f"{name}{path.name}")
        (tmp_path / "photos" / name).joinpath("only.png").write_bytes(
            (tmp_path / "photos" / "cat" / "0.png").read_bytes()
        )
    _, error = certcal("certify", "one", *words, "--limit", 3, cwd=tmp_path)
    assert "All 3 inputs are of one class, 'cat'" in error

"""`certcal train`, `sweep` and `reproduce` as people use them."""

import json

import numpy as np
import pytest

from certcal.cli.app import main
from training_samples import same_weights, stripes, weights


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("desk")
    inputs, labels = stripes().tensors()
    np.savez(folder / "data.npz", inputs=inputs.numpy(), labels=labels.numpy())
    (folder / "nets.py").write_text(
        "from torch import nn\n\ndef make(classes, channels, size):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, classes))\n"
    )
    return folder


@pytest.fixture
def certcal(desk, monkeypatch, capsys):
    """The command without the seconds that a process takes to start."""
    monkeypatch.chdir(desk)

    def run(*words, code=0):
        with pytest.raises(SystemExit) as caught:
            main([str(word) for word in words])
        out, error = capsys.readouterr()
        assert caught.value.code == code, error
        return out, error

    return run


WORDS = ["--model", "nets:make", "--data", "data.npz", "--objective", "noise", "--sigma", "0.25", "--batch-size", "16",
         "--device", "cpu"]  # fmt: skip


def test_train_then_certify_with_the_line_it_prints(desk, certcal):
    out, error = certcal("train", "mine", *WORDS, "--epochs", "2")
    run = desk / "runs" / "mine"
    assert {"train.toml", "log.csv", "checkpoint.pt", "model.pt", "provenance.json"} <= {p.name for p in run.iterdir()}
    assert "epoch 2/2" in error
    line = next(line for line in out.splitlines() if line.startswith("certcal certify"))
    first = weights(run / "model.pt")

    out, _ = certcal("train", "mine", "--epochs", "3", "--json")  # remembers the rest, and goes on
    assert [row["epoch"] for row in json.loads(out)["history"]] == [1, 2, 3]
    assert not same_weights(first, weights(run / "model.pt"))

    assert "--data HELD_OUT.npz" in line  # not the file that it was trained on
    words = line.split()[1:]
    (desk / "HELD_OUT.npz").write_bytes((desk / "data.npz").read_bytes())
    _, error = certcal(*words, "--n", "250", "--radii", "0.05", "--no-figures")
    assert "is what the model was trained on" not in error
    wrong = ["data.npz" if word == "HELD_OUT.npz" else word for word in words]
    _, error = certcal("certify", "other", *wrong[2:], "--n", "300", "--radii", "0.05", "--no-figures")
    assert "data.npz is what the model was trained on: certify inputs that it has not seen" in error
    for line in (("certify", "dry", *wrong[2:], "--dry-run"), ("plan", *wrong[2:], "--n", "1000")):
        told = certcal(*line)[1]
        assert "is what the model was trained on" in told
        assert "trained under" not in told
    other = ["0.5" if word == "0.25" else word for word in words[2:]]
    assert "trained under σ = 0.25, and is certified under σ = 0.5" in certcal("certify", "dry", *other, "--dry-run")[1]
    assert "draws: 300 become 500, as they are made in chunks of 250" in error
    _, error = certcal("certify", "other", "--n", "250", "--no-figures")
    assert "draws: there are 500 of each input already; all are kept and used, though --n asks for 250" in error
    recorded = json.loads((run / "provenance.json").read_text())
    assert recorded["train"]["fingerprint"] == recorded["model"]["fingerprint"]

    before = (run / "train.toml").read_text()
    _, error = certcal("train", "mine", "--sigma", "0.5", code=2)
    assert "train.sigma = 0.5 (was 0.25)" in error
    assert (run / "train.toml").read_text() == before


def test_the_line_for_named_data_certifies_what_was_not_trained_on(desk, certcal):
    out, _ = certcal("train", "named", *WORDS, "--data", "digits", "--epochs", "1")
    line = next(line for line in out.splitlines() if line.startswith("certcal certify"))
    words = [*line.split()[1:], "--dry-run"]
    assert "was trained on" not in certcal(*words)[1]
    assert "digits train is what the model was trained on" in certcal(*words, "--split", "train")[1]
    recorded = json.loads((desk / "runs" / "named" / "provenance.json").read_text())
    assert recorded["train"]["source"] == ["scikit-learn", "train"]


def test_a_run_does_not_go_on_with_other_data_of_the_same_name_and_size(desk, certcal):
    with np.load(desk / "data.npz") as held:
        inputs, labels = held["inputs"], held["labels"]
    np.savez(desk / "changing.npz", inputs=inputs, labels=labels)
    words = ["train", "changing", *WORDS, "--data", "changing.npz", "--epochs"]
    certcal(*words, "1")
    np.savez(desk / "changing.npz", inputs=1 - inputs, labels=labels)
    _, error = certcal(*words, "2", code=2)
    assert "be those that checkpoint.pt was made with" in error
    assert error.endswith("but got other images or labels in changing.\n")


@pytest.mark.parametrize(("option", "owner"), [("steps=4", "smoothadv"), ("consistency=10.0", "consistency")])
def test_options_of_another_objective_are_refused_even_at_their_default(certcal, option, owner):
    _, error = certcal("train", "other", *WORDS, "--set", f"objective.{option}", "--dry-run", code=2)
    assert f"Unknown setting objective.{option.partition('=')[0]}" in error
    assert f"it belongs to {owner}" in error


def test_train_refuses_in_one_line(desk, certcal):
    for words, message in (
        (["train", "new"], "Missing model.name, data.name, objective.name, train.sigma"),
        (["train", "new", *WORDS, "--weights", "nowhere.pt"], "`--weights` to be a checkpoint file"),
        (["train", "new", *WORDS, "--init", "net.pt"], "You may mean --weights: Weights to start from"),
        (["train", "new", *WORDS, "--epsilon", "0.5"], "be left out for the objective 'noise', which has no adversary"),
        (
            ["train", "new", *WORDS, "--objective", "consistency", "--epsilon", "0.5"],
            "be left out for the objective 'consistency', which has no adversary",
        ),
        (["train", "new", *WORDS, "--set", "train.epoch=3"], "did you mean epochs?"),
    ):
        _, error = certcal(*words, code=2)
        assert message in error
        assert error.count("\n") == 1
    _, error = certcal("train", "fast", *WORDS, "--epochs", "9", "--learning-rate", "1e30", code=1)
    assert "Training diverged at epoch" in error


def test_a_dry_run_leaves_nothing(desk, certcal):
    out, _ = certcal("train", "dry", *WORDS, "--epochs", "2", "--dry-run")
    assert "s per step on cpu: about" in out
    assert not (desk / "runs" / "dry").exists()


def test_one_epoch_is_told_as_one(desk, certcal):
    words = ["train", "once", *WORDS, "--epochs", "1", "--batch-size", "64"]
    assert "images, 1 epoch of 1 step." in certcal(*words, "--dry-run")[0]
    assert certcal(*words)[0].startswith("1 epoch, ")
    assert ": 1 epoch and 0 steps are done; nothing is left to do" in certcal(*words)[1]
    assert "train: 1 epoch of noise on data" in (desk / "runs" / "once" / "log.txt").read_text()


def test_a_dry_run_is_refused_where_the_run_would_be(desk, certcal):
    certcal("train", "begun", *WORDS, "--epochs", "1")
    run = desk / "runs" / "begun"
    before = {one.name: (one.read_bytes(), one.stat().st_mtime_ns) for one in run.iterdir()}
    _, error = certcal("train", "begun", "--sigma", "0.5", "--dry-run", code=2)
    assert "be those that checkpoint.pt was made with" in error
    assert "train.sigma = 0.5 (was 0.25)" in error
    assert "2 epochs" in certcal("train", "begun", "--epochs", "2", "--dry-run")[0]
    assert {one.name: (one.read_bytes(), one.stat().st_mtime_ns) for one in run.iterdir()} == before


def test_a_failed_trial_is_named_at_the_end_and_the_others_are_done(desk, certcal):
    (desk / "sweep.toml").write_text(
        '[model]\nname = "nets:make"\n[data]\nname = "data.npz"\n[test]\nname = "data.npz"\nlimit = 10\n'
        '[objective]\nname = "noise"\n[train]\nsigma = 0.25\nepochs = 1\nbatch_size = 16\n[certify]\nn = 100\n'
        '[evaluate]\nradii = [0.05]\n[sweep]\nover = { "train.learning_rate" = [1e30, 0.1] }\n'
    )
    out, error = certcal("sweep", "grid", "--recipe", "sweep.toml", "--device", "cpu", "--trust", "--json", code=1)
    failed, done = json.loads(out)
    assert failed["failed"].startswith("Training diverged")
    assert done["certified_accuracy"] >= 0
    assert error.splitlines()[-1].startswith("Failed: noise 1 (learning_rate 1e+30): Training diverged at epoch 1")
    header, first, second = (desk / "runs" / "grid" / "results.csv").read_text().splitlines()
    assert header.endswith(",failed")
    assert first.startswith("noise,noise 1,,,,,,learning_rate 1e+30,")
    assert second.endswith(",")
    _, error = certcal("sweep", "none", "--recipe", "sweep.toml", "--set", "data.name=nowhere.npz", "--trust", code=2)
    assert error.splitlines()[-1].startswith("Expected `data` to be")  # all failed, and all for this


@pytest.mark.slow
def test_reproduce_goes_from_nothing_to_a_table_and_figures(desk, certcal):
    out, _ = certcal("reproduce", "--list", "--json")
    assert {"cifar10", "cifar100", "svhn", "fashion-mnist", "imagenet", "digits"} == json.loads(out)["studies"].keys()
    out, _ = certcal("reproduce", "digits", "--show")
    assert "[[baseline]]" in out
    small = ["train.epochs=2", "finetune.epochs=1", "certify.n=100", "certify.n0=20", "test.limit=30",
             "about.radii=[0.05]", "validation.every=0"]  # fmt: skip
    words = ["reproduce", "digits", "--only", "Noise", *(word for one in small for word in ("--set", one))]
    out, error = certcal(*words)
    assert "[5/5] s0.25: Noise (learning_rate 0.05, draws 4)" in error
    assert "R = 0.05" in out
    run = desk / "runs" / "reproduce-digits"
    assert "| CCE | Noise |" in (run / "table.md").read_text()
    assert {path.name for path in (run / "figures").iterdir()} == {"changes_s0.25_R0.05.png", "changes_s0.25_R0.05.svg"}
    kept = json.loads((run / "results.json").read_text())
    assert len(kept) == 5
    assert kept[0]["method"] == "baseline"

    trained = run / "baselines" / "s0.25" / "model.pt"
    again, _ = certcal(*words, "--weights", f"s0.25={trained}", "--into", "other", "--json")
    assert (json.loads(again)["radii"], json.loads(again)["held_out"]) == ([0.05], None)
    assert json.loads((desk / "runs" / "other" / "results.json").read_text()) == kept
    assert not (desk / "runs" / "other" / "baselines" / "s0.25" / "model.pt").exists()
    validating = ["--set", "validation.every=1", "--set", "validation.draws=50", "--sample", 1]
    third, _ = certcal(*words, *validating, "--into", "third", "--json")
    assert json.loads(third)["held_out"]["radii"] == [0.05]
    title, _, settings, *_ = (desk / "runs" / "third" / "table.md").read_text().splitlines()
    assert title.endswith(", only Noise, at most 1 setting of each method, with other settings")
    assert "validation.draws = 50 (not 500)" in settings

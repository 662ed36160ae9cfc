"""Held-out training images choose among models: by what logs say, of models that were not trained on these images."""

import json
import math
from dataclasses import replace

import pytest

from certcal.evaluation import Outcome
from certcal.runs import RunFolder
from certcal.studies import run_study, study_trials
from certcal.studies.reproduce import selected_models, write_study
from certcal.studies.trials import held_out_outcomes
from sweeping import run, small

VALIDATION = {"every": 1, "fraction": 0.3, "inputs": 10, "draws": 100, "n0": 20}


@pytest.fixture
def study(monkeypatch):
    monkeypatch.setattr("certcal.studies.reproduce.save_figure", lambda *drawing: None)
    return replace(small(screen=250), validation=VALIDATION)


def tuned(study, folder):
    return {one.name: one for _, others in study_trials(study, folder) for one in others}


def prefer(name, trials):
    """As if held-out images chose the one of this name."""
    for own, trial in trials.items():
        log = trial.folder / "log.csv"
        head, *rows = [line.split(",") for line in log.read_text().splitlines()]
        wanted = {"certified_accuracy": "1.0", "certified_ece": "0.1" if own == name else "0.9"}
        last = [wanted.get(key.partition("_at_")[0], old) for key, old in zip(head, rows[-1], strict=True)]
        log.write_text("\n".join(",".join(line) for line in (head, *rows[:-1], last)) + "\n")


def selection(folder):
    return json.loads((folder / "selection.json").read_text())


def test_held_out_images_choose_too_and_their_choice_is_quoted(desk, study):
    tested, folder = run(study, desk / "study"), desk / "study"
    assert tested.held_out is not None
    by_test, trials = selection(folder)[0]["ece"]["AT"], tuned(study, folder)
    (other,) = trials.keys() - {by_test}
    prefer(other, trials)
    quoted, found = run(study, folder, quote=True), selection(folder)
    assert [one["ece"]["AT"] for one in found] != [one["held_out"]["ece"]["AT"] for one in found] == [other] * 2
    assert found[0]["held_out"]["best_accuracy"] == 1
    assert other in selected_models(folder)
    assert other in {row["model"] for row in quoted.results.rows}
    _, held_out = (folder / "table.md").read_text().split("## Chosen on held-out images")
    rows = json.loads((trials[other].folder / "quoted.json").read_text())["outcomes"]
    for row in rows:  # what it came to on the test inputs with all draws, not what the log says
        assert f"{math.ceil(1e4 * row['certified_ece'] - 1e-9) / 100:.2f}" in held_out
    told = []
    (trials[other].folder / "log.csv").write_text("epoch,certified_accuracy_at_0.05\n1,much\n")
    again = run_study(study, folder, progress=False, tell=told.append)
    assert any("log.csv is damaged" in line for line in told)
    assert again.comparison == quoted.comparison


def test_of_models_that_test_inputs_chose_held_out_images_choose_only_their_own(desk, study):
    """Else the errors shown would not be of inputs that took no part in the choice."""
    (desk / "like").mkdir()
    chosen = {"ece": {"AT": "one AT 1"}, "brier": {}}
    (desk / "like/selection.json").write_text(
        json.dumps([{"ece": {"AT": "one AT 2"}, "brier": {}, "held_out": chosen}, chosen | {"held_out": None}])
    )
    folder, like = desk / "study", desk / "like"
    run(study, folder, like=like)
    prefer("one AT 2", tuned(study, folder))
    for options in ({"like": like}, {"quote": True}, {"quote": True, "like": like}):
        found = run(study, folder, **options)
        assert [one["held_out"]["ece"] for one in selection(folder)] == [{"AT": "one AT 1"}] * 2
        assert found.title.endswith("only what like selected") is ("like" in options)
    run(study, folder)  # all of them: now they may choose among all
    assert [one["held_out"]["ece"]["AT"] for one in selection(folder)] == ["one AT 2"] * 2
    (desk / "like/selection.json").write_text(json.dumps([chosen]))  # no held-out images there
    assert run(study, folder, like=like).held_out is None


@pytest.mark.parametrize("seed", [None, 2])
def test_a_model_whose_baseline_was_trained_on_its_held_out_images_is_not_chosen_by_them(desk, study, seed):
    own = study.finetune | ({} if seed is None else {"seed": seed})
    told, study = [], replace(study, train=study.train | {"seed": 1}, finetune=own)
    found = run_study(study, desk / "study", progress=False, tell=told.append)
    methods = {line.method for line in found.held_out.lines for value in line.values if value is not None}
    left_out = [line for line in told if "is left out where held-out images choose" in line]
    assert ("AT" in methods, len(left_out)) == ((True, 0) if seed is None else (False, 2))
    assert all("one was trained on some of its" in line for line in left_out)


def test_of_given_weights_nobody_knows_which_images_they_have_seen(desk, study):
    run(study, desk / "first")
    (old,) = (first for first, _ in study_trials(study, desk / "first"))
    mine = replace(study, baseline=(replace(study.baseline[0], weights=str(old.folder / "model.pt")),))
    first, _ = study_trials(mine, desk / "first")[0]
    assert held_out_outcomes(old)
    told = []
    run_study(mine, desk / "first", progress=False, tell=told.append)
    assert not held_out_outcomes(first)  # the log there is of another training
    assert any("one came with its weights: it may have been trained" in line for line in told)


def test_radii_are_logged_with_every_digit(desk, study):
    study = replace(study, about=replace(study.about, radii=(0.1234567, 1e-07)), evaluate={})
    found = run(study, desk / "study")
    assert found.held_out.radii == (0.1234567, 1e-07)


HEAD = "epoch,loss,certified_accuracy_at_0.05,certified_ece_at_0.05,certified_brier_at_0.05\n"
GOOD = HEAD + "1,2.5,0.75,0.5,0.25\n2,2.5,0.5,0.125,0.0625\n"


@pytest.fixture
def done(study, tmp_path, monkeypatch):
    """A fine-tuning of two epochs that is done."""
    monkeypatch.setattr("certcal.studies.trials.kept_outcomes", lambda trial, *_: [])
    trial = next(iter(tuned(replace(study, finetune={"epochs": 2}), tmp_path).values()))
    trial.folder.mkdir(parents=True)
    return trial


def test_the_last_epoch_speaks(done):
    log = done.folder / "log.csv"
    log.write_text(GOOD)
    (one,) = held_out_outcomes(done)
    assert (one.radius, one.certified_accuracy, one.certified_ece, one.certified_brier) == (0.05, 0.5, 0.125, 0.0625)
    assert (one.model, one.method, one.baseline, one.settings) == (done.name, "AT", "one", done.settings)
    log.write_text(GOOD.replace("0.125,0.0625", "nan,nan"))  # no input is certified
    assert math.isnan(held_out_outcomes(done)[0].certified_ece)


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        HEAD,
        GOOD[:-1],
        GOOD[:-4],
        GOOD.rpartition("2,")[0],
        GOOD.replace("\n2,", "\n3,"),
        GOOD.replace("certified", "clean"),
        GOOD.replace("0.125", "much"),
        GOOD.replace("0.125", "1.25"),
        GOOD.replace("0.125", "0.1\x0025"),
        GOOD.replace("0.5,0.125", "40,0.125"),
        GOOD.replace("0.5,0.125", "nan,0.125"),
        GOOD.replace("0.5,0.125", "1e400,0.125"),
        GOOD.replace(",0.0625", ""),
        GOOD.replace("0.125", "9" * 200_000),
        None,
    ],
)
def test_a_damaged_log_is_told_of_and_chooses_nothing(done, damaged):
    told, log = [], done.folder / "log.csv"
    if damaged is not None:
        log.write_text(damaged)
    assert held_out_outcomes(done, told.append) == []
    (line,) = told
    assert line.startswith(f"{log} is damaged, and one: AT (learning_rate 0.01) left out where held-out")


def test_what_is_not_done_or_does_not_validate_chooses_nothing(done, monkeypatch):
    (done.folder / "log.csv").write_text(GOOD)
    told, quiet = [], replace(done.recipe, validation=replace(done.recipe.validation, every=0))
    assert held_out_outcomes(replace(done, recipe=quiet), told.append) == []
    monkeypatch.setattr("certcal.studies.trials.kept_outcomes", lambda trial, *_: None)
    assert held_out_outcomes(done, told.append) == []
    assert told == []


def test_held_out_images_choose_among_models_that_have_outcomes(study, tmp_path):
    """One that validated may have failed when it was certified."""
    here = [Outcome("AT", "one AT 1", radius, 0.5369, 0.5, 0.25, baseline="one") for radius in (0.05, 0.1)]
    ghost = [replace(one, model="one AT 2", certified_ece=0.125) for one in here]
    _, honest = write_study(RunFolder(tmp_path), study, here, held_out=[*here, *ghost])
    assert [line.values for line in honest.lines] == [("50.00",) * 2, ("25.00",) * 2]
    assert honest.accuracy == ("50.6–53.6",) * 2  # rounded down
    assert selection(tmp_path)[0]["held_out"]["ece"] == {"AT": "one AT 1"}


def test_the_papers_certified_accuracies_stand_beside_those_of_test_inputs_alone(study, tmp_path):
    study = replace(study, about=replace(study.about, paper="fashion-mnist"))
    here = [Outcome("AT", "one AT 1", 0.05, 0.5, 0.5, 0.25, baseline="one")]
    study = replace(study, about=replace(study.about, radii=(0.05,)))
    tested, honest = write_study(RunFolder(tmp_path), study, here, held_out=here)
    assert (tested.paper_accuracy, honest.paper_accuracy) == (("87–90",), (None,))
    assert [line.paper for line in tested.lines] == [line.paper for line in honest.lines]
    text = (tmp_path / "table.md").read_text()
    assert text.count("In brackets: the paper, whose ACCE approximates the CCE from below") == 2
    assert "and which chose by its test inputs." in text

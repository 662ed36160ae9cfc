"""Studies in parts: within a time, with fewer settings or draws first, and again what was selected."""

import json
import signal
import time
from dataclasses import replace

import pytest

from certcal.errors import CertcalError, InputError
from certcal.evaluation import Outcome
from certcal.interrupts import deferred_interrupts, time_limit
from certcal.runs import RunFolder
from certcal.smoothing import load_evidence
from certcal.studies import SweepSettings, load_study, study_trials
from certcal.studies.recipes import numbered
from certcal.studies.reproduce import selected_models, write_study
from certcal.studies.study import About
from certcal.studies.trials import attempt
from sweeping import run, small


def test_a_study_is_like_another_in_all_that_it_does_not_say(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('like = "svhn"\n[certify]\nn = 1000\n[train]\nepochs = 1\n[model]\nname = "lenet"\n')
    mine, svhn = load_study(str(path)), load_study("svhn")
    others = {"certify": svhn.certify | {"n": 1000}, "train": svhn.train | {"epochs": 1}}
    own = About(title="mine, like svhn", radii=svhn.about.radii)  # the paper's numbers are of another model
    assert mine == replace(svhn, about=own, model={"name": "lenet"}, **others)  # nor with SVHN's normalisation
    assert {"n0", "fuse"} < mine.certify.keys()
    assert mine.train["sigma_warmup"] == 8
    assert (svhn.baseline, svhn.method) == (load_study("cifar10").baseline, load_study("cifar10").method)
    path.write_text('like = "mine"\n')
    with pytest.raises(InputError, match=r"Expected `like in mine.toml` to be one of cifar10, .*, but got 'mine'"):
        load_study(str(path))


def test_a_name_that_is_none_is_refused_in_a_sentence(tmp_path):
    study = small()
    study = replace(study, method=(replace(study.method[0], objective={"name": ["x"]}),))
    with pytest.raises(InputError, match=r"Expected `objective.name` to be a text, but got \['x'\]"):
        study_trials(study, tmp_path)


def test_like_wants_the_folder_of_a_study(tmp_path):
    with pytest.raises(InputError, match=r"Expected `like` to be the folder of a study .*, without selection.json"):
        study_trials(small(), tmp_path, like=tmp_path)
    for held in ("{", "[1]", '[{"ece": {}}]', '[{"ece": [], "brier": {}}]', '[{"ece": {"AT": []}, "brier": {}}]'):
        (tmp_path / "selection.json").write_text(held)
        with pytest.raises(InputError, match=r"selection.json, which cannot be read"):
            study_trials(small(), tmp_path, like=tmp_path)


def test_like_wants_a_study_that_selected_some_of_these_models(tmp_path):
    (tmp_path / "selection.json").write_text('[{"ece": {"AT": "another AT 1"}, "brier": {}}]')
    with pytest.raises(
        InputError, match=r"that selected some of these models, but got .*, which selected another AT 1"
    ):
        study_trials(small(), tmp_path, like=tmp_path)


def test_what_is_named_twice_is_run_once_and_a_part_is_called_one():
    study = load_study(
        "fashion-mnist", methods=("Brier-ACT", "Brier-ACT"), baselines=("s0.25-e0.50-m4-T2",) * 2, sample=4
    )
    assert (len(study.baseline), len(study.method)) == (1, 1)
    whole = load_study("fashion-mnist").about.title
    assert study.about.title == f"{whole}, only s0.25-e0.50-m4-T2, Brier-ACT, at most 4 settings of each method"
    assert load_study("fashion-mnist", sample=0).about.title == f"{whole}, only baselines"
    with pytest.raises(InputError, match="Expected `only` to be left out with sample = 0: only baselines are trained"):
        load_study("fashion-mnist", sample=0, methods=("Brier-ACT",))


def test_fine_tuning_has_the_seed_of_its_baseline(tmp_path):
    for own, wanted in (({}, 3), ({"seed": 4}, 4)):
        ((first, tuned),) = study_trials(replace(small(), train={"seed": 3}, finetune=own), tmp_path)
        assert first.recipe.train.seed == 3
        assert {one.recipe.train.seed for one in tuned} == {wanted}


def test_fine_tuning_takes_from_its_baseline_what_its_own_objective_knows(tmp_path):
    study = small()
    own = {"name": "consistency", "draws": 3, "consistency": 5.0}
    study = replace(study, baseline=(replace(study.baseline[0], objective=own),))
    ((first, tuned),) = study_trials(study, tmp_path)
    assert (first.recipe.objective.draws, first.recipe.objective.consistency) == (3, 5.0)
    assert [(one.recipe.objective.name, one.recipe.objective.draws) for one in tuned] == [("smoothadv", 3)] * 2


OTHER = '[data]\nname = "train.npz"\n'


@pytest.mark.parametrize(
    ("said", "missing", "beside"),
    [
        (OTHER, "test", "data"),  # it would be tested on scikit-learn's digits
        (OTHER + "[test]\nlimit = 9\n", "test", "data"),
        ('[test]\nname = "test.npz"\n', "data", "test"),
        ('[data]\nname = "digits"\n[test]\nname = "test.npz"\n', None, None),
        (OTHER + '[test]\nname = "digits"\n', None, None),
        ('[data]\nname = "digits"\nsplit = "train"\nlimit = 90\n', None, None),  # the same, fewer
        ("[test]\nlimit = 9\n", None, None),
    ],
)
def test_other_data_than_that_of_the_study_it_is_like_comes_with_its_test_data(tmp_path, said, missing, beside):
    path = tmp_path / "mine.toml"
    path.write_text(f'like = "digits"\n{said}')
    if missing is None:
        load_study(str(path))
        return
    with pytest.raises(InputError) as caught:
        load_study(str(path))
    wanted = f"Expected `{missing}.name` to be given beside {beside}.name, which is not that of digits, but got none."
    assert str(caught.value) == wanted


@pytest.mark.parametrize(
    ("said", "paper"),
    [
        (OTHER + '[test]\nname = "test.npz"\n', ""),
        ('[model]\nname = "small-cnn"\n', ""),
        ("[certify]\nn = 1000\n", "fashion-mnist"),
        ('[about]\npaper = "fashion-mnist"\n' + OTHER + '[test]\nname = "test.npz"\n', "fashion-mnist"),  # as said
    ],
)
def test_the_papers_numbers_stand_beside_its_own_data_and_model_alone(tmp_path, said, paper):
    path, base = tmp_path / "mine.toml", load_study("fashion-mnist").about
    path.write_text(f'like = "fashion-mnist"\n{said}')
    found = load_study(str(path)).about
    assert (found.paper, found.radii) == (paper, base.radii)
    if said.startswith("[certify]"):
        assert found == base
    else:
        assert (found.title, found.notes, found.cost) == ("mine, like fashion-mnist", "", "")


def test_a_time_limit_is_a_ctrl_c_and_waits_for_a_safe_point():
    before = signal.getsignal(signal.SIGALRM)
    with time_limit(0.02) as is_over, pytest.raises(KeyboardInterrupt):
        time.sleep(10)
    assert is_over()
    reached = []

    def work():
        with deferred_interrupts() as interrupted:
            while not interrupted():
                time.sleep(0.01)
            reached.append("a safe point")

    with time_limit(0.02) as is_over, pytest.raises(KeyboardInterrupt):
        work()
    assert is_over()
    assert reached
    assert signal.getsignal(signal.SIGALRM) == before
    with time_limit(None) as is_over:
        assert not is_over()


def test_a_larger_sample_keeps_the_smaller_one_by_number():
    over = {"train.seed": list(range(40))}
    few, more = (numbered(SweepSettings(over=over, sample=count)) for count in (3, 12))
    assert few.items() <= more.items()
    assert all(changes["train"]["seed"] == place - 1 for place, changes in more.items())
    own = load_study("fashion-mnist", sample=4)
    assert [one.sweep.sample for one in own.method] == [4] * 6
    assert load_study("fashion-mnist", sample=0).method == ()
    with pytest.raises(InputError, match="`sample` to be an integer ≥ 1"):
        load_study("fashion-mnist", sample=-1)


def test_the_second_table_names_those_outside_by_the_accuracy_that_chose(tmp_path, monkeypatch):
    monkeypatch.setattr("certcal.studies.reproduce.save_figure", lambda *drawing: None)
    own = [Outcome("baseline", "one", 0.05, 0.5, 0.25, 0.125), Outcome("AT", "one AT 1", 0.05, 0.75, 0.375, 0.1875)]
    own += [replace(one, radius=0.1) for one in own]
    held = [replace(one, certified_accuracy=one.certified_accuracy / 2, certified_ece=0.0) for one in own]
    write_study(RunFolder(tmp_path), small(), own, held_out=held)
    first, second = (tmp_path / "table.md").read_text().split("## Chosen on held-out images")
    assert "- R = 0.05: baseline with CA 50.0, CCE 25.00, CBS 12.50" in first
    assert "- R = 0.05: baseline with CA 25.0, CCE 25.00, CBS 12.50" in second  # its errors are of the test inputs
    assert "| CCE | baseline |" not in first + second


@pytest.mark.slow
def test_a_study_stops_in_time_and_goes_on(desk):
    study = small(rates=[0.1])
    with pytest.raises(CertcalError, match="time ran out before the first model"):
        run(study, desk / "part", minutes=1e-9)
    first = study_trials(study, desk / "part")[0][0]
    assert attempt(first, until=time.time() - 1) is None
    assert isinstance(attempt(first), list)  # in an earlier call
    whole = run(study, desk / "part", minutes=10)
    assert whole.results.left == 0
    assert whole.results.rows == run(study, desk / "whole").results.rows
    with pytest.raises(InputError, match="`minutes` to be a number > 0"):
        run(study, desk / "part", minutes=0)


def test_what_is_selected_is_quoted_with_all_draws(desk, monkeypatch):
    study = small(screen=250)
    with pytest.raises(InputError, match="`quote` to come after models that certify inputs, but got none in"):
        run(study, desk / "study", quote=True)
    screened = run(study, desk / "study")
    assert not list((desk / "study").rglob("*/quoted.json"))
    assert len(list((desk / "study/figures").iterdir())) == 4  # of two radii, PNG and SVG; seconds, so not again below
    monkeypatch.setattr("certcal.studies.reproduce.save_figure", lambda *drawing: None)
    quoted = run(study, desk / "study", quote=True)
    names = selected_models(desk / "study")
    assert {row["model"] for row in quoted.results.rows} == names
    assert len(quoted.results.rows) == 2 * len(names)  # two radii
    for trial in (one for first, tuned in study_trials(study, desk / "study") for one in (first, *tuned)):
        draws = json.loads((trial.folder / "metrics.json").read_text())["sampling"]["data"]["draws"]
        assert draws == (500 if trial.name in names else 250)
        # The look with all draws is planned beside that of the screening: its limits are those of the method.
        assert load_evidence(trial.folder / "evidence.parquet").header.stages == (250, 500)
    # The screening stays what models are selected by, and the table of the next call shows what was quoted.
    again = run(study, desk / "study")
    assert again.results.rows == screened.results.rows
    assert again.comparison == quoted.comparison != screened.comparison
    with pytest.raises(InputError, match="`quote` to be left out"):
        run(small(), desk / "other", quote=True)


@pytest.mark.slow
def test_another_seed_repeats_only_what_was_selected(desk):
    run(small(), desk / "first")
    chosen = selected_models(desk / "first")
    (desk / "first" / "selection.json").write_text(
        json.dumps([{"ece": {"AT": "one AT 2"}, "brier": {"AT": "one AT 2"}}])
    )
    found = run(small(), desk / "again", like=desk / "first").results.outcomes
    assert {one.model for one in found} == {"one", "one AT 2"}  # and what it starts from
    assert chosen <= {"one", "one AT 1", "one AT 2"}

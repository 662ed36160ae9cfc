"""Tables of parts of a study say so, and what a call leaves behind does not change what another one chose."""

import json
from dataclasses import replace

import pytest

from certcal.errors import CertcalError, InputError
from certcal.evaluation import Outcome
from certcal.runs import RunFolder
from certcal.studies import load_study, run_study
from certcal.studies.held_out import Candidates
from certcal.studies.reproduce import Unfinished, write_study
from sweeping import run, small


def made(model, ece, *, radius=0.05, accuracy=0.5):
    return Outcome("AT" if model == "one" else model, model, radius, accuracy, ece, 0.25, baseline="one")


def table(folder):
    return (folder / "table.md").read_text()


def test_errors_of_different_draws_are_never_compared(tmp_path):
    """What is quoted is shown once all of a table was: with fewer draws a model would lose for these alone."""
    study = small(screen=250)
    study = replace(study, about=replace(study.about, radii=(0.05,)))
    screened = [made("A", 0.36), made("B", 0.37)]
    quoted = [made("A", 0.30), made("B", 0.29)]
    for known, shown, told in (
        ([], ("36.00", "37.00"), "Screened with 250 draws: `--quote` certifies what is selected with all 500."),
        (quoted[1:], ("36.00", "37.00"), "Screened with 250 draws"),
        (quoted, ("30.00", "29.00"), "Errors with 500 draws; CA and the choice with 250."),
    ):
        found, held_out = write_study(RunFolder(tmp_path), study, screened, known, [])
        assert [line.values for line in found.lines if line.metric == "CCE"] == [(one,) for one in shown]
        assert held_out is None
        assert told in table(tmp_path)
    _, honest = write_study(RunFolder(tmp_path), study, screened, quoted, screened[:1])
    assert [line.values for line in honest.lines if line.metric == "CCE"] == [("30.00",), (None,)]
    write_study(RunFolder(tmp_path), small(), [*screened, *(replace(one, radius=0.1) for one in screened)])
    assert "draws" not in table(tmp_path)


def test_a_table_of_some_models_says_of_how_many(desk):
    assert str(Unfinished(25, 7, 0)) == "Of 7 of 25 models."
    assert str(Unfinished(3, 1, 2)) == "Of 1 of 3 models; 2 failed."
    assert str(Unfinished(3, 3, 0)) == ""
    run(small(rates=(0.01,)), desk / "study")
    assert "models" not in table(desk / "study").splitlines()[2]
    (desk / "study/baselines/one/model.pt").write_bytes(b"cut")
    run(small(), desk / "study")
    assert "Of 1 of 3 models; 2 failed." in table(desk / "study")


def test_a_call_of_which_nothing_came_leaves_the_tables_as_they_are(desk):
    run(small(rates=(0.01,)), desk / "study")
    before = {path.name: path.read_bytes() for path in (desk / "study").iterdir() if path.is_file()}
    with pytest.raises(CertcalError):
        run(replace(small(), train={**small().train, "seed": 1}), desk / "study")
    assert {path.name: path.read_bytes() for path in (desk / "study").iterdir() if path.is_file()} == before
    with pytest.raises(InputError, match="Expected `like` to be the folder of another study"):
        run(small(), desk / "study", like=desk / "study")


def test_models_that_test_inputs_chose_stay_apart_until_all_are_trained(tmp_path):
    folder = RunFolder(tmp_path)
    own = Candidates.of(folder)
    assert own.names is None
    own.let_in({"all"}, only=False)  # nothing was restricted
    assert Candidates.of(folder).names is None
    own.let_in({"a"})
    own.let_in({"b"})
    assert Candidates.of(folder).names == {"a", "b"}
    own.let_in({"c"}, only=False)
    assert Candidates.of(folder).names == {"a", "b", "c"}
    for text in ("{bad", "5", '"a'):
        (tmp_path / "like.json").write_text(text)
        with pytest.raises(InputError, match=r"^Expected `into` to be a folder whose like.json names models, but got"):
            Candidates.of(folder)


def test_a_call_that_trains_nothing_lets_no_model_in(desk, monkeypatch):
    """It once dropped the list before it had done anything: then all models could be chosen by held-out images."""
    monkeypatch.setattr("certcal.studies.reproduce.save_figure", lambda *drawing: None)
    validation = {"every": 1, "fraction": 0.3, "inputs": 10, "draws": 100, "n0": 20}
    study = replace(small(screen=250), validation=validation)
    (desk / "like").mkdir()
    chosen = {"ece": {"AT": "one AT 1"}, "brier": {}}
    (desk / "like/selection.json").write_text(json.dumps([{"ece": {"AT": "one"}, "brier": {}, "held_out": chosen}]))
    run(study, desk / "study", like=desk / "like")
    with pytest.raises(CertcalError, match="The time ran out"):
        run(study, desk / "study", minutes=1e-9)
    found = run_study(study, desk / "study", quote=True, progress=False, tell=lambda text: None)
    kept = json.loads((desk / "study/selection.json").read_text())
    assert {name for one in kept for name in one["held_out"]["ece"].values()} == {"one AT 1"}
    assert found.title == "small, partly what another study selected"
    assert "Of 2 of 3 models." in table(desk / "study")


def test_methods_have_a_folder_each_and_screening_takes_fewer_draws(tmp_path):
    path = tmp_path / "mine.toml"
    text = 'like = "digits"\n'
    twice = '[[method]]\nname = "{}"\nobjective = {{ name = "noise" }}\n'
    for names in (("Noise", "Noise"), ("A B", "A-B"), ("A*", "a-star")):
        path.write_text(text + "".join(twice.format(name) for name in names))
        with pytest.raises(InputError, match="`name of a baseline or method` to give a folder of its own"):
            load_study(str(path))
    for screen, certify in ((5000, 250), (251, 250), (0, 250)):
        with pytest.raises(InputError, match=r"^Expected `about.screen` to be "):
            load_study("digits", {"about": {"screen": screen}, "certify": {"n": certify}})

"""`certcal reproduce` shows what there is in lines that fit a screen, and says what an interruption leaves."""

import pytest

from certcal.studies import EXHIBITS
from command import PLAIN, certcal, in_this_process


def test_the_list_fits_80_columns_and_says_once_what_is_drawn_from(tmp_path):
    _, out, _ = in_this_process(["reproduce", "--list"], tmp_path, PLAIN | {"COLUMNS": "80"})
    lines = [line.rstrip() for line in out.splitlines()]
    assert max(map(len, lines)) <= 80
    table, legend = out.split("What --from names:")
    letters = {line[0]: line[1:].strip() for line in legend.splitlines()[1:]}
    for name, own in EXHIBITS.items():
        (line,) = [line for line in lines if line.startswith(f"{name} ")]
        assert own.place in line
        assert letters[line[-1]] == (own.source or "nothing: leave --from out")
    assert len(table.splitlines()) < 70
    assert {line.split()[-2] for line in lines if line.startswith("table or figure")} == {"shows"}
    assert "25 models, about 12 minutes on" in table


def test_a_dry_run_says_that_the_time_is_of_one_model(tmp_path):
    words = ("reproduce", "digits", "--only", "Noise", "--sample", 2, "--dry-run")
    out, _ = certcal(*words, cwd=tmp_path)
    assert "This is for training one model of 3." in out
    assert "The whole study: 25 models, about 12 minutes" in " ".join(out.split())


def test_missing_data_stop_a_study_in_a_line_and_leave_nothing(tmp_path):
    for words in ((), ("--dry-run",)):
        _, error = certcal("reproduce", "svhn", *words, cwd=tmp_path, code=2, CERTCAL_DATA=str(tmp_path / "none"),
                           HOME=str(tmp_path))  # fmt: skip
        (line,) = error.splitlines()
        assert line.startswith(
            "Expected `data` to be here, but got no svhn train and svhn test: get it by `certcal data"
        )
        assert line.endswith("or add --set data.download=true --set test.download=true.")
    assert not list(tmp_path.iterdir())


def test_a_study_that_was_changed_is_called_so(tmp_path, monkeypatch):
    called = []

    def run_study(study, *_, **__):
        called.append((study.about.title, study.changed))
        raise KeyboardInterrupt

    monkeypatch.setattr("certcal.studies.run_study", run_study)
    words = ("--set", "certify.n=400", "--set", "finetune.epochs=10", "--set", "data.download=true")
    certcal("reproduce", "digits", "--device", "cpu", *words, cwd=tmp_path, code=130)
    certcal("reproduce", "digits", cwd=tmp_path, code=130)
    title = "Digits, a small network, on a CPU"
    assert called == [(f"{title}, with other settings", "certify.n = 400 (not 1000)"), (title, "")]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["figure-motivation", "--from", "x"], "Nothing was written."),
        (["figure-motivation", "--from=x"], "Nothing was written."),
        (["digits", "--dry-run"], "Nothing was written."),
        (["--list"], "Nothing was written."),
        (["digits"], "What was learned is kept; the same command goes on from there."),
    ],
)
def test_an_interruption_says_what_is_kept(words, kept, tmp_path, monkeypatch):
    """A figure is written at its end: there is nothing to go on from."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    for name in ("draw_exhibit", "run_study", "study_trials", "study_names"):
        monkeypatch.setattr(f"certcal.studies.{name}", interrupted)
    _, error = certcal("reproduce", *words, cwd=tmp_path, code=130)
    assert error.splitlines()[-1] == f"Stopped. {kept}"

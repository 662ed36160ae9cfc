"""What `certcal attack` refuses, and what is left of attacks that were stopped or whose files are damaged."""

import json
import math
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from attack_models import QUICK, SMALL, trained_on_digits
from certcal import InputError, load_evidence
from certcal.files import unsealed
from certcal.models import save_checkpoint
from certcal.runs import attack_run
from certcal.runs.attack_files import kept_attacks, read_family
from certcal.settings import AttackSettings
from command import SCRIPT, certcal


@pytest.mark.slow
def test_what_stops_midway_leaves_what_was_there(run, monkeypatch):
    attack_run(run, AttackSettings(radii=(0.1,), **SMALL), figures=False)
    before = {path.name: path.read_bytes() for path in (run.path / "attack").iterdir()}

    def stop(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("certcal.runs.attack.run_ace_attacks", stop)
    with pytest.raises(KeyboardInterrupt):
        attack_run(run, AttackSettings(radii=(0.2,), epsilons=(0.1,), **SMALL), figures=False)
    after = {path.name: path.read_bytes() for path in (run.path / "attack").iterdir()}
    assert {name for name in before if before[name] != after[name]} == {
        f"sandwich.{ending}" for ending in ("json", "csv", "md", "tex")
    }
    assert set(before) == set(after)
    assert not kept_attacks(run, load_evidence(run.evidence)).stale


@pytest.mark.slow
def test_an_interrupted_attack_keeps_its_radii_and_goes_on_with_the_same_result(run, monkeypatch):
    asked = AttackSettings(radii=(0.1, 0.2), family="smoothed", adversaries=("brier",), **SMALL)
    whole = read_family(attack_run(run, asked, figures=False).run, "sandwich").record
    shutil.rmtree(run.path / "attack")
    from certcal.attacks import sandwich as room

    attack = room.attack_calibration

    def only(radius):
        """Attacks at this radius, and Ctrl-C at any other."""

        def attacked(*given, epsilon, **options):
            if epsilon != radius:
                raise KeyboardInterrupt
            return attack(*given, epsilon=epsilon, **options)

        monkeypatch.setattr(room, "attack_calibration", attacked)

    only(0.1)
    with pytest.raises(KeyboardInterrupt):
        attack_run(run, asked, figures=False)
    begun = kept_attacks(run, load_evidence(run.evidence))
    assert [row.radius for row in begun.sandwich] == [0.1]
    assert "sandwich is unfinished, with 1 attacks done" in begun.left_out
    told: list[str] = []
    only(0.2)
    results = attack_run(run, asked, figures=False, tell=told.append)
    assert any("goes on after the 1 attacks" in line for line in told)
    assert results.attacks.sandwich.rows == whole.rows
    assert results.attacks.left_out == ""


@pytest.mark.slow
def test_ctrl_c_keeps_the_family_that_was_finished(desk, run):
    words = [*QUICK[:-2], "--radii", 0.1, "--ace-steps", 10**6, "--epsilon", 0.5, "--stronger", "--no-figures"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    command = [SCRIPT, "attack", "mine", *map(str, words)]
    process = subprocess.Popen(command, cwd=desk, env=environment, stderr=subprocess.PIPE, text=True)
    while not (run.path / "attack" / "sandwich.json").exists():
        assert process.poll() is None
        time.sleep(0.1)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    last = error.strip().splitlines()[-1]
    assert last.startswith("Stopped. Attacks that were finished are kept; the same command goes on")
    assert {path.suffix for path in (run.path / "attack").iterdir()} == {".json", ".csv", ".md", ".tex"}
    assert not (run.path / "attack" / "ace.json").exists()


BAD = {
    "unknown adversary": (["--adversaries", "reach,pgd"], "Expected `--adversaries` to be one of 'smoothadv', 'brier'"),
    "no adversary": (["--adversaries", ","], "Expected `--adversaries` to hold at least one value, but got none"),
    "unknown family": (
        ["--family", "all"],
        "Expected `--family` to be one of 'smoothed', 'ace', 'both', but got 'all'",
    ),
    "nobody certified": (["--radii", "9"], "Expected `--radii` to hold one > 0 at which an input is certified (of 40"),
    "nothing to attack": (["--radii", "0"], "Expected `--radii` to hold one > 0"),
    "negative radius": (["--radii=-1"], "Expected `--radii` to be finite and ≥ 0, but got -1"),
    "epsilon no number": (["--epsilon", "x"], "Expected `--epsilon` to be numbers separated by commas"),
    "epsilon over nothing": (["--epsilon", "1/0"], "Expected `--epsilon` to be numbers separated by commas"),
    "epsilon of 0": (["--epsilon", "0"], "Expected `--epsilon` to be a finite number > 0, but got 0.0"),
    "epsilon beyond the box": (
        ["--epsilon", "8"],
        "to be at most 1, as inputs lie in [0, 1], but got 8 (did you mean 8/",
    ),
    "epsilon twice": (
        ["--epsilon", "3/255,3/255"],
        "Expected `--epsilon` to name each value once, but got 3/255 twice",
    ),
    "adversary twice": (["--adversaries", "cce,cce"], "Expected `--adversaries` to name each value once, but got cce"),
    "no draws": (["--draws", "0"], "Expected `--draws` to be an integer ≥ 1, but got 0"),
    "no steps": (["--steps", "0"], "Expected `--steps` to be an integer ≥ 1, but got 0"),
    "nobody at all": (["--limit", "0"], "Expected `--limit` to be an integer ≥ 1, but got 0"),
    "no such device": (["--device", "gpu"], "Expected `--device` to name a device of this machine"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_exits_with_2_and_one_line(made, case):
    words, message = BAD[case]
    out, error = certcal("attack", "mine", *words, cwd=made, code=2)
    assert message in error
    assert out == ""
    assert len(error.strip().splitlines()) == 1
    assert not (made / "runs" / "mine" / "attack").exists()


@pytest.mark.slow
def test_a_run_without_evidence_or_with_other_weights_or_data(desk, run):
    _, error = certcal("attack", "nowhere", cwd=desk, code=2)
    assert "Expected `RUN` to be a run folder, but got runs/nowhere" in error
    save_checkpoint(trained_on_digits(), Path(run.settings().model.weights))
    try:
        _, error = certcal("attack", "mine", cwd=desk, code=2, COLUMNS="120")
        assert "Expected `weights` to be those that the evidence was drawn from, but got others in" in error
        assert len(error.strip().splitlines()) == 1
    finally:
        save_checkpoint(trained_on_digits(sigma=0.25), Path(run.settings().model.weights))
    text = run.config.read_text()
    run.config.write_text(text.replace('split = "test"', 'split = "train"'))
    with pytest.raises(InputError, match="Expected `data` to hold the inputs of the evidence"):
        attack_run(run, AttackSettings(**SMALL))
    run.config.write_text(text)
    run.evidence.unlink()
    shutil.rmtree(run.shards)
    _, error = certcal("attack", "mine", cwd=desk, code=2)
    assert "Expected `RUN` to hold evidence.parquet (make it with `certcal certify`)" in error
    assert not (run.path / "attack").exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"made_with": {}}', '{"made_with": {}, "rows": [], "curves": []}'])
def test_a_damaged_file_is_named(run, text):
    run.write("attack/ace.json", text)
    with pytest.raises(InputError, match=r"Expected `run` to hold a attack/ace.json as certcal writes it"):
        read_family(run, "ace")
    kept = kept_attacks(run, load_evidence(run.evidence))
    assert kept.broken == ("ace",)
    assert not kept


@pytest.mark.slow
def test_damaged_rows_are_left_out_with_a_line_and_verdicts_are_worked_out_again(desk, run):
    attack_run(run, AttackSettings(radii=(0.1,), **SMALL), figures=False)
    paths = {name: run.path / "attack" / f"{name}.json" for name in ("sandwich", "ace")}
    whole = {name: unsealed(json.loads(path.read_text())) for name, path in paths.items()}
    damages = [
        ("sandwich", "attacked_ece", "much"), ("sandwich", "inputs", 1.5), ("sandwich", "adversary", "pgd"),
        ("sandwich", "excess", None), ("ace", "epsilon", "3/255"), ("ace", "eta", True), ("ace", "accuracy", math.nan),
    ]  # fmt: skip
    for name, key, value in damages:
        rows = [dict(row) for row in whole[name]["rows"]]
        rows[-1][key] = value
        paths[name].write_text(json.dumps(whole[name] | {"rows": rows}))
        assert kept_attacks(run, load_evidence(run.evidence)).broken == (name,), (name, key)
        paths[name].write_text(json.dumps(whole[name]))
    rows = whole["ace"]["rows"]
    paths["ace"].write_text(json.dumps(whole["ace"] | {"rows": [*rows[:-1], rows[1]]}))  # one attack twice
    _, error = certcal("evaluate", "mine", "--no-figures", cwd=desk)
    assert "attack: ace left out, as attack/ace.json is not as this version of certcal writes it" in error
    assert '<p id="left-out">Ace left out' in (run.path / "report.html").read_text()
    rows = [row | {"excess": 0.01, "holds": True} for row in whole["sandwich"]["rows"]]
    paths["sandwich"].write_text(json.dumps(whole["sandwich"] | {"rows": rows, "holds": True}))
    certcal("evaluate", "mine", "--no-figures", cwd=desk)
    kept = json.loads((run.path / "metrics.json").read_text())["attack"]["sandwich"]
    assert kept["holds"] is False
    assert [row["holds"] for row in kept["rows"]] == [False, False]
    _, error = certcal("attack", "mine", "--family", "ace", *QUICK, "--no-figures", cwd=desk)
    assert not kept_attacks(run, load_evidence(run.evidence)).broken

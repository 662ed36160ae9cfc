"""What the command line says where something is wrong: an exit code, a line, and nothing left behind."""

import json
import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from certcal.cli.app import main
from certcal.errors import InputError
from certcal.runs import RunFolder
from command import SCRIPT, certcal


def evaluating(*words):
    return ["evaluate", "made", *words]


def certifying(*words, model="nets:make", data="data.npz", run="new", sigma="1"):
    return ["certify", run, "--model", model, "--data", data, "--sigma", sigma, *words]


OPEN = "to lie in the open interval (0, 1), but got"
BAD = {
    "no such run": (["evaluate", "nowhere"], "Expected `RUN` to be a run folder, but got runs/nowhere"),
    "no evidence": (["evaluate", "."], "Expected `RUN` to be a run folder with a config.toml or evidence.parquet"),
    "negative radius": (evaluating("--radii", "0,-1"), "Expected `--radii` to be finite and ≥ 0, but got -1"),
    "no numbers": (evaluating("--radii", "a,b"), "Expected `--radii` to be numbers separated by commas"),
    "alpha of 1": (evaluating("--alpha", "1"), f"Expected `--alpha` {OPEN} 1"),
    "alpha no number": (evaluating("--alpha", "x"), "Expected `--alpha` to be a number, but got 'x'"),
    "delta of 0": (evaluating("--delta", "0"), f"Expected `--delta` {OPEN} 0"),
    "no bins": (evaluating("--n-bins", "0"), "Expected `--n-bins` to be an integer"),
    "unknown method": (evaluating("--method", "cfd"), "Expected `--method` to be one of"),
    "unknown solver": (evaluating("--approximate", "adm"), "Expected `--approximate` to be one of 'admm'"),
    "solver for all": (evaluating("--approximate", "admm", "--population", "all"), "be left out for population"),
    "method of the paper": (evaluating("--paper", "--method", "cdf"), "be left out with --paper"),
    "unknown option": (evaluating("--radiuss", "1"), "No such option"),
    "option of other verbs": (evaluating("--n", "9"), "--n. It is an option of certcal plan, certify, bench."),
    "option of another verb": (
        ["certify", "a", "--repeats", "4"],
        "It is an option of certcal recalibrate. Try:",
    ),
    "noise of the draws": (evaluating("--sigma", "0.5"), "but got 0.5 (σ is that of the run's draws: certify another"),
    "unknown verb": (["certfy"], "No such command 'certfy'"),
    "missing config": (evaluating("--config", "no.toml"), "Expected `config` to be a TOML file that can be read"),
    "nothing to certify": (["certify", "new"], "Missing model.name, data.name, certify.sigma: give what is missing"),
    "no such data": (certifying(data="no.npz"), "that exists, but got 'no.npz'"),
    "no such weights": (
        certifying("--weights", "no.pt"),
        "Expected `--weights` to be a checkpoint file, but got 'no.pt'",
    ),
    "no such model": (certifying(model="lennet"), "did you mean 'lenet'"),
    "no such factory": (certifying(model="nets:nothing"), "nets:nothing"),
    "wrong shape": (certifying(model="nets:broken"), "Expected `--model` to accept inputs of shape (1, 4, 4)"),
    "unknown class": (certifying("--classes", "2"), "Expected `--model` to have an output for every label up to 2"),
    "alpha of 2 to certify": (certifying("--alpha", "2"), f"Expected `--alpha` {OPEN} 2"),
    "nobody's home": (["evaluate", "~nobody-of-that-name/x"], "Expected `RUN` to be a path in a home folder"),
    "no noise": (certifying(sigma="0"), "Expected `--sigma` to lie between 3.1e-05 and 100000"),
    "nowhere to write": (certifying(run="nets.py/new"), "to be a folder that can be written, but got nets.py/new"),
    "no such device": (certifying("--device", "gpu"), "`--device`"),
    "no GPU": (certifying("--device", "cuda:7"), "there is no such GPU here"),
    "half a draw": (certifying("--n", "2.5"), "Expected `--n` to be a whole number, but got '2.5'"),
    "no weights": (certifying("--weights", ""), "Expected `--weights` to name something, or be left out, but got ''"),
    "a factory that raises": (
        certifying(model="nets:raises"),
        "a factory that makes a model by nets:raises, but got KeyError: 'depth' in nets.py, line 13",
    ),
    "alpha of 0 for draws": (certifying("--alpha", "0"), "as draws prove nothing for sure (0 is for proven bounds"),
    "another tool's words": (certifying("--samples", "9"), "You may mean --n: Draws per input"),
    "the paper's letter": (certifying("--tau", "0.9"), "You may mean --threshold: Confidence from which"),
    "an earlier word": (certifying("--domain", "any"), "You may mean --values: What inputs of a .npz file hold"),
    "one radius": (["attack", "made", "--radius", "0.1"], "You may mean --radii: "),
    "a study's folder": (["reproduce", "digits", "--out", "x"], "You may mean --into: Run folder"),
    "no such study": (["reproduce", "digit"], "but got 'digit' (did you mean 'digits'?)."),
    "no such method": (["reproduce", "digits", "--only", "Brier-act"], "(did you mean 'Brier-ACT'"),
    "a plan for no radius": (
        ["plan", "--model", "nets:make", "--data", "data.npz", "--radius", "-1"],
        "Expected `--radius` to be a number > 0, or come with --sigma, but got -1",
    ),
    "bounds that are gone": (
        ["evaluate", "new", "--bounds", "gone.csv"],
        "Expected `--bounds` to be a file that exists, but got gone.csv",
    ),
    "a run beside itself": (["compare", "made"], "Expected `RUN RUN …` to be at least two, but got 1"),
    "half a normalisation": (certifying("--mean", "0.5"), "Expected `--mean and --std` to be given together"),
    "no such objective": (["recalibrate", "made", "--objective", "x"], "Expected `--objective` to be one of"),
    "too much clean weight": (
        ["recalibrate", "made", "--clean-weight", "2"],
        "Expected `--clean-weight` to lie in [0, 1]",
    ),
    "nothing held out": (["recalibrate", "made", "--holdout", "0"], "Expected `--holdout`"),
    "no such data set": (["data", "cifar"], "did you mean 'cifar10'"),
    "bench of nothing": (["bench", "--shape", "3,32"], "Expected `--shape` to be channels, height and the same width"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_exits_with_2_and_one_helpful_line(desk, case):
    words, message = BAD[case]
    out, error = certcal(*words, cwd=desk, code=2)
    before = ("no --weights", "data:", "checks:", "warning:")
    told = [line for line in error.strip().splitlines() if not line.startswith(before)]
    assert message in error
    assert out == ""
    assert len(told) <= 2
    assert not (desk / "runs" / "new" / "config.toml").exists()


def test_damaged_evidence_exits_with_a_line(desk, tmp_path):
    run = RunFolder(tmp_path / "broken")
    run.create()
    run.save_settings(RunFolder(desk / "runs" / "made").settings())
    run.evidence.write_bytes(b"PAR1 nothing")
    _, error = certcal("evaluate", run.path, cwd=desk, code=1)
    assert "evidence.parquet" in error
    assert len(error.strip().splitlines()) <= 2


def test_debug_lets_an_error_pass(desk, monkeypatch):
    monkeypatch.chdir(desk)
    with pytest.raises(InputError, match="to be a run folder, but got runs/nowhere"):
        main(["evaluate", "nowhere", "--debug"])


@pytest.mark.slow
def test_debug_shows_where_an_error_comes_from(desk):
    environment = os.environ | {"COLUMNS": "100"}
    command = [SCRIPT, "evaluate", "nowhere", "--debug"]
    done = subprocess.run(command, cwd=desk, env=environment, capture_output=True, text=True)
    assert "Traceback" in done.stderr


def test_names_are_text_and_not_markup(desk):
    shutil.copytree(desk / "runs" / "made", desk / "runs" / "a[red]c")
    out, _ = certcal("evaluate", "a[red]c", "--no-figures", cwd=desk)
    assert "runs/a[red]c/report.html" in out
    rng = np.random.default_rng(0)
    names = np.array(["[/b]", "[red]x"])
    np.savez(desk / "in[red]j.npz", inputs=rng.random((4, 1, 4, 4)), labels=[0, 1, 0, 1], classes=names)
    out, _ = certcal("data", "in[red]j.npz", cwd=desk)
    assert "in[red]j" in out
    assert "[/b] 2, [red]x 2" in out


@pytest.mark.slow
@pytest.mark.parametrize("env", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}], ids=str)
def test_a_terminal_without_unicode(desk, env):
    out, _ = certcal("evaluate", "made", "--json", "--no-figures", cwd=desk, **env)
    assert "σ" in json.loads(out)["title"]
    assert "certified" in certcal("evaluate", "made", "--no-figures", cwd=desk, **env)[0]
    assert "certify" in certcal("certify", "--help", cwd=desk, **env)[0]


@pytest.mark.slow
def test_closed_output_is_no_accident(desk):
    done = subprocess.run(["sh", "-c", f"{SCRIPT} data --json >&-"], cwd=desk, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run(["sh", "-c", f"{SCRIPT} data > /dev/full"], cwd=desk, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "Writing failed: No space left on device.\n"


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on_and_the_folder_remembers(desk):
    words = certifying("--n", "4000000", "--radii", "0", run="long", sigma="0.25")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    with subprocess.Popen([SCRIPT, *words], cwd=desk, env=environment, stderr=subprocess.PIPE, text=True) as process:
        while not list((desk / "runs" / "long").glob("shards/shard-*.parquet")):
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        try:
            _, error = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "Stopped. What was drawn is kept; the same command goes on from there." in error
    assert "n = 4000000" in (desk / "runs" / "long" / "config.toml").read_text()

"""`certcal attack` and the attack folder: what is written is what was found, whole, and about this evidence."""

import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from attack_models import trained_on_digits
from certcal import InputError, load_evidence
from certcal.attacks import attack_certificates, inputs_of, run_ace_attacks
from certcal.cli.app import main
from certcal.data import load_dataset
from certcal.files import unsealed
from certcal.models import save_checkpoint
from certcal.progress import in_words
from certcal.runs import RunFolder, attack_run, certify_run, evaluate_run
from certcal.runs import attack as attack_room
from certcal.runs.attack_cost import ace_passes, sandwich_passes
from certcal.runs.attack_files import kept_attacks, read_family
from certcal.settings import AttackSettings, CertifySettings, DataSettings, EvaluateSettings, ModelSettings, RunSettings

SCRIPT = Path(sys.executable).with_name("certcal")
QUICK = ("--draws", 100, "--attack-draws", 8, "--steps", 3, "--ace-steps", 5, "--limit", 20)
SMALL = {"draws": 100, "attack_draws": 8, "steps": 3, "ace_steps": 5, "limit": 20}


def certcal(*words, cwd, code=0):
    environment = os.environ | {"COLUMNS": "120", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([SCRIPT, *map(str, words)], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def typed(monkeypatch, capsys):
    """The command in this process, which is quicker: its standard output and error."""

    def type_in(*words, cwd, code=0):
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "path", sys.path[:])
        monkeypatch.setenv("COLUMNS", "120")
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(word) for word in words])
        out, error = capsys.readouterr()
        assert left.value.code == code, error
        return out, error

    return type_in


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a small run on digits: 40 inputs, five radii, of which the last certifies nobody."""
    folder = tmp_path_factory.mktemp("attacks")
    save_checkpoint(trained_on_digits(sigma=0.25), folder / "net.pt")
    settings = RunSettings(
        model=ModelSettings(name="small-cnn", weights=str(folder / "net.pt")),
        data=DataSettings(name="digits", split="test", limit=40),
        certify=CertifySettings(sigma=0.25, n=1000, device="cpu"),
        evaluate=EvaluateSettings(radii=(0.0, 0.1, 0.2, 9.0), alpha=0.01),
    )
    run = RunFolder(folder / "runs" / "mine")
    certify_run(run, settings, progress=False)
    evaluate_run(run, settings.evaluate, figures=False)
    return folder


@pytest.fixture
def desk(made, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def run(desk):
    return RunFolder(desk / "runs" / "mine")


def test_the_page_shows_what_the_attack_harmed_most(run):
    settings = AttackSettings(family="smoothed", radii=(0.2,), **SMALL)
    attack_run(run, settings, figures=False, progress=False)
    evidence, page = load_evidence(run.evidence), run.path / "report.html"
    name, moved = kept_attacks(run, evidence).sandwich.moved_at(0.2)
    change = moved.as_array((1, 8, 8))
    assert 0.1 < np.linalg.norm(change) < 0.21  # within R, but for the rounding of a picture
    place = evidence.index.tolist().index(moved.index)
    assert abs(moved.before - evidence.confidence[place]) < 0.1  # both are estimates
    assert moved.after < moved.before
    text = page.read_text()
    seen = f"confidence {moved.before:.0%} to {moved.after:.0%}"
    assert f"moved within R = 0.2 by the attack “{name}”: {seen}" in text
    assert "random direction" not in text
    assert moved.change not in (run.path / "metrics.json").read_text()
    evaluate_run(run, EvaluateSettings(radii=(0.1,), alpha=0.01), figures=False)  # where nothing was attacked
    assert "moved by R = 0.1 in a random direction" in page.read_text()
    evaluate_run(run, EvaluateSettings(radii=(0.2,), alpha=0.01, images=False), figures=False)
    assert "What R and σ look like" not in page.read_text()


@pytest.mark.slow
def test_both_families_from_a_shell(desk, run):
    out, error = certcal("attack", "mine", *QUICK, "--epsilon", "3/255,0.05", "--galil", cwd=desk)
    for text in ("skipping R = 0: there is nothing to attack", "skipping R = 9: no input is certified there"):
        assert text in error
    assert error.count("forward passes, about") == 2
    assert "attacked ECE" in out
    assert "AdaECE, ε = 3/255" in out
    assert "Nothing that was seen under attack contradicts the certificates." in " ".join(out.split())
    wanted = {f"{name}.{ending}" for name in ("sandwich", "ace") for ending in ("json", "csv", "md", "tex")}
    assert {path.name for path in (run.path / "attack").iterdir()} == wanted
    drawn = {path.name for path in (run.path / "figures").iterdir()}
    own = ("sandwich", "attack_reliability", "ace_reliability")
    assert drawn >= {f"{name}.{kind}" for name in own for kind in ("png", "svg")}
    assert 'id="attacks"' in (run.path / "report.html").read_text()
    metrics = json.loads((run.path / "metrics.json").read_text())
    assert metrics["attack"]["sandwich"]["holds"] is True
    assert [row["radius"] for row in metrics["attack"]["sandwich"]["rows"]] == [0.1, 0.1, 0.2, 0.2]
    assert [row["omega"] for row in metrics["attack"]["ace"]["rows"]] == ["", *["y"] * 4, *["yhat"] * 4, *["galil"] * 2]
    assert metrics["attack"]["ace"]["provenance"]["device"] == "cpu"

    before = {path: path.read_bytes() for path in (run.path / "attack").iterdir()}
    out, error = certcal("attack", "mine", *QUICK, "--epsilon", "3/255,0.05", "--galil", "--json", cwd=desk)
    assert error.count("made with the same settings") == 2
    assert "passes" not in error
    assert json.loads(out) == metrics["attack"]
    assert {path: path.read_bytes() for path in (run.path / "attack").iterdir()} == before


def test_rows_are_what_the_library_gives(run):
    found = attack_run(
        run, AttackSettings(adversaries=("brier",), epsilons=(0.05,), **SMALL), figures=False
    ).attacks.metrics()
    evidence = load_evidence(run.evidence).select(np.linspace(0, 39, 20).round().astype(int))
    model, data = trained_on_digits(sigma=0.25), load_dataset("digits", split="test", limit=40)
    shared = {"draws": 100, "attack_draws": 8, "steps": 3}
    wanted = attack_certificates(model, data, evidence, radii=[0.1, 0.2], alpha=0.01, adversaries="brier", **shared)
    assert found["sandwich"]["rows"] == wanted.as_dicts()
    table = run_ace_attacks(model, inputs_of(model, data, evidence), evidence.label, epsilon=0.05, steps=5)
    assert found["ace"]["rows"] == table.as_dicts()
    kept = kept_attacks(run, load_evidence(run.evidence))
    assert [own.error for own in kept.sandwich.after] == pytest.approx([row.attacked_ece for row in wanted])
    assert [own.error for own in kept.ace.curves] == pytest.approx([row.ece for row in table])
    assert (found["sandwich"]["inputs"], found["sandwich"]["of"]) == (20, 40)
    lines = (run.path / "attack" / "ace.md").read_text().splitlines()
    assert lines[0] == "| η | ω | AdaECE, ε = 0.05 | ECE, ε = 0.05 | accuracy |"
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["unattacked", "−1", "+1", "−1", "+1"]
    assert (run.path / "attack" / "ace.tex").read_text().count(r"$\hat{y}$") == 2
    csv = (run.path / "attack" / "sandwich.csv").read_text().splitlines()
    assert float(csv[1].split(",")[csv[0].split(",").index("attacked_ece")]) == wanted.rows[0].attacked_ece


@pytest.mark.slow
def test_one_family_leaves_the_other_alone(run):
    first = attack_run(run, AttackSettings(family="ace", **SMALL), figures=False).attacks.metrics()
    assert set(first) == {"ace"}
    both = attack_run(run, AttackSettings(family="smoothed", radii=(0.1,), **SMALL), figures=False).attacks.metrics()
    assert set(both) == {"sandwich", "ace"}
    assert both["ace"] == first["ace"]
    again = attack_run(run, AttackSettings(family="ace", stronger=True, **SMALL), figures=False).attacks.metrics()
    assert again["ace"]["rows"] != first["ace"]["rows"]
    assert all(row["label_changes"] == 0 for row in again["ace"]["rows"])


@pytest.mark.slow
def test_attacks_on_other_evidence_are_left_out_and_named(desk, run, typed):
    attack_run(run, AttackSettings(family="ace", **SMALL), figures=False)
    typed("evaluate", "mine", "--radii", "0,0.1", "--no-figures", cwd=desk)
    assert json.loads((run.path / "metrics.json").read_text())["attack"] is not None  # the same evidence
    _, error = typed("certify", "mine", "--n", 1250, "--no-figures", cwd=desk)
    assert "attack: ace left out, as the evidence has changed since" in error
    assert '<p id="left-out">Ace left out, as the evidence' in (run.path / "report.html").read_text()
    assert 'id="ace"' not in (run.path / "report.html").read_text()
    assert json.loads((run.path / "metrics.json").read_text())["attack"] is None
    _, error = typed("report", "mine", "--no-figures", cwd=desk)
    assert "attack: ace left out" in error
    _, error = typed("attack", "mine", "--family", "ace", *QUICK, "--no-figures", cwd=desk)
    assert "made with the same settings" not in error
    assert 'id="attacks"' in (run.path / "report.html").read_text()


@pytest.mark.slow
def test_an_evaluation_draws_the_attacks_figures_again(run):
    attack_run(run, AttackSettings(family="ace", **SMALL), figures=False)
    assert not (run.path / "figures").exists()
    evaluate_run(run, run.settings().evaluate)
    assert (run.path / "figures" / "ace_reliability.svg").is_file()
    assert (run.path / "figures" / "widths.svg").is_file()


@pytest.mark.slow
def test_what_stops_midway_leaves_what_was_there(run, monkeypatch):
    attack_run(run, AttackSettings(radii=(0.1,), **SMALL), figures=False)
    before = {path.name: path.read_bytes() for path in (run.path / "attack").iterdir()}

    def stop(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("certcal.attacks.run_ace_attacks", stop)
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

    rows = room._Judge.row

    def only(radius):
        """Attacks at this radius, and Ctrl-C at any other."""

        def row(own, bounds, *more):
            if bounds.radius != radius:
                raise KeyboardInterrupt
            return rows(own, bounds, *more)

        monkeypatch.setattr(room._Judge, "row", row)

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


def test_by_default_a_few_radii_are_attacked():
    from certcal.runs.attack import _few

    told: list[str] = []
    counts = {0.1 * n: 40 - 4 * n for n in range(1, 9)}
    assert list(_few(counts, None, 40, told.append)) == [0.1, 0.1 * 3, 0.5]
    assert "attacking at 3 of 8 radii, 0.1, 0.3, 0.5" in told[0]
    assert AttackSettings().limit == 50


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
def test_bad_input_exits_with_2_and_one_line(made, typed, case):
    words, message = BAD[case]
    out, error = typed("attack", "mine", *words, cwd=made, code=2)
    assert message in error
    assert out == ""
    assert len(error.strip().splitlines()) == 1
    assert not (made / "runs" / "mine" / "attack").exists()


@pytest.mark.slow
def test_a_run_without_evidence_or_with_other_weights_or_data(desk, run, typed):
    _, error = typed("attack", "nowhere", cwd=desk, code=2)
    assert "Expected `RUN` to be a run folder, but got runs/nowhere" in error
    save_checkpoint(trained_on_digits(), Path(run.settings().model.weights))
    try:
        _, error = certcal("attack", "mine", cwd=desk, code=2)
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
    _, error = typed("attack", "mine", cwd=desk, code=2)
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
def test_damaged_rows_are_left_out_with_a_line_and_verdicts_are_worked_out_again(desk, run, typed):
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
    _, error = typed("evaluate", "mine", "--no-figures", cwd=desk)
    assert "attack: ace left out, as attack/ace.json is not as this version of certcal writes it" in error
    assert '<p id="left-out">Ace left out' in (run.path / "report.html").read_text()
    rows = [row | {"excess": 0.01, "holds": True} for row in whole["sandwich"]["rows"]]
    paths["sandwich"].write_text(json.dumps(whole["sandwich"] | {"rows": rows, "holds": True}))
    typed("evaluate", "mine", "--no-figures", cwd=desk)
    kept = json.loads((run.path / "metrics.json").read_text())["attack"]["sandwich"]
    assert kept["holds"] is False
    assert [row["holds"] for row in kept["rows"]] == [False, False]
    _, error = typed("attack", "mine", "--family", "ace", *QUICK, "--no-figures", cwd=desk)
    assert not kept_attacks(run, load_evidence(run.evidence)).broken


@pytest.mark.slow
def test_only_what_was_asked_for_is_shown_and_what_is_replaced_is_named(desk, run, typed):
    attack_run(run, AttackSettings(family="smoothed", radii=(0.1,), **SMALL), figures=False)
    out, error = typed("attack", "mine", "--family", "ace", *QUICK, "--stronger", "--no-figures", cwd=desk)
    assert "The smoothed model" not in out
    assert "replaces" not in error
    words = " ".join(out.split())
    assert "This is an attack stronger than the paper's, which turns back" in words
    assert "on 20 of 40 inputs." in words
    few = (*QUICK[:-1], 10)
    out, error = typed("attack", "mine", "--family", "smoothed", "--radii", 0.1, *few, "--no-figures", cwd=desk)
    assert "sandwich: replaces that of 20 inputs made with limit = 20" in error
    assert "1 radius, brier, reach, 10 inputs" in error
    assert "The network without noise" not in out
    assert "10 of the 40 inputs were attacked, and judged by 100 fresh draws each." in " ".join(out.split())


@pytest.mark.slow
def test_one_draw_contradicts_nothing_and_says_so(desk, typed):
    words = ["--family", "smoothed", "--radii", 0.2, "--draws", 1, "--attack-draws", 4, "--steps", 2]
    out, _ = typed("attack", "mine", *words, "--limit", 10, "--no-figures", cwd=desk)
    assert "With 1 fresh draw no single input could contradict its certificate." in " ".join(out.split())


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["attack", "certify", "recalibrate"])
def test_help_is_set_in_whole_lines(verb):
    out, _ = certcal(verb, "--help", cwd=None)
    lines = [line.strip() for line in out.splitlines()]
    prose = lines[: next(n for n, line in enumerate(lines) if line.startswith("╭"))]
    for line, after in itertools.pairwise(prose):  # a line that goes on in the next is full
        first = after.split(" ")[0]
        assert not line or not after or line.startswith("Usage") or len(line) + 1 + len(first) > 110, line


@pytest.mark.slow
def test_passes_are_foreseen(run, monkeypatch):
    """The bar's total is what attacks need at most: all of it where nothing stops early."""
    made, totals = [], []

    class Counter:
        def __init__(self, inputs, draws, **options):
            totals.append(inputs * draws)
            made.append(0)

        def drew(self, count):
            made[-1] += count

        __enter__ = lambda self: self  # noqa: E731
        __exit__ = lambda self, *_: None  # noqa: E731

    monkeypatch.setattr("certcal.runs.attack_cost.Progress", Counter)
    every = ("reach", "cce", "acce", "brier", "smoothadv")
    for adversary in every:
        settings = AttackSettings(family="smoothed", radii=(0.1, 0.2), adversaries=(adversary,), **SMALL)
        attack_run(run, settings, figures=False)
    for count, total in zip(made, totals, strict=True):
        assert 0.97 * total <= count <= total
    attack_run(run, AttackSettings(family="ace", galil=True, epsilons=(0.01, 0.02), **SMALL), figures=False)
    assert 0.2 * totals[-1] < made[-1] <= totals[-1]
    assert sandwich_passes([0], every, inputs=7, draws=10, attack_draws=3, steps=2) == 70 + 11
    assert ace_passes(10, budgets=1, steps=1, galil=False) == 10 * (5 + 20) + 6
    assert [in_words(seconds) for seconds in (0.1, 40, 150, 1500, 7000)] == [
        "1 s",
        "40 s",
        "2.5 min",
        "25 min",
        "1.9 h",
    ]


def test_full_precision_is_given_back():
    places = torch.backends.cudnn, torch.backends.cuda.matmul
    before = [place.allow_tf32 for place in places]
    with attack_room._full_float32():
        assert [place.allow_tf32 for place in places] == [False, False]
    assert [place.allow_tf32 for place in places] == before


def test_a_run_written_in_python_says_where_to_go(run, tmp_path):
    from certcal import evaluate
    from certcal.runs import write_results

    write_results(evaluate(load_evidence(run.evidence), radii=[0.1], alpha=0.01), tmp_path / "py", figures=False)
    with pytest.raises(InputError, match="which was written from Python"):
        attack_run(RunFolder(tmp_path / "py"), AttackSettings(**SMALL))

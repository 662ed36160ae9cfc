"""`certcal attack` and the attack folder: what is written is what was found, whole, and about this evidence."""

import itertools
import json

import numpy as np
import pytest
import torch

from attack_models import QUICK, SMALL, trained_on_digits
from certcal import InputError, load_evidence
from certcal.attacks import attack_certificates, inputs_of, run_ace_attacks
from certcal.data import load_dataset
from certcal.progress import in_words
from certcal.runs import RunFolder, attack_run, evaluate_run
from certcal.runs import attack as attack_room
from certcal.runs.attack_files import kept_attacks
from certcal.runs.attack_target import ace_passes, sandwich_passes
from certcal.settings import AttackSettings, EvaluateSettings
from command import certcal


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
    words = ["attack", "mine", *QUICK, "--epsilon", "3/255,0.05", "--galil"]
    out, error = certcal(*words, cwd=desk, COLUMNS="120")
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
    out, error = certcal(*words, "--json", cwd=desk, COLUMNS="120")
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
def test_attacks_on_other_evidence_are_left_out_and_named(desk, run):
    attack_run(run, AttackSettings(family="ace", **SMALL), figures=False)
    certcal("evaluate", "mine", "--radii", "0,0.1", "--no-figures", cwd=desk)
    assert json.loads((run.path / "metrics.json").read_text())["attack"] is not None  # the same evidence
    _, error = certcal("certify", "mine", "--n", 1250, "--no-figures", cwd=desk)
    assert "attack: ace left out, as the evidence has changed since" in error
    assert '<p id="left-out">Ace left out, as the evidence' in (run.path / "report.html").read_text()
    assert 'id="ace"' not in (run.path / "report.html").read_text()
    assert json.loads((run.path / "metrics.json").read_text())["attack"] is None
    _, error = certcal("report", "mine", "--no-figures", cwd=desk)
    assert "attack: ace left out" in error
    _, error = certcal("attack", "mine", "--family", "ace", *QUICK, "--no-figures", cwd=desk)
    assert "made with the same settings" not in error
    assert 'id="attacks"' in (run.path / "report.html").read_text()


@pytest.mark.slow
def test_an_evaluation_draws_the_attacks_figures_again(run):
    attack_run(run, AttackSettings(family="ace", **SMALL), figures=False)
    assert not (run.path / "figures").exists()
    evaluate_run(run, run.settings().evaluate)
    assert (run.path / "figures" / "ace_reliability.svg").is_file()
    assert (run.path / "figures" / "widths.svg").is_file()


def test_by_default_a_few_radii_are_attacked():
    from certcal.runs.attack import _few

    told: list[str] = []
    counts = {0.1 * n: 40 - 4 * n for n in range(1, 9)}
    assert list(_few(counts, None, 40, told.append)) == [0.1, 0.1 * 3, 0.5]
    assert "attacking at 3 of 8 radii, 0.1, 0.3, 0.5" in told[0]
    assert AttackSettings().limit == 50


@pytest.mark.slow
def test_only_what_was_asked_for_is_shown_and_what_is_replaced_is_named(desk, run):
    attack_run(run, AttackSettings(family="smoothed", radii=(0.1,), **SMALL), figures=False)
    out, error = certcal("attack", "mine", "--family", "ace", *QUICK, "--stronger", "--no-figures", cwd=desk)
    assert "The smoothed model" not in out
    assert "replaces" not in error
    words = " ".join(out.split())
    assert "This is an attack stronger than the paper's, which turns back" in words
    assert "on 20 of 40 inputs." in words
    few = (*QUICK[:-1], 10)
    out, error = certcal("attack", "mine", "--family", "smoothed", "--radii", 0.1, *few, "--no-figures", cwd=desk)
    assert "sandwich: replaces that of 20 inputs made with limit = 20" in error
    assert "1 radius, brier, reach, 10 inputs" in error
    assert "The network without noise" not in out
    assert "10 of the 40 inputs were attacked, and judged by 100 fresh draws each." in " ".join(out.split())


@pytest.mark.slow
def test_one_draw_contradicts_nothing_and_says_so(desk):
    words = ["--family", "smoothed", "--radii", 0.2, "--draws", 1, "--attack-draws", 4, "--steps", 2]
    out, _ = certcal("attack", "mine", *words, "--limit", 10, "--no-figures", cwd=desk)
    assert "With 1 fresh draw no single input could contradict its certificate." in " ".join(out.split())


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["attack", "certify", "recalibrate"])
def test_help_is_set_in_whole_lines(verb):
    out, _ = certcal(verb, "--help", cwd=None, COLUMNS="120")
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

    monkeypatch.setattr("certcal.runs.attack_target.Progress", Counter)
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

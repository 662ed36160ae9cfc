"""Every table and figure of the paper is drawn from stored results."""

import json
import shutil
from dataclasses import asdict

import numpy as np
import pytest

from certcal.errors import InputError
from certcal.evaluation import Outcome
from certcal.files import plain
from certcal.runs import RunFolder
from certcal.smoothing import load_evidence, save_evidence
from certcal.studies import EXHIBITS, curves, draw_exhibit
from command import certcal
from places import ROOT

EVIDENCE = sorted((ROOT / "reference" / "evidence").glob("digits-*.parquet"))


def outcomes():
    rng = np.random.default_rng(0)
    for base in ("s0.25-e0.50-m4-T2", "s0.50-e1.00-m4-T10"):
        for radius in (0.05,):
            yield Outcome("AT", base, radius, 0.6, 0.3, 0.2, baseline=base)
            for method in ("Finetuned AT", "Brier-ACT", "ACCE-ACT"):
                for place in range(2):
                    own = 0.6 + 0.02 * rng.standard_normal(), 0.3 + 0.02 * rng.standard_normal()
                    yield Outcome(method, f"{base} {method} {place}", radius, *own, own[1] - 0.1, baseline=base)


@pytest.fixture
def stored(tmp_path):
    """A study's folder with results and evidence, and run folders."""
    study = tmp_path / "study"
    for place, path in enumerate(EVIDENCE):
        run = study / "tuned" / f"trial-{place}"
        run.mkdir(parents=True)
        shutil.copy(path, run / "evidence.parquet")
    (study / "results.json").write_text(json.dumps([plain(asdict(one)) for one in outcomes()]))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        save_evidence(load_evidence(EVIDENCE[0]).select(np.arange(80)), tmp_path / name / "evidence.parquet")
    return tmp_path


def sources(own, stored):
    if "reproduce" in own.source:
        return [stored / "study"]
    return (
        [] if not own.source else [stored / "one"] if own.source == "a run folder" else [stored / "one", stored / "two"]
    )


DRAWN = [name for name in EXHIBITS if "attack" not in name]


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_each_is_drawn_from_what_is_stored(name, stored, monkeypatch):
    for solver in (curves.ONE_ADMM, curves.GRID, curves.DECE):
        monkeypatch.setitem(solver, "steps", 5)  # thousands, in earnest
    own = EXHIBITS[name]
    out = RunFolder(stored / "out")
    draw_exhibit(name, sources(own, stored), out)
    if name.startswith("table"):
        assert (out.path / f"{name}.md").read_text().count("|") >= 20
    else:
        assert (out.path / "figures" / f"{name}.png").stat().st_size > 5000
        assert "<svg" in (out.path / "figures" / f"{name}.svg").read_text()


def test_every_table_and_figure_of_the_paper_has_a_name():
    """Labels of the paper's tables and figures, in its order."""
    places = [one.place for one in EXHIBITS.values()]
    assert len(places) == 28
    assert [place for place in places if place.startswith("Fig.")] == [f"Fig. {number}" for number in (1, 2, 3, 4)]
    assert {"Table 1", "Table 2", "App. C", "App. K", *(f"App. J.{part}" for part in (1, 2, 3, 4))} <= set(places)
    out, _ = certcal("reproduce", "--list", cwd=ROOT)
    assert "figure-trade-off" in out


def test_the_command_draws_one(stored):
    out, _ = certcal("reproduce", "figure-widths", "--from", stored / "one", "--into", stored / "own", cwd=stored)
    assert "own" in out
    assert (stored / "own" / "figures" / "figure-widths.svg").is_file()
    for words, message in (
        (["figure-widths"], "`from` to name run folders"),
        (["figure-pathological", "--from", "x"], "drawn from nothing"),
        (["table-svhn", "--from", stored / "one"], "folder of `certcal reproduce`"),
        (["digits", "--from", "x"], "left out for a study"),
    ):
        _, error = certcal("reproduce", *words, "--into", stored / "other", cwd=stored, code=2)
        assert message in error


def test_correlations_are_of_all_models_at_each_radius(stored):
    found = curves.trade_off_values([stored / "study"])
    assert 0.25 in found
    assert all(len(values[key]) == 3 for values in found.values() for key in values)
    pack = {json.loads(line.rstrip(","))["entry"]: json.loads(line.rstrip(",")) for line in
            (ROOT / "reference" / "rows.json").read_text().splitlines()[1:-1]
            if '"paper"' in line and '"radius": 0.25' in line and '"digits' in line}  # fmt: skip
    assert sorted(found[0.25]["CA"]) == pytest.approx(sorted(one["certified_accuracy"] for one in pack.values()))
    with pytest.raises(InputError, match="at least three models"):
        curves.trade_off_values([stored / "one"])


@pytest.mark.slow
def test_attacks_are_drawn(desk):
    words = ["--model", "training_samples:plain", "--data", "data.npz", "--sigma", 0.25, "--n", 250, "--radii", "0,0.1"]
    certcal("certify", "mine", *words, "--device", "cpu", "--trust", cwd=desk)
    _, error = certcal("reproduce", "table-attacks", "--from", "mine", cwd=desk, code=2)
    assert "certcal attack --family ace" in error
    certcal("attack", "mine", "--family", "ace", "--ace-steps", 2, "--limit", 10, "--trust", cwd=desk)
    certcal("reproduce", "table-attacks", "--from", "mine", cwd=desk)
    assert "ŷ" in (desk / "runs" / "table-attacks" / "table-attacks.md").read_text()
    certcal("reproduce", "figure-attack-reliability", "--from", "mine", cwd=desk)
    assert (desk / "runs" / "figure-attack-reliability" / "figures" / "figure-attack-reliability.png").is_file()

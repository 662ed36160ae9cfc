"""Run folders: what is written is what was computed, the same every time, and never half."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from certcal import (
    InputError,
    evaluate,
    load_evidence,
    save_evidence,
)
from certcal.certificates import intervals_from_log, read_certification_log
from certcal.recalibration import load_map
from certcal.runs import (
    RunFolder,
    demo_run,
    evaluate_run,
    load_data,
    load_model,
    recalibrate_run,
    rewrite_report,
    write_results,
)
from certcal.runs.train import train_run
from certcal.settings import (
    DataSettings,
    EvaluateSettings,
    ModelSettings,
    RecalibrateSettings,
    TrainRecipe,
)
from certcal.training import ObjectiveSettings, TrainSettings
from run_settings import SETTINGS
from smoothing_oracles import random_evidence

ASKED = EvaluateSettings(radii=(0.0, 0.1, 5.0), alpha=0.01)


@pytest.fixture
def run(tmp_path, rng):
    run = RunFolder(tmp_path / "run")
    run.create()
    save_evidence(random_evidence(rng, inputs=50, draws=1000), run.evidence)
    run.save_settings(SETTINGS)
    return run


def contents(run):
    return {
        str(path.relative_to(run.path)): path.read_bytes()
        for path in sorted(run.path.rglob("*"))
        if path.is_file() and path.name != "log.txt"
    }


def test_files_hold_the_report(run):
    report = evaluate_run(run, ASKED, figures=False).report
    metrics = json.loads((run.path / "metrics.json").read_text())
    assert metrics["rows"][1]["certified_ece"] == report.rows[1].certified_ece
    assert metrics["rows"][2]["certified_ece"] is None
    assert metrics["failures_allowed"] == report.failures
    assert metrics["per_bin"][2] is None
    assert sum(metrics["per_bin"][1]["worst"]["count"]) == report.rows[1].inputs
    assert {"date", "seconds", "versions", "commit"} <= set(metrics["provenance"])
    table = pq.read_table(run.path / "certificates.parquet")
    assert table.num_rows == 3 * 50
    middle = table.slice(50, 50).to_pydict()
    assert np.array_equal(middle["lower"], report.bounds[1].lower)
    assert middle["certified"] == report.bounds[1].certified.tolist()
    log = read_certification_log(run.path / "certificates.tsv")
    radius = report.bounds[0].certified_radius
    assert np.array_equal(np.isnan(log.radius), np.isnan(radius))
    assert (log.radius <= radius)[~np.isnan(radius)].all()
    assert run.settings().evaluate == ASKED
    assert "evaluate: 3 radii, 50 inputs" in (run.path / "log.txt").read_text()


def test_a_log_of_radii_with_a_bounded_runner_up_is_no_log_of_vote_shares(run):
    evaluate_run(run, replace(ASKED, runner_up="bounded"), figures=False)
    log = {"sigma": 0.25, "radius": 0.1, "alpha": 0.01, "rounded": False}
    with pytest.raises(InputError, match="but got radii with a bounded runner-up, which are larger"):
        intervals_from_log(run.path / "certificates.tsv", **log)
    evaluate_run(run, ASKED, figures=False)
    assert len(intervals_from_log(run.path / "certificates.tsv", **log)) == 50


def test_draws_that_were_not_planned_are_told_and_certified_at_any_time(run):
    """Also of runs of an earlier version, whose evidence has no plan: its folder knows whether there were reports."""
    evidence = load_evidence(run.evidence)
    before = evaluate_run(run, ASKED, figures=False).report
    save_evidence(replace(evidence, header=replace(evidence.header, stages=(400,))), run.evidence)
    after = evaluate_run(run, ASKED, figures=False).report
    metrics = json.loads((run.path / "metrics.json").read_text())
    assert (metrics["looks"], metrics["stages"], metrics["inputs_at_other_looks"]) == (1, [400], 50)
    told = "1 planned, after 400 draws; 50 of 50 inputs have another number, and wider limits that hold at every one"
    page = (run.path / "report.html").read_text()
    assert told in page
    assert "What is assumed, and what is not" in page
    row, old = after.rows[1], before.rows[1]
    assert row.mean_width > old.mean_width
    assert row.population_ece > old.population_ece
    save_evidence(replace(evidence, header=replace(evidence.header, schema=1)), run.evidence)
    settings = run.settings()
    run.save_settings(replace(settings, certify=replace(settings.certify, n=1000)))
    again = evaluate_run(run, ASKED, figures=False).report.rows[1]
    assert again.as_dict() == pytest.approx(old.as_dict(), rel=0, abs=0, nan_ok=True)
    run.write_json("provenance.json", {"added": {"draws": [50 * 400, 50 * 500]}})
    again = evaluate_run(run, ASKED, figures=False).report.rows[1]
    assert again.as_dict() == pytest.approx(row.as_dict(), rel=0, abs=0, nan_ok=True)
    page = (run.path / "report.html").read_text()
    assert f"{50 * 100:,} after one of {50 * 400:,}; {50 * 500:,} after one of {50 * 500:,}" in page
    assert "none known to be planned; 50 of 50 inputs have another number" in page


@pytest.mark.slow
def test_the_same_evidence_gives_the_same_files(run):
    evaluate_run(run, ASKED)
    first = contents(run)
    assert rewrite_report(run).page == run.path / "report.html"
    evaluate_run(run, ASKED)
    second = contents(run)
    assert first.keys() == second.keys()
    same = {name for name in first if first[name] == second[name]}
    assert set(first) - same <= {"metrics.json", "report.html", "manifest.json"}  # which tell the time, or of those
    old, new = (json.loads(files["metrics.json"]) for files in (first, second))
    assert {key: old[key] for key in old if key != "provenance"} == {
        key: new[key] for key in new if key != "provenance"
    }


@pytest.mark.slow
def test_an_evaluation_made_in_python_leaves_the_same_folder(run, tmp_path, rng):
    evaluate_run(run, ASKED)
    report = evaluate(random_evidence(np.random.default_rng(0), inputs=50, draws=1000), radii=[0.1], alpha=0.01)
    page = write_results(report, tmp_path / "python", figures=False)
    assert page == tmp_path / "python" / "report.html"
    wanted = {"config.toml", "evidence.parquet", "certificates.parquet", "metrics.json", "report.html"}
    assert wanted <= {path.name for path in (tmp_path / "python").iterdir()}
    again = RunFolder.existing(tmp_path / "python")
    (row,) = evaluate_run(again, again.settings().evaluate, figures=False).report.rows
    assert row.as_dict() == pytest.approx(report[0].as_dict(), rel=0, abs=0, nan_ok=True)
    other = evaluate(random_evidence(np.random.default_rng(1), inputs=20, draws=500), radii=[0.1], alpha=0.01)
    write_results(other, tmp_path / "python", figures=False)  # replaces the evidence with the rest
    assert len(load_evidence(again.evidence)) == 20


def test_other_evidence_than_recorded_is_refused(run):
    run.write_json("provenance.json", {"evidence": {"sha256": run.evidence_digest()}})
    evaluate_run(run, ASKED, figures=False)
    before = (run.path / "metrics.json").read_bytes()
    save_evidence(random_evidence(np.random.default_rng(9), inputs=50, draws=1000), run.evidence)
    with pytest.raises(InputError, match=r"hold the evidence.parquet that its provenance.json was written with"):
        evaluate_run(run, ASKED)
    assert (run.path / "metrics.json").read_bytes() == before


@pytest.mark.parametrize("text", ["[]", "{", '{"model": 3}'])
def test_a_damaged_record_is_named(run, text):
    (run.path / "provenance.json").write_text(text)
    with pytest.raises(InputError, match=r"Expected `run` to hold a .*provenance.json"):
        evaluate_run(run, ASKED)


def test_a_bare_name_lies_below_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert RunFolder.named("mine").path.parts == ("runs", "mine")
    assert RunFolder.named("a/b").path.parts == ("a", "b")
    (tmp_path / "here").mkdir()
    assert RunFolder.named("here").path.parts == ("runs", "here")  # somebody's folder, but no run
    (tmp_path / "here" / "config.toml").touch()
    assert RunFolder.named("here").path.parts == ("here",)
    with pytest.raises(InputError, match="Expected `run` to be a path in a home folder that exists"):
        RunFolder.named("~nobody-of-that-name/x")


def test_a_folder_in_a_run_is_found_below_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/mine/part").mkdir(parents=True)
    (tmp_path / "runs/mine/part/evidence.parquet").touch()
    assert RunFolder.existing("mine/part").path.parts == ("runs", "mine", "part")
    with pytest.raises(InputError, match="but got mine/other, which does not exist"):
        RunFolder.existing("mine/other")
    (tmp_path / "mine/part").mkdir(parents=True)
    (tmp_path / "mine/part/evidence.parquet").touch()
    assert RunFolder.existing("mine/part").path.parts == ("mine", "part")  # what is here comes first


def test_folders_that_are_no_runs_are_named(tmp_path):
    run = RunFolder(tmp_path / "x")
    with pytest.raises(InputError, match=r"be a run folder, but got .*which does not exist"):
        RunFolder.existing(run.path)
    run.create()
    run.save_settings(SETTINGS)
    with pytest.raises(InputError, match=r"hold evidence.parquet \(make it with `certcal certify`\)"):
        RunFolder.existing(run.path)
    run.shards.mkdir()
    with pytest.raises(InputError, match="make it with `certcal certify`"):
        RunFolder.existing(run.path)


def test_nothing_to_learn_is_said_and_nothing_written(run):
    with pytest.raises(
        InputError, match=r"No map can be learned: .* At R = 0, 0 of \d+ certified inputs to fit on are wrong"
    ):
        recalibrate_run(run, RecalibrateSettings(repeats=1))
    assert not (run.path / "recalibration").exists()


def test_where_nothing_can_be_learned_the_identity_may_be_asked_for(run):
    result = recalibrate_run(run, RecalibrateSettings(repeats=1, on_failure="identity"), figures=False)
    assert result.map.kind == "identity"
    assert load_map(run.path / "recalibration" / "map.json").kind == "identity"
    before, after = result.held_out.mean(result.radius)
    assert (before.levels, before.brier_all) == (after.levels, after.brier_all)
    with pytest.raises(InputError, match="Expected `on_failure` to be one of"):
        RecalibrateSettings(on_failure="hope")


@pytest.mark.slow
def test_the_demo_is_the_same_whatever_the_number_of_threads(tmp_path):
    told, results = [], []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        run = RunFolder(tmp_path / str(threads))
        report = demo_run(run, inputs=12, draws=250, epochs=1, tell=told.append).report
        results.append((load_evidence(run.evidence).votes.tolist(), report.as_dicts()))
    assert str(results[0]) == str(results[1])
    assert len(told) == 8


@pytest.mark.slow
def test_figures_of_another_evaluation_do_not_stay(run):
    evaluate_run(run, ASKED)
    evaluate_run(run, replace(ASKED, radii=(0.05,)), figures=False)
    assert not (run.path / "figures").exists()


def test_a_temperature_belongs_to_the_model_that_is_certified(tmp_path):
    data = load_data(DataSettings(name="digits", split="test", limit=3))
    torch.manual_seed(0)
    plain = load_model(ModelSettings(name="small-cnn"), data)
    torch.manual_seed(0)
    sharp = load_model(ModelSettings(name="small-cnn", temperature=0.25), data)
    assert torch.equal(sharp(data.inputs), plain(data.inputs) / 0.25)
    recipe = TrainRecipe(
        model=ModelSettings(name="small-cnn", temperature=0.25),
        data=DataSettings(name="digits"),
        objective=ObjectiveSettings(name="noise"),
        train=TrainSettings(sigma=0.25, epochs=1),
    )
    with pytest.raises(InputError, match="Expected `temperature` to be left for `certcal certify`"):
        train_run(RunFolder(tmp_path / "run"), recipe, progress=False)

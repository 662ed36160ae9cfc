"""Run folders: what is written is what was computed, the same every time, and never half."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from certcal import (
    InputError,
    certified_calibration_error,
    confidence_bounds,
    evaluate,
    load_evidence,
    save_evidence,
)
from certcal.certificates import confidence_bounds_at, read_certification_log
from certcal.metrics import sharpness
from certcal.recalibration import load_map, recalibrate_bounds, split_inputs
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
from certcal.runs.recipes import TrainRecipe
from certcal.runs.train import train_run
from certcal.settings import (
    CertifySettings,
    DataSettings,
    EvaluateSettings,
    ModelSettings,
    RecalibrateSettings,
    RunSettings,
)
from certcal.training import ObjectiveSettings, TrainSettings
from smoothing_oracles import random_evidence

SETTINGS = RunSettings(
    model=ModelSettings(name="lenet"), data=DataSettings(name="mnist"), certify=CertifySettings(sigma=0.25)
)
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


@pytest.fixture
def imperfect(tmp_path):
    """A run with right and wrong predictions among the certified ones."""
    rng = np.random.default_rng(0)
    evidence = random_evidence(rng, inputs=300, draws=3000)
    right = rng.random(300) < evidence.confidence
    run = RunFolder(tmp_path / "imperfect")
    run.create()
    save_evidence(replace(evidence, label=np.where(right, evidence.selected, 1 - evidence.selected)), run.evidence)
    run.save_settings(replace(SETTINGS, evaluate=EvaluateSettings(radii=(0.0, 0.1, 0.2, 5.0), alpha=0.01)))
    return run


def test_a_run_is_recalibrated_on_inputs_the_map_was_not_fitted_on(imperfect):
    asked = RecalibrateSettings(repeats=5, clean_weight=0.3)
    result = recalibrate_run(imperfect, asked, figures=False)
    assert result.radius == 0.2  # nobody is certified at 5
    fit, test = result.held_out.fit[0], result.held_out.test[0]
    assert not set(fit) & set(test)
    everyone = load_evidence(imperfect.evidence)
    kept = load_evidence(imperfect.path / "recalibration" / "evidence.parquet")
    assert np.array_equal(np.sort(everyone.index[test]), np.sort(kept.index))
    bounds = confidence_bounds(everyone, radius=0.2, alpha=0.01)
    again = recalibrate_bounds(bounds.select(fit), clean_weight=0.3)
    stored = load_map(imperfect.path / "recalibration" / "map.json")
    grid = np.linspace(0, 1, 50)
    assert np.array_equal(stored.transform(grid), again.transform(grid))

    row = result.report.rows[2]
    part = stored.intervals(bounds.select(test))
    own = part.lower[part.certified], part.upper[part.certified], part.correct[part.certified]
    assert row.certified_ece == certified_calibration_error(*own).value
    old = bounds.select(test)
    before = old.lower[old.certified], old.upper[old.certified], old.correct[old.certified]
    assert row.as_dict()["before_certified_ece"] == certified_calibration_error(*before).value
    assert row.certified_ece < row.as_dict()["before_certified_ece"] / 2
    assert (part.predicted == old.predicted).all()

    for own, prefix in ((old, "before_"), (part, "")):
        sharp = sharpness(own.confidence, own.correct)
        for name in ("auroc", "refinement", "levels"):
            assert row.as_dict()[prefix + name] == pytest.approx(getattr(sharp, name))

    told = json.loads((imperfect.path / "recalibration" / "held_out.json").read_text())
    assert told["splits"] == 5
    errors = [one.after.certified_ece for one in result.held_out.rows]
    assert told["radii"] == [0.2]
    assert told["scores"][0]["spread"]["certified_ece"] == pytest.approx(np.std(errors))
    assert told["scores"][0]["after"]["certified_ece"] == result.summary()[1].certified_ece
    assert told["trade_off"]["clean_weight"][0] == 0.0
    metrics = json.loads((imperfect.path / "recalibration" / "metrics.json").read_text())
    assert "recalibrated smoothed model" in metrics["guarantee"]
    assert "before_auroc" in metrics["rows"][0]
    assert "whatever the map was fitted on" in " ".join(metrics["caveats"])
    assert metrics["recalibration"]["kind"] == "isotonic"
    assert told["splits_without_map"] == 0


@pytest.mark.parametrize(
    "asked",
    [
        {},
        pytest.param({"inside": True}, marks=pytest.mark.slow),
        pytest.param({"automatic": True, "auroc_loss": 1.0, "brier_loss": 1.0}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_labels_held_out_have_no_part_in_map_choice_or_radius(imperfect, asked):
    """What is said of the population needs it: all of them are turned, and the same map comes out, at the same R."""
    made = []
    for _ in range(2):
        result = recalibrate_run(imperfect, RecalibrateSettings(repeats=1, **asked), figures=False)
        made.append((result.radii, json.loads((imperfect.path / "recalibration" / "map.json").read_text())))
        evidence = load_evidence(imperfect.evidence)
        label = evidence.label.copy()
        label[result.held_out.test[0]] = 1 - label[result.held_out.test[0]]
        save_evidence(replace(evidence, label=label), imperfect.evidence)
    assert made[0] == made[1]
    assert made[0][1]["kind"] != "identity"


def test_other_splits_replace_what_was_there(imperfect):
    first = recalibrate_run(imperfect, RecalibrateSettings(repeats=1), figures=False)
    second = recalibrate_run(imperfect, RecalibrateSettings(repeats=1, seed=1), figures=False)
    kept = load_evidence(imperfect.path / "recalibration" / "evidence.parquet")
    assert set(kept.index) == set(load_evidence(imperfect.evidence).index[second.held_out.test[0]])
    assert set(first.held_out.test[0]) != set(second.held_out.test[0])


def test_nothing_to_learn_is_said_and_nothing_written(run):
    with pytest.raises(InputError, match=r"No map can be learned: .* certified and wrong are 0 of \d+ at R = 0, "):
        recalibrate_run(run, RecalibrateSettings(repeats=1))
    assert not (run.path / "recalibration").exists()


def test_where_nothing_can_be_learned_the_identity_may_be_asked_for(run):
    result = recalibrate_run(run, RecalibrateSettings(repeats=1, on_failure="identity"), figures=False)
    assert result.map.kind == "identity"
    assert load_map(run.path / "recalibration" / "map.json").kind == "identity"
    before, after = result.summary()
    assert (before.levels, before.brier_all) == (after.levels, after.brier_all)
    with pytest.raises(InputError, match="Expected `on_failure` to be one of"):
        RecalibrateSettings(on_failure="hope")


def test_several_radii_are_fitted_together(imperfect):
    asked = RecalibrateSettings(repeats=2, radii=(0.1, 0.2), radius_weights=(3.0, 1.0), clean_weight=0.2)
    result = recalibrate_run(imperfect, asked, figures=False)
    assert result.radii == (0.1, 0.2)
    bounds = confidence_bounds_at(load_evidence(imperfect.evidence), radii=[0.1, 0.2], alpha=0.01)
    fit = [own.select(result.held_out.fit[0]) for own in bounds]
    assert result.map.parameters() == recalibrate_bounds(fit, weights=[3, 1], clean_weight=0.2).parameters()
    told = json.loads((imperfect.path / "recalibration" / "held_out.json").read_text())
    assert [scores["radius"] for scores in told["scores"]] == [0.1, 0.2]
    assert told["trade_off"]["radius"] == 0.2
    chosen = told["trade_off"]["clean_weight"].index(0.2)
    assert told["trade_off"]["certified_brier"][chosen] == told["scores"][1]["after"]["certified_brier"]
    assert load_map(imperfect.path / "recalibration" / "map.json").about["weights"] == [0.75, 0.25]
    with pytest.raises(InputError, match="Expected `radius_weights` to come with radii"):
        RecalibrateSettings(radius_weights=(1.0,))
    with pytest.raises(InputError, match=r"Expected `radii` to be different from each other, but got 0.1, 0.1"):
        RecalibrateSettings(radii=(0.1, 0.1))


def test_a_radius_without_weight_is_not_reported_on(imperfect):
    """Nobody is certified at 5: its scores, were they the trade-off's, would be empty."""
    result = recalibrate_run(
        imperfect, RecalibrateSettings(repeats=1, radii=(0.1, 5.0), radius_weights=(1, 0)), figures=False
    )
    assert result.radii == (0.1,)
    assert result.map.about["radii"] == [0.1]
    assert np.isfinite(result.compared.of("certified_brier")).all()


@pytest.mark.parametrize(
    "options", [{}, pytest.param({"automatic": True, "auroc_loss": 1.0, "brier_loss": 1.0}, marks=pytest.mark.slow)]
)
def test_inputs_held_out_choose_neither_map_nor_radius_nor_split(imperfect, options):
    """Right or wrong, with certificates or without: everything but their scores stays.

    At R = 0.2 a single wrong input is all there is to learn from if those held out are right; at 0.1 there are more.
    Other splits, which used to have a say, then teach nothing at 0.2 where it is held out.
    """
    repeats = 1 if options else 6
    asked = RecalibrateSettings(repeats=repeats, **options)
    evidence = load_evidence(imperfect.evidence)
    fit, test = split_inputs(300, repeats=repeats)[0]
    near, far = (own.certified for own in confidence_bounds_at(evidence, radii=[0.1, 0.2], alpha=0.01))
    wrong = np.append(np.intersect1d(np.flatnonzero(far), fit)[0], np.intersect1d(np.flatnonzero(near & ~far), fit))
    came = []
    for change in ("wrong", "right", "hopeless"):
        label, votes = evidence.selected.copy(), evidence.votes.copy()
        label[wrong] = 1 - label[wrong]
        label[test] = evidence.selected[test] if change == "right" else 1 - evidence.selected[test]
        if change == "hopeless":
            votes[test] = votes[test].sum(axis=1, keepdims=True) // 2
        save_evidence(replace(evidence, label=label, votes=votes), imperfect.evidence)
        result = recalibrate_run(imperfect, asked, figures=False)
        assert np.array_equal(result.report.evidence.index, evidence.index[test])
        came.append((result.map.parameters(), result.radii, result.held_out.kept))
    assert came[0][1] == ((0.1,) if options else (0.2,))  # where maps are compared, each half has to teach
    assert came[0] == came[1] == came[2]


def test_a_first_split_without_anything_to_learn_is_said(imperfect):
    """With two wrong inputs, halves often have none to learn from. Another split would look at those held out."""
    evidence = load_evidence(imperfect.evidence)
    wrong = np.flatnonzero(confidence_bounds(evidence, radius=0.1, alpha=0.01).certified)[:2]
    label = evidence.selected.copy()
    label[wrong] = 1 - label[wrong]
    save_evidence(replace(evidence, label=label), imperfect.evidence)
    came = []
    for seed in range(6):
        asked = RecalibrateSettings(repeats=2, radii=(0.1,), seed=seed)
        learnable = bool(set(wrong) & set(split_inputs(300, repeats=2, seed=seed)[0][0]))
        came.append(learnable)
        if learnable:
            assert recalibrate_run(imperfect, asked, figures=False).map.kind == "isotonic"
        else:
            with pytest.raises(InputError, match=r"of the 150 inputs to fit on, certified and wrong are 0 of \d+ at R"):
                recalibrate_run(imperfect, asked, figures=False)
    assert set(came) == {True, False}


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


def test_before_and_after_are_about_the_same_inputs(imperfect):
    asked = EvaluateSettings(radii=(0.0, 0.1), alpha=0.01, delta=0.02, population="all", n_bins=7)
    imperfect.save_settings(replace(SETTINGS, evaluate=asked))
    result = recalibrate_run(imperfect, RecalibrateSettings(repeats=2, radii=(0.05,)), figures=False)
    assert [row.radius for row in result.report] == [0.0, 0.05, 0.1]  # the map's own radius among them
    options = {"alpha": 0.01, "delta": 0.02, "population": "all", "n_bins": 7}
    alone = evaluate(result.report.evidence, radii=[0.0, 0.05, 0.1], **options)
    assert (result.report.delta, len(result.report.bins)) == (0.02, 7)
    for row, before in zip(result.report, alone, strict=True):
        for name in ("ece", "certified_ece", "joint_ece", "certified_brier"):
            assert row.as_dict()[f"before_{name}"] == getattr(before, name)


@pytest.mark.slow
def test_figures_of_another_evaluation_do_not_stay(run):
    evaluate_run(run, ASKED)
    evaluate_run(run, replace(ASKED, radii=(0.05,)), figures=False)
    assert not (run.path / "figures").exists()


def test_every_part_is_held_out_once_in_folds(imperfect):
    result = recalibrate_run(imperfect, RecalibrateSettings(repeats=1, folds=4), figures=False)
    assert len(result.held_out.maps) == 4
    assert sorted(np.concatenate(result.held_out.test).tolist()) == list(range(300))


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

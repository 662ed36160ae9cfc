"""Run folders that are recalibrated: nothing held out has a part in the map, and the report is about that alone."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from certcal import (
    InputError,
    certified_calibration_error,
    confidence_bounds,
    evaluate,
    load_evidence,
    save_evidence,
)
from certcal.certificates import confidence_bounds_at
from certcal.files import sealed
from certcal.metrics import sharpness
from certcal.recalibration import load_map, recalibrate_bounds, split_inputs
from certcal.report import lead
from certcal.runs import (
    RunFolder,
    recalibrate_run,
)
from certcal.settings import (
    EvaluateSettings,
    RecalibrateSettings,
)
from command import certcal
from run_settings import SETTINGS
from smoothing_oracles import random_evidence


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
    assert told["scores"][0]["after"]["certified_ece"] == result.held_out.mean(result.radius)[1].certified_ece
    assert told["trade_off"]["clean_weight"][0] == 0.0
    metrics = json.loads((imperfect.path / "recalibration" / "metrics.json").read_text())
    assert "recalibrated smoothed model" in metrics["guarantee"]
    assert "before_auroc" in metrics["rows"][0]
    assert "whatever the map was fitted on" in " ".join(metrics["caveats"])
    assert metrics["recalibration"]["kind"] == "isotonic"
    assert told["splits_without_map"] == 0
    assert told["scores_with_map"] == told["scores"]


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


@pytest.mark.slow
def test_other_splits_replace_what_was_there(imperfect):
    first = recalibrate_run(imperfect, RecalibrateSettings(repeats=1), figures=False)
    second = recalibrate_run(imperfect, RecalibrateSettings(repeats=1, seed=1), figures=False)
    kept = load_evidence(imperfect.path / "recalibration" / "evidence.parquet")
    assert set(kept.index) == set(load_evidence(imperfect.evidence).index[second.held_out.test[0]])
    assert set(first.held_out.test[0]) != set(second.held_out.test[0])


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, pytest.param({"automatic": True, "auroc_loss": 1.0, "brier_loss": 1.0}, marks=pytest.mark.slow)]
)
def test_inputs_held_out_choose_neither_map_nor_radius_nor_split(imperfect, options):
    """Right or wrong, with certificates or without: everything but their scores stays.

    At R = 0.2 a single wrong input is all there is to learn from if those held out are right, which is too little; at
    0.1 there are more. What other splits teach, which used to have a say, changes with those held out.
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
    assert came[0][1] == (0.1,)
    assert came[0] == came[1] == came[2]


@pytest.mark.slow
def test_a_first_split_without_anything_to_learn_is_said(imperfect):
    """With three wrong inputs, halves often have too few to learn from. Another split would look at those held out."""
    evidence = load_evidence(imperfect.evidence)
    wrong = np.flatnonzero(confidence_bounds(evidence, radius=0.1, alpha=0.01).certified)[:3]
    label = evidence.selected.copy()
    label[wrong] = 1 - label[wrong]
    save_evidence(replace(evidence, label=label), imperfect.evidence)
    came = []
    for seed in range(6):
        asked = RecalibrateSettings(repeats=2, radii=(0.1,), seed=seed)
        learnable = len(set(wrong) & set(split_inputs(300, repeats=2, seed=seed)[0][0])) >= 2
        came.append(learnable)
        if learnable:
            assert recalibrate_run(imperfect, asked, figures=False).map.kind == "isotonic"
        else:
            with pytest.raises(
                InputError, match=r"At R = 0.1, [01] of \d+ certified inputs to fit on (is|are) wrong, and 3 of \d+ in"
            ):
                recalibrate_run(imperfect, asked, figures=False)
    assert set(came) == {True, False}


def with_wrong(run, count, repeats):
    """The run with all predictions right but for so many that the map is fitted on, certified at 0.2."""
    evidence = load_evidence(run.evidence)
    far = np.flatnonzero(confidence_bounds(evidence, radius=0.2, alpha=0.01).certified)
    wrong = np.intersect1d(far, split_inputs(300, repeats=repeats)[0][0])[:count]
    label = evidence.selected.copy()
    label[wrong] = 1 - label[wrong]
    save_evidence(replace(evidence, label=label), run.evidence)


def test_a_map_that_hangs_on_one_input_is_not_kept(imperfect):
    """Half of all splits would have none: without that input there is nothing to learn."""
    with_wrong(imperfect, 1, repeats=4)
    with pytest.raises(
        InputError, match=r"two right and two wrong ones .* R = 0, 1 of \d+ certified inputs to fit on is"
    ):
        recalibrate_run(imperfect, RecalibrateSettings(repeats=4), figures=False)
    result = recalibrate_run(imperfect, RecalibrateSettings(repeats=4, on_failure="identity"), figures=False)
    assert result.map.kind == "identity"
    assert result.held_out.without_map == 4
    told = lead(result.held_out, result.radii)
    assert told.startswith("Nothing could be learned, so confidences stay as they are. A single prediction")
    assert load_map(imperfect.path / "recalibration" / "map.json").kind == "identity"
    with_wrong(imperfect, 2, repeats=4)
    assert recalibrate_run(imperfect, RecalibrateSettings(repeats=4), figures=False).map.kind == "isotonic"


def test_a_guess_is_called_so_in_the_headline_and_at_the_gate(imperfect):
    with_wrong(imperfect, 2, repeats=1)
    out, _ = certcal("recalibrate", imperfect.path, "--repeats", 1, "--no-figures", cwd=imperfect.path)
    guess = "The map was taught by only 2 wrong predictions among the certified inputs: take it for a guess."
    inner = imperfect.path / "recalibration"
    assert " ".join(out.split()).count(guess) == 1
    assert f" of 150 inputs). {guess}" in " ".join(out.split()).replace("\u00a0", " ")
    assert json.loads((inner / "metrics.json").read_text())["answer"].endswith(guess)
    heading = re.search(r'<h2 id="answer">(.*?)</h2>', (inner / "report.html").read_text(), re.S)
    assert heading[1].endswith(guess)
    for radius in (0.2, 0.1):
        words = ["check", inner, "--require", f"guaranteed_ece@{radius} <= 1", "--junit", "j.xml", "--markdown", "m.md"]
        out, error = certcal(*words, cwd=imperfect.path)
        assert ": met, it is " in out
        assert error.startswith(f"warning: {guess}")
        assert error.count("\n") == 1
        assert ("The map was fitted at R = 0.2 and is judged at R = 0.1," in error) == (radius == 0.1)
        assert guess in (imperfect.path / "j.xml").read_text()
        assert guess in (imperfect.path / "m.md").read_text()


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


def test_every_part_is_held_out_once_in_folds(imperfect):
    result = recalibrate_run(imperfect, RecalibrateSettings(repeats=1, folds=4), figures=False)
    assert len(result.held_out.maps) == 4
    assert sorted(np.concatenate(result.held_out.test).tolist()) == list(range(300))


@pytest.mark.parametrize("inputs", [300, 400])
def test_an_unfinished_run_is_told(imperfect, inputs):
    """Half of the inputs are held out, which makes no run unfinished."""
    (imperfect.path / "provenance.json").write_text(json.dumps(sealed({"data": {"inputs": inputs, "draws": 3000}})))
    _, error = certcal("recalibrate", imperfect.path, "--repeats", 1, "--no-figures", cwd=imperfect.path)
    page = " ".join((imperfect.path / "recalibration" / "report.html").read_text().split())
    far = "So far it is about 300 of 400 inputs."
    assert (f"not finished: {far}" in " ".join(error.split())) == (far in page) == (inputs == 400)


@pytest.mark.parametrize(("automatic", "maps"), [(True, 1), (False, 8)])
def test_it_says_what_it_does_and_how_far_it_is(imperfect, automatic, maps, capsys):
    """Choosing a map takes most of a minute: nobody should wonder whether it hangs."""
    told = []
    asked = RecalibrateSettings(repeats=1, automatic=automatic)
    recalibrate_run(imperfect, asked, figures=False, progress=True, tell=told.append)
    doing = "choosing among many ways to make a map" if automatic else "fitting maps"
    assert told == [f"{doing}, for 1 random split of 300 inputs"]
    assert capsys.readouterr().err == f"{maps} maps fitted\n"

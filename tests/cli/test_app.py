"""The command line as people use it: a process, its exit code, what it prints and what it leaves behind."""

import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from certcal import confidence_bounds, load_evidence, save_evidence
from certcal.recalibration import CANDIDATES
from certcal.runs import RunFolder, cost
from certcal.worstcase import alpha_for_set
from command import certcal
from smoothing_oracles import random_evidence


def test_help_names_every_verb_with_an_example(desk):
    out, _ = certcal("--help", cwd=desk)
    for verb in (
        "demo",
        "data",
        "train",
        "sweep",
        "plan",
        "certify",
        "evaluate",
        "recalibrate",
        "attack",
        "report",
        "compare",
        "check",
        "reproduce",
        "reference",
        "bench",
    ):
        assert verb in out
        page, _ = certcal(verb, "--help", cwd=desk)
        assert f"certcal {verb}" in page
        assert "Example" in page


def test_certify_goes_from_a_model_to_a_report_and_on(desk):
    words = ["certify", "mine", "--model", "nets:make", "--data", "data.npz", "--sigma", "0.25", "--radii", "0,0.1"]
    out, _ = certcal(*words, "--n", 500, cwd=desk)
    run = desk / "runs" / "mine"
    assert "guarantee" in out
    assert str(run.relative_to(desk) / "report.html") in out
    wanted = {"config.toml", "evidence.parquet", "certificates.parquet", "certificates.tsv", "metrics.json",
              "report.html", "log.txt", "provenance.json", "tables", "figures", "shards"}  # fmt: skip
    assert wanted <= {path.name for path in run.iterdir()}
    assert {path.suffix for path in (run / "figures").iterdir()} == {".png", ".svg"}
    tables = {f"{name}.{kind}" for name in ("radii", "further") for kind in ("csv", "md", "tex")}
    assert {path.name for path in (run / "tables").iterdir()} == tables | {"operating.csv"}
    metrics = json.loads((run / "metrics.json").read_text())
    assert [row["radius"] for row in metrics["rows"]] == [0.0, 0.1]
    assert metrics["sampling"]["data"]["inputs"] == 12
    assert metrics["sampling"]["certify"]["device"] == "cpu"
    assert metrics["seed"] == 0

    first = load_evidence(run / "evidence.parquet")
    out, _ = certcal("certify", "mine", "--n", 1000, "--json", "--no-figures", cwd=desk)  # remembers the rest
    assert json.loads(out)["draws"] == 12 * 1000
    more = load_evidence(run / "evidence.parquet")
    assert (more.votes >= first.votes).all()

    _, error = certcal("certify", "mine", "--model", "nets:other", cwd=desk, code=2)
    assert "to have model = model" in error
    assert "nets:make" in (run / "config.toml").read_text()
    assert np.array_equal(load_evidence(run / "evidence.parquet").votes, more.votes)


def test_evaluate_answers_from_evidence_alone(desk):
    out, _ = certcal("evaluate", "made", "--radii", "0,0.2", "--alpha", "0.01", "--json", "--no-figures", cwd=desk)
    metrics = json.loads(out)
    bounds = confidence_bounds(load_evidence(desk / "runs/made/evidence.parquet"), radius=0.2, alpha=0.01)
    assert metrics["rows"][1]["certified"] == bounds.certified.sum()
    assert metrics["alpha"] == 0.01
    assert "Population" not in metrics["guarantee"]
    again, _ = certcal("evaluate", "made", "--json", "--no-figures", cwd=desk)  # as it was last evaluated
    assert json.loads(again)["rows"] == metrics["rows"]


def test_a_config_file_and_the_papers_certificate(desk):
    (desk / "ask.toml").write_text("[evaluate]\nradii = [0.1]\npopulation = 'all'\n")
    out, _ = certcal("evaluate", "made", "--config", "ask.toml", "--paper", "--json", "--no-figures", cwd=desk)
    metrics = json.loads(out)
    assert (metrics["population"], metrics["method"], metrics["split_alpha"]) == ("all", "cdf", False)
    assert metrics["rows"][0]["inputs"] == 60


def test_a_temperature_is_part_of_the_model(desk):
    words = ["--model", "small-cnn", "--data", "digits", "--limit", 3, "--sigma", 0.25, "--n", 250]
    words += ["--radii", "0.1", "--no-figures"]
    certcal("certify", "sharp", *words, "--temperature", 0.25, cwd=desk)
    metrics = json.loads((desk / "runs/sharp/metrics.json").read_text())
    assert metrics["title"] == "digits test · small-cnn · temperature 0.25 · σ = 0.25"
    error = certcal("certify", "sharp", "--temperature", 0.5, cwd=desk, code=2)[1]
    assert "model" in error


def test_report_is_written_again(desk):
    page = desk / "runs/made/report.html"
    page.unlink(missing_ok=True)
    out, _ = certcal("report", "made", "--no-figures", cwd=desk)
    assert page.is_file()
    assert out.strip().endswith("report.html")


@pytest.fixture
def imperfect(desk):
    """The desk, with a run that has something to learn from."""
    rng = np.random.default_rng(3)
    evidence = random_evidence(rng, inputs=200, draws=2000)
    right = rng.random(200) < evidence.confidence
    run = RunFolder(desk / "runs" / "imperfect")
    run.create()
    save_evidence(replace(evidence, label=np.where(right, evidence.selected, 1 - evidence.selected)), run.evidence)
    run.save_settings(RunFolder(desk / "runs" / "made").settings())
    return desk


def test_recalibrate_reports_on_held_out_inputs(imperfect):
    out, _ = certcal("recalibrate", "imperfect", "--repeats", 3, "--no-figures", "--json", cwd=imperfect)
    told = json.loads(out)
    scores = told["scores"][0]
    assert scores["after"]["certified_brier"] < scores["before"]["certified_brier"]
    _, error = certcal("recalibrate", "imperfect", "--automatic", "--clean-weight", 0.2, cwd=imperfect, code=2)
    assert "Expected `--clean-weight` to be left out with --automatic, which chooses it, but got 0.2" in " ".join(
        error.split()
    )
    _, error = certcal("recalibrate", "imperfect", "--auroc-loss", 0.02, cwd=imperfect, code=2)
    assert "Expected `--auroc-loss` to come with --automatic, but got 0.02" in " ".join(error.split())


@pytest.mark.slow
def test_recalibrate_takes_several_radii_and_maps_of_every_kind(imperfect):
    wide = ("--radii", "0,0.1", "--radius-weights", "1,2", "--clean-weight", 0)
    out, _ = certcal("recalibrate", "imperfect", "--repeats", 3, "--no-figures", *wide, cwd=imperfect)
    assert "map for R = 0 and 0.1, mean ± deviation over 3 splits" in out
    assert "runs/imperfect/recalibration/map.json" in out
    assert "constant" not in out
    out, _ = certcal("recalibrate", "imperfect", "--inside", "--repeats", 2, "--no-figures", "--json", cwd=imperfect)
    kept = json.loads((imperfect / "runs/imperfect/recalibration/map.json").read_text())
    assert (
        kept["kind"]
        == json.loads(out)["map"]
        == {None: "score", 0.0: "isotonic"}.get(kept["about"]["before_isotonic"], "full")
    )
    out, _ = certcal(
        "recalibrate", "imperfect", "--inside", "--method", "isotonic", "--repeats", 2, "--no-figures", cwd=imperfect
    )
    assert "full map for R = " in out
    out, _ = certcal("recalibrate", "imperfect", "--method", "steps", "--repeats", 2, "--no-figures", cwd=imperfect)
    assert "steps map for R = " in out
    out, _ = certcal("recalibrate", "made", "--on-failure", "identity", "--no-figures", cwd=imperfect)
    assert "no map for R = " in out
    assert "Nothing could be learned, so confidences stay as they are." in " ".join(out.split())


def test_alpha_may_be_taken_for_the_set(desk):
    words = ["evaluate", "made", "--out", "set", "--json", "--no-figures"]
    out, _ = certcal(*words, "--alpha-for-set", cwd=desk)
    metrics, evidence = json.loads(out), load_evidence(desk / "runs/made")
    planned = max(evidence.header.stages, default=evidence.draws.max())
    assert metrics["alpha"] == alpha_for_set(len(evidence), draws=int(planned), delta=metrics["delta"])


@pytest.mark.slow
def test_several_temperatures_come_from_one_set_of_draws(desk):
    words = ["--model", "nets:make", "--data", "data.npz", "--sigma", 0.25, "--radii", "0,0.1", "--n", 500]
    certcal("certify", "warm", *words, "--temperatures", "1,0.5", "--no-figures", cwd=desk)
    certcal("certify", "cold", *words, "--temperature", 0.5, "--no-figures", cwd=desk)

    def rows(run):
        return json.loads((desk / "runs" / run / "metrics.json").read_text())["rows"]

    first = rows("warm")
    certcal("evaluate", "warm", "--at-temperature", 0.5, "--no-figures", cwd=desk)
    assert rows("warm") == rows("cold") != first
    assert load_evidence(desk / "runs/warm").header.temperatures == (1.0, 0.5)
    certcal("report", "warm", "--no-figures", cwd=desk)  # as it was last asked
    assert rows("warm") == rows("cold")
    _, error = certcal("evaluate", "warm", "--at-temperature", 2, cwd=desk, code=2)
    told = " ".join(error.split())
    assert "Expected `--at-temperature` to be one that scores were counted at, 1, 0.5 (others: --temperatures" in told
    page = (desk / "runs/warm/report.html").read_text()
    assert "nets:make · temperature 0.5 · σ = 0.25" in page
    assert "by up to 0.1, with logits divided by 0.5, the smoothed model" in " ".join(page.split())
    assert "the least of several guaranteed values is not guaranteed" in page
    certcal("evaluate", "cold", "--no-figures", cwd=desk)
    assert "the least of several guaranteed values" not in (desk / "runs/cold/report.html").read_text()
    certcal("certify", "both", *words, "--temperature", 0.5, "--temperatures", "0.5", "--no-figures", cwd=desk)
    assert "logits divided by 0.25" in (desk / "runs/both/report.html").read_text()  # by the model, and at the count
    certcal("attack", "warm", "--family", "smoothed", "--limit", 4, "--draws", 250, "--steps", 2, cwd=desk)


def test_recalibrate_finds_a_map_by_itself(desk):
    rng = np.random.default_rng(3)
    evidence = random_evidence(rng, inputs=160, draws=1000)
    right = rng.random(160) < evidence.confidence**4
    run = RunFolder(desk / "runs" / "choosing")
    run.create()
    save_evidence(replace(evidence, label=np.where(right, evidence.selected, 1 - evidence.selected)), run.evidence)
    run.save_settings(RunFolder(desk / "runs" / "made").settings())
    out, _ = certcal("recalibrate", "choosing", "--automatic", "--radii", 0.1, "--repeats", 1, "--no-figures", cwd=desk)
    assert f"Chosen among {len(CANDIDATES)} ways to make a map" in " ".join(out.split())
    told = json.loads((desk / "runs/choosing/recalibration/metrics.json").read_text())["rows"]
    most = next(row["joint_ece"] for row in told if row["radius"] == 0.1)
    assert f"at most {math.ceil(most * 1e4) / 100:.2f} % under attack" in " ".join(out.split())
    folder = desk / "runs/choosing/recalibration"
    told = json.loads((folder / "held_out.json").read_text())
    held, choice = told["scores"][0], told["choice"]  # of one split
    auroc, brier = (f"from {held['before'][key]:.4f} to {held['after'][key]:.4f}" for key in ("auroc", "brier_all"))
    assert f"on those held out of this choice AUROC goes {auroc} and the Brier score {brier}." in " ".join(out.split())
    allowed = [one for one in choice["tried"] if one["allowed"]]
    best = min([*allowed, {"name": "no map"} | choice["untouched"]], key=lambda one: one["certified_ece"])
    assert choice["chosen"] == best["name"] != "no map"
    for one in allowed:
        assert one["auroc"] >= choice["untouched"]["auroc"] - 0.01
        assert one["brier_all"] <= choice["untouched"]["brier_all"] + 0.01
    gate = f"guaranteed_ece@0.1 <= {most + 1e-6!r}", f"guaranteed_ece@0.1 <= {most - 1e-6!r}"
    certcal("check", folder, "--require", gate[0], cwd=desk)
    certcal("check", folder, "--require", gate[1], cwd=desk, code=1)
    _, error = certcal("evaluate", folder, cwd=desk, code=2)
    assert "Expected `RUN` to be a run itself: `certcal check` alone takes its recalibration" in " ".join(error.split())
    about = json.loads((folder / "map.json").read_text())["about"]
    assert about["candidates"] == len(CANDIDATES)
    assert "plot-choice-auroc" in (folder / "report.html").read_text()


def test_data_is_listed_and_described(desk):
    assert "fashion-mnist" in certcal("data", cwd=desk)[0]
    out, _ = certcal("data", "digits", "--json", cwd=desk)
    described = json.loads(out)
    assert described["shape"] == [1, 8, 8]
    assert sum(described["classes"].values()) == described["inputs"]
    assert "12 inputs of 1×4×4" in certcal("data", "data.npz", cwd=desk)[0]


@pytest.mark.parametrize(("mode", "colour"), [("L", 90), ("RGB", (9, 90, 200))])
def test_grey_pictures_are_told_to_be_so(tmp_path, mode, colour):
    for name in ("a", "b"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        Image.new(mode, (4, 4), colour).save(tmp_path / "pictures" / name / "0.png")
    told = "grey images, read with three channels: --channels 1 reads one"
    assert (told in certcal("data", "pictures", cwd=tmp_path)[0]) == (mode == "L")
    assert told not in certcal("data", "pictures", "--channels", 1, cwd=tmp_path)[0]


def test_bench_estimates_a_run(desk, monkeypatch):
    proper = cost._seconds
    monkeypatch.setattr(cost, "_seconds", lambda call, *, at_least=0.0: proper(call, at_least=0.0))
    monkeypatch.setattr(cost, "MOST", 4000)
    out, _ = certcal("bench", "--model", "nets:make", "--shape", "1,4,4", "--json", cwd=desk)
    found = json.loads(out)
    assert found["estimated_seconds"] == pytest.approx(1000 * 100_000 / found["draws_per_second"])


def test_help_and_evaluate_do_not_load_torch(desk):
    heavy = ("torch", "matplotlib", "sklearn", "pyarrow")
    code = (f"import sys; from certcal.cli.app import app; loaded = [m for m in {heavy} if m in sys.modules]; "
            "app(['evaluate', 'made', '--no-figures', '--json'], standalone_mode=False); "
            "print(loaded, 'torch' in sys.modules, file=sys.stderr)")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], cwd=desk, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[] False"


@pytest.mark.slow
def test_the_papers_certificate_is_left_again(desk):
    ask = ("evaluate", "made", "--json", "--no-figures")
    assert json.loads(certcal(*ask, "--paper", cwd=desk)[0])["split_alpha"] is False
    assert json.loads(certcal(*ask, cwd=desk)[0])["method"] == "cdf"
    back = json.loads(certcal(*ask, "--no-paper", cwd=desk)[0])
    assert (back["method"], back["split_alpha"]) == ("cdf-cp", True)
    certcal(*ask, "--paper", cwd=desk)
    assert json.loads(certcal(*ask, "--method", "standard", cwd=desk)[0])["split_alpha"] is True


def test_the_runner_up_can_be_bounded_by_its_own_votes(desk):
    ask = ("evaluate", "made", "--json", "--no-figures")
    bounded = json.loads(certcal(*ask, "--runner-up", "bounded", cwd=desk)[0])
    assert bounded["runner_up"] == "bounded"
    back = json.loads(certcal(*ask, "--runner-up", "complement", cwd=desk)[0])
    assert back["average_certified_radius"] != bounded["average_certified_radius"]


@pytest.mark.slow
def test_more_classes_than_the_data_has_names_for(desk):
    words = "certify wide --model nets:make --data data.npz --sigma 0.25 --classes 7 --no-checks --n 250 --no-figures"
    out, _ = certcal(*words.split(), cwd=desk)
    assert "wide/report.html" in out

"""Every table and figure of the paper is drawn from stored results."""

import json
import shutil
from dataclasses import asdict

import numpy as np
import pytest

from certcal.evaluation import Outcome
from certcal.files import plain
from certcal.runs import RunFolder
from certcal.smoothing import load_evidence, save_evidence
from certcal.studies import EXHIBITS, Pack, curves, draw_exhibit, exhibits, load_study, ranked
from certcal.studies.stored import Source
from command import certcal
from places import ROOT

REFERENCE = ROOT / "reference"
EVIDENCE = sorted((REFERENCE / "evidence").glob("digits-*.parquet"))


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
        save_evidence(load_evidence(path), run / "evidence.parquet")
    (study / "results.json").write_text(json.dumps([plain(asdict(one)) for one in outcomes()]))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        save_evidence(load_evidence(EVIDENCE[0]).select(np.arange(80)), tmp_path / name / "evidence.parquet")
    return tmp_path


def sources(own, stored):
    if "reproduce" in own.source:
        return [stored / "study"]
    if not own.source:
        return []
    return [stored / "one"] if own.source.startswith("a run") else [stored / "one", stored / "two"]


# What shows each table and figure of the paper, by the label that it has there.
LABELS = {
    "fig:motivation_plot": "figure-motivation",
    "tab:calibration_after_attack": "table-attacks",
    "fig:brier_bounds_imagenet": "figure-brier-imagenet",
    "fig:admm_bounds_imagenet": "figure-acce-imagenet",
    "fig:training_effect_cifar10": "figure-training-effect",
    "tab:training_results": "table-cifar10",
    "fig:pathological_example_ece": "figure-pathological",
    "fig:r50_i1k_e2": "figure-attack-reliability",
    "fig:madri_i1k_e2": "figure-attack-reliability",  # of a run with another network
    "fig:kumar_conf_width": "figure-widths",
    "tab:evaluation_example": "table-worked-example",
    "fig:admm_convergence_lagrangian": "figure-admm-lagrangian",
    "fig:admm_convergence_constraints": "figure-admm-constraints",
    "fig:admm_convergence_assignment": "figure-admm-assignment",
    "fig:admm_dece_intiailisation": "figure-initialisation",
    "fig:admm_dece_brier_hparam": "figure-search",
    "fig:admm_single_dece_all": "figure-single-admm",
    "fig:admm_bounds_cifar": "figure-acce-cifar10",
    "fig:brier_bounds_cifar": "figure-brier-cifar10",
    "fig:brier_bounds_cifar_constant_data": "figure-brier-same-inputs",
    "tab:salman_cifar10_hparams": "table-baselines-cifar10",
    "tab:salman_imagenet_hparams": "table-baselines-imagenet",
    "fig:finetuning_all_models_cifar10": "figure-fine-tuning",
    "tab:ablation_act": "table-ablation",
    "fig:finetuning_all_models_cifar10_with_AT": "figure-fine-tuning-with-at",
    "tab:fmnist_training_results": "table-fashion-mnist",
    "tab:svhn_training_results": "table-svhn",
    "tab:cifar100_training_results": "table-cifar100",
    "tab:act_imagenet_results": "table-imagenet",
    "fig:metric_tradeoff": "figure-trade-off",
}
DRAWN = [name for name in EXHIBITS if "attack" not in name]


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_each_is_drawn_from_what_is_stored(name, stored, monkeypatch):
    for solver in (curves.ONE_ADMM, curves.GRID, curves.DECE):
        monkeypatch.setitem(solver, "steps", 5)  # thousands, in earnest
    monkeypatch.setattr(ranked, "FEWEST", len(EVIDENCE))
    own = EXHIBITS[name]
    out = RunFolder(stored / "out")
    draw_exhibit(name, sources(own, stored), out)
    if name.startswith("table"):
        assert (out.path / f"{name}.md").read_text().count("|") >= 20
    else:
        assert (out.path / "figures" / f"{name}.png").stat().st_size > 5000
        assert "<svg" in (out.path / "figures" / f"{name}.svg").read_text()


def test_every_table_and_figure_of_the_paper_has_a_name():
    """The labels of the paper's tables and figures, counted in its source."""
    assert set(EXHIBITS) == set(LABELS.values())
    places = [one.place for one in EXHIBITS.values()]
    assert [place for place in places if place.startswith("Fig.")] == [f"Fig. {number}" for number in (1, 2, 3, 4)]
    assert {"Table 1", "Table 2", "App. C", "App. K", *(f"App. J.{part}" for part in (1, 2, 3, 4))} <= set(places)
    out, _ = certcal("reproduce", "--list", cwd=ROOT)
    assert "figure-trade-off" in out


def test_the_command_draws_one(stored):
    out, _ = certcal("reproduce", "figure-widths", "--from", stored / "one", "--into", stored / "own", cwd=stored)
    files = [stored / "own" / "figures" / f"figure-widths.{kind}" for kind in ("png", "svg")]
    assert out.split() == [str(path) for path in files]
    assert all(path.is_file() for path in files)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["figure-widths"], "`from` to name runs or evidence files"),
        (["figure-pathological", "--from", "x"], "drawn from nothing"),
        (["table-svhn", "--from", "one"], "folder of `certcal reproduce`"),
        (["table-svhn", "--from", "notes.txt"], "a reference pack or an evidence file, but got notes.txt, which is no"),
        (["table-svhn", "--from", "nowhere"], "Expected `from` to be a folder or file that exists"),
        (["figure-widths", "--from", "study"], "but got study, a folder of models"),
        (["figure-motivation", "--from", "one", "--from", "two"], "once, but got one, two"),
        (["table-attacks", "--from", "one/evidence.parquet"], "certcal attack --family ace"),
        (["table-fashon"], "'table-fashion-mnist'"),
        (["table-svhn", "--show"], "a study with --show: a table or figure takes only --from, --into and --json"),
        (["table-svhn", "--dry-run"], "with --dry-run"),
        (["table-svhn", "--from", "study", "--per-device", "2"], "with --per-device"),
        (["digits", "--from", "x"], "left out for a study"),
    ],
)
def test_what_is_refused_leaves_nothing(words, message, stored):
    (stored / "notes.txt").write_text("mine")
    _, error = certcal("reproduce", *words, "--into", stored / "other", cwd=stored, code=2)
    assert message in " ".join(error.split())
    assert not (stored / "other").exists()


def test_help_names_tables_and_figures():
    out, _ = certcal("reproduce", "--help", cwd=ROOT)
    assert "table or figure of the paper, with --from" in " ".join(out.replace("│", " ").split())


def test_a_table_is_drawn_from_the_published_pack(tmp_path):
    """By the pack's rows of the paper's bounds, of the first seed, in the writer of all tables."""
    out, _ = certcal("reproduce", "table-fashion-mnist", "--from", REFERENCE, cwd=tmp_path)
    written = tmp_path / "runs" / "table-fashion-mnist" / "table-fashion-mnist.md"
    text = written.read_text()
    shown = out.splitlines()
    assert shown[0].rstrip() == text.splitlines()[0].removeprefix("# ")
    assert "**" not in out
    assert max(map(len, shown)) <= 100  # a table as other commands print them, not Markdown
    assert out.split()[-1] == "runs/table-fashion-mnist/table-fashion-mnist.md"
    pack = Pack.read(REFERENCE)
    first = {one.name: one.method for one in pack.entry if (one.data, one.train_seed) == ("fashion-mnist", 0)}
    rows = [row for row in pack.rows() if row.entry in first and (row.track, row.radius) == ("paper", 1.0)]
    near = max(row.certified_accuracy for row in rows if "inputs" not in row.entry) - 0.03
    best = min(row.certified_ece for row in rows
               if first[row.entry] == "ACCE-ACT*" and row.certified_accuracy >= near)  # fmt: skip
    (line,) = [line for line in text.splitlines() if line.startswith("| CCE | ACCE-ACT* |")]
    assert float(line.split("|")[-2].strip(" *")) == pytest.approx(100 * best, abs=0.011)
    assert "track paper" in text
    out, _ = certcal("reproduce", "table-baselines-cifar10", "--from", REFERENCE, cwd=tmp_path)
    assert "…" not in out  # a wide table keeps its numbers
    assert "(84.31)" in out


def test_json_says_what_was_written(tmp_path):
    out, error = certcal("reproduce", "table-cifar10", "--from", REFERENCE, "--json", cwd=tmp_path)
    place = "runs/table-cifar10"
    assert json.loads(out) == {"name": "table-cifar10", "folder": place, "files": [f"{place}/table-cifar10.md"]}
    assert "models on cifar10" in error


def test_a_figure_is_drawn_from_a_pack_and_from_its_file(tmp_path):
    """Of a pack one model for each σ of the data set; a file in it has the data set of its entry."""
    _, error = certcal("reproduce", "figure-brier-cifar10", "--from", REFERENCE, cwd=tmp_path)
    assert "cifar10-s0.25-e0.50-m2-t2-seed0, cifar10-s0.50-e1.00-m2-t2-seed0." in error
    out, _ = certcal("reproduce", "figure-motivation", "--from", EVIDENCE[0], cwd=tmp_path)
    svg = (tmp_path / out.split()[-1]).read_text()
    assert "<!-- digits, σ = 0.25, R = 0.125 -->" in svg
    assert "359 inputs" in svg
    _, error = certcal("reproduce", "figure-brier-cifar10", "--from", EVIDENCE[0], cwd=tmp_path, code=2)
    assert "be about cifar10" in error
    assert "about digits" in error


@pytest.mark.slow
def test_every_model_of_a_pack_counts_once_for_its_data(tmp_path):
    models = Source.found(REFERENCE).models("fashion-mnist", every=True)
    weights = {one.read().header.model for one in models}
    assert len(weights) < len(models)  # some are there on other inputs too
    shown = {"figure-trade-off": "fashion-mnist, seed 0, cdf", "figure-fine-tuning": "digits"}
    for name, text in shown.items():
        out, error = certcal("reproduce", name, "--from", REFERENCE, cwd=tmp_path)
        drawn = (tmp_path / out.split()[-1]).read_text()
        assert text in drawn
        if name == "figure-trade-off":
            assert "digits" not in drawn
            assert f"From {REFERENCE}: {len(weights)} models of one seed." in error  # of those that are drawn
            assert "Left out: digits with 3 models; rank correlations take 8." in error


def test_trainings_again_are_not_ranked_and_few_models_are_refused(stored):
    assert not [one.name for one in Source.found(REFERENCE).models("", every=True) if "again" in one.name]
    _, error = certcal("reproduce", "figure-trade-off", "--from", stored / "study", cwd=stored, code=2)
    assert "hold the evidence of at least 8 models of one data set, but got 3." in error


@pytest.mark.parametrize("name", [name for name, own in EXHIBITS.items() if own.source.startswith("a run")])
def test_of_a_pack_a_single_model_is_one_on_data_of_the_paper(name, tmp_path):
    """The pack begins with digits, which the paper does not have."""
    places = exhibits._parts(EXHIBITS[name], [Source.found(REFERENCE)], told := [])
    assert [one.data for one in places[0]] == ["fashion-mnist"]
    first = next(one.name for one in Pack.read(REFERENCE).entry if one.data == "fashion-mnist")
    place = REFERENCE / "evidence" / "NAME.parquet"
    assert told == [f"From {REFERENCE}: {first}, its first on data of the paper; another with --from {place}."]


def test_a_path_that_exists_comes_before_a_name_below_runs(stored, monkeypatch):
    monkeypatch.chdir(stored)
    shutil.copytree("one", "runs/one")
    shutil.copytree("two", "runs/two")
    shutil.rmtree("two")
    for name, found in (("one", "one"), ("./one", "one"), (stored / "one", stored / "one"), ("two", "runs/two")):
        assert str(Source.found(name).path) == str(found)
    (stored / "two").mkdir()  # somebody's, with nothing in it
    assert str(Source.found("two").path) == "runs/two"


def say_data(folder, name):
    """A trial's record of what it was certified on."""
    (folder / "outcome.json").write_text(json.dumps({"trial": {"recipe": {"test": {"name": name}}}, "outcomes": []}))


def test_other_data_is_not_drawn_under_the_papers_name(stored):
    words = ["reproduce", "table-cifar10", "--from", "study", "--into", "other"]
    out, _ = certcal(*words, cwd=stored)
    assert "study does not record its data set: nothing says that this is cifar10." in out
    say_data(stored / "study" / "tuned" / "trial-0", "/data/cifar")
    assert "study is about /data/cifar: nothing says" in certcal(*words, cwd=stored)[0]
    say_data(stored / "study" / "tuned" / "trial-0", "cifar10")
    assert "nothing says" not in certcal(*words, cwd=stored)[0]
    say_data(stored / "study" / "tuned" / "trial-0", "digits")
    _, error = certcal(*words, cwd=stored, code=2)
    assert "Expected `from` to be about cifar10, but got study, which is about digits." in error
    (stored / "one" / "config.toml").write_text('[data]\nname = "digits"\n')
    _, error = certcal("reproduce", "figure-brier-imagenet", "--from", "one", cwd=stored, code=2)
    assert "Expected `from` to be about imagenet, but got one, which is about digits." in error
    _, error = certcal("reproduce", "figure-brier-imagenet", "--from", "two/evidence.parquet", cwd=stored)
    assert "two/evidence.parquet does not record its data set: nothing says that this is imagenet." in error


def test_exhibits_of_a_data_set_name_one_that_there_is():
    for one in EXHIBITS.values():
        assert bool(one.data) == any(name in one.name for name in ("cifar", "mnist", "svhn", "imagenet", "ablation"))
        if one.data:
            assert load_study(one.data).test["name"] == one.data


def test_table_2_and_the_ablation_differ_as_the_papers_do():
    """And say by how much ours are other models than the paper's."""
    found, notes = exhibits._parts(EXHIBITS["table-cifar10"], [Source.found(REFERENCE)], told := []), told
    texts = [EXHIBITS[name].draw(found[0]) for name in ("table-cifar10", "table-ablation")]
    assert ["Finetuned AT" in text for text in texts] == [False, True]
    assert [text.splitlines()[0].split(":")[0] for text in texts] == [
        "# Like the paper's Table 2",
        "# Like the paper's App. I.5",
    ]
    for text in texts:
        assert not [line for line in text.splitlines() if line.count("| — ") == 4 and "(" not in line]
        assert "below the paper's range, in points: 20.2 at R = 0.05" in text
        assert "errors are not comparable" in text
        assert "- R = 0.2: Noise with CA 47.8, CCE 44.46, CBS 25.45" in text
    assert "20 epochs where the study has 150, 10,000 draws where the study has 100,000, 500 inputs." in notes[0]


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

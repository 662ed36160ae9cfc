"""Runs of bounds from elsewhere, through the command line: folder, page, words, recalibration, refusals."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from certcal.certificates import intervals_from_table
from certcal.recalibration import RecalibratedModel, load_map
from command import certcal


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with a table of bounds of 400 inputs, at two radii, that nobody signed."""
    place, rng = tmp_path_factory.mktemp("plain"), np.random.default_rng(0)
    n = 400
    confidence, half = rng.beta(6, 2, n), rng.random(n) * 0.1
    predicted = rng.integers(0, 5, n)
    label = np.where(rng.random(n) < confidence**2, predicted, (predicted + 1) % 5)
    both = []
    for radius in (0.1, 0.2):
        lower = np.clip(confidence - 10 * radius * half, 0, 1)
        upper = np.clip(confidence + 10 * radius * half, 0, 1)
        both.append(
            {
                "index": np.arange(n), "label": label, "predicted": predicted, "confidence": confidence,
                "lower": lower, "upper": upper, "certified": lower > 0.5, "radius": np.full(n, radius),
            }
        )  # fmt: skip
    whole = {name: np.concatenate([one[name] for one in both]) for name in both[0]}
    pq.write_table(pa.table(whole), place / "both.parquet")
    pq.write_table(pa.table(both[0]).drop_columns("radius"), place / "one.parquet")
    certcal("evaluate", "mine", "--bounds", "both.parquet", "--norm", "linf", "--alpha", 0, "--no-figures", cwd=place)
    return place


def test_a_table_becomes_a_run_with_page_words_and_tables(desk):
    folder = desk / "runs" / "mine"
    kept = json.loads((folder / "metrics.json").read_text())
    assert (kept["norm"], kept["alpha"], kept["failures_allowed"], len(kept["rows"])) == ("linf", 0.0, 0, 2)
    assert kept["guarantee"].startswith("Under any ℓ∞ perturbation of each input by up to 0.2, the model's ")
    page = (folder / "report.html").read_text()
    assert kept["guarantee"].replace("'", "&#39;") in page
    assert "smoothed" not in page.split("<script")[0]
    assert "if no certificate fails" not in page.split("<script")[0]  # none can
    assert "How many certificates may fail" not in page
    assert "robability at least" not in kept["guarantee"]
    assert (folder / "tables" / "radii.md").is_file()
    assert not (folder / "certificates.tsv").exists()
    for row in kept["rows"]:
        own = intervals_from_table(folder / "certificates.parquet", radius=row["radius"])
        assert (own.alpha, own.norm) == (0.0, "linf")
        assert row["joint_ece"] == row["certified_ece"]


@pytest.mark.slow
def test_a_table_needs_none_of_the_slow_imports(desk):
    """Of a second that starting takes, these would be the larger part."""
    words = ["--bounds", "both.parquet", "--norm", "linf", "--alpha", 0, "--no-figures"]
    _, error = certcal("evaluate", "light", *words, cwd=desk, PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.rsplit("|", 1)[-1].strip() for line in error.splitlines() if line.startswith("import time:")}
    assert "certcal.runs.plain" in loaded
    assert not loaded & {
        "torch",
        "matplotlib",
        "pandas",
        "scipy.special",
        "scipy.optimize",
        "sklearn",
        "pyarrow.compute",
    }


@pytest.mark.slow
def test_figures_are_drawn_of_a_table_too(desk):
    words = ["--bounds", "both.parquet", "--norm", "linf", "--alpha", 0]
    certcal("evaluate", "drawn", *words, cwd=desk)
    drawn = sorted(path.name for path in (desk / "runs" / "drawn" / "figures").iterdir())
    assert drawn
    assert all((desk / "runs" / "drawn" / "figures" / name).stat().st_size > 1000 for name in drawn)


def test_it_is_evaluated_again_from_its_own_copy(desk):
    out, _ = certcal("evaluate", "mine", "--radii", 0.1, "--population", "all", "--json", "--no-figures", cwd=desk)
    kept = json.loads(out)
    assert [row["radius"] for row in kept["rows"]] == [0.1]
    assert "on all 400 inputs" in kept["guarantee"]
    certcal("report", "mine", "--no-figures", cwd=desk)


def test_one_radius_can_be_declared_and_a_run_table_is_valid_input(desk):
    words = ("--norm", "linf", "--radius", 0.1, "--alpha", 0, "--no-figures", "--json")
    out, _ = certcal("evaluate", "one", "--bounds", "one.parquet", *words, cwd=desk)
    first = json.loads(out)
    again, _ = certcal(
        "evaluate", "again", "--bounds", "runs/one/certificates.parquet", "--no-figures", "--json", cwd=desk
    )
    assert json.loads(again)["rows"] == first["rows"]
    assert json.loads(again)["guarantee"] == first["guarantee"]


def test_recalibration_is_for_the_network_without_noise(desk):
    import torch

    certcal("evaluate", "maps", "--bounds", "both.parquet", "--norm", "linf", "--alpha", 0, "--no-figures", cwd=desk)
    certcal("recalibrate", "maps", "--repeats", 2, "--no-figures", cwd=desk)
    folder = desk / "runs" / "maps" / "recalibration"
    own = load_map(folder / "map.json")
    assert (own.about["sigma"], own.about["norm"], own.about["alpha"]) == (0.0, "linf", 0.0)
    kept = json.loads((folder / "metrics.json").read_text())
    assert "the recalibrated model's expected calibration error" in kept["guarantee"]
    assert kept["rows"][0]["certified_brier"] < kept["rows"][0]["before_certified_brier"]
    net = torch.nn.Linear(3, 5)
    inputs = torch.rand(7, 3)
    deployed = RecalibratedModel(net, own, sigma=own.about["sigma"])(inputs)
    probs = net(inputs).double().softmax(dim=1)
    np.testing.assert_array_equal(deployed.predicted, probs.argmax(dim=1))
    np.testing.assert_allclose(deployed.confidence, own.transform(probs.max(dim=1).values.detach()), atol=1e-6)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--bounds", "both.parquet"), "Expected `alpha` to be given for a table that does not state it: 0 if it is "),
        (("--bounds", "none.parquet", "--alpha", 0), "none.parquet"),
        (
            ("--bounds", "one.parquet", "--alpha", 0, "--norm", "l2"),
            "Expected `radius` to be given for bounds that do not ",
        ),
        (
            ("--bounds", "one.parquet", "--alpha", 0, "--radius", 1),
            "Expected `norm` to be given for a table that does not",
        ),
        (("--bounds", "both.parquet", "--alpha", 0, "--radius", 0.3), "Expected `radius` to be one that the table has"),
        (("--bounds", "both.parquet", "--alpha", 0, "--method", "cdf"), "Expected `method` to be left out: it is for "),
        (("--bounds", "both.parquet", "--alpha", 0, "--norm", "l7"), "Expected `norm` to be one of 'l2', 'linf', "),
    ],
)
def test_a_wrong_table_exits_with_one_line_and_leaves_no_folder(desk, words, told):
    _, error = certcal("evaluate", "wrong", *words, cwd=desk, code=2)
    assert told in error.replace("`--", "`")
    assert len(error.strip().splitlines()) == 1
    assert not (desk / "runs" / "wrong").exists()


def test_a_level_or_norm_cannot_be_changed_afterwards(desk):
    _, error = certcal("evaluate", "mine", "--alpha", 0.01, cwd=desk, code=2)
    assert "Expected `--alpha` to be left out, or be 0, which the bounds state, but got 0.01." in error
    _, error = certcal("evaluate", "mine", "--norm", "l2", cwd=desk, code=2)
    assert "Expected `--norm` to come with --bounds" in error


def test_a_changed_copy_is_noticed(desk):
    certcal("evaluate", "spoilt", "--bounds", "both.parquet", "--norm", "l1", "--alpha", 0, "--no-figures", cwd=desk)
    path = desk / "runs" / "spoilt" / "bounds.parquet"
    path.write_bytes((desk / "one.parquet").read_bytes())
    _, error = certcal("evaluate", "spoilt", cwd=desk, code=2)
    assert "Expected `RUN` to hold the bounds.parquet that its provenance.json was written with" in error


def log_of(inputs):
    """A log in the field's format, radii rounded to three digits; one input abstained, one is wrong."""
    lines = ["idx\tlabel\tpredict\tradius\tcorrect\ttime"]
    for n in range(inputs):
        predicted, radius = {4: (-1, 0.0), 5: (0, 0.4)}.get(n, (n % 3, 0.3 + n / 50))
        lines.append(f"{n}\t{n % 3}\t{predicted}\t{radius:.3}\t{int(predicted == n % 3)}\t0:00:01")
    return "\n".join(lines) + "\n"


LOG = log_of(30)


def test_a_certification_log_is_evaluated_soundly_and_says_what_it_cannot_tell(tmp_path):
    (tmp_path / "log.tsv").write_text(LOG)
    words = ["--bounds", "log.tsv", "--sigma", 0.5, "--alpha", 0.001, "--radii", "0,0.4", "--no-figures"]
    found = json.loads(certcal("evaluate", "logged", *words, "--json", cwd=tmp_path)[0])
    first, second = found["rows"]
    assert (found["norm"], found["alpha"], found["inputs"]) == ("l2", 0.001, 30)
    assert (first["certified"], second["certified"]) == (29, 24)  # 0.4 was rounded to three digits, so it may be less
    assert any("Nothing can be concluded about the network's own probabilities" in one for one in found["caveats"])
    again = json.loads(certcal("evaluate", "logged", "--population", "all", "--json", "--no-figures", cwd=tmp_path)[0])
    assert again["rows"][0]["certified"] == 29  # the folder keeps the input that the log abstained on
    assert again["rows"][0]["certified_ece"] > first["certified_ece"]
    out, _ = certcal("evaluate", "exact", *words, "--rounded-down", cwd=tmp_path)
    table = json.loads((tmp_path / "runs/exact/metrics.json").read_text())
    assert table["rows"][1]["certified"] == 25
    assert "vote share" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--alpha", 0.001, "--radii", 0.1], "Expected `--sigma` to be given for a certification log"),
        (["--sigma", 0.5, "--radii", 0.1], "Expected `--alpha` to be given for a certification log"),
        (["--sigma", 0.5, "--alpha", 0.001], "Expected `--radii` to be given for a certification log"),
        (
            ["--sigma", 0.5, "--alpha", 0.1, "--radii", 0.1, "--norm", "linf"],
            "Expected `--norm` to be left out: a cert",
        ),
    ],
)
def test_what_a_log_does_not_say_is_asked_for(tmp_path, words, message):
    (tmp_path / "log.tsv").write_text(LOG)
    _, error = certcal("evaluate", "logged", "--bounds", "log.tsv", *words, cwd=tmp_path, code=2)
    assert message in " ".join(error.split())


def test_options_of_a_log_belong_to_a_log(tmp_path):
    (tmp_path / "t.csv").write_text("label,predicted,confidence,lower,upper,certified\n0,0,0.9,0.8,1,1\n")
    words = ["--bounds", "t.csv", "--norm", "l2", "--alpha", 0, "--radius", 0.1, "--sigma", 1]
    _, error = certcal("evaluate", "t", *words, cwd=tmp_path, code=2)
    assert "Expected `--sigma` to come with a certification log" in " ".join(error.split())


def test_runs_in_other_norms_or_at_other_radii_are_not_compared(desk):
    for name, norm, radius in (("other", "l2", 0.1), ("far", "linf", 0.3)):
        asked = ("--bounds", "one.parquet", "--norm", norm, "--radius", radius, "--alpha", 0, "--no-figures")
        certcal("evaluate", name, *asked, cwd=desk)
    _, error = certcal("compare", "other", "mine", cwd=desk, code=2)
    assert "to have the same norm, l2, but got linf." in error
    _, error = certcal("compare", "far", "mine", cwd=desk, code=2)
    assert "to have a radius in common, where bounds have only their own, but got none." in error


def test_columns_that_state_the_norm_are_no_groups_and_must_fit(desk):
    table = pq.read_table(desk / "one.parquet")
    stating = table.append_column("norm", pa.array(["linf"] * table.num_rows))
    pq.write_table(stating, desk / "stating.parquet")
    certcal("evaluate", "said", "--bounds", "stating.parquet", "--radius", 0.1, "--alpha", 0, "--no-figures", cwd=desk)
    assert not (desk / "runs" / "said" / "groups.parquet").exists()
    asked = ("--bounds", "stating.parquet", "--radius", 0.1, "--alpha", 0, "--norm", "l2")
    _, error = certcal("evaluate", "unsaid", *asked, cwd=desk, code=2)
    assert "Expected `--norm` to be left out, or be linf, which the table states, but got l2." in error


def test_what_looks_like_a_mistake_in_a_table_is_told_and_on_the_page(desk):
    table = pq.read_table(desk / "one.parquet")
    shifted = table.set_column(table.column_names.index("label"), "label", pa.array(table["label"].to_numpy() + 1))
    pq.write_table(shifted, desk / "shifted.parquet")
    asked = ("--bounds", "shifted.parquet", "--norm", "linf", "--radius", 8, "--alpha", 0, "--no-figures")
    _, error = certcal("evaluate", "shifted", *asked, cwd=desk)
    assert "R = 8 in ℓ∞ is more than inputs in [0, 1] can differ: were radii meant in steps of 1/255?" in error
    assert "the label minus 1: do labels and predictions count classes from the same number?" in error
    assert "do labels and predictions count" in (desk / "runs" / "shifted" / "report.html").read_text()
    _, error = certcal("evaluate", "mine", *asked, cwd=desk, code=2)
    assert "to be a new folder, or one with the bounds of the same table, but got those of both.parquet" in error


def test_labels_must_be_those_of_the_data_that_is_named(desk):
    labels = pq.read_table(desk / "one.parquet")["label"].to_numpy().copy()
    (desk / "named.toml").write_text('[model]\nname = "lenet"\n[data]\nname = "data.npz"\n')
    asked = ("--bounds", "one.parquet", "--norm", "l2", "--radius", 1, "--alpha", 0, "--config", "named.toml")
    np.savez(desk / "data.npz", inputs=np.zeros((len(labels), 1, 2, 2), np.uint8), labels=labels)
    certcal("evaluate", "named", *asked, "--no-figures", cwd=desk)
    labels[3] += 1
    np.savez(desk / "data.npz", inputs=np.zeros((len(labels), 1, 2, 2), np.uint8), labels=labels)
    _, error = certcal("evaluate", "misnamed", *asked, cwd=desk, code=2)
    told = f"to be that of the data by its index, but got {labels[3] - 1} at index 3, {labels[3]} there."
    assert told in error

"""`certcal certify --certifier`: networks without noise, from a model to a report, and on after an interruption."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from certcal.certificates import intervals_by_radius
from certcal.runs import verify
from command import certcal

NETS = """
import torch
from torch import nn

class Net(nn.Sequential):
    lipschitz_constant = 30.0

def make(classes, channels, size):
    torch.manual_seed(0)
    return Net(nn.Flatten(), nn.Linear(channels * size * size, 16), nn.ReLU(), nn.Linear(16, classes))

def soft(classes, channels, size):
    return nn.Sequential(make(classes, channels, size), nn.Softmax(dim=1))
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    place, rng = tmp_path_factory.mktemp("verify"), np.random.default_rng(0)
    (place / "nets.py").write_text(NETS)
    np.savez(
        place / "data.npz", inputs=rng.integers(0, 256, (60, 1, 6, 6), dtype=np.uint8), labels=rng.integers(0, 4, 60)
    )
    return place


def certify(desk, run, *words, code=0):
    return certcal(
        "certify", run, *words, "--model", "nets:make", "--data", "data.npz", "--no-figures", "--json",
        cwd=desk, code=code,
    )  # fmt: skip


def test_lirpa_goes_from_a_network_to_a_report_and_on(desk, monkeypatch):
    pytest.importorskip("auto_LiRPA", reason="the certifier lirpa needs auto_LiRPA")
    monkeypatch.setattr(verify, "BATCH", 25)
    words = ("--certifier", "lirpa", "--norm", "linf", "--radii", "1/255,8/255")
    out, _ = certify(desk, "crown", *words)
    kept, folder = json.loads(out), desk / "runs" / "crown"
    assert (kept["norm"], kept["domain"], kept["alpha"], kept["failures_allowed"]) == ("linf", "box", 0.0, 0)
    assert "that stays in [0, 1], the model's expected calibration error" in kept["guarantees"][1]
    whole = intervals_by_radius(folder / "bounds.parquet")
    shards = sorted((folder / "shards").glob("bounds-*.parquet"))
    assert [len(intervals_by_radius(one)[0]) for one in shards] == [25, 25, 10]
    times = [one.stat().st_mtime_ns for one in shards]
    shards[1].unlink()
    (folder / "bounds.parquet").unlink()
    again, _ = certcal("certify", "crown", "--trust", "--no-figures", "--json", cwd=desk)
    assert json.loads(again)["rows"] == kept["rows"]
    after = [one.stat().st_mtime_ns for one in shards]
    assert [old == new for old, new in zip(times, after, strict=True)] == [True, False, True]
    for old, new in zip(whole, intervals_by_radius(folder / "bounds.parquet"), strict=True):
        np.testing.assert_array_equal(old.lower, new.lower)
    _, error = certify(desk, "crown", "--certifier", "lirpa", "--radii", "2/255", code=2)
    assert "hold certificates of the same model, data, radii and certifier" in error


def test_lipschitz_reads_the_constant_of_the_network(desk):
    out, _ = certify(desk, "lip", "--certifier", "lipschitz", "--radii", "0,0.001,0.01")
    kept = json.loads(out)
    assert (kept["norm"], kept["method"]) == ("l2", "lipschitz")
    own = intervals_by_radius(desk / "runs" / "lip" / "bounds.parquet")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Linear(16, 4))
    images = torch.from_numpy(np.load(desk / "data.npz")["inputs"]).float() / 255
    with torch.no_grad():
        logits = net(images).double()
    top = logits.topk(2, dim=1).values
    rounding = 2**-13 * logits.abs().amax(dim=1).clamp(min=1)
    reached = ((top[:, 0] - top[:, 1] - rounding) / (30 * 2**0.5)).numpy()
    np.testing.assert_allclose(own[1].certified_radius, np.where(reached > 0, reached, np.nan), rtol=1e-4)
    other, _ = certify(desk, "lip3", "--certifier", "lipschitz", "--constant", 3, "--radii", "0.01")
    assert json.loads(other)["rows"][0]["certified"] >= kept["rows"][2]["certified"]


def test_model_and_data_are_looked_at_first_and_a_dry_run_writes_nothing(desk):
    asked = ("--certifier", "lipschitz", "--radius", 0.01, "--data", "data.npz")
    out, error = certcal("certify", "dry", *asked, "--model", "nets:make", "--dry-run", cwd=desk)
    assert "60 inputs without noise: about " in out
    assert "data: data, 60 inputs of 4 of 4 classes" in error
    assert "warning: The model says '1' of all 60 inputs, which are of several classes" in error
    assert not (desk / "runs" / "dry").exists()
    _, error = certcal("certify", "dry", *asked, "--model", "nets:soft", cwd=desk, code=2)
    assert "Expected `--model` to give logits, but got probabilities: leave out the softmax or sigmoid at its" in error
    certcal("certify", "looked", *asked, "--model", "nets:make", "--no-figures", cwd=desk)
    kept = json.loads((desk / "runs" / "looked" / "provenance.json").read_text())
    assert kept["bounds"]["by"] == "Lipschitz constant 30 (the network's own; global)"
    assert kept["checks"]["warnings"]
    page = (desk / "runs" / "looked" / "report.html").read_text()
    assert "Before you trust this" in page
    assert "margins by 2⁻¹³ of the largest logit, for float32" in page


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--certifier", "lirpa"), "to be given for the certifier lirpa, as 1/255,2/255"),
        (
            ("--certifier", "lipschitz", "--radii", 1, "--sigma", 0.5),
            "`--sigma` to be left out: it is for the draws of",
        ),
        (("--certifier", "lipschitz", "--radii", 1, "--norm", "linf"), "`--norm` to be l2 for a Lipschitz network"),
        (
            ("--certifier", "lirpa", "--radii", 8),
            "`--radii` to be at most 1 in ℓ∞, as inputs lie in [0, 1], but got 8 (did you mean 8/255?).",
        ),
        (
            ("--certifier", "lirpa", "--radii", 0.1, "--alpha", 0.1),
            "`--alpha` to be left out: what is proven without noise",
        ),
        (("--certifier", "lirpa", "--radii", 0.1, "--constant", 2), "`--constant` to come with --certifier lipschitz"),
        (
            ("--certifier", "lipschitz", "--radii", 1, "--relaxation", "ibp"),
            "`--relaxation` to come with --certifier lirpa",
        ),
        (
            ("--certifier", "lipschitz", "--radii", 1, "--constant", 0.1),
            "`--constant` to be a Lipschitz constant of the network's logits, but got 0.1, where points 0.1 apart near",
        ),
        (
            ("--certifier", "lipschitz", "--radii", 1, "--engine", "ray"),
            "`--engine` to be left out: bounds without noise",
        ),
        (("--sigma", 1, "--constant", 1), "to come with --certifier lirpa or lipschitz"),
    ],
)
def test_wrong_words_exit_with_a_line(desk, words, told):
    _, error = certify(desk, "wrong", *words, code=2)
    assert told in error


def test_the_network_is_attacked_without_noise_and_sound_bounds_hold(desk):
    certify(desk, "sound", "--certifier", "lipschitz", "--radii", "0.001,0.01,0.05")
    out, _ = certcal("attack", "sound", "--trust", "--steps", 5, "--no-figures", "--json", cwd=desk)
    found = json.loads(out)["sandwich"]
    assert {row["radius"] for row in found["rows"]} <= {0.001, 0.01, 0.05}
    assert {row["adversary"] for row in found["rows"]} == {"brier", "reach"}
    for row in found["rows"]:
        assert row["holds"]
        assert row["inputs"] == 0 or row["clean_brier"] <= row["attacked_brier"] + 0.01 <= row["certified_brier"] + 0.01
    page = (desk / "runs" / "sound" / "report.html").read_text()
    assert "No noise and so no chance was involved" in page
    _, told = certcal("attack", "sound", "--trust", "--steps", 5, "--no-figures", cwd=desk)
    assert "already in" in told


def contradicted(desk, name, norm, table):
    """What attacks on a run of these bounds, stated in that norm, say; the bounds are of the run `whole`."""
    import pyarrow.parquet as pq

    pq.write_table(table.replace_schema_metadata(None), desk / f"{name}.parquet")
    words = ["--bounds", f"{name}.parquet", "--norm", norm, "--alpha", 0, "--config", "runs/whole/config.toml"]
    certcal("evaluate", name, *words, "--no-figures", cwd=desk)
    out, _ = certcal("attack", name, "--trust", "--steps", 5, "--no-figures", cwd=desk)
    rows = json.loads((desk / "runs" / name / "attack" / "sandwich.json").read_text())["rows"]
    return " ".join(out.split()), rows


@pytest.mark.parametrize("norm", ["l1", pytest.param("l2", marks=pytest.mark.slow)])
def test_a_narrowed_interval_is_refuted(desk, norm):
    """Bounds in ℓ2 hold in ℓ1, whose ball is smaller: there too attacks leave sound ones alone and refute others."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    certify(desk, "whole", "--certifier", "lipschitz", "--radii", "0.01")
    table = pq.read_table(desk / "runs" / "whole" / "bounds.parquet")
    columns = {name: table[name].to_numpy() for name in table.column_names}
    columns["lower"] = columns["confidence"] - 1e-5
    columns["upper"] = columns["confidence"] + 1e-5
    narrow = pa.table(columns)
    out, rows = contradicted(desk, f"narrow-{norm}", norm, narrow)
    assert "The attacks contradict the certificates at R = 0.01" in out
    assert max(row["contradictions"] for row in rows) > 0
    assert not any(row["holds"] for row in rows if row["contradictions"])
    out, rows = contradicted(desk, f"sound-{norm}", norm, table)
    assert all(row["holds"] for row in rows)
    assert max(row["attacked_brier"] - row["clean_brier"] for row in rows) > 0


def test_norms_without_an_attack_are_refused_in_a_line(desk):
    import pyarrow.parquet as pq

    certify(desk, "whole", "--certifier", "lipschitz", "--radii", "0.01")
    table = pq.read_table(desk / "runs" / "whole" / "bounds.parquet").replace_schema_metadata(None)
    pq.write_table(table, desk / "patch.parquet")
    words = ["--bounds", "patch.parquet", "--norm", "patch", "--alpha", 0, "--config", "runs/whole/config.toml"]
    certcal("evaluate", "patch", *words, "--no-figures", cwd=desk)
    _, error = certcal("attack", "patch", "--trust", "--no-figures", cwd=desk, code=2)
    assert "to be in ℓ∞, ℓ2 or ℓ1, in which attacks can move inputs, but got norm patch" in " ".join(error.split())


def test_bounds_of_no_named_network_cannot_be_attacked(desk):
    certify(desk, "named", "--certifier", "lipschitz", "--radii", "0.01")
    certcal("evaluate", "unnamed", "--bounds", "runs/named/bounds.parquet", "--no-figures", cwd=desk)
    _, error = certcal("attack", "unnamed", cwd=desk, code=2)
    assert "to name its model and data: give --bounds again with --config FILE" in error

"""`--groups`, `--threshold` and `--any-binning` as people use them."""

import json

import numpy as np
import pytest

from certcal.errors import InputError
from command import certcal

NET = """
import torch
from torch import nn
def make(size, classes):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(size * size, classes))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place, rng = tmp_path_factory.mktemp("groups"), np.random.default_rng(0)
    inputs, sex = rng.random((20, 1, 4, 4), dtype=np.float32), np.array(["F", "M"] * 10)
    more = {"sex": sex, "short": np.arange(5), "long": np.arange(25), "age": 3.0 * np.arange(20) + 18}
    np.savez(place / "data.npz", inputs=inputs, labels=np.arange(20) % 3, **more)
    (place / "nets.py").write_text(NET)
    lines = [f"{19 - n},{'a' if n < 5 else 'b'}" for n in range(20)]
    (place / "sites.csv").write_text("\n".join(["index,site", *lines]) + "\n")
    words = [
        "--model",
        "nets:make",
        "--data",
        "data.npz",
        "--sigma",
        0.25,
        "--n",
        250,
        "--radii",
        "0,0.1",
        "--no-figures",
    ]
    certcal("certify", "one", *words, cwd=place)
    return place


def test_groups_from_the_data_a_table_and_the_certificates(place):
    words = ["--groups", "sex,label,sites.csv:site", "--threshold", 0.4, "--any-binning", "--no-figures"]
    certcal("evaluate", "one", *words, cwd=place)
    found = json.loads((place / "runs/one/metrics.json").read_text())
    tables = found["groups"][0]
    assert [table["column"] for table in tables] == ["sex", "label", "site"]
    assert [(group["name"], group["inputs"]) for group in tables[2]["groups"]] == [("a", 5), ("b", 15)]
    assert {table["threshold"] for table in tables} == {0.4}
    assert {own["metric"] for own in tables[0]["disparities"]} <= {"accuracy", "ece", "brier"}
    assert found["further"][0]["certified_any_binning"] >= found["rows"][0]["certified_ece"] - 1e-9
    assert len(found["operating"][0]["threshold"]) == 21
    assert "certified_auroc" not in found["rows"][0]
    page = (place / "runs/one/report.html").read_text()
    assert "If you accept from a threshold" in page
    assert "By site" in page


@pytest.mark.slow
def test_groups_and_thresholds_are_shown_on_the_screen_and_found_from_elsewhere(place):
    words = ["--groups", "sex,sites.csv", "--threshold", 0.4, "--no-figures"]
    out, _ = certcal("evaluate", "one", *words, cwd=place)
    assert "Accept from 0.4: whatever the attack within R = " in " ".join(out.split())
    assert "Largest difference in accuracy: at most " in out
    assert " points between " in out
    assert "By sex (all guarantees together; R = " in out
    assert [line.split()[:2] for line in out.splitlines() if line.startswith(("a ", "b "))] == [["a", "5"], ["b", "15"]]
    (place / "other").mkdir(exist_ok=True)
    again, _ = certcal("evaluate", "../runs/one", "--no-figures", cwd=place / "other")
    assert "By site" in again
    words = ["--config", "runs/one/config.toml", "--model", "nets:make", "--seed", 1, "--no-figures"]
    certcal("certify", "two", *words, cwd=place)
    out, _ = certcal("compare", "../runs/one", "../runs/two", "--resamples", 0, cwd=place / "other")
    assert "one: σ = 0.25, n = 250 draws, 20 inputs" in out


def test_a_gate_may_ask_for_further_metrics(place):
    words = ["--require", "guaranteed_any_binning@0.1 <= 100 %", "--require", "guaranteed_auroc@0.1 >= 0"]
    out, _ = certcal("check", "one", *words, cwd=place)
    assert out.count(": met, it is ") == 2


def test_the_threshold_for_a_wanted_accuracy_is_said_kept_and_remembered(place):
    words = ["--accept-accuracy", 0.6, "--threshold", 0.999, "--population", "all", "--groups", "", "--no-figures"]
    out, _ = certcal("evaluate", "one", *words, cwd=place)
    found = json.loads((place / "runs/one/metrics.json").read_text())
    assert (found["threshold"], found["accept_accuracy"]) == (0.999, 0.6)
    assert all(text.startswith("Accept from 0.999: ") for text in found["acceptance"])
    said = " ".join(out.split())
    assert any(own["words"] in said for own in found["accept_from"])
    assert said.count("Wanted: at least 60 % of those accepted are right. ") == 1
    for row, own in zip(found["further"], found["accept_from"], strict=True):
        assert own["reached"] == (row["joint_least_threshold"] is not None)
        if own["reached"]:
            assert own["best"]["threshold"] == row["joint_least_threshold"]
            assert own["best"]["coverage"] == row["joint_largest_coverage"]
            assert own["best"]["accuracy"] >= 0.6
        else:
            assert "No threshold guarantees it" in own["words"]
            assert row["joint_largest_coverage"] == 0
    again = json.loads(certcal("evaluate", "one", "--no-figures", "--json", cwd=place)[0])
    assert again["accept_from"] == found["accept_from"]
    out, _ = certcal("check", "one", "--require", "guaranteed_coverage(0)@0.1 >= 100 %", cwd=place)
    assert "met, it is 1" in out
    _, error = certcal("evaluate", "one", "--accept-accuracy", 2, "--no-figures", cwd=place, code=2)
    assert "Expected `--accept-accuracy` to lie in [0, 1], but got 2.0" in " ".join(error.split())


def test_many_numbers_are_cut_into_ranges(monkeypatch):
    from certcal.runs.groups import _in_ranges

    ages = np.array([30, 9, 100, *range(18, 60)])
    found = _in_ranges(ages)
    assert sorted(set(found)) == ["1: 9 to 27", "2: 28 to 37", "3: 38 to 48", "4: 49 to 100"]
    assert found[1].startswith("1: ")
    zeros = _in_ranges(np.array([0] * 30 + list(range(1, 41))))  # the lowest quarter lies at the minimum
    assert sorted(set(zeros)) == ["1: 0 to 5", "2: 6 to 22", "3: 23 to 40"]
    assert _in_ranges(np.arange(9)).tolist() == list(range(9))


def test_missing_cells_are_a_group_and_ranges_stay():
    from certcal.runs.groups import MISSING, _as_groups, _numbers_if_any

    ages = _numbers_if_any(np.array([*map(str, range(18, 62)), "", " "]))
    assert sorted(set(_as_groups(ages))) == ["1: 18 to 28", "2: 29 to 39", "3: 40 to 50", "4: 51 to 61", MISSING]
    assert _as_groups(_numbers_if_any(np.array([str(2**64), "1"]))).tolist() == [2.0**64, 1.0]
    assert _as_groups(_numbers_if_any(np.array(["1", "", "2"]))).tolist() == ["1", MISSING, "2"]
    assert _as_groups(np.array(["F", None, ""], dtype=object)).tolist() == ["F", MISSING, MISSING]
    assert _as_groups(_numbers_if_any(np.array(["", ""]))).tolist() == [MISSING, MISSING]


def test_columns_of_one_name_are_all_kept(tmp_path):
    from certcal.runs.groups import group_columns

    index = np.arange(4)
    (tmp_path / "one.csv").write_text("label;site\n1;a\n1;a\n2;b\n2;b\n")
    (tmp_path / "two.csv").write_text("site,sex\nx,F\nx,F\ny,F\ny,M\n")
    one, two = (str(tmp_path / name) for name in ("one.csv", "two.csv"))
    found = group_columns([one, "label", two], index=index, data=None)
    assert list(found) == ["one.csv: label", "one.csv: site", "label", "two.csv: site", "sex"]
    assert found["label"] == "label"
    assert found["one.csv: site"].tolist() == list("aabb")
    assert list(group_columns([f"{two}:sex", "label"], index=index, data=None)) == ["sex", "label"]
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/two.csv").write_text("site\nx\nx\ny\ny\n")
    with pytest.raises(InputError, match=r"name each column once, but got 'two.csv: site' from two places"):
        group_columns([two, str(tmp_path / "deep/two.csv")], index=index, data=None)


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("index,site\n0,a\n1,b\n1,a\n2,a", "t.csv", "every input once in its column `index`, .* but got 1 twice"),
        ("index,site\n0,a\n1,b\n9,a", "t.csv", "every input in its column `index`, .* but got none for 2"),
        ("index,site\n0,a\n,b\n2,a", "t.csv", "a whole number in every cell of `index`, .* but got empty cells"),
        ("index,site\nx,a\ny,b\nz,a", "t.csv", "a whole number in every cell of `index`, .* but got empty cells"),
        ("site,sex\na,F\na\na,F", "t.csv", "as many cells in each row as in its head, .* but got fewer in row 2"),
        ("site\na\na,b\na", "t.csv", "as many cells in each row as in its head, .* but got more in row 2"),
        ("site\nJos\xe9\na\na", "t.csv", "name a table in UTF-8"),
        ("site\na\na", "t.csv", r"the 3 inputs .* a table a column `index` .*`idx` in certificates.tsv.* but got 2"),
        ("site\na\na\nb\nb", "t.csv", r"a row for each of the 3 inputs of the data, .* but got 4 in 't.csv: site'"),
        ("index,site\n0,a\n1.5,b\n2,a", "t.csv", "a whole number in every cell of `index`, .* but got .* fractions"),
        ("site\na\na\na", "t.csv:sex", r"name a column of t.csv \(site\), but got 'sex'"),
        ("site\na\na\na", "none.csv", r"name a table that exists \(--groups \"\" leaves groups out\)"),
    ],
)
def test_tables_that_say_too_little_are_refused(tmp_path, text, name, message):
    from certcal.runs.groups import group_columns

    (tmp_path / "t.csv").write_text(text + "\n", encoding="latin-1")
    with pytest.raises(InputError, match=message):
        group_columns([str(tmp_path / name)], index=np.arange(3), data=None)


@pytest.mark.slow
def test_a_run_of_some_inputs_knows_how_many_the_data_has(place):
    words = ["--config", "runs/one/config.toml", "--model", "nets:make", "--limit", 5, "--groups", "sex"]
    certcal("certify", "few", *words, "--no-figures", cwd=place)
    found = json.loads((place / "runs/few/metrics.json").read_text())
    assert [(own["name"], own["inputs"]) for own in found["groups"][0][0]["groups"]] == [("F", 5)]
    for rows in (5, 19, 21):  # as many as the run has, or nearly as many as the data
        (place / "five.csv").write_text("site\n" + "a\n" * rows)
        _, error = certcal("evaluate", "few", "--groups", "five.csv", "--no-figures", cwd=place, code=2)
        assert "a row for each of the 20 inputs of the data, or a table a column `index`" in " ".join(error.split())
        assert f"but got {rows} in 'five.csv: site'" in " ".join(error.split())


def test_columns_beside_bounds_are_groups(place):
    lines = ["index,radius,label,predicted,lower,upper,confidence,certified,site"]
    for radius in (0.1, 0.2):
        lines += [
            f"{n},{radius},{n % 2},0,0.6,{0.7 + radius},0.65,{'yes' if n % 3 else 'no'},{'ab'[n % 2]}"
            for n in range(12)
        ]
    (place / "table.csv").write_text("\n".join(lines) + "\n")
    words = ("--bounds", "table.csv", "--norm", "l2", "--alpha", 0, "--no-figures", "--groups", "site", "--json")
    found = json.loads(certcal("evaluate", "bound", *words, cwd=place)[0])
    (table,) = found["groups"][0]
    assert [(one["name"], one["inputs"], one["certified"]) for one in table["groups"]] == [("a", 6, 4), ("b", 6, 4)]
    out, _ = certcal("evaluate", "drawn", *words[:-2], "predicted", "--alpha", 0.01, cwd=place)
    assert "hold only if the classes were chosen apart from the draws" in " ".join(out.split())
    (place / "table.csv").unlink()  # the folder keeps what it needs
    again = json.loads(certcal("evaluate", "bound", "--radii", "0.2", "--no-figures", "--json", cwd=place)[0])
    assert len(again["groups"][0][0]["groups"]) == 2
    (place / "broken.csv").write_text("\n".join(lines).replace(",yes,", ",maybe,") + "\n")
    _, error = certcal("evaluate", "new", "--bounds", "broken.csv", "--alpha", 0, cwd=place, code=2)
    assert "Expected `certified` to be 0 or 1, true or false, yes or no, but got 'maybe' in row 1" in error


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "colour",
            "or a column of the .npz data file, which has inputs, labels, sex, short, long, age, but got 'colour'",
        ),
        ("none.csv", "leaves groups out), but got none.csv"),
        (
            "short",
            "to have a row for each of the 20 inputs of the data, or a table a column `index`",
        ),
        ("long", "(`idx` in certificates.tsv), but got 25 in 'long'"),
    ],
)
def test_groups_that_do_not_fit_are_refused(place, name, message):
    _, error = certcal("evaluate", "one", "--groups", name, "--no-figures", cwd=place, code=2)
    assert message in " ".join(error.split())

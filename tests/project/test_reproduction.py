"""docs/reproduction.md says what the files say, and no more."""

import json

import pytest
from experiments import approximations, published, reproduction

from certcal.studies import Pack, entry_rows


@pytest.fixture(scope="module")
def pack():
    return Pack.read(reproduction.ROOT / "reference")


@pytest.mark.slow
def test_the_page_shows_the_files():
    assert reproduction.PAGE.read_text(encoding="utf-8") == reproduction.page(), "python -m experiments.reproduction"


def test_one_row_of_each_table_follows_from_its_evidence(pack):
    text = reproduction.PAGE.read_text(encoding="utf-8")
    for data in {one.data for one in pack.entry}:
        table = reproduction.Table(pack, data)
        radius = max(row.radius for row in table.rows if row.certified_accuracy > 0)
        entry = next(iter(table.selected(radius, "ece")))
        table.rows = entry_rows(entry.name, pack.evidence(entry), entry.radii)  # made again
        line = table.line(radius, "CCE", "ACCE", "certified_ece", entry)
        assert f"| {' | '.join(line[:8])} |" in text


def test_differences_are_ours_less_theirs(pack):
    for data in ("fashion-mnist", "cifar10"):
        table = reproduction.Table(pack, data)
        for entry in table.selected(0.5, "ece"):
            line = table.line(0.5, "CCE", "ACCE", "certified_ece", entry)
            if line[4] != "—":
                assert float(line[6]) == pytest.approx(float(line[5]) - float(line[4]), abs=0.011)


def test_the_exact_value_is_above_every_approximation_and_follows_from_the_evidence():
    made = json.loads(approximations.OUT.read_text(encoding="utf-8"))
    for row in made["rows"]:
        assert max(row["admm"], row["dece"], row["brier"]) <= row["exact"]
    row = made["rows"][-1]
    bounds = approximations.bounds_of(made["entry"], row["radius"])
    for method in ("exact", "brier"):
        assert approximations.value(method, bounds) == pytest.approx(row[method], abs=1e-9)


def test_published_logs_are_read_as_they_were_written():
    log = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t3\t3\t0.5\t1\t0:01\n20\t7\t1\t0.9\t0\t0:01\n"
    found = published.accuracies(log + "40\t8\t8\t0.06\t1\t0:01\n60\t4\t-1\t0.0\t0\t0:01\n")
    assert found["inputs"] == 4
    assert found["certified_accuracy"] == {"0.05": 0.5, "0.2": 0.25, "0.25": 0.25, "0.5": 0.25, "1": 0.0}

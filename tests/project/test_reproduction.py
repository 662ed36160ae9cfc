"""docs/reproduction.md says what the files say, and no more."""

from dataclasses import replace

import pytest
from experiments import reproduction

from certcal.studies import Pack


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
        table.rows = replace(entry, mapped=()).rows(pack.evidence(entry))  # made again
        line = table.line(radius, "CCE", "ACCE", "certified_ece", entry)
        assert f"| {' | '.join(line[:8])} |" in text


def test_differences_are_ours_less_theirs(pack):
    for data in ("fashion-mnist",):
        table = reproduction.Table(pack, data)
        for entry in table.selected(0.5, "ece"):
            line = table.line(0.5, "CCE", "ACCE", "certified_ece", entry)
            if line[4] != "—":
                assert float(line[6]) == pytest.approx(float(line[5]) - float(line[4]), abs=0.011)

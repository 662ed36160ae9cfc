"""CONTRIBUTING says where a new thing goes: at most four places, and all of them exist."""

import re

import pytest

from places import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (an? [^|]+) \| (.+) \|$", TEXT, flags=re.MULTILINE)


def test_every_kind_of_addition_has_its_row():
    kinds = {"option", "metric", "certificate", "noise", "objective", "adversary", "data set", "verb"}
    assert {kind.split(" ", 1)[1].strip() for kind, _ in ROWS} == kinds


@pytest.mark.parametrize(("kind", "places"), ROWS, ids=[kind for kind, _ in ROWS])
def test_places_exist_and_are_few(kind, places):
    paths = re.findall(r"`((?:src|tests|docs)/[\w/.<>-]+)`", places)
    assert 1 <= len(paths) <= 4, paths
    for path in paths:
        assert "<" in path or (ROOT / path).exists(), path
        assert (ROOT / path.partition("<")[0]).parent.is_dir(), path

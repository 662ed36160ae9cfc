"""docs/certificates_from_elsewhere.md shows what experiments/elsewhere.py recorded, and nothing else."""

import json

import pytest
from experiments import elsewhere

from places import ROOT

RECORD = json.loads((ROOT / "experiments" / "results" / "elsewhere.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "certificates_from_elsewhere.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("part", [elsewhere.table, elsewhere.costs], ids=["table", "costs"])
def test_tables_are_the_recorded_ones(part):
    assert part(RECORD) in PAGE


def test_margins_are_never_wider_than_logits_in_the_record():
    margins, logits = (RECORD["found"][name]["rows"] for name in ("crown margins", "crown logits"))
    for narrow, wide in zip(margins, logits, strict=True):
        assert narrow["certified"] >= wide["certified"]
        assert narrow["certified_ece_all"] <= wide["certified_ece_all"] + 1e-3

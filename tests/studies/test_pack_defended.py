"""A reference pack refuses what would mislead its readers, and notices what was changed by hand."""

import math
from dataclasses import replace

import pytest

from certcal.errors import InputError
from certcal.studies import Pack, add_to_pack, differences, entry_rows, reference_rows
from command import certcal
from places import ROOT

FACTS = {"name": "mine", "data": "digits", "network": "net", "method": "own", "radii": [0.1]}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"freer": [0.5]}, r"`freer` to be among the radii \[0.1\], but got \[0.5\]"),
        ({"mapped": [9]}, "`mapped` to be among the radii"),
        ({"radii": [0.1, 0.1]}, "`radii` to hold different radii"),
        ({"brier_loss": 0.9}, "`brier_loss` to lie in"),
        ({"brier_loss": math.nan}, "`brier_loss` to lie in"),
    ],
)
def test_facts_that_would_mislead_are_refused(copy, changes, wrong):
    with pytest.raises(InputError, match=wrong):
        add_to_pack(copy.folder, copy.evidence(copy.entry[0]), FACTS | changes)


def test_a_row_that_hides_behind_another_is_refused(copy):
    rows = copy.rows()
    copy.write_rows([replace(rows[0], certified_ece=0.001), *rows])
    with pytest.raises(InputError, match=r"hold each row once, but got digits-noise-s0\.25, paper, R = 0\.1 twice"):
        copy.rows()


def test_accuracies_after_maps_are_compared_to_the_last_digit(copy):
    rows = copy.rows()
    mapped = next(row for row in rows if row.track == "recalibrated")
    for name in ("certified_accuracy", "brier_all_before"):
        wrong = replace(mapped, **{name: getattr(mapped, name) + 5e-4})
        assert len(differences([wrong if row is mapped else row for row in rows], rows)) == 1


def test_an_entry_that_is_named_twice_is_stored_once(copy):
    before = add_to_pack(copy.folder, copy.evidence(copy.entry[0]), FACTS).rows()
    told, _ = certcal("reference", "recompute", copy.folder, *["--only", "mine"] * 2, "--write", cwd=copy.folder)
    assert "1 entry, recomputed: every row is as stored. The paper's ACCE was not made again" in told
    assert copy.rows() == before
    _, error = certcal("reference", "list", copy.folder, "--only", "digits-noise", cwd=copy.folder, code=2)
    assert "digits-noise-s0.25" in error


@pytest.mark.slow
def test_an_approximation_that_is_stored_is_made_again():
    pack = Pack.read(ROOT / "reference")
    rows = [row for row in pack.rows() if row.track == "paper" and row.acce == row.acce]
    for row in (rows[0], rows[-1]):
        (entry,) = [one for one in pack.entry if one.name == row.entry]
        made = entry_rows(entry.name, pack.evidence(entry), [row.radius], approximate=True)[0]
        assert made.acce == pytest.approx(row.acce, abs=reference_rows.LOOSE)

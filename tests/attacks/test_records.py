"""Attack records: read back as they were written, and without torch."""

import json
import subprocess
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from certcal.attacks import AceTable, Moved, Sandwich, from_plain, to_plain
from page_samples import attacked_sample


@given(arrays(np.float64, (3, 4, 5), elements=st.floats(-2, 2)))
def test_how_an_input_moved_is_kept_well_enough_for_a_picture(change):
    moved = Moved.of(7, 0.9, 0.4, change)
    assert np.abs(moved.as_array((3, 4, 5)) - change).max() <= moved.largest / 254 + 1e-6
    for shape in ((3, 4, 6), (1, 4, 5)):
        with pytest.raises(ValueError, match="reshape"):
            moved.as_array(shape)
    with pytest.raises(ValueError, match="base64"):
        replace(moved, change="%").as_array((1,))


CERTIFICATES = ("alpha", "delta", "method", "split_alpha", "n_bins")


@pytest.fixture(scope="module")
def found():
    return attacked_sample(stronger=True)[1]


def kept(record):
    """What a file holds of a record."""
    made = {"stronger": record.stronger} if isinstance(record, AceTable) else asdict(record.terms)
    certificates = {key: made.pop(key) for key in CERTIFICATES if key in made}
    return json.loads(json.dumps(to_plain(record) | {"made_with": {"certificates": certificates, "settings": made}}))


@pytest.mark.parametrize("name", ["sandwich", "ace"])
def test_a_record_is_read_back_as_it_was_written(found, name):
    record = found[name]
    again = from_plain(name, kept(record))
    assert (again.rows, again.inputs, again.of) == (record.rows, record.inputs, record.of)
    if isinstance(again, Sandwich):
        assert again.terms == record.terms
        assert again.moved == record.moved == ()
        known = replace(record, moved=(Moved.of(3, 0.9, 0.5, np.ones(4)), *[None] * (len(record) - 1)))
        assert from_plain(name, kept(known)).moved == known.moved
        with pytest.raises(ValueError, match="moved inputs do not fit"):
            from_plain(name, kept(replace(known, moved=known.moved[:1])))
        assert (again.strongest(), again.holds) == (record.strongest(), record.holds)
    else:
        assert again.stronger is True
    part = "after" if name == "sandwich" else "curves"
    for before, after in zip(getattr(record, part), getattr(again, part), strict=True):
        np.testing.assert_array_equal(before.confidence, after.confidence)  # NaN in empty bins
        assert before.error == after.error


def test_older_files_call_split_alpha_joint(found):
    old = kept(found["sandwich"])
    old["made_with"]["certificates"]["joint"] = not old["made_with"]["certificates"].pop("split_alpha")
    assert from_plain("sandwich", old).terms.split_alpha is False


def test_all_inputs_were_attacked_where_nothing_else_is_said(found):
    whole = replace(found["sandwich"], of=None)
    assert to_plain(whole)["of"] == whole.inputs


@pytest.mark.slow
def test_reports_of_kept_attacks_need_no_torch(found, tmp_path):
    for name, record in found.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(kept(record)))
    script = f"""
import json, pathlib, sys
import certcal.report, certcal.runs.attack_files
from certcal.attacks import from_plain
from certcal.report import ace_tables, attack_data, sandwich_tables
texts = {{name: pathlib.Path({str(tmp_path)!r}, f"{{name}}.json").read_text() for name in ("sandwich", "ace")}}
read = {{name: from_plain(name, json.loads(text)) for name, text in texts.items()}}
attack_data(read["sandwich"], read["ace"], radius=0.1, certificates={{}})
sandwich_tables(read["sandwich"]), ace_tables(read["ace"])
assert "torch" not in sys.modules, "torch"
"""
    subprocess.run([sys.executable, "-c", script], check=True)

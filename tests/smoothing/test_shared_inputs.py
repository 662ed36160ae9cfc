"""Evidence of several models on the same inputs, which are kept in one file beside it."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from certcal import load_evidence, save_evidence
from certcal.errors import CertcalError
from certcal.smoothing import evidence_digest, inputs_of
from certcal.smoothing.shared_inputs import read_inputs, write_inputs
from smoothing_oracles import random_evidence


@pytest.fixture
def evidence():
    rng = np.random.default_rng(0)
    made = random_evidence(rng, inputs=40, draws=1000)
    return replace(made, content=rng.integers(2**63, size=40), label=rng.integers(2, size=40))


def saved(folder, name, evidence):
    save_evidence(evidence, folder / name, compact=True, share_inputs=True)
    return folder / name


def test_inputs_are_kept_once_and_nothing_is_lost(evidence, tmp_path):
    one = saved(tmp_path, "one.parquet", evidence)
    other = saved(tmp_path, "other.parquet", evidence.with_histogram(evidence.histogram[:, ::-1]))
    part = saved(tmp_path, "part.parquet", evidence.select(np.arange(10, 30)))
    assert inputs_of(one) == inputs_of(other) != inputs_of(part)
    assert len([*tmp_path.glob("inputs-*.parquet")]) == 2
    whole = tmp_path / "whole.parquet"
    save_evidence(evidence, whole, compact=True)
    assert inputs_of(whole) == ""
    assert evidence_digest(load_evidence(one)) == evidence_digest(load_evidence(whole))
    assert evidence_digest(load_evidence(part)) == evidence_digest(load_evidence(whole).select(np.arange(10, 30)))
    np.testing.assert_array_equal(load_evidence(one).label, evidence.label)
    assert one.stat().st_size < whole.stat().st_size - 8 * 40


def table_of(path, **changes):
    held = pq.read_table(path)
    return pa.table({name: changes.get(name, held[name]) for name in held.column_names})


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda path: path.unlink(), "it is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "it was damaged"),
        (lambda path: path.write_bytes(b""), "it was damaged"),
        (lambda path: pq.write_table(table_of(path).slice(1), path), "it has others"),
        (lambda path: pq.write_table(table_of(path).select(["index", "label"]), path), "it has others"),
        (lambda path: pq.write_table(table_of(path, label=pa.array(["3"] * 40)), path), "it has others"),
        (lambda path: pq.write_table(table_of(path, label=pa.array([0.5] * 40)), path), "it has others"),
        (lambda path: pq.write_table(table_of(path, label=pa.array([None] * 40, pa.int64())), path), "it was damaged"),
        (lambda path: pq.write_table(table_of(path, label=pa.array([1] * 40)), path), "it is not what its name says"),
        (lambda path: pq.write_table(table_of(path, index=pa.array([0] * 40)), path), "it is not what its name says"),
    ],
)
def test_a_file_of_inputs_that_is_missing_damaged_or_another_is_told_and_written_again(evidence, tmp_path, harm, told):
    path = saved(tmp_path, "one.parquet", evidence)
    inputs = tmp_path / inputs_of(path)
    harm(inputs)
    with pytest.raises(
        CertcalError, match=rf"Expected {inputs} to hold the inputs .*, but {told}\. Copy this file again"
    ):
        load_evidence(path)
    saved(tmp_path, "two.parquet", evidence)
    np.testing.assert_array_equal(load_evidence(path).content, evidence.content)


def test_other_inputs_do_not_pass_for_its_own(evidence, tmp_path):
    columns = {"content": evidence.content, "label": evidence.label}
    name = write_inputs(tmp_path, evidence.index[::-1], {key: own[::-1] for key, own in columns.items()})
    mixed = np.random.default_rng(0).permutation(40)
    found = read_inputs(tmp_path, name, evidence.index[mixed])
    np.testing.assert_array_equal(found["content"], evidence.content[mixed])
    np.testing.assert_array_equal(found["label"], evidence.label[mixed])
    for others in (evidence.index + 1, evidence.index[1:], np.append(evidence.index, 99)):
        with pytest.raises(CertcalError, match="it has others"):
            read_inputs(tmp_path, name, others)


def test_evidence_with_labels_of_its_own_names_no_inputs(evidence, tmp_path):
    """A stranger's: labels in two places, of which one would silently hold."""
    path = saved(tmp_path, "one.parquet", evidence)
    held, metadata = pq.read_table(path), pq.read_schema(path).metadata
    both = held.append_column("label", pa.array([0] * 40)).append_column("content", pa.array([0] * 40))
    pq.write_table(both.replace_schema_metadata(metadata), path)
    with pytest.raises(CertcalError, match="but its columns are"):
        load_evidence(path)


@pytest.mark.parametrize(
    "name", ["../inputs", f"../inputs-{'0' * 40}.parquet", f"inputs-{'0' * 40}.parquet\n", "inputs-0.parquet"]
)
def test_the_name_of_inputs_leads_nowhere_else(evidence, tmp_path, name):
    path = saved(tmp_path, "one.parquet", evidence)
    held, metadata = pq.read_table(path), pq.read_schema(path).metadata
    pq.write_table(held.replace_schema_metadata(metadata | {b"certcal.inputs": name.encode()}), path)
    with pytest.raises(CertcalError, match="the name of its file of inputs is damaged"):
        load_evidence(path)


def test_a_place_that_cannot_be_written_is_told_in_one_line(evidence, tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "nowhere" / "one.parquet", tmp_path / "file" / "one.parquet"):
        with pytest.raises(CertcalError, match="could not be written to"):
            save_evidence(evidence, place, share_inputs=True)


def test_in_a_folder_inputs_stand_beside_the_shard(evidence, tmp_path):
    save_evidence(evidence, tmp_path, share_inputs=True)
    assert {path.name.split("-")[0] for path in tmp_path.iterdir()} == {"shard", "inputs"}
    np.testing.assert_array_equal(load_evidence(tmp_path).label, evidence.label)


def test_no_input_at_all_is_kept_too(evidence, tmp_path):
    assert len(load_evidence(saved(tmp_path, "none.parquet", evidence.select(np.arange(0))))) == 0

"""Evidence saved as a whole: what could not be read again is refused before it is written, and like stands by like."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from certcal import CertcalError, InputError
from certcal.smoothing import evidence_digest, load_evidence, save_evidence
from certcal.smoothing.shards import FIELDS, read_shard
from collecting import assert_same, collect

TEMPERATURES = (1.0, 0.5)


@pytest.fixture(scope="module")
def evidence():
    return collect()


@pytest.fixture(scope="module")
def tempered():
    return collect(temperatures=TEMPERATURES)


def without_draws(evidence):
    """The same inputs, of which the first has no draws."""
    first = np.arange(len(evidence)) == 0
    names = ("draws", "votes", "histogram", "score_sum", "score_square_sum")
    held = {name: getattr(evidence, name) for name in names}
    return replace(evidence, **{name: np.where(first if own.ndim == 1 else first[:, None], 0, own)
                                for name, own in held.items()})  # fmt: skip


REFUSED = {
    "twice": (lambda own: own.select(np.array([3, 3, 4])), "hold each input once, but got input 3 more than once."),
    "a part": (lambda own: replace(own, draws=own.draws + 7), "whole chunks of 50 draws per input, but got 507 draws"),
    "none": (without_draws, "one or more whole chunks of 50 draws per input, but got 0 draws of input 0."),
    "votes": (lambda own: replace(own, votes=own.votes + 1), "read again, but its counts do not add up to its draws."),
    "label": (lambda own: replace(own, label=own.label + 4), "but it has classes beyond the 4 of its model."),
    "hot": (lambda own: replace(own, temperature=2.0), "at each temperature of its header, but got those of 1 at 2."),
}


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("what", REFUSED)
def test_what_could_not_be_read_again_is_not_written(evidence, tmp_path, what, compact):
    change, message = REFUSED[what]
    with pytest.raises(InputError, match="Expected `evidence` to ") as caught:
        save_evidence(change(evidence), tmp_path / "one.parquet", compact=compact)
    assert message in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_scores_that_are_missing_at_a_temperature_are_refused(tempered, tmp_path):
    with pytest.raises(InputError, match="the scores at each temperature of its header, but got those of 1 at 1"):
        save_evidence(replace(tempered, tempered=()), tmp_path / "one.parquet")


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_evidence_stands_at_the_temperature_that_it_was_saved_at(tempered, tmp_path, temperature):
    own, path = tempered.at_temperature(temperature), tmp_path / "one.parquet"
    save_evidence(own, path)
    found = load_evidence(path)
    assert found.temperature == temperature
    assert evidence_digest(found) == evidence_digest(own)
    assert_same(found.at_temperature(1.0), tempered)
    # A file of the first looks as it always did, so that other versions and digests agree.
    assert (b"certcal.temperature" in pq.read_schema(path).metadata) == (temperature != 1.0)


@pytest.mark.parametrize("stored", ["2.0", "null", "x", "[0.5]"])
def test_a_damaged_temperature_is_named(tempered, tmp_path, stored):
    save_evidence(tempered, path := tmp_path / "one.parquet")
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata(table.schema.metadata | {b"certcal.temperature": stored}), path)
    with pytest.raises(CertcalError, match="to be certcal evidence, but its temperature is damaged"):
        load_evidence(path)


def rewritten(evidence, path, name, column):
    """A file of the evidence with another column."""
    save_evidence(evidence, path)
    table = pq.read_table(path)
    table = table.set_column(table.column_names.index(name), name, column(table[name].combine_chunks()))
    pq.write_table(table.replace_schema_metadata(pq.read_schema(path).metadata), path)
    return path


def ragged(column):
    """The same numbers in lists of which the first has one fewer, and the second one more."""
    places = np.asarray(column.offsets).copy()
    places[1] -= 1
    return pa.ListArray.from_arrays(pa.array(places), column.values)


@pytest.mark.parametrize("name", ["votes", "histogram"])
def test_lists_of_unequal_lengths_are_refused(evidence, tmp_path, name):
    path = rewritten(evidence, tmp_path / "one.parquet", name, ragged)
    with pytest.raises(CertcalError, match=r"to be certcal evidence, but not every row of a column has \d+ numbers"):
        load_evidence(path)


@pytest.mark.parametrize(
    "column",
    [lambda held: held.values[: len(held)], lambda held: pa.array([None, *held.to_pylist()[1:]], held.type)],
    ids=["no lists", "a missing list"],
)
def test_columns_without_their_lists_are_refused(evidence, tmp_path, column):
    path = rewritten(evidence, tmp_path / "one.parquet", "votes", column)
    with pytest.raises(CertcalError, match="to be certcal evidence, but not every row of a column has 4 numbers"):
        load_evidence(path)


@pytest.mark.parametrize("kind", [pa.list_(pa.int64(), 4), pa.large_list(pa.int64())], ids=["fixed", "large"])
def test_lists_of_other_kinds_are_read(evidence, tmp_path, kind):
    path = rewritten(evidence, tmp_path / "one.parquet", "votes", lambda held: pa.array(held.to_pylist(), kind))
    assert_same(load_evidence(path), evidence)


@pytest.mark.parametrize("name", ["evidence", "tempered"])
def test_a_compact_file_has_like_beside_like(request, tmp_path, name):
    """By class, and by the confidence at the first temperature: these inputs stand otherwise."""
    own = request.getfixturevalue(name)
    for compact in (False, True):
        save_evidence(own, tmp_path / f"{compact}.parquet", compact=compact)
    found = load_evidence(tmp_path / "True.parquet")
    assert_same(found, own)
    assert evidence_digest(found) == evidence_digest(own)
    _, rows = read_shard(tmp_path / "True.parquet")
    place = np.lexsort((own.confidence, own.selected))
    assert (place != np.arange(len(own))).any()
    for field in FIELDS[:4]:
        np.testing.assert_array_equal(getattr(rows, field), getattr(own, field)[place])
    sizes = [(tmp_path / f"{compact}.parquet").stat().st_size for compact in (False, True)]
    assert sizes[1] < 0.9 * sizes[0]

"""Tables of certificates: what goes in comes out, and a malformed one is refused in one line."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from certcal import InputError, confidence_bounds, evaluate
from certcal.certificates import intervals_by_radius, intervals_from_table, table_of
from certcal.inputs import from_arrow, to_arrow
from smoothing_oracles import random_evidence

GOOD = {
    "index": [0, 1, 2],
    "label": [1, 0, 2],
    "predicted": [1, 1, 2],
    "correct": [True, False, True],
    "radius": [0.1, 0.1, 0.1],
    "confidence": [0.8, 0.5, 0.95],
    "lower": [0.7, 0.4, 0.9],
    "upper": [0.9, 0.8, 1.0],
    "certified": [True, False, True],
    "certified_radius": [0.3, np.nan, 0.1],
}
ARRAYS = ("lower", "upper", "confidence", "predicted", "correct", "index", "label", "certified", "certified_radius")


def same(first, second):
    return all(np.array_equal(getattr(first, name), getattr(second, name), equal_nan=True) for name in ARRAYS)


@pytest.mark.parametrize("kind", ["parquet", "csv", "pandas", "arrow", "mapping"])
def test_every_kind_of_table_gives_the_same(tmp_path, kind):
    table = {"mapping": GOOD, "pandas": pd.DataFrame(GOOD), "arrow": pa.table(GOOD)}.get(kind)
    if table is None:
        table = tmp_path / f"bounds.{kind}"
        write = pq.write_table if kind == "parquet" else pyarrow.csv.write_csv
        write(pa.table(GOOD | {"certified_radius": [0.3, None, 0.1]}), table)
    made = intervals_from_table(table, norm="linf", alpha=0.0)
    assert same(made, intervals_from_table(GOOD))
    assert (made.radius, made.norm, made.alpha, made.method) == (0.1, "linf", 0.0, "table")


def test_what_is_not_said_is_not_a_number():
    made = intervals_from_table({name: GOOD[name] for name in ("label", "predicted", "lower", "upper", "certified")})
    assert np.isnan([made.radius, made.alpha, *made.confidence]).all()
    assert made.norm == "declared"


def test_a_confidence_may_be_told_by_rows_at_radius_0():
    both = {
        "index": [0, 1, 0, 1], "label": [1, 0, 1, 0], "predicted": [1, 1, 1, 1], "radius": [0, 0, 0.1, 0.1],
        "lower": [0.8, 0.5, 0.7, 0.4], "upper": [0.8, 0.5, 0.9, 0.8], "certified": [True, True, True, False],
    }  # fmt: skip
    made = intervals_by_radius(both)
    assert [own.confidence.tolist() for own in made] == [[0.8, 0.5]] * 2
    apart = both | {"upper": [0.8, 0.6, 0.9, 0.8]}
    assert np.isnan(intervals_by_radius(apart)[1].confidence).all()
    with pytest.raises(InputError, match="none: give its column, or rows at radius 0 whose bounds meet"):
        evaluate(intervals_from_table(apart, radius=0.1, norm="l2", alpha=0))


def test_own_tables_come_back_with_all_that_was_stated(rng):
    evidence = random_evidence(rng, inputs=20, draws=1000)
    bounds = [confidence_bounds(evidence, radius=radius, alpha=0.01, split_alpha=False) for radius in (0.0, 0.25)]
    back = intervals_by_radius(table_of(bounds))
    for own, read in zip(bounds, back, strict=True):
        assert same(own, read)
        assert (read.level, read.radius, read.norm, read.method) == (own.level, own.radius, own.norm, own.method)
        assert (read.delta_share, read.least) == (own.delta_share, own.least)
        np.testing.assert_array_equal(read.other, own.other)
        np.testing.assert_array_equal(read.farthest, own.farthest)
    assert same(intervals_from_table(table_of(bounds), radius=0.25), bounds[1])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"lower": None}, "Expected `table` to have a column 'lower', but got only index, label, predicted, "),
        ({"certified": None, "certified_radius": None}, "Expected `table` to have a column 'certified' or "),
        ({"norm": ["l2", "linf", "l2"]}, "Expected `norm` to be the same in every row, but got l2 and linf."),
        ({"alpha": [0, 0.05, 0]}, "Expected `alpha` to be the same in every row, but got 0.0 and 0.05."),
        (
            {"norm": ["Linf"] * 3},
            "Expected `norm` to be one of 'l2', 'linf', 'l1', 'patch', 'declared', but got 'Linf' (did",
        ),
        ({"lower": [0.7, 0.9, 0.9]}, "Expected `lower` to be at most `upper`, but got lower = 0.9 > upper = 0.8 at "),
        ({"upper": [0.9, np.nan, 1.0]}, "Expected `upper` to lie in [0, 1], but got nan at index 1."),
        ({"lower": [0.7, -0.1, 0.9]}, "Expected `lower` to lie in [0, 1], but got -0.1 at index 1."),
        ({"radius": [0.1, 0.2, 0.1]}, "Expected `radius` to say which of the table's 2 radii is meant, but got none "),
        ({"radius": [0.1, np.nan, 0.1]}, "Expected `radius` to be a number in every row, but got NaN in row 1."),
        ({"label": [1, 777777, 2]}, "Expected `label` to be classes from 0 to 99,999, but got 777777 at index 1."),
        ({"predicted": [100000, 1, 2], "correct": None}, "Expected `predicted` to be classes from 0 to 99,999, but "),
        ({"radius": [0.1] * 4}, "Expected `radius` to have as many entries as `label` (3), but got 4."),
        ({"label": [1, -1, 2]}, "Expected `label` to be whole numbers ≥ 0, but got -1 at index 1."),
        ({"predicted": [1, 0.5, 2]}, "Expected `predicted` to be whole numbers ≥ 0, but got 0.5 at index 1."),
        ({"correct": [1, 1, 1]}, "Expected `correct` to say whether label = predicted, but got True at index 1."),
        ({"certified": [1, 1, 1]}, "Expected `certified` to say whether certified_radius ≥ 0.1, but got True at "),
        ({"certified_radius": [-1, np.nan, 1]}, "Expected `certified_radius` to be ≥ 0, or NaN where nothing is "),
        ({"index": [0, 0, 1]}, "Expected `index` to name each input once, but got 0 2 times (are two radii mixed, "),
        ({"confidence": [0.8, 0.9, 0.95]}, "Expected `confidence` to lie between its bounds, but got 0.9, which is "),
        ({"label": ["a", "b", "c"]}, "Expected `label` to be an array of numbers, but got an array of dtype <U1."),
        (
            {"label": np.array(["a", "b", "c"], object)},
            "Expected `label` to be an array of numbers, but got texts, the first 'a'.",
        ),
    ],
)
def test_a_malformed_table_gets_one_line(change, told):
    table = {name: values for name, values in (GOOD | change).items() if values is not None}
    with pytest.raises(InputError) as caught:
        intervals_from_table(table)
    assert str(caught.value).startswith(told)
    assert "\n" not in str(caught.value)


def test_rows_of_other_radii_must_be_of_the_same_inputs(tmp_path):
    """Whoever stops where a proof fails leaves the failed inputs out of larger radii: the rest would look too good."""
    stopped = {name: [*values, values[0]] for name, values in GOOD.items()} | {"radius": [0.1, 0.1, 0.1, 0.2]}
    stopped = {name: values for name, values in stopped.items() if not name.startswith("certified_")}
    for radius in (0.1, 0.2):
        with pytest.raises(InputError) as caught:
            intervals_from_table(stopped, radius=radius)
        told = "Expected `radius` to have a row of every input at each radius, but got 1 at R = 0.2 and 3 at R = 0.1."
        assert str(caught.value) == told
    other = {name: values[:2] for name, values in stopped.items()} | {"radius": [0.1, 0.2]}
    with pytest.raises(InputError, match="Expected `index` to name the same inputs at every radius, but got others at"):
        intervals_from_table(other, radius=0.1)
    assert len(intervals_from_table(other | {"index": [5, 5], "predicted": [1, 0]}, radius=0.1)) == 1
    with pytest.raises(InputError, match="Expected `table` to hold at least one row, but got none"):
        intervals_from_table(pa.table({name: [] for name in GOOD}))


def test_columns_may_state_norm_and_level_and_what_contradicts_them_is_refused(tmp_path):
    stating = GOOD | {"norm": ["linf"] * 3, "alpha": [0.05] * 3}
    pq.write_table(pa.table(stating), tmp_path / "t.parquet")
    pyarrow.csv.write_csv(pa.table(stating), tmp_path / "t.csv")
    for table in (stating, tmp_path / "t.parquet", tmp_path / "t.csv", pa.table(stating)):
        made = intervals_from_table(table)
        assert (made.norm, made.alpha) == ("linf", 0.05)
        with pytest.raises(
            InputError, match=r"Expected `alpha` to be left out, or be 0.05, which the table states, but"
        ):
            intervals_from_table(table, alpha=0)
        with pytest.raises(InputError, match="Expected `norm` to be left out, or be linf, which the table states, but"):
            intervals_from_table(table, norm="l2")


def test_a_table_of_other_columns_is_told_which_it_has(tmp_path):
    mine = {{"lower": "lb", "upper": "ub"}.get(name, name): values for name, values in GOOD.items()}
    told = "have a column 'lower', but got only index, label, predicted, correct, radius, confidence, lb, ub, certified"
    pq.write_table(pa.table(mine), tmp_path / "t.parquet")
    for table in (mine, tmp_path / "t.parquet"):
        with pytest.raises(InputError, match=told):
            intervals_from_table(table)
    (tmp_path / "t.csv").write_text("label;predicted;lower\n1;1;0.5\n")
    with pytest.raises(
        InputError, match=r"but got one column 'label;predicted;lower' .its columns are separated by ';'"
    ):
        intervals_from_table(tmp_path / "t.csv")


def test_missing_values_radii_and_files_are_named(tmp_path):
    with pytest.raises(InputError, match="Expected `lower` to be given for every input, but got none in row 1"):
        intervals_from_table(pa.table(GOOD | {"lower": [0.7, None, 0.9]}))
    with pytest.raises(InputError, match=r"Expected `radius` to be one that the table has \(0.1\), but got 0.2"):
        intervals_from_table(GOOD, radius=0.2)
    twice = {name: values * 2 for name, values in GOOD.items()} | {"radius": [0.1] * 3 + [0.2] * 3}
    twice = {name: values for name, values in twice.items() if not name.startswith("certified_")}
    assert [own.radius for own in intervals_by_radius(twice)] == [0.1, 0.2]
    with pytest.raises(InputError, match="Expected `index` to name the same inputs at every radius"):
        intervals_by_radius(twice | {"index": [0, 1, 2, 0, 1, 3]})
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match=r"Expected `table` to be a readable .parquet file"):
        intervals_from_table(bad)
    with pytest.raises(InputError, match=r"Expected `table` to be a .parquet or .csv file, but got table.txt"):
        intervals_from_table("table.txt")
    with pytest.raises(InputError, match=r"Expected `table` to be a .parquet or .csv file, a data frame or a mapping"):
        intervals_from_table(3)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"alpha": 0.0}, "Expected `alpha` to be left out, or be 0.01, which the table states, but got 0.0."),
        ({"norm": "linf"}, "Expected `norm` to be left out, or be l2, which the table states, but got linf."),
        ({"domain": "box"}, "Expected `domain` to be left out, or be everywhere, which the table states, but got box."),
    ],
)
def test_what_a_table_states_cannot_be_contradicted(rng, asked, told):
    table = table_of([confidence_bounds(random_evidence(rng, inputs=5, draws=1000), radius=0.1, alpha=0.01)])
    with pytest.raises(InputError) as caught:
        intervals_from_table(table, **asked)
    assert str(caught.value) == told
    assert intervals_from_table(table, alpha=0.01, norm="l2", domain="everywhere", method="mine").method == "mine"


@pytest.mark.parametrize(
    "text",
    ["", "[1]", "{", '{"alpha": "x"}', '{"alpha": true}', '{"delta_share": 50}', '{"least": -1}', "{1: 2}"],
)
def test_damaged_metadata_get_one_line(text):
    table = pa.table(GOOD).replace_schema_metadata({"certcal.bounds": text})
    with pytest.raises(InputError, match=r"Expected `table` to have metadata that can be read under 'certcal.bounds'"):
        intervals_from_table(table)


@pytest.mark.parametrize("kind", ["?", "u1", "i4", "i8", "f4", "f8", "i2"])
@pytest.mark.parametrize("size", [0, 1, 21])
def test_columns_pass_to_arrow_and_back(rng, kind, size):
    values = rng.integers(0, 2, 2 * size)[::2].astype(kind)  # not contiguous
    column = to_arrow(values)
    assert column.equals(pa.array(values))
    for start in (0, size // 3):
        back = from_arrow(column[start:])
        assert back.dtype == values.dtype
        np.testing.assert_array_equal(back, values[start:])
    missing = from_arrow(pa.array([1.5, None]))
    assert missing[0] == 1.5
    assert np.isnan(missing[1])


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "pandas"])
def test_a_column_that_is_there_twice_is_named(tmp_path, kind):
    table = pa.Table.from_arrays([pa.array(GOOD[name]) for name in (*GOOD, "lower")], names=[*GOOD, "lower"])
    if kind == "pandas":
        table = pd.DataFrame([[*row, 0] for row in zip(*GOOD.values(), strict=True)], columns=[*GOOD, "lower"])
    elif kind != "arrow":
        write = pq.write_table if kind == "parquet" else pyarrow.csv.write_csv
        write(table, tmp_path / f"t.{kind}")
        table = tmp_path / f"t.{kind}"
    with pytest.raises(InputError, match="Expected `table` to name each column once, but got 'lower' 2 times"):
        intervals_from_table(table)


@pytest.mark.parametrize("part", [slice(4, 60), slice(-60, -20)])
def test_a_damaged_parquet_file_gets_one_line(tmp_path, part):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(GOOD), path)
    data = bytearray(path.read_bytes())
    data[part] = b"\xff" * len(data[part])
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"Expected `table` to be a readable .parquet file") as caught:
        intervals_from_table(path)
    assert "\n" not in str(caught.value)


def test_flags_in_words_and_empty_radii_are_read_from_every_kind(tmp_path):
    words = GOOD | {"certified": ["yes", "no", "Yes"], "correct": ["true", "false", "1"]}
    assert same(intervals_from_table(pd.DataFrame(words)), intervals_from_table(GOOD))
    with pytest.raises(
        InputError, match="Expected `certified` to be 0 or 1, true or false, yes or no, but got 'maybe'"
    ):
        intervals_from_table(pd.DataFrame(GOOD | {"certified": ["yes", "maybe", "no"]}))
    nothing = {name: values for name, values in GOOD.items() if name != "certified"} | {"certified_radius": [None] * 3}
    pyarrow.csv.write_csv(pa.table(nothing), tmp_path / "t.csv")
    for table in (tmp_path / "t.csv", pd.DataFrame(nothing), nothing):
        made = intervals_from_table(table)
        assert not made.certified.any()
        assert np.isnan(made.certified_radius).all()


def test_radii_are_told_apart_by_all_digits_and_read_to_their_precision():
    with pytest.raises(InputError, match=r"\(0\.003921568627\), but got 1/255"):
        intervals_from_table(GOOD | {"radius": [0.003921568627] * 3}, radius=1 / 255)
    with pytest.raises(InputError, match="Expected `radius` to be finite and ≥ 0, but got the text 'abc'"):
        intervals_from_table(GOOD, radius="abc")
    for radius in (0.1, 0.7, 1 / 255):
        single = {"radius": np.full(3, radius, np.float32), "certified_radius": np.float32([1, np.nan, radius])}
        made = intervals_from_table(GOOD | single, radius=radius)
        assert (made.radius, made.certified.tolist()) == (radius, [True, False, True])
        assert same(intervals_from_table(table_of([made])), made)  # and goes on as double
    assert intervals_from_table(GOOD | {"radius": np.full(3, 0.1, np.float32)}).radius == 0.1

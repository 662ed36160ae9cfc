"""What a leaderboard and the paper's tables take of a pack: which rows, which numbers, and which models."""

import re
from dataclasses import replace

import pytest

from certcal.report import Board, Standing, Track, leaderboard_page, plot_standings, standing_cells
from certcal.report.figures import style_of
from certcal.studies import boards_of, paper_table
from certcal.studies.boards import TOLD, published
from certcal.studies.stored import Source

NUMBERS = ("certified_accuracy", "certified_ece", "certified_brier")


def standing(name, *numbers, method="AT", inputs=""):
    return Standing(name, method, 0.5, *numbers, 0.1, inputs=inputs)


@pytest.mark.parametrize("data", ["cifar10", "fashion-mnist"])
def test_published_numbers_are_the_papers(data):
    table, places = paper_table(data), {}
    for method, radius, accuracy, acce, cbs in published(data):
        place = places.setdefault(method, [])
        at = len(place)
        place.append(radius)
        assert radius == table["radii"][at]
        assert accuracy == "–".join(map(str, table["CA"][at]))
        assert float(acce) == pytest.approx(table["ACCE"][method][at])
        assert float(cbs) == pytest.approx(table["CBS"][method][at])
        assert acce != cbs
    assert places.keys() == table["ACCE"].keys()


def test_published_numbers_are_those_of_the_table():
    (row,) = [row for row in published("fashion-mnist") if row[:2] == ("AT", 0.5)]
    assert row[3:] == ("42.55", "22.32")


def test_standings_have_the_numbers_of_their_rows(made_up):
    pack = made_up({"name": "one", "radii": [0.1, 0.25], "mapped": [0.25]}, {"name": "two", "method": "other"})
    (board,) = boards_of(pack)
    rows = pack.rows()
    assert [own.title for own in board.tracks] == ["The paper's bounds", "Our bounds", "Recalibrated"]
    for own, track in zip(board.tracks, ("paper", "plain", "recalibrated"), strict=True):
        wanted = [row for row in rows if row.track == track]
        for one, row in zip(own.standings, wanted, strict=True):
            assert (one.name, one.radius, one.brier) == (row.entry, row.radius, row.brier_all)
            assert [getattr(one, name) for name in NUMBERS] == [getattr(row, name) for name in NUMBERS]
            assert (one.deviation, one.maps) == (row.deviation, row.maps)
    assert "by up to 5 points; others by at most 1. Limits" in TOLD["freer"][1]
    assert {one.name: one.method for one in board.tracks[0].standings} == {"one": "own", "two": "other"}


def test_rows_of_no_map_are_not_shown_as_recalibrated(made_up):
    pack = made_up({"name": "one", "mapped": [0.1], "freer": [0.1]}, {"name": "two", "mapped": [0.1]})
    *rows, last = pack.rows()
    none = [replace(row, maps=0.0) if row.entry == "one" and row.track != "freer" else row for row in rows]
    pack.write_rows([*none, last])
    (board,) = boards_of(pack)
    assert [[one.name for one in own.standings] for own in board.tracks] == [
        ["one", "two"], ["one", "two"], ["two"], ["one"]
    ]  # fmt: skip


def test_models_are_compared_on_equal_inputs(made_up):
    pack = made_up({"name": "one"}, {"name": "two"}, {"name": "few", "inputs": 20})
    (board,) = boards_of(pack)
    one, two, few = board.tracks[0].standings
    assert one.inputs == two.inputs != few.inputs
    assert few.inputs.startswith("20 ")


def test_a_front_is_among_models_on_the_same_inputs_and_of_either_score():
    made = [
        standing("best", 0.9, 0.10, 0.20),
        standing("beaten", 0.8, 0.15, 0.25),
        standing("brier", 0.7, 0.12, 0.15),
        standing("ece", 0.6, 0.05, 0.30),
        standing("elsewhere", 0.5, 0.50, 0.50, inputs="20 x"),
        standing("beaten-there", 0.4, 0.60, 0.60, inputs="20 x"),
    ]
    _, lines, front = standing_cells(made)
    assert [line[0] for line, own in zip(lines, front, strict=True) if own] == ["best", "brier", "ece", "elsewhere"]
    steps = [line.get_xydata()[:, 0].tolist() for line in plot_standings(made, "certified_ece").lines]
    assert steps == [[60, 90], [50]]


def test_what_shares_its_inputs_with_nothing_stands_apart_and_on_no_front():
    made = [standing(f"toy-{n}", 0.5 + n / 10, 0.2, 0.2, inputs=own) for n, own in enumerate("aabbbcd")]
    heads, lines, front = standing_cells(made)
    assert [line[0] for line in lines] == [f"toy-{n}" for n in (4, 3, 2, 1, 0, 6, 5)]
    assert front == [True, False, False, True, False, False, False]
    page = leaderboard_page([Board("toy", [Track("One way", "It is told.", made)], [])])
    folded = page[page.index("<details>") :]
    parts = ["3 entries on the same inputs", "2 entries on the same inputs", "On other inputs, not comparable"]
    assert re.findall("<th colspan[^>]*>([^<]*)", folded) == parts
    assert "All 7 entries with a row at R = 0.5" in folded
    assert "<td>6</td>" in folded  # without the data set
    assert "<strong>6" not in folded
    assert "±" not in "".join(heads)


def test_a_row_of_maps_has_its_deviation_and_the_share_of_halves_with_one():
    made = [replace(standing("a", 0.9, 0.1, 0.2), deviation=0.01284, maps=2 / 3), standing("b", 0.8, 0.1, 0.2)]
    heads, (a, b), _ = standing_cells(made)
    assert [(a[heads.index(one)], b[heads.index(one)]) for one in ("± points", "with a map")] == [
        ("1.3", ""), ("66 %", "")
    ]  # fmt: skip
    assert (heads[1], heads[-2:]) == ("certified accuracy", ["method", "evidence"])


def test_a_method_looks_the_same_everywhere_and_only_what_is_drawn_is_in_the_key():
    one = [standing("a", 0.9, 0.2, 0.2, method="Noise"), standing("b", 0.89, 0.1, 0.1, method="_mine$")]
    far = standing("c", 0.2, 0.1, 0.1, method="Consistency")
    boards = [Board(data, [Track("One way", "Told.", own)], []) for data, own in (("x", [*one, far]), ("y", one[::-1]))]
    page = leaderboard_page(boards)
    keys = re.findall('<ul class="key">.*?</ul>', page, re.DOTALL)
    assert [re.sub(r"<svg.*?</svg>|<[^>]*>|\s+", " ", key, flags=re.DOTALL).split()[:2] for key in keys] == [
        ["Noise", "_mine$"], ["_mine$", "Noise"]
    ]  # fmt: skip
    assert all("Pareto front" in key and "Consistency" not in key for key in keys)
    for name in ("Noise", " _mine\\$"):
        assert style_of(name)[0] in keys[0]
    alone = leaderboard_page([replace(boards[0], tracks=[Track("One way", "Told.", one[:1])])])
    assert "Pareto front</li>" not in alone
    assert "The best of many models tends to look better than it is." in alone
    axes = plot_standings(one, "certified_ece")
    assert axes.get_ylim()[0] > 5  # percent, of errors of 10 and 20
    faint = [dots.get_alpha() for dots in plot_standings([*one, far], "certified_ece").collections]
    assert faint == [0.3, 1.0, 1.0]


def test_names_are_shown_as_they_are():
    methods = ["cost $5 or $6", "_mine", r"a\$b", "AT"]
    made = [standing(f"m{n}", 0.5 + n / 100, 0.1, 0.1, method=own) for n, own in enumerate(methods)]
    axes = plot_standings(made, "certified_ece")
    shown = axes.get_legend_handles_labels()[1]
    assert [label.replace(r"\$", "$").strip() for label in shown[:-1]] == [
        "cost $5 or $6", "_mine", r"a\$b", "AT"
    ]  # fmt: skip
    assert all(label.count("$") == label.count(r"\$") for label in shown)  # matplotlib reads no mathematics then
    made.append(standing("**bold**", 0.5, 0.9, 0.9))
    page = leaderboard_page([Board("toy", [Track("One way", "It is told.", made)], [("**x**", 0.5, "1", "2", "3")])])
    assert "<td>**bold**</td>" in page
    assert "<td>**x**</td>" in page
    assert "<td><strong>m3</strong></td>" in page


def test_what_was_trained_again_and_odd_inputs_and_networks_are_left_out(made_up):
    pack = made_up(
        {"name": "a"}, {"name": "a-again"}, {"name": "b", "baseline": "a"}, {"name": "few", "inputs": 20},
        {"name": "seed", "train_seed": 1}, {"name": "wide", "network": "wide"}, {"name": "to-fit", "radii": []},
    )  # fmt: skip
    source = Source.found(pack.folder)
    assert [one.name for one in source.models("digits", every=True)] == ["a", "b", "few"]
    (found,) = source.outcomes("digits").values()
    rows = {row.entry: row for row in pack.rows() if row.track == "paper"}
    assert [(one.model, one.baseline) for one in found] == [("a", "a"), ("b", "a")]
    for one in found:
        own = rows[one.model]
        assert [getattr(one, name) for name in NUMBERS] == [getattr(own, name) for name in NUMBERS]

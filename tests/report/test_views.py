"""What figures show: it adds up to the numbers in the table."""

import json

import numpy as np
import pytest

from certcal import InputError, evaluate
from certcal.evaluation import contributions_at, reliability_at
from certcal.report import page_data, prepare_boxes, prepare_moves, prepare_widths
from certcal.report.content import _below
from certcal.report.views import _stably_sorted_at
from smoothing_oracles import random_evidence


@pytest.fixture(scope="module", params=["certified", "all"])
def report(request):
    evidence = random_evidence(np.random.default_rng(1), inputs=150, draws=2000)
    return evaluate(evidence, radii=[0.0, 0.15, 0.3, 5.0], alpha=0.01, population=request.param)


def test_reliability_curves_have_the_errors_of_the_row(report):
    for position in range(3):
        clean, worst = reliability_at(report, position)
        row = report.rows[position]
        assert clean.error == pytest.approx(row.ece, abs=1e-12)
        assert worst.error == pytest.approx(row.certified_ece, abs=1e-9)
        assert clean.count.sum() == worst.count.sum() == row.inputs


def test_contributions_add_up_to_the_certified_error(report):
    for position in range(3):
        row, worst = report.rows[position], report.worst[position]
        everyone = contributions_at(report, position, limit=1000)
        assert len(everyone) == row.certified
        free = 0.0
        if worst.free is not None:
            gap = float(worst.free.correct) - worst.free.confidence
            free = worst.free.count * worst.signs[worst.free.bin] * gap / row.inputs
        assert sum(one.share for one in everyone) + free == pytest.approx(row.certified_ece, abs=1e-9)
        shares = [one.share for one in everyone]
        assert shares == sorted(shares, reverse=True)
        assert all(one.lower <= one.worst <= one.upper and one.certified_radius >= row.radius for one in everyone)
        assert contributions_at(report, position, limit=3) == everyone[:3]


def test_bounds_of_single_inputs_are_written_outward(report):
    data = page_data(report, title="t", created="now", facts=[])
    for view, position in zip(data["views"], range(len(report)), strict=True):
        for short, one in zip(view["top"], contributions_at(report, position), strict=True):
            assert 0 <= one.lower - short["lower"] < 1.1e-6
            assert 0 <= short["upper"] - one.upper < 1.1e-6
    for value in (0.0, 0.5, 1.0, 0.3, np.nextafter(0.3, 0.0), np.nextafter(0.3, 1.0), 0.123457):
        assert 0 <= value - _below(value) < 1e-6
        assert _below(-value) <= -value


def test_contributions_name_the_right_inputs(report):
    own, evidence = report.bounds[1], report.evidence
    for one in contributions_at(report, 1):
        place = int(np.flatnonzero(evidence.index == one.index)[0])
        assert (own.lower[place], own.upper[place], bool(own.correct[place])) == (one.lower, one.upper, one.correct)
        assert (evidence.label[place], evidence.selected[place]) == (one.label, one.predicted)


def test_boxes_moves_and_widths_are_of_the_certified_inputs(report):
    own = report.bounds[1]
    kept = own.certified
    boxes, moves, widths = (
        prepare_boxes(report, 1, limit=40),
        prepare_moves(report, 1, limit=40),
        prepare_widths(report, 1),
    )
    assert boxes.inputs == moves.inputs == widths.correct.sum() + widths.incorrect.sum() == kept.sum()
    assert len(boxes.lower) == len(moves.clean) == min(40, kept.sum())
    assert np.array_equal(own.lower[kept][boxes.shown], boxes.lower)
    assert np.array_equal(own.confidence[kept][moves.shown], moves.clean)
    assert ((boxes.lower <= boxes.worst) & (boxes.worst <= boxes.upper)).all()
    assert widths.incorrect.sum() == (kept & ~own.correct).sum()


def test_nobody_certified(report):
    assert prepare_boxes(report, 3).inputs == 0
    assert prepare_moves(report, 3).inputs == 0
    assert contributions_at(report, 3) == []
    assert prepare_widths(report, 3).correct.sum() == 0
    if report.population == "certified":
        assert reliability_at(report, 3) is None
    else:
        assert reliability_at(report, 3)[1].error == pytest.approx(1.0)


def test_page_data_is_json_and_says_what_the_report_says(report):
    data = page_data(report, title="a", created="now", facts=[("b", "c")], classes=[f"class {k}" for k in range(10)])
    again = json.loads(json.dumps(data, allow_nan=False))
    assert [row["certified_accuracy"] for row in again["rows"]] == [row.certified_accuracy for row in report.rows]
    assert len(again["views"]) == len(again["cells"]) == 4
    assert again["headline"] == again["views"][again["default_view"]]["sentence"]
    view, own = again["views"][1], report.bounds[1]
    place = {int(index): n for n, index in enumerate(report.evidence.index)}
    for index, low, high in zip(*(view["boxes"][key] for key in ("index", "lower", "upper")), strict=True):
        assert low <= own.lower[place[index]]  # drawn boxes are rounded outward
        assert high >= own.upper[place[index]] - 1e-15
    assert view["top"][0]["label"].startswith("class ")


def test_a_position_beyond_the_rows_is_refused(report):
    with pytest.raises(InputError, match="Expected `position` to be that of one of 4 rows, but got 9"):
        prepare_boxes(report, 9)


def test_the_page_shows_radii_rising_each_once(report):
    radii = [0.3, 0.0, 0.3, 0.15]
    shuffled = evaluate(report.evidence, radii=radii, alpha=0.01, population=report.population)
    data = page_data(shuffled, title="a", created="now", facts=[])
    assert [row["radius"] for row in data["rows"]] == [view["radius"] for view in data["views"]] == [0.0, 0.15, 0.3]
    half = [row.radius for row in shuffled.rows if 2 * row.certified >= shuffled.inputs]
    assert data["rows"][data["default_view"]]["radius"] == max(half)


@pytest.mark.slow
def test_many_radii_make_no_heavy_page(report):
    many = evaluate(report.evidence, radii=np.linspace(0, 0.4, 100), alpha=0.01, population=report.population)
    data = page_data(many, title="a", created="now", facts=[])
    assert len(json.dumps(data)) < 800_000


def test_classes_without_a_name_are_numbered(report):
    data = page_data(report, title="a", created="now", facts=[], classes=["only one"])
    names = {top[key] for view in data["views"] for top in view["top"] for key in ("label", "predicted")}
    assert names <= {"only one", "1"}


@pytest.mark.parametrize("size", [0, 1, 5, 1000])
@pytest.mark.parametrize("levels", [1, 3, 10**6])
def test_a_few_places_of_a_stable_order_need_no_whole_one(rng, size, levels):
    order = rng.integers(0, levels, size) / levels
    ranks = np.linspace(0, size - 1, min(size, 120)).round().astype(np.intp)
    np.testing.assert_array_equal(_stably_sorted_at(order, ranks), np.argsort(order, kind="stable")[ranks])

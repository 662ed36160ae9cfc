"""Reference packs: what is stored follows from the evidence, and what was changed is noticed."""

import json
import math
import shutil
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from certcal import evaluate
from certcal.certificates import confidence_bounds_at
from certcal.errors import InputError
from certcal.evaluation import row_at
from certcal.recalibration import CANDIDATES, IdentityMap, choose_map, score_bounds
from certcal.report import Board, Standing, Track, leaderboard_page, plot_standings, standing_cells
from certcal.studies import Pack, ReferenceRow, add_to_pack, boards_of, differences, entry_rows, reference_rows
from command import certcal
from places import ROOT

TREE, PARTS = ROOT / "reference", 12
IDENTITY = SimpleNamespace(map=IdentityMap())  # as a choice of no map
FACTS = {"name": "mine", "data": "digits", "network": "net", "method": "own", "radii": [0.1], "source": "me"}


def test_the_papers_track_is_by_the_papers_limits_whatever_looks_were_planned():
    pack = Pack.read(TREE)
    evidence = pack.evidence(next(one for one in pack.entry if one.name == "digits-noise-s0.25"))
    others = replace(evidence, header=replace(evidence.header, stages=(250, 500), looks=2))
    once = replace(evidence, header=replace(evidence.header, stages=(4000,), looks=1))
    (paper, plain), (own, wider) = (entry_rows("x", one, [0.25]) for one in (once, others))
    assert paper == own
    (bounds,) = confidence_bounds_at(once, radii=[0.25], alpha=0.001, method="cdf", split_alpha=False)
    assert paper.certified_ece == row_at(bounds).certified_ece
    assert plain.certified_ece < wider.certified_ece


def test_rows_of_the_tree_follow_from_its_evidence():
    """One model of each data set; `test_the_whole_table_is_recomputed` does all, and the maps."""
    pack = Pack.read(TREE)
    assert pack.problems() == []
    assert {row.entry for row in pack.rows()} == {one.name for one in pack.entry if one.radii}
    for entry in {one.data: one for one in pack.entry if one.radii}.values():
        stored = [row for row in pack.rows() if row.entry == entry.name and row.track in reference_rows.PLAIN]
        assert differences(stored, entry_rows(entry.name, pack.evidence(entry), entry.radii)) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_the_whole_table_is_recomputed(part):
    """In parts, which several workers share: most of the time goes into maps."""
    names = [one.name for one in Pack.read(TREE).entry][part::PARTS]
    certcal("reference", "recompute", TREE, *(word for name in names for word in ("--only", name)), cwd=ROOT)


def test_rows_are_those_of_an_evaluation():
    pack = Pack.read(TREE)
    entry = pack.entry[0]
    report = evaluate(pack.evidence(entry), radii=entry.radii, alpha=0.001, method="cdf", split_alpha=False)
    stored = {row.key: row for row in pack.rows()}
    for row in report:
        own = stored[entry.name, "paper", row.radius]
        for name in ("certified_accuracy", "certified_ece", "certified_brier"):
            assert getattr(own, name) == pytest.approx(getattr(row, name), abs=1e-12)
        assert stored[entry.name, "plain", row.radius].certified_ece <= own.certified_ece  # sharper bounds


def test_maps_are_scored_on_every_input_once():
    """Each half in turn: the mean of both without the map is that of all inputs, where halves are as large."""
    pack = Pack.read(TREE)
    rows = {row.key: row for row in pack.rows()}
    mapped = [row for row in rows.values() if row.track == "recalibrated"]
    assert mapped
    for row in mapped:
        assert row.brier_all_before == pytest.approx(rows[row.entry, "plain", row.radius].brier_all, abs=5e-4)


def test_the_tree_stays_small_and_says_where_it_comes_from():
    files = [path for path in TREE.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files if path.parent.name == "evidence") <= 10e6
    assert not [path for path in files if path.suffix in (".pt", ".pth", ".safetensors")]
    for one in Pack.read(TREE).entry:
        assert one.device
        assert one.versions["torch"]
        assert one.commit
        assert one.chosen


def test_a_changed_number_is_noticed(copy, monkeypatch):
    rows = copy.rows()
    worse = replace(rows[1], certified_ece=rows[1].certified_ece - 1e-6)
    assert len(differences([rows[0], worse, *rows[2:]], rows)) == 1
    assert "certified_ece" in differences([rows[0], worse, *rows[2:]], rows)[0]
    assert len(differences(rows[1:], rows)) == len(differences(rows, rows[1:])) == 1
    mapped = next(row for row in rows if row.track == "recalibrated")
    near, far = (replace(mapped, certified_ece=mapped.certified_ece + step) for step in (5e-4, 2e-3))
    others = [row for row in rows if row is not mapped]
    assert differences([*others, near], rows) == []
    assert len(differences([*others, far], rows)) == 1
    few = partial(choose_map, candidates=CANDIDATES[:2], repeats=1)  # `test_the_whole_table_is_recomputed` tries all
    monkeypatch.setattr("certcal.studies.reference_rows.choose_map", few)
    pack = add_to_pack(copy.folder, copy.evidence(copy.entry[0]).select(np.arange(100)), FACTS | {"mapped": [0.1]})
    words = ["reference", "recompute", copy.folder, "--only", "mine"]
    certcal(*words, cwd=copy.folder)
    *others, plain, mapped = pack.rows()
    assert (plain.key, mapped.key) == (("mine", "plain", 0.1), ("mine", "recalibrated", 0.1))
    pack.write_rows([*others, *(replace(row, certified_ece=row.certified_ece - 2e-3) for row in (plain, mapped))])
    _, error = certcal(*words, cwd=copy.folder, code=1)
    for track in ("plain", "recalibrated"):
        assert f"mine, {track}, R = 0.1: certified_ece" in error
    before = pack.rows()
    others = [replace(row, acce=0.0625) for row in before[-3:]]  # only the first can have one
    pack.write_rows([*before[:-3], *others])
    told, error = certcal(*words, "--write", cwd=copy.folder)
    assert "1 entry, recomputed and stored: 2 numbers changed" in told
    assert "mine, plain, R = 0.1: certified_ece" in error
    assert "every row is as stored" in certcal(*words, "--write", cwd=copy.folder)[0]
    assert pack.rows()[:-3] == before[:-3]
    assert pack.rows()[-3] == others[0]  # what takes long is not lost where it is not made again
    assert all(math.isnan(row.acce) for row in pack.rows()[-2:])
    assert not pack.problems()
    assert [row.certified_ece for row in pack.rows()[-2:]] == [row.certified_ece for row in (plain, mapped)]


def test_changed_missing_and_stray_evidence_is_noticed(copy):
    first, second, *_ = (copy.file(one) for one in copy.entry)
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 1
    first.write_bytes(content)
    second.unlink()
    (copy.folder / "evidence" / "other.parquet").touch()
    out, _ = certcal("reference", "verify", copy.folder, "--json", cwd=copy.folder, code=1)
    found = json.loads(out)["problems"]
    for word in ("is not the file that was added", "is missing", "is not in the manifest"):
        assert sum(line.endswith(word) for line in found) == 1
    with pytest.raises(InputError, match="hold the evidence that its manifest names"):
        copy.recompute()


def test_what_was_killed_between_rows_and_manifest_is_added_again(copy, monkeypatch):
    evidence, before = copy.evidence(copy.entry[0]).select(np.arange(60)), copy.rows()
    with monkeypatch.context() as patch:
        patch.setattr("certcal.studies.adding.toml_list", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            add_to_pack(copy.folder, evidence, FACTS)
    assert Pack.read(copy.folder) == copy  # with rows too many, which no entry gives
    pack = add_to_pack(copy.folder, evidence, FACTS)
    assert [row.key for row in pack.rows()] == [row.key for row in before] + [
        ("mine", "paper", 0.1),
        ("mine", "plain", 0.1),
    ]
    assert not list(copy.folder.rglob(".*.part"))


def test_a_pack_that_leads_elsewhere_is_not_added_to(copy, tmp_path):
    shutil.move(copy.folder / "evidence", tmp_path / "elsewhere")
    (copy.folder / "evidence").symlink_to(tmp_path / "elsewhere")
    before = sorted((tmp_path / "elsewhere").iterdir())
    with pytest.raises(InputError, match=r"`pack` to hold folders of its own, but got .* a link to another place"):
        add_to_pack(copy.folder, copy.evidence(copy.entry[0]).select(np.arange(60)), FACTS)
    assert sorted((tmp_path / "elsewhere").iterdir()) == before


def test_evidence_is_submitted_not_numbers(copy, tmp_path, monkeypatch):
    old = copy.entry[0]
    evidence = copy.evidence(old).select(np.arange(60))
    pack = add_to_pack(copy.folder, evidence, FACTS)
    assert pack == Pack.read(copy.folder)
    assert pack.problems() == []
    assert differences([row for row in pack.rows() if row.entry == "mine"], entry_rows("mine", evidence, [0.1])) == []
    monkeypatch.setattr("certcal.smoothing.shards._provenance", lambda: {"written": "later"})
    assert add_to_pack(copy.folder, evidence, FACTS) == pack  # as after a kill at the last moment
    with pytest.raises(InputError, match="`name` to be new in the pack"):
        add_to_pack(copy.folder, evidence, FACTS | {"method": "another"})
    with pytest.raises(InputError, match="`name` to be new in the pack"):
        add_to_pack(copy.folder, evidence.select(np.arange(50)), FACTS)
    assert pack.problems() == []
    with pytest.raises(InputError, match="small letters"):
        add_to_pack(copy.folder, evidence, FACTS | {"name": "../mine"})
    with pytest.raises(InputError, match="Unknown setting metod"):
        add_to_pack(copy.folder, evidence, FACTS | {"name": "more", "metod": "x"})
    with pytest.raises(InputError, match=r"folder with a manifest.toml"):
        Pack.read(tmp_path)


def halves(pack, old=0, at=150):
    """The pack with the evidence of one entry in two parts, the first only there to fit maps on."""
    evidence = pack.evidence(pack.entry[old])
    facts = {"data": "digits", "network": "net", "method": "own", "device": "cpu"}
    add_to_pack(pack.folder, evidence.select(np.arange(at)), facts | {"name": "to-fit", "radii": []})
    return evidence.select(np.arange(at, len(evidence))), facts | {"name": "judged", "fitted_on": "to-fit"}


def test_maps_are_not_fitted_on_what_they_are_judged_on(copy):
    judged, facts = halves(copy)
    pack = add_to_pack(copy.folder, judged, facts | {"radii": [0.1]})
    assert {row.entry for row in pack.rows()} >= {"judged"}
    assert not [row for row in pack.rows() if row.entry == "to-fit"]
    for changes, wrong in (
        (
            {"name": "overlap", "evidence": copy.evidence(copy.entry[0]).select(np.arange(140, 200))},
            "hold other inputs than its own",
        ),
        ({"name": "other", "evidence": copy.evidence(copy.entry[1]).select(np.arange(150, 200))}, "the same model"),
        (
            {"name": "nowhere", "evidence": judged.select(np.arange(60)), "fitted_on": "none"},
            "name an entry of the pack",
        ),
    ):
        with pytest.raises(InputError, match=wrong):
            add_to_pack(copy.folder, changes.pop("evidence", judged), facts | {"radii": [0.1]} | changes)


def test_a_track_of_its_own_shows_what_a_smaller_error_costs(copy, monkeypatch):
    asked = []
    monkeypatch.setattr(reference_rows, "choose_map", lambda part, **how: asked.append(how["brier_loss"]) or IDENTITY)
    pack = add_to_pack(copy.folder, copy.evidence(copy.entry[0]).select(np.arange(100)), FACTS | {"freer": [0.1]})
    *_, plain, row = pack.rows()
    each = reference_rows.HALVES * reference_rows.SPLITS
    assert (row.key, asked) == (("mine", "freer", 0.1), [reference_rows.FREER_LOSS] * each)
    assert (row.certified_accuracy, row.brier_all) == (plain.certified_accuracy, row.brier_all_before)
    assert differences([*pack.rows()[:-1], replace(row, certified_ece=row.certified_ece + 5e-4)], pack.rows()) == []
    pack.write_rows([*pack.rows()[:-1], replace(row, maps=1.0)])
    (board,) = [one for one in boards_of(pack) if one.data == "digits"]
    assert [len(own.standings) for own in board.tracks] == [10, 10, 1]


@pytest.mark.slow
def test_maps_fitted_on_other_inputs_are_scored_on_all(copy):
    place = [one.name for one in copy.entry].index("fashion-mnist-s0.25-e0.50-m4-t2-acce-act-004-seed0")
    judged, facts = halves(copy, place, at=250)
    pack = add_to_pack(copy.folder, judged, facts | {"radii": [0.5], "mapped": [0.5], "brier_loss": 0.01})
    row = next(row for row in pack.rows() if (row.entry, row.track) == ("judged", "recalibrated"))
    fit = pack.evidence(next(one for one in pack.entry if one.name == "to-fit"))
    terms = {"alpha": 0.001, "method": "cdf-cp", "split_alpha": True}
    own = choose_map(fit, radii=0.5, brier_loss=0.01, **terms).map
    assert own.kind != "identity"
    (bounds,) = own.certify(judged, radii=[0.5], **terms)
    assert row.certified_ece == pytest.approx(score_bounds(bounds).certified_ece, abs=1e-12)
    assert row.brier_all_before == pytest.approx(row_at(*confidence_bounds_at(judged, radii=[0.5], **terms)).brier_all)


def test_the_leaderboard_keeps_tracks_and_published_numbers_apart(copy):
    boards = boards_of(copy)
    assert [one.data for one in boards] == ["fashion-mnist", "cifar10", "digits"]  # the paper's first
    board = boards[-1]
    assert [len(own.standings) for own in board.tracks] == [9, 9]  # three models at three radii; no half learned a map
    few = [replace(own, standings=[one for one in own.standings if one.radius == 0.25]) for own in board.tracks]
    page = leaderboard_page([replace(board, tracks=few, published=[("AT", 1.0, "60–63", "48.03", "27.87")])])
    methods = {one.method for own in few for one in own.standings}
    assert page.count("<svg") == 2 * 2 + len(methods) + 1  # two scores on two tracks, and the key to methods and front
    assert page.index("as published, not recomputed") > page.index("<h4>Our bounds")
    assert "48.03" in page
    assert "<script" not in page
    names = [one.name.removeprefix("digits-") for one in copy.entry if one.data == "digits"]
    assert all(page.count(f">{name}<") == 2 for name in names)


def test_a_long_table_shows_its_front_and_figures_leave_out_what_is_far():
    made = [Standing(f"m{place}", "AT", 0.5, 0.8 - 0.01 * place, 0.1 + 0.01 * place, 0.2, 0.1) for place in range(9)]
    far = Standing("far", "ACT", 0.5, 0.3, 0.9, 0.9, 0.1)
    page = leaderboard_page([Board("toy", [Track("One way", "It is told.", [*made, far])], [])])
    folded = page[page.index("<details>") :]
    assert "All 10 entries" in folded
    assert [page.count(f">{name}<") for name in ("m0", "m1", "far")] == [2, 1, 1]  # m0 is the front, told twice
    assert "Not in the figures: 3 entries with" in page
    axes = plot_standings([*made, far], "certified_ece", legend=False)
    assert axes.get_xlim()[0] > 70
    assert axes.get_ylim()[1] < 25
    assert axes.get_legend() is None


def test_the_front_is_in_bold_and_certified_numbers_err_outward():
    made = [
        Standing("a", "AT", 0.5, 2 / 3, 0.123401, 0.2, 0.1),
        Standing("b", "AT", 0.5, 0.5, 0.2, 0.3, 0.1),
        Standing("c", "ACT", 0.5, 0.4, 0.1, 0.1, 0.1),
    ]
    _, lines, front = standing_cells(made)
    assert [line[0] for line in lines] == ["a", "b", "c"]
    assert front == [True, False, True]
    assert lines[0][1:3] == ["66.66 %", "12.35 %"]
    assert plot_standings(made, "certified_ece").get_legend_handles_labels()[1] == ["AT", "ACT", "Pareto front"]


def test_rows_where_nothing_is_certified_are_kept(copy):
    rows = entry_rows(copy.entry[0].name, copy.evidence(copy.entry[0]), [5.0])
    assert all(row.certified_accuracy == 0 and math.isnan(row.certified_ece) for row in rows)
    copy.write_rows(rows)
    assert differences(copy.rows(), rows) == []
    assert isinstance(copy.rows()[0], ReferenceRow)

"""What docs/reproduction.md says in words follows from the rows, and numbers that need a mark have one."""

import re
import shutil
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from experiments import directions, glance, not_run, reproduction, tuned
from experiments.beside_others import correlations, published
from experiments.pack_table import ORDER
from scipy.stats import rankdata

from certcal.settings import toml_list
from certcal.studies import EXHIBITS, Pack
from certcal.studies.exhibits import _parts
from certcal.studies.ranked import trade_off_values
from certcal.studies.stored import Source
from made_up_tables import made_up


@pytest.fixture(scope="module")
def pack():
    return Pack.read(reproduction.ROOT / "reference")


@pytest.fixture(scope="module")
def fashion(pack):
    return reproduction.Table(pack, "fashion-mnist")


def with_maps(table, share, *names):
    """The table with a share of the halves of entries in which a map was learned."""
    table.rows = [replace(row, maps=share) if row.entry in names and row.track == "recalibrated" else row
                  for row in table.rows]  # fmt: skip
    return table


def rows_of(text):
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]


def test_numbers_over_halves_without_a_map_are_marked(pack):
    marks = []
    for data in ("fashion-mnist", "cifar10"):
        table = reproduction.Table(pack, data)
        learned = {(row.radius, row.entry): row.maps for row in table.rows if row.track == "recalibrated"}
        for line in rows_of(reproduction.chosen(table))[2:] + rows_of(reproduction.honest(table))[2:]:
            model = line[-1].split()[0]
            name = f"{data}-{model}{'' if '-seed' in model else '-seed0'}"
            share = learned.get((float(line[0]), name))
            assert line[8].endswith(" ◦") == bool(share and share < 1), line
            marks.append(line[8].endswith(" ◦"))
        for line in rows_of(reproduction.spread(table))[2:]:
            for seed, cell in zip(line[3].split(" / "), line[7].split(" / "), strict=True):
                name = f"{data}-{line[2]}-seed{re.sub(' [(].*', '', seed).replace(' ', '-')}"
                share = learned.get((float(line[0]), name))
                assert ("◦" in cell) == bool(share and share < 1), line
                marks.append("◦" in cell)
    assert 50 < sum(marks) < len(marks) / 2


def test_the_page_marks_its_answers_too():
    table = with_maps(made_up(("base-seed0", 0, 0.77, 0.5, 0.125, 0.004, "")), 0.5, "base-seed0")
    for text, wanted in (
        (glance.in_short(table), "| 50.00 | 50.00 | 12.50 ◦ |"),
        (glance.answers([table]), "50.00 by cdf-cp and 12.50 ◦ with a map"),
        (glance.overview([table]), "| 12.50 ◦ (39.62) | 25.00 ◦ (17.77) | +0.40 ◦ |"),
        (reproduction.headline(table), "| 12.50 ◦ ± 1.00 (39.62) | — | 25.00 ◦ (17.77) | 10.00 → 10.40 ◦ |"),
    ):
        assert wanted in text
        assert "◦" not in text.replace(wanted, "")


def test_the_answer_has_the_other_trainings_of_the_model_it_quotes():
    own = ("base-seed0", 0, 0.77, 0.5, 0.125, 0.0, "")
    assert "and 12.50 with a map. One training." in glance.answers([made_up(own)])
    others = ("base-seed1", 1, 0.77, 0.5, 0.25, 0.0, ""), ("base-seed0-again", 0, 0.77, 0.5, 0.0625, 0.0, "")
    told = "Other trainings of the model with 12.50 have "
    table = made_up(own, *others)
    assert f"{told}6.25 (seed 0 again), 25.00 (seed 1). The least" in glance.answers([table])
    with_maps(table, 2 / 3, "base-seed1")
    assert (
        f"{told}6.25 (seed 0 again), 25.00 ◦ (seed 1): a map was learned in 66 % of their halves, in all of its own."
        in (glance.answers([table]))
    )


def test_the_answer_tells_a_choice_of_model_from_bounds():
    models = ("base-seed0", 0, 0.77, 0.25, 0.1, 0.0, ""), ("base-tuned-1-seed0", 0, 0.77, 0.375, 0.1, 0.0, "")
    told = glance.answers([made_up(*models)])
    assert "is 42.35 in the paper; here 25.00 by the paper's bounds, 25.00 by cdf-cp" in told  # of AT and Brier-ACT
    assert "it is AT, base, where the paper's AT has 42.55. Brier-ACT here: 37.50." in told
    near = ("base-seed0", 0, 0.77, 0.4, 0.1, 0.0, ""), ("base-tuned-1-seed0", 0, 0.77, 0.41, 0.1, 0.0, "")
    assert "choice of model" not in glance.answers([made_up(*near)])


@pytest.mark.parametrize(
    ("error", "after", "told"),
    [
        (0.5, 0.1, "At every R the paper's methods do not reach its least error by sharper bounds alone; with a map"),
        (0.5, 0.45, "methods do not reach its least error by sharper bounds alone, nor do they with a map."),
        (0.4, 0.1, ""),
    ],
)
def test_the_answer_says_where_sharper_bounds_gain_nothing(error, after, told):
    found = glance.answers([made_up(("base-seed0", 0, 0.77, error, after, 0.0, ""))])
    assert told in found
    assert bool(told) == ("do not reach" in found)


def tuned_table(plain, brier):
    """A baseline at R = 0.5, and what AT and Brier-ACT make of its error."""
    table = made_up(
        ("fashion-mnist-one-seed0", 0, 0.77, 0.4, 0.1, 0.0, ""),
        ("fashion-mnist-one-again-seed0", 0, 0.77, plain, 0.1, 0.0, ""),
        ("fashion-mnist-one-tuned-1-seed0", 0, 0.77, brier, 0.1, 0.0, ""),
        ("fashion-mnist-two-seed0", 0, 0.77, 0.3, 0.1, 0.0, ""),
    )  # fmt: skip
    for name, method in (("one-again", "Finetuned AT"), ("one-tuned-1", "Brier-ACT")):
        name = f"fashion-mnist-{name}-seed0"
        table.entries[name] = replace(table.entries[name], baseline="one", method=method)
    return table


def test_a_method_is_compared_with_its_own_baseline_before_others(monkeypatch):
    table = tuned_table(0.4, 0.36)
    monkeypatch.setitem(table.paper["ACCE"], "Brier-ACT", [0.0, 0.0, 0.0, 40.55, 0.0])  # two points below AT's
    (one,) = directions.compared(table)
    assert (one.own, one.selected) == (pytest.approx(-4.0), pytest.approx(6.0))  # to `one`, and to `two`
    monkeypatch.setattr(directions, "_why_none", lambda *_: "")  # one seed each
    told = glance.answers([table])
    assert "order as in the paper in 1 of 1 comparisons and the other way in 0; 0 are too small to tell in" in told
    assert "in the paper in 0 and the other way in 1 (Brier-ACT − AT at R = 0.5)." in told


def test_at_alone_is_said_to_do_as_much_only_where_it_does(monkeypatch):
    monkeypatch.setattr(directions, "SMALL", 0.5)
    told = " fine-tuning by AT alone changes the error as Brier-ACT does: by -3.00 and -4.00 points in the mean of 1"
    assert told in directions.alike(tuned_table(0.37, 0.36))
    assert directions.alike(tuned_table(0.40, 0.36)) == ""
    monkeypatch.setattr(directions, "SMALL", 0.2)
    assert directions.alike(tuned_table(0.37, 0.36)) == ""


def test_baselines_left_out_for_their_draws_are_named(fashion):
    table = tuned_table(0.37, 0.36)
    again = "fashion-mnist-one-seed1"
    table.entries[again] = replace(table.entries["fashion-mnist-one-seed0"], name=again, train_seed=1)
    table.rows += [replace(row, entry=again) for row in table.rows if row.entry == "fashion-mnist-one-seed0"]
    table.inputs[again], table.model[again], table.draws[again] = 500, again, "10,000"
    assert "larger error: one-seed1 (10,000 draws)." in tuned.tuned(table)
    table.draws[again] = "100,000"
    assert "Left out" not in tuned.tuned(table)
    few = {one.baseline for one in tuned.changes(fashion) if one.most < 3}  # whose seeds are not all there
    named = tuned.left_out(fashion, tuned.changes(fashion))
    assert few
    assert few <= {name.partition("-seed")[0] for name in named}


def test_entries_with_fewer_draws_are_listed_once_and_marked_in_tables(pack):
    every = reproduction.tables_of(pack)
    few = not_run.fewer(every)
    assert {line[0].strip("`") for line in rows_of(not_run.few_draws(every))[2:]} == set(few)
    assert f"- {len(few)} entries of the paper's data with [fewer draws]" in reproduction.PAGE.read_text(
        encoding="utf-8"
    )
    (images,) = (table for table in every if table.data == "cifar10")
    assert all(line[-1].endswith("draws)") for line in rows_of(reproduction.chosen(images))[2:])


def test_rows_of_both_selections_stand_in_one_order(fashion):
    for text in (reproduction.chosen(fashion), reproduction.honest(fashion)):
        keys = [(float(line[0]), ["CCE", "CBS"].index(line[1]), ORDER.index(line[2])) for line in rows_of(text)[2:]]
        assert keys == sorted(keys)


@pytest.mark.slow
def test_correlations_are_those_of_the_figure(fashion):
    """The exhibit's own models and values, here ranked by hand."""
    (models,) = _parts(EXHIBITS["figure-trade-off"], [Source.found(reproduction.ROOT / "reference")], [])
    table = trade_off_values([one for one in models if one.data == fashion.data])
    ranks = {R: [rankdata(table[R][name]) for name in ("CA", "ACR", "CBS", "CCE")] for R in fashion.paper["radii"]}
    lines = rows_of(correlations(fashion))[2:]
    assert [line[0] for line in lines] == [f"{radius:g}" for radius in fashion.paper["radii"]]
    for line, own in zip(lines, ranks.values(), strict=True):
        found = [np.corrcoef(own[one], own[other])[0, 1] for one, other in combinations(range(4), 2)]
        assert line[1:] == [str(len(own[0])), *(f"{value:+.2f}" for value in found)]


def test_paragraphs_are_told_once():
    table = "| R |\n| --- |"
    assert reproduction._once(f"## b\n\nTold:\n\n{table}", [f"## a\n\nTold:\n\n{table}"]) == (
        f"## b\n\nAs above:\n\n{table}"
    )


def with_entries(pack, folder, *added):
    """A copy of the pack with more entries, each of the evidence and rows of an existing one, by other facts."""
    shutil.copytree(pack.folder, folder, dirs_exist_ok=True)
    known, rows = {one.name: one for one in pack.entry}, pack.rows()
    entries = [replace(known[like], commit="", baseline="", settings="", **facts) for like, facts in added]
    new = Pack(folder, (*pack.entry, *entries))
    for one, (like, _) in zip(entries, added, strict=True):
        shutil.copy(pack.file(known[like]), new.file(one))
        rows += [replace(row, entry=one.name) for row in pack.rows() if row.entry == like]
    new.write_rows(rows)
    (folder / "manifest.toml").write_text(toml_list("entry", new.entry, head="made up"), encoding="utf-8")
    return Pack.read(folder)


IMAGES, FASHION = "cifar10-s0.50-e1.00-m2-t2-seed0", "fashion-mnist-s0.50-e0.50-m2-t10-seed1"
DOCUMENTED = {"name": "my-model-s0.5", "method": "my method", "source": "A. Author", "mapped": (0.5, 1.0),
              "train_seed": 0, "chosen": "the only one trained"}  # fmt: skip
STRANGERS = [
    (IMAGES, DOCUMENTED),
    (IMAGES, DOCUMENTED | {"method": "AT", "name": "cifar10-a-seed0"}),
    (FASHION, DOCUMENTED | {"method": "AT", "name": "b", "source": "source not stated"}),
    (FASHION, DOCUMENTED | {"data": "svhn", "name": "c", "method": "<b>|AT", "source": "A |\n`B`![p](//c)"}),
]


def test_submitted_rows_stand_apart_and_change_no_other_number(pack, tmp_path):
    """The documented submission, of evidence that the pack has: both pages stay, but for the table at the end."""
    every = reproduction.tables_of(with_entries(pack, tmp_path, *STRANGERS))
    assert reproduction.page(every) == reproduction.PAGE.read_text(encoding="utf-8")
    same, _, added = reproduction.tables_page(every).partition("\n## Submitted by others\n")
    assert same == reproduction.TABLES.read_text(encoding="utf-8")
    lines = rows_of(added)[2:]
    about = [("A. Author", "my-model-s0.5", "my method"), ("A. Author", "cifar10-a-seed0", "AT"),
             ("source not stated", "b", "AT"), (r"A / 'B'!\[p\](//c)", "c", "&lt;b&gt;/AT")]  # fmt: skip
    assert list(dict.fromkeys((line[0], line[1], line[4]) for line in lines)) == about
    assert {len(line) for line in lines} == {11}
    errors = {row.track: row.certified_ece for row in pack.rows() if (row.entry, row.radius) == (IMAGES, 0.5)}
    (line,) = [line for line in lines if line[1] == "my-model-s0.5" and line[5] == "0.5"]
    assert line[7:9] == [glance.up(errors[track]) for track in ("paper", "plain")]
    assert line[9].startswith(glance.up(errors["recalibrated"]))


def test_our_own_rows_need_no_seed_or_epochs_in_words(pack, tmp_path, monkeypatch):
    """Names and settings are free: what they do not say is left out, and nothing breaks."""
    own = [(IMAGES, DOCUMENTED | {"source": "certcal"}), (FASHION, DOCUMENTED | {"source": "certcal", "name": "b"})]
    every = reproduction.tables_of(with_entries(pack, tmp_path, *own))
    told = reproduction.tables_page(every)
    assert "| my-model-s0.5 | my method | — |" in told
    assert "Submitted by others" not in told
    fashion, images = every[:2]
    assert "my method at σ = 0.5 (? epochs)" in not_run.what_is_run(images)
    monkeypatch.setattr(not_run, "_models_of", lambda study: ([], []))
    assert not_run.costs(fashion)
    assert "| cifar10 | 9 |" in glance.overview(every)  # of the same weights
    for table in (fashion, images):
        for part in (glance.in_short, tuned.tuned, directions.directions, reproduction.headline):
            assert part(table)


def test_ranges_say_of_how_many_methods_they_are():
    table = made_up(("base-seed0", 0, 0.77, 0.5, 0.125, 0.0, ""), ("base-tuned-1-seed0", 0, 0.77, 0.5, 0.125, 0.0, ""))
    assert "(1 of 2)" not in glance.in_short(table)
    with_maps(table, 0.0, "base-seed0")
    assert "| 50.00 | 50.00 | 12.50 (1 of 2) |" in glance.in_short(table)
    table.rows = [replace(row, certified_accuracy=0.73) if row.entry == "base-seed0" else row for row in table.rows]
    assert "| 42.35 (1 of 2) | 50.00 (1 of 2) |" in glance.in_short(table)  # not within 3 points of the best


def test_what_studies_would_take_counts_the_papers_methods_apart(fashion):
    counts = {line[0]: (line[1], line[4]) for line in rows_of(not_run.costs(fashion))[2:]}
    assert counts["cifar10"] == (str(7 + 3 * 112), str(2 * 112))  # with AT fine-tuned; CCE-ACT, Certified Brier
    assert counts["fashion-mnist"] == (str(7 + 2 * 112), str(4 * 112))  # ACCE-ACT* and AT fine-tuned too
    assert counts["imagenet"] == (str(4 + 3 * 24), str(2 * 24))


def test_held_out_choices_of_one_baseline_are_counted(fashion):
    held = "on held-out training images: ece at 0.5"
    table = made_up(
        *((name, 0, 0.77, 0.4, 0.1, 0.0, held) for name in ("base-seed0", "base-seed0-again", "other-seed0"))
    )
    assert reproduction.several_lines(table) == 1
    assert "; in 1 case several studies chose" in reproduction.honest(table)
    assert reproduction.several_lines(made_up(("base-seed0", 0, 0.77, 0.4, 0.1, 0.0, held))) == 0
    names = [line[-1].split()[0] for line in rows_of(reproduction.honest(fashion))[2:]]
    assert {"s0.12-e0.25-m4-t2-acce-act-004", "s0.50-e1.00-m4-t10-acce-act-093"} <= set(names)


def test_sentences_have_the_counts_of_the_files(pack):
    fashion, images = (reproduction.Table(pack, data) for data in ("fashion-mnist", "cifar10"))
    told = reproduction.unseen(fashion)
    assert "saw: 2,000 images choose and fit the map, and 2,000 others score" in told
    fashion.inputs |= {name: 2001 for name, one in fashion.entries.items() if one.fitted_on}
    assert "saw: 2,000 images choose and fit the map, and 2,001 others score" in reproduction.unseen(fashion)
    assert "of 20 epochs and 10,000 draws, beside that in the logs of 500 inputs" in published(images)
    assert "resnet110 by Noise at σ = 0.25 and 0.5 (20 epochs), " in not_run.what_is_run(images)
    assert "trained for 30 and 40 epochs" in not_run.attacks()
    assert "takes the mean" in not_run.as_mean("fashion-mnist")
    assert not_run.as_mean("cifar10") == ""

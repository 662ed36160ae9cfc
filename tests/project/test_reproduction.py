"""docs/reproduction.md says what the files say, and no more."""

import json
import statistics
from dataclasses import replace

import pytest
from experiments import approximations, directions, glance, not_run, published, reproduction
from experiments.glance import ranges
from experiments.pack_table import FULL

from certcal.studies import Pack, entry_rows
from made_up_tables import made_up


@pytest.fixture(scope="module")
def pack():
    return Pack.read(reproduction.ROOT / "reference")


def test_the_pages_and_the_figure_show_the_files(pack):
    every = reproduction.tables_of(pack)
    for path, made in (
        (reproduction.PAGE, reproduction.page(every).encode()),
        (reproduction.TABLES, reproduction.tables_page(every).encode()),
        (reproduction.PICTURE, reproduction.picture(every[0])),
    ):
        assert path.read_bytes() == made, f"{path.name}: python -m experiments.reproduction"


def test_the_evidence_stays_small(pack):
    assert sum(file.stat().st_size for file in pack.evidence_folder.iterdir()) <= 10_000_000


def test_one_row_of_each_table_follows_from_its_evidence(pack):
    text = reproduction.TABLES.read_text(encoding="utf-8")
    for data in {one.data for one in pack.entry}:
        table = reproduction.Table(pack, data)
        radius = max(row.radius for row in table.rows if row.certified_accuracy > 0)
        entry = next(iter(table.selected(radius, "ece")))
        table.rows = entry_rows(entry.name, pack.evidence(entry), entry.radii)  # made again
        line = table.line(radius, "CCE", "ACCE", "certified_ece", entry)
        assert f"| {' | '.join(line[:8])} |" in text


def test_the_figure_has_the_numbers_of_the_page(pack):
    fashion = reproduction.Table(pack, "fashion-mnist")
    text, drawn = (path.read_text(encoding="utf-8") for path in (reproduction.PAGE, reproduction.PICTURE))
    for radius, ways in ranges(fashion):
        least = [low for (_, low), _ in ways]
        assert f"| {radius:g} | {'–'.join(end for _, end in ways[0])} | " in text
        assert all(f"<!-- {value} -->" in drawn for value in least)


def test_differences_are_ours_less_theirs(pack):
    for data in ("fashion-mnist", "cifar10"):
        table = reproduction.Table(pack, data)
        for entry in table.selected(0.5, "ece"):
            line = table.line(0.5, "CCE", "ACCE", "certified_ece", entry)
            if line[4] != "—":
                assert float(line[6]) == pytest.approx(float(line[5]) - float(line[4]), abs=0.011)


def test_the_exact_value_is_above_every_approximation_and_follows_from_the_evidence():
    made = json.loads(approximations.OUT.read_text(encoding="utf-8"))
    for row in made["rows"]:
        assert max(row["admm"], row["dece"], row["brier"]) <= row["exact"]
    row = made["rows"][-1]
    bounds = approximations.bounds_of(made["entry"], row["radius"])
    for method in ("exact", "brier"):
        assert approximations.value(method, bounds) == pytest.approx(row[method], abs=1e-9)


def test_published_logs_are_read_as_they_were_written():
    log = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t3\t3\t0.5\t1\t0:01\n20\t7\t1\t0.9\t0\t0:01\n"
    found = published.accuracies(log + "40\t8\t8\t0.06\t1\t0:01\n60\t4\t-1\t0.0\t0\t0:01\n")
    assert found["inputs"] == 4
    assert found["certified_accuracy"] == {"0.05": 0.5, "0.2": 0.25, "0.25": 0.25, "0.5": 0.25, "1": 0.0}


def test_a_headline_is_of_an_accurate_model_of_seed_0_within_a_point():
    held = "on held-out training images: ece at 0.5"
    table = made_up(
        ("good-seed0", 0, 0.77, 0.4, 0.09, 0.009, ""),
        ("honest-seed0", 0, 0.77, 0.4, 0.12, 0.009, held),
        ("elsewhere-seed0", 0, 0.77, 0.4, 0.10, 0.009, "on held-out training images: ece at 0.05"),
        ("dear-seed0", 0, 0.77, 0.4, 0.03, 0.011, held),
        ("weak-seed0", 0, 0.755, 0.4, 0.02, 0.001, held),
        ("other-seed1", 1, 0.77, 0.4, 0.01, 0.001, held),
        ("alone-seed0", 0, 0.77, 0.4, 0.02, 0.001, held),
        ("good-seed1", 1, 0.77, 0.4, 0.075, 0.02, ""),
        *((f"{name}-seed1", 1, 0.77, 0.4, 0.075, 0.01, "") for name in ("honest", "elsewhere", "dear", "weak")),
        ("good-seed0-again", 0, 0.77, 0.4, 0.01, 0.001, held),
    )
    assert {honest: row.entry for (_, honest), row in table.headlines.items()} == {
        False: "good-seed0", True: "honest-seed0"
    }  # fmt: skip
    assert "above the range" not in reproduction.headline(table)
    lines = reproduction.headline(table).splitlines()
    assert [line for line in lines if line.startswith("| 0.5 |")] == [
        "| 0.5 | good | 77.00 | 400 (14) | test: 3 (median 10.01) | 9.00 ± 1.00 (39.62) | 7.50‡ | 20.01 (17.77) | "
        "10.00 → 10.90 |",
        "| 0.5 | honest | 77.00 | 400 (14) | held-out: the only one | 12.00 ± 1.00 (39.62) | 7.50 | 20.01 (17.77) | "
        "10.00 → 10.90 |",
    ]
    table.rows = [replace(row, maps=0.0) if row.entry == "good-seed0" else row for row in table.rows]
    assert table.headlines[0.5, False].entry == "elsewhere-seed0"  # where no half learned a map, there is none


def test_the_headlines_stay_where_they_are(pack):
    """On inputs that maps have not seen, each seed; what held-out images chose at R = 1 has a CBS above 10 %."""
    fashion, cifar = (reproduction.Table(pack, data) for data in ("fashion-mnist", "cifar10"))
    for table, radius, most in ((fashion, 0.5, 0.1), (fashion, 1.0, 0.1), (cifar, 0.5, 0.15)):
        for honest in (False, True):
            row = table.headlines[radius, honest]
            assert max(one.certified_ece for one in table.with_seeds(row)) <= most  # each seed, not their mean
        row = table.headlines[radius, False]
        assert row.certified_ece <= most < 0.5 * min(line[table.paper["radii"].index(radius)] for line in
                                                      table.paper["ACCE"].values()) / 100  # fmt: skip
        for one in table.with_seeds(row):
            assert one.certified_brier <= (0.1 if table is fashion else 0.15)
            assert one.brier_all - one.brier_all_before <= 0.01
        assert directions.outside(table, radius, row.certified_accuracy) >= 0
    for place, radius in enumerate(fashion.paper["radii"]):  # as the README has it
        theirs = min(line[place] for line in fashion.paper["ACCE"].values())
        seeds = fashion.with_seeds(fashion.headlines[radius, False])
        assert statistics.fmean(row.certified_ece for row in seeds) < theirs / 100 / 2  # not of the luckiest seed alone
        assert 0 < max(row.brier_all - row.brier_all_before for row in seeds) < 0.01
    apart = [cifar.at("paper", R)[one.name].certified_ece - theirs / 100 for R in cifar.paper["radii"]
             for one in cifar.selected(R, "ece") if (theirs := cifar.theirs("ACCE", one.method, R))]  # fmt: skip
    assert len(apart) > 8
    assert min(apart) > 0
    told = "training and maps halve the paper's least certified calibration error, [at a price; CIFAR-10 lags]"
    assert told in (reproduction.ROOT / "README.md").read_text(encoding="utf-8")
    told = "With fewer seeds, in brackets: s0.50-e1.00-m4-t10-acce-act-093 (1), s0.50-e0.50-m2-t10-brier-act-14 (1). "
    assert told in reproduction.spread(fashion)  # held-out images chose it, no test input did
    quoted = {one.name for radius in fashion.paper["radii"] for score in ("ece", "brier")
              for one in fashion.selected(radius, score)}  # fmt: skip
    quoted |= {row.entry for row in fashion.headlines.values()}
    assert {fashion.draws[name] for name in quoted} == {FULL}


@pytest.mark.parametrize(
    ("error", "verdict"),
    [(0.35, "as in the paper"), (0.45, "**not as in the paper**"), (0.403, "too small here")],
)
def test_directions_are_read_off_only_where_they_are_clear(monkeypatch, error, verdict):
    models = [(f"base{name}-seed{seed}", seed, 0.77, value, 0.1, 0.0, "")
              for seed in (0, 1) for name, value in (("", 0.4), ("-tuned-1", error))]  # fmt: skip
    table = made_up(*models)
    monkeypatch.setitem(table.paper["ACCE"], "Brier-ACT", [0.0, 0.0, 0.0, 40.55, 0.0])  # two points below AT's
    (line,) = [line for line in reproduction.directions(table).splitlines() if "Brier-ACT" in line]
    assert line == f"| 0.5 | Brier-ACT − AT | — | {100 * (error - 0.4):+.2f} | -2.00 | — | {verdict}; other baseline |"
    for accuracy, why in ((0.754, "below"), (0.796, "above")):  # in whole points 75 and 80; the paper has 76 to 79
        table.rows = [replace(row, certified_accuracy=accuracy) for row in table.rows]
        assert f" | {why} the paper's CA: no verdict; " in reproduction.directions(table)
    for accuracy in (0.756, 0.794):
        table.rows = [replace(row, certified_accuracy=accuracy) for row in table.rows]
        assert f" | {verdict}; " in reproduction.directions(table)
    few = made_up(*(one for one in models if one[0] != "base-seed1"))
    monkeypatch.setitem(few.paper["ACCE"], "Brier-ACT", [0.0, 0.0, 0.0, 40.55, 0.0])
    told = reproduction.directions(few)
    assert " | one seed: no verdict; " in told
    assert "There is no verdict on one seed" in told
    assert "the other way in 0, 1 without a verdict (one seed)." in glance.answers([few])
    monkeypatch.setitem(few.paper["ACCE"], "Brier-ACT", [0.0, 0.0, 0.0, 41.55, 0.0])
    assert "| too small in the paper;" in reproduction.directions(few)


def test_fine_tuning_is_compared_with_its_own_baseline_over_seeds():
    table = made_up(
        ("fashion-mnist-one-seed0", 0, 0.75, 0.375, 0.1, 0.0, ""),
        ("fashion-mnist-one-seed1", 1, 0.8125, 0.5, 0.1, 0.0, ""),
        ("fashion-mnist-one-tuned-1-seed0", 0, 0.75, 0.25, 0.1, 0.0, ""),
        ("fashion-mnist-one-tuned-1-seed1", 1, 0.75, 0.5, 0.1, 0.0, ""),
        ("fashion-mnist-one-tuned-2-seed0", 0, 0.71, 0.10, 0.1, 0.0, ""),  # too far below the best accuracy
        ("fashion-mnist-other-seed0", 0, 0.74, 0.20, 0.1, 0.0, ""),  # and so is this baseline
        ("fashion-mnist-other-tuned-1-seed0", 0, 0.70, 0.10, 0.1, 0.0, ""),
    )  # fmt: skip
    for name, one in table.entries.items():
        baseline = name.split("-")[2] if "tuned" in name else ""
        table.entries[name] = replace(one, baseline=baseline)
    (line,) = [line for line in reproduction.tuned(table).splitlines() if line.startswith("| 0.5 |")]
    assert line == "| 0.5 | one | 2 | 78.12 | 43.75 | — | -6.25 (-3.1) | — | — | — | — |"
    table.draws["fashion-mnist-one-seed1"] = "10,000"  # is left out, and what started from it
    assert "| 0.5 | one | 1 | 75.00 | 37.50 | — | -12.50 (+0.0) |" in reproduction.tuned(table)
    table.rows[0] = replace(table.rows[0], certified_ece=0.5)  # trained again in the session of the fine-tuned model
    table.entries["fashion-mnist-one-seed0"] = replace(table.entries["fashion-mnist-one-seed0"], commit="later")
    again = table.entries["fashion-mnist-one-seed0-again"] = replace(
        table.entries["fashion-mnist-one-seed0"], name="fashion-mnist-one-seed0-again", commit="")  # fmt: skip
    table.rows.append(replace(table.rows[0], entry=again.name, certified_ece=0.375))
    for known in (table.inputs, table.draws, table.model):
        known[again.name] = known["fashion-mnist-one-seed0"]
    assert "| — | -12.50 (+0.0) |" in reproduction.tuned(table)
    told = "so in {} of the 2 comparisons behind these numbers. {}"  # the other is of the other baseline
    assert told.format(2, "Left out") in reproduction.tuned(table)
    one = table.entries["fashion-mnist-one-tuned-1-seed0"]
    table.entries[one.name] = replace(one, commit="of neither")
    assert told.format(1, "In the others it may be") in reproduction.tuned(table)


def test_a_seed_that_was_trained_again_counts_once():
    table = made_up(
        ("fashion-mnist-one-seed0", 0, 0.75, 0.25, 0.1, 0.0, ""),
        ("fashion-mnist-one-seed0-again", 0, 0.75, 0.5, 0.1, 0.0, ""),
        ("fashion-mnist-one-seed1", 1, 0.8125, 0.5, 0.1, 0.0, ""),
        ("fashion-mnist-one-tuned-1-seed0", 0, 0.75, 0.25, 0.1, 0.0, ""),
        ("fashion-mnist-one-tuned-1-seed0-again", 0, 0.75, 0.5, 0.1, 0.0, ""),
        ("fashion-mnist-one-tuned-1-seed1", 1, 0.8125, 0.25, 0.1, 0.0, ""),
        ("fashion-mnist-one-tuned-2-seed0", 0, 0.75, 0.375, 0.1, 0.0, ""),
        ("fashion-mnist-one-tuned-2-seed0-again", 0, 0.75, 0.125, 0.1, 0.0, ""),  # which selects nothing
    )  # fmt: skip
    for name, one in table.entries.items():
        table.entries[name] = replace(one, baseline="one" if "tuned" in name else "")
    (line,) = [line for line in reproduction.tuned(table).splitlines() if line.startswith("| 0.5 |")]
    assert line == "| 0.5 | one | 2 | 78.12 | 43.75 | — | -6.25 (+0.0) | — | — | — | — |"  # 0 from 0: 0 and +0.25


def test_commits_tell_which_models_may_start_elsewhere():
    table = made_up(
        ("fashion-mnist-one-seed0", 0, 0.75, 0.25, 0.1, 0.0, ""),
        ("fashion-mnist-one-seed0-again", 0, 0.75, 0.5, 0.1, 0.0, ""),
        ("fashion-mnist-one-seed1", 1, 0.75, 0.5, 0.1, 0.0, ""),
        *((f"fashion-mnist-one-tuned-{name}", int(name[-1]), 0.75, 0.25, 0.1, 0.0, "")
          for name in ("1-seed0", "2-seed0", "1-seed1")),
    )  # fmt: skip
    for name, one in table.entries.items():
        commit = "later" if name.endswith(("again", "1-seed0", "seed1")) else "first"
        table.entries[name] = replace(one, baseline="One" if "tuned" in name else "", commit=commit)
    assert not_run.starts(table) == ""
    table.entries["fashion-mnist-one-tuned-1-seed1"] = replace(one, commit="first", baseline="One")
    told = not_run.starts(table)
    assert told.startswith("Of 3 fine-tuned models, 2 have a baseline of their seed and commit in the pack.")
    assert told.endswith(" has not: one, 1 of seed 1.")
    assert not_run.again(table) == "Trained twice with one seed, to other weights: one."


def test_what_is_left_are_models_of_baselines_that_are_selected():
    table = made_up(
        ("fashion-mnist-one-seed0", 0, 0.77, 0.4, 0.1, 0.0, ""),
        ("fashion-mnist-two-seed0", 0, 0.77, 0.3, 0.1, 0.0, ""),
        ("fashion-mnist-one-tuned-1-seed0", 0, 0.77, 0.4, 0.1, 0.0, ""),
    )  # fmt: skip
    tuned = table.entries["fashion-mnist-one-tuned-1-seed0"]
    table.entries[tuned.name] = replace(tuned, baseline="One", certify_seconds=30.0)  # after 60 s of training
    assert "from one." in not_run.fine_tuned(table)
    assert "from two, which is selected too: 4 models, 6 minutes at" in not_run.fine_tuned(table)
    table.rows[0] = replace(table.rows[0], certified_ece=0.2)  # now the other is selected, which has a model
    assert not_run.fine_tuned(table).endswith("from one.")


def test_the_spread_counts_seeds_and_shows_maps_with_their_cost():
    table = made_up(
        ("base-seed0", 0, 0.77, 0.5, 0.125, 0.004, ""), ("base-seed1", 1, 0.78, 0.375, 0.0625, 0.012, ""),
        ("base-seed0-again", 0, 0.76, 0.25, 0.125, 0.0, ""),
    )  # fmt: skip
    told = reproduction.spread(table)
    assert "| base | 0 / 0 again / 1 | 77.00 / 76.00 / 78.00 | 50.00 / 25.00 / 37.50 |" in told
    assert "12.50 (+0.40) / 12.50 (+0.00) / 6.25 (+1.20)" in told
    assert "0 of 1 models quoted, by either choice, have three seeds. With fewer seeds, in brackets: base (2)." in told
    assert "would take 1 minutes" in told
    assert "again (1)" not in told
    table.entries["base-seed1"] = replace(table.entries["base-seed1"], chosen="on held-out training images: ece at 0.5")
    assert "0 of 1 models quoted" in reproduction.spread(table)  # other seeds are no models of their own

"""docs/reproduction.md says what the files say, and no more."""

import json
from dataclasses import replace

import pytest
from experiments import approximations, glance, not_run, published, reproduction
from experiments.glance import ranges

from certcal.studies import Entry, Pack, ReferenceRow, entry_rows, paper_table


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
    assert sum(pack.file(one).stat().st_size for one in pack.entry) <= 10_000_000


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
        least = [f"{low:.2f}" for low, _ in ways]
        assert f"| {radius:g} | {'–'.join(f'{end:.2f}' for end in ways[0])} | " in text
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


def made_up(*models):
    """A table of models (name, seed, CA, CCE, CCE after a map, rise of the Brier score, chosen) at R = 0.5."""
    table = object.__new__(reproduction.Table)
    table.data, table.paper = "fashion-mnist", paper_table("fashion-mnist")
    table.entries, table.rows, table.inputs, table.draws, table.model = {}, [], {}, {}, {}
    for name, seed, accuracy, error, mapped, rise, chosen in models:
        method = "Brier-ACT" if "tuned" in name else "AT"
        table.entries[name] = Entry(name=name, data=table.data, network="lenet", method=method, radii=(0.5,),
                                    sha256="", train_seed=seed, chosen=chosen, train_seconds=60.0)  # fmt: skip
        table.inputs[name], table.draws[name], table.model[name] = 500, "100,000", name
        scores = {"ece": 0.1, "brier": 0.1, "auroc": 0.8, "certified_brier": error / 2}
        for track, value in (("paper", error), ("plain", error), ("recalibrated", mapped)):
            told = {"brier_all": 0.1 + rise, "brier_all_before": 0.1, "deviation": 0.01}
            table.rows.append(ReferenceRow(name, track, 0.5, accuracy, value, **scores, **told))
    return table


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
        *((f"{name}-seed1", 1, 0.77, 0.4, 0.075, 0.02, "") for name in ("good", "honest", "elsewhere", "dear", "weak")),
        ("good-seed0-again", 0, 0.77, 0.4, 0.01, 0.001, held),
    )
    assert {honest: row.entry for (_, honest), row in table.headlines.items()} == {
        False: "good-seed0", True: "honest-seed0"
    }  # fmt: skip
    lines = reproduction.headline(table).splitlines()
    assert [line for line in lines if line.startswith("| 0.5 |")] == [
        "| 0.5 | good-seed0 | 77.00 | test images (3: 9.00–12.00) | 9.00 ± 1.00 (39.62) | 7.50 | 20.01 (17.77) |"
        " 10.00 → 10.90 |",
        "| 0.5 | honest-seed0 | 77.00 | held-out images (the only one) | 12.00 ± 1.00 (39.62) | 7.50 |"
        " 20.01 (17.77) | 10.00 → 10.90 |",
    ]
    table.rows = [replace(row, maps=0.0) if row.entry == "good-seed0" else row for row in table.rows]
    assert table.headlines[0.5, False].entry == "elsewhere-seed0"  # where no half learned a map, there is none


def test_the_headlines_stay_where_they_are(pack):
    """At least as accurate as the paper's models, on inputs that maps have not seen, and with three seeds."""
    fashion, cifar = (reproduction.Table(pack, data) for data in ("fashion-mnist", "cifar10"))
    for table, radius, most in ((fashion, 0.5, 0.1), (fashion, 1.0, 0.1), (cifar, 0.5, 0.15)):
        for honest in (False, True):
            row = table.headlines[radius, honest]
            assert max(one.certified_ece for one in table.with_seeds(row)) <= most  # each seed, not their mean
        row = table.headlines[radius, False]
        assert row.certified_ece <= most < 0.5 * min(line[table.paper["radii"].index(radius)] for line in
                                                      table.paper["ACCE"].values()) / 100  # fmt: skip
        assert row.certified_brier <= (0.1 if table is fashion else 0.15)
        assert row.brier_all - row.brier_all_before <= 0.01
    for place, radius in enumerate(fashion.paper["radii"]):  # as the README has it
        theirs = min(line[place] for line in fashion.paper["ACCE"].values())
        assert 2 < theirs / 100 / fashion.headlines[radius, False].certified_ece < 6.5
    assert "two to six times below the paper" in (reproduction.ROOT / "README.md").read_text(encoding="utf-8")
    told = reproduction.spread(fashion)
    assert "With fewer seeds" not in told
    quoted = {one.name for radius in fashion.paper["radii"] for score in ("ece", "brier")
              for one in fashion.selected(radius, score)}  # fmt: skip
    quoted |= {row.entry for row in fashion.headlines.values()}
    assert {fashion.draws[name] for name in quoted} == {not_run.FULL}


@pytest.mark.parametrize(
    ("error", "verdict"),
    [(0.35, "as in the paper"), (0.45, "**not as in the paper**"), (0.403, "ours is too small to tell")],
)
def test_directions_are_read_off_only_where_they_are_clear(monkeypatch, error, verdict):
    table = made_up(("base-seed0", 0, 0.77, 0.4, 0.1, 0.0, ""), ("base-tuned-1-seed0", 0, 0.77, error, 0.1, 0.0, ""))
    monkeypatch.setitem(table.paper["ACCE"], "Brier-ACT", [0.0, 0.0, 0.0, 40.55, 0.0])  # two points below AT's
    (line,) = [line for line in reproduction.directions(table).splitlines() if "Brier-ACT" in line]
    assert line.startswith(f"| 0.5 | Brier-ACT − AT | {100 * (error - 0.4):+.2f} | -2.00 | {verdict}")


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


def test_what_is_left_are_models_of_baselines_that_are_selected():
    table = made_up(
        ("fashion-mnist-one-seed0", 0, 0.77, 0.4, 0.1, 0.0, ""),
        ("fashion-mnist-two-seed0", 0, 0.77, 0.3, 0.1, 0.0, ""),
        ("fashion-mnist-one-tuned-1-seed0", 0, 0.77, 0.4, 0.1, 0.0, ""),
    )  # fmt: skip
    tuned = table.entries["fashion-mnist-one-tuned-1-seed0"]
    table.entries[tuned.name] = replace(tuned, baseline="One", certify_seconds=30.0)  # after 60 s of training
    assert "from one." in not_run.fine_tuned(table)
    assert "from two, which is selected too, so differences to AT are large there: 4 models, 6 minutes" in (
        not_run.fine_tuned(table).replace("\n  ", " ")
    )
    table.rows[0] = replace(table.rows[0], certified_ece=0.2)  # now the other is selected, which has a model
    assert not_run.fine_tuned(table).endswith("from one.")


def test_the_answer_has_the_other_trainings_of_the_model_it_quotes():
    table = made_up(("base-seed0", 0, 0.77, 0.5, 0.125, 0.0, ""))
    assert glance.answers([table]).splitlines()[0].endswith("and 12.50 with a map (one training).")
    others = ("base-seed1", 1, 0.77, 0.5, 0.25, 0.0, ""), ("base-seed0-again", 0, 0.77, 0.5, 0.0625, 0.0, "")
    told = glance.answers([made_up(("base-seed0", 0, 0.77, 0.5, 0.125, 0.0, ""), *others)])
    assert "12.50 with a map (25.00, 6.25 when trained again or with other seeds: the least of many errs low)." in told


def test_the_spread_counts_seeds_and_shows_maps_with_their_cost():
    table = made_up(
        ("base-seed0", 0, 0.77, 0.5, 0.125, 0.004, ""), ("base-seed1", 1, 0.78, 0.375, 0.0625, 0.012, ""),
        ("base-seed0-again", 0, 0.76, 0.25, 0.125, 0.0, ""),
    )  # fmt: skip
    told = reproduction.spread(table)
    assert "| base | 0 / 0 again / 1 | 77.00 / 76.00 / 78.00 | 50.00 / 25.00 / 37.50 |" in told
    assert "12.50 (+0.40) / 12.50 (+0.00) / 6.25 (+1.20)" in told
    assert "0 of 1 models quoted have three seeds. With fewer seeds, in brackets: base (2)." in told
    assert "took 1 minutes" in told

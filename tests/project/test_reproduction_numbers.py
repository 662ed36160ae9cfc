"""Numbers of docs/reproduction.md that only whole pages showed before: here of tables whose answers are plain."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from experiments import directions, glance, headlines, not_run, reproduction, tuned
from experiments.beside_others import harmony, published

from certcal.studies import Pack, paper_table
from made_up_tables import made_up

NAME = "fashion-mnist-one"


def trained(*models):
    """A made-up table of one baseline and what is fine-tuned from it: name, seed, method, CA and CCE at R = 0.5."""
    table = made_up(*((f"{NAME}{name}-seed{seed}", seed, accuracy, error, 0.1, 0.0, "")
                      for name, seed, _, accuracy, error in models))  # fmt: skip
    for name, seed, method, *_ in models:
        own = table.entries[f"{NAME}{name}-seed{seed}"]
        table.entries[own.name] = replace(own, method=method, baseline="one" if name else "")
    return table


def three(errors=(0.4155, 0.4235, 0.4362), accuracies=(0.77, 0.77, 0.77)):
    """AT, Brier-ACT and ACCE-ACT, by default 1, 0 and -4 points below the paper's 42.55, 42.35 and 39.62."""
    methods = ("", "AT"), ("-b", "Brier-ACT"), ("-a", "ACCE-ACT")
    return trained(*((name, 0, method, accuracy, error)
                     for (name, method), accuracy, error in zip(methods, accuracies, errors, strict=True)))  # fmt: skip


def test_how_near_errors_are_to_the_papers():
    assert "2 of 3 errors are within 3 points of the paper's.\n" in glance.answers([three()])
    far = three(errors=(0.3, 0.4235, 0.3962))
    assert "2 of 3 errors are within 3 points of the paper's.\n" in glance.answers([far])  # 12 below is not near
    apart = "ours less the paper's is {} points in the median of 3 numbers, and {} to {}."
    assert apart.format("+0.00", "-1.00", "+4.00") in glance.in_short(three())
    some = three(accuracies=(0.796, 0.79, 0.77))  # the paper has 76 to 79
    assert "; of the 2 whose CA is in the range that it compares, 1." in glance.answers([some])
    weak = glance.answers([three(accuracies=(0.75, 0.75, 0.75))])
    assert "points of the paper's (lenet is less accurate here than the paper's at 1 of 1 radii)." in weak


def test_draws_are_told_of_what_the_calibration_error_selects():
    table = three()
    table.draws[f"{NAME}-seed0"] = "10,000"
    assert "Draws are 10,000 to 100,000, the paper's 100,000." in glance.answers([table])
    again = trained(("", 0, "AT", 0.77, 0.40), ("-other", 0, "AT", 0.77, 0.41))
    again.rows = [replace(row, certified_brier=0.3 if "other" not in row.entry else 0.1) for row in again.rows]
    again.draws[f"{NAME}-seed0"] = "10,000"
    assert "Draws are 10,000, the paper's 100,000." in glance.answers([again])


def test_maps_reach_the_paper_where_models_are_less_accurate():
    told = glance.answers([three(accuracies=(0.75, 0.75, 0.75))])
    assert "do not reach its least error by sharper bounds alone; with a map they do, of less accurate models." in told
    assert "with a map they do." in glance.answers([three()])


@pytest.mark.parametrize(
    ("ours", "paper", "why", "verdict"),
    [
        (2.0, 2.0, "", directions.SAME),
        (-2.0, -2.0, "", directions.SAME),
        (-2.0, 2.0, "", directions.OTHER),
        (1.5, 1.5, "", directions.SAME),
        (1.4, 1.5, "", directions.TOO_SMALL[1]),
        (9.0, 1.4, "", directions.TOO_SMALL[0]),
        (2.0, -2.0, "one seed", "one seed: no verdict"),
        (float("nan"), 2.0, "", "—"),
    ],
)
def test_a_verdict_is_of_the_sign_where_both_are_large(ours, paper, why, verdict):
    assert directions._verdict(ours, paper, why) == verdict


def test_there_is_no_verdict_where_one_side_is_outside_the_papers_accuracies():
    table = trained(*((name, seed, "AT", accuracy, 0.4) for seed in (0, 1)
                      for name, accuracy in (("-low", 0.75), ("-in", 0.77), ("-high", 0.80))))  # fmt: skip
    low, inside, high = ([row for row in table.rows if name in row.entry and row.track == "paper"]
                         for name in ("-low", "-in", "-high"))  # fmt: skip
    for both, why in (((inside, inside), ""), ((low, inside), "below the paper's CA"),
                      ((inside, high), "above the paper's CA"),
                      ((low, high), "below the paper's CA, above the paper's CA"),
                      ((inside[:1], inside), "one seed")):  # fmt: skip
        assert directions._why_none(table, 0.5, tuned.pairs_of(table, *both), *both) == why
    table.entries["fashion-mnist-one-in-seed1"] = replace(table.entries["fashion-mnist-one-in-seed1"], train_seed=2)
    assert directions._why_none(table, 0.5, tuned.pairs_of(table, inside, high), inside, high).startswith("one seed")


def test_what_is_selected_is_compared_over_the_seeds_that_both_have():
    """Seed 0 is 2.5 points better, the mean over three seeds 2.5 points worse."""
    table = trained(*((name, seed, method, 0.77, error) for name, method, errors in
                      (("-b", "Brier-ACT", (0.4, 0.4, 0.4)), ("-a", "ACCE-ACT", (0.375, 0.45, 0.45)))
                      for seed, error in enumerate(errors)))  # fmt: skip
    (one,) = directions.compared(table)
    assert (one.method, one.than, one.selected) == ("ACCE-ACT", "Brier-ACT", pytest.approx(2.5))
    assert one.verdict == directions.OTHER


def test_methods_are_compared_with_each_other_from_one_baseline():
    """The paper: ACCE-ACT is better than Brier-ACT by 2.73 points. Here it is worse, seed by seed."""
    table = trained(*((name, seed, method, 0.77, error + 0.01 * seed) for seed in (0, 1) for name, method, error in
                      (("", "AT", 0.4), ("-b", "Brier-ACT", 0.35), ("-c", "Brier-ACT", 0.36),
                       ("-a", "ACCE-ACT", 0.375))))  # fmt: skip
    found = {(one.method, one.than): one for one in directions.compared(table)}
    one = found["ACCE-ACT", "Brier-ACT"]
    assert (one.own, one.selected, one.paper) == (pytest.approx(2.5), pytest.approx(2.5), pytest.approx(-2.73))
    assert one.own_verdict == one.verdict == directions.OTHER
    assert found["ACCE-ACT", "AT"].own == pytest.approx(-2.5)
    for name, error, baseline in (("two", 0.4, ""), ("two-b", 0.3, "two")):  # now another baseline's is selected
        own = f"fashion-mnist-{name}-seed0"
        like = f"{NAME}{'-b' * bool(baseline)}-seed0"
        table.entries[own] = replace(table.entries[like], name=own, baseline=baseline)
        table.rows += [replace(row, entry=own, certified_ece=error) for row in table.rows if row.entry == like]
        table.inputs[own], table.draws[own], table.model[own] = 500, "100,000", own
    one = directions.compared(table)[-1]
    assert (one.own, one.selected) == (pytest.approx(2.5), pytest.approx(7.5))  # of seed 0, which both have
    assert one.verdict == "one seed: no verdict"
    assert "the other way in 1 (ACCE-ACT − Brier-ACT at R = 0.5);" in glance.answers([table])
    assert "| 0.5 | ACCE-ACT − Brier-ACT | +2.50 | +7.50 | -2.73 |" in directions.directions(table)


def test_baselines_within_three_points_take_part_and_single_seeds_are_marked():
    methods = ("", "AT"), ("-b", "Brier-ACT"), ("-a", "ACCE-ACT"), ("-c", "CCE-ACT")
    seeds = [(name, seed, method, 0.77, 0.4) for seed in (0, 1, 2) for name, method in methods]
    left = {("-a", 2), ("-c", 1), ("-c", 2)}
    table = trained(*(one for one in seeds if one[:2] not in left))
    (line,) = [line for line in tuned.tuned(table).splitlines() if line.startswith("| 0.5 |")]
    assert [cell.endswith("†") for cell in line.strip("| ").split(" | ")[5:]] == [False] * 4 + [True, False]
    name = "fashion-mnist-two"
    for stem, accuracy, baseline in ((name, 0.745, ""), (f"{name}-tuned", 0.745, "two")):
        own = f"{stem}-seed0"
        table.entries[own] = replace(table.entries[f"{NAME}-seed0"], name=own, baseline=baseline)
        table.rows += [replace(row, entry=own, certified_accuracy=accuracy) for row in table.rows
                       if row.entry == f"{NAME}-seed0"]  # fmt: skip
        table.inputs[own], table.draws[own], table.model[own] = 500, "100,000", own
    assert "| 0.5 | two | 1 | 74.50 |" in tuned.tuned(table)


def test_how_far_seeds_are_apart():
    table = trained(("", 0, "AT", 0.77, 0.40), ("", 1, "AT", 0.77, 0.41), ("", 2, "AT", 0.77, 0.43),
                    ("-b", 0, "AT", 0.77, 0.40), ("-b", 1, "AT", 0.77, 0.402))  # fmt: skip
    told = "trainings of the same settings with several seeds are 1.60 points apart in the median, and 50% of settings"
    assert told in directions._apart_by_seeds(table)


def test_maps_with_a_larger_limit_are_of_models_as_accurate_as_the_papers():
    table = three(accuracies=(0.77, 0.755, 0.76))
    table.rows += [replace(row, track="freer") for row in table.rows if row.track == "recalibrated"]
    assert [line.split(" | ")[1] for line in headlines.freer(table).splitlines() if line.startswith("| 0.5 ")] == [
        "one", "one-a"
    ]  # fmt: skip


def test_headlines_above_the_papers_accuracies_are_named():
    for accuracy, above in ((0.77, False), (0.796, True)):
        found = headlines.headline(three(accuracies=(accuracy,) * 3))
        assert ("At R = 0.5 the CA of these models is above the range" in found) == above


def test_a_score_that_a_map_leaves_is_not_called_larger():
    table = three()
    table.rows = [replace(row, certified_ece=0.1, certified_brier=0.05) for row in table.rows]
    assert "larger than without in 0 of 3 rows, the CBS in 0." in reproduction.worse(table)
    table.rows = [replace(row, certified_brier=0.06) if row.track == "recalibrated" else row for row in table.rows]
    assert "larger than without in 0 of 3 rows, the CBS in 3." in reproduction.worse(table)


def test_published_accuracies_are_taken_from_ours():
    table = reproduction.Table(Pack.read(reproduction.ROOT / "reference"), "cifar10")
    lines = [line.strip("| ").split(" | ") for line in published(table).splitlines() if line.startswith("| s0")]
    assert len(lines) > 8
    for _, _, theirs, ours, apart, *_ in lines:
        assert float(apart) == pytest.approx(float(ours) - float(theirs), abs=0.051)


def test_correlations_say_where_accuracy_and_calibration_go_together():
    told = harmony([("0.1", -0.5, -0.3), ("0.2", -0.5, 0.1), ("0.5", 0.3, 0.9), ("1", 0.9, -0.9)])
    assert "at R = 0.1 they harmonise, at R = 0.5 they compete, at R = 0.2, 1 they are too weakly related" in told


def test_table_1_counts_attacks_that_move_the_other_way():
    other = []
    for how, name in not_run.ACE.items():
        path = not_run.ROOT / "experiments" / "results" / f"{name}.json"
        rows = {(row["eta"], row["omega"]): 100 * row["adaptive_ece"] for row in json.loads(path.read_text())["paper"]
                if row["epsilon"] == 8 / 255}  # fmt: skip
        (plain,) = [100 * row["adaptive_ece"] for row in json.loads(path.read_text())["paper"] if row["epsilon"] == 0]
        theirs = paper_table("cifar10", "attacks")[how]
        for (eta, omega), value in rows.items():
            risen, rises = value > plain, theirs[f"{eta} {omega}"] > theirs["none"]
            other += [f"{how} ({eta} {omega.replace('yhat', 'ŷ')})"] if risen != rises else []
    assert f"under {len(other)} of 8 attacks: {', '.join(other)}." in not_run.attacks()


def test_what_studies_would_take(monkeypatch):
    """Two models of many epochs, one draw and no attack; Fashion-MNIST at an hour an epoch and two a certificate."""
    one = SimpleNamespace(train=SimpleNamespace(epochs=10_000), certify=SimpleNamespace(n=100_000),
                          objective=SimpleNamespace(draws=1, steps=0))  # fmt: skip
    monkeypatch.setattr(not_run, "_models_of", lambda study: ([one, one], []))
    table = three()
    for name, entry in table.entries.items():
        table.entries[name] = replace(entry, settings="10 epochs", train_seconds=36_000.0, certify_seconds=7_200.0)
    lines = [line.strip("| ").split(" | ") for line in not_run.costs(table).splitlines()]
    found = {line[0]: line[1:4] for line in lines}
    assert found["fashion-mnist"] == ["2", "20,000 h", "4 h"]
    known = json.loads((not_run.ROOT / "bench" / "results" / "training-gpu.json").read_text())["figures"]
    (note,) = {row["note"] for row in known if "smoothadv" in row["note"]}
    words = note.replace(",", "").split()
    batch, draws, steps, taken = (int(words[words.index(word) + step]) for word, step in
                                  (("batch", 1), ("draws", -1), ("T", 2), ("smoothadv", 1)))  # fmt: skip
    passes = batch * draws * (steps + 1) / (taken / 1000)
    assert found["cifar10"][1] == f"{2 * 10_000 * 50_000 / passes / 3600:,.0f} h"

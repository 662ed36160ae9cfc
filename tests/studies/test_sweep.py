"""Sweeps: the paper's grids, trials that resume, selection against brute force, and the figure of the changes."""

import itertools
import json
import math
import re
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certcal.errors import InputError
from certcal.evaluation import Outcome, pareto_front, select
from certcal.settings import load_recipe, parse_changes
from certcal.studies import (
    SweepSettings,
    build_sweep,
    load_study,
    load_sweep,
    paper_table,
    run_sweep,
    run_trial,
    study_names,
    sweep_trials,
)
from certcal.studies.recipes import numbered
from sweeping import RECIPE

ATTACK, RATES = [0.01, 0.1, 1.0, 2.0], [0.01, 0.05]
study = cache(load_study)


def expand(sweep):
    return list(numbered(sweep).values())


def method(name, own):
    return next(one for one in study(name).method if one.name == own)


def flat(changes):
    return tuple(sorted((f"{s}.{k}", v) for s, part in changes.items() for k, v in part.items()))


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "svhn", "fashion-mnist"])
@pytest.mark.parametrize("own", ["Brier-ACT", "Finetuned AT"])
def test_brier_act_and_at_try_the_papers_16(name, own):
    found = expand(method(name, own).sweep)
    wanted = {
        (("objective.step_factor", v), ("objective.steps", steps), ("train.learning_rate", rate))
        for v, rate, steps in itertools.product(ATTACK, RATES, [1, 4])
    }
    assert len(found) == 16
    assert {flat(one) for one in found} == wanted


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "svhn", "fashion-mnist"])
def test_acce_act_samples_16_of_the_papers_128(name):
    sweep = method(name, "ACCE-ACT").sweep
    found = [flat(one) for one in expand(sweep)]
    product = itertools.product([0.01, 0.05, 0.1, 0.5], ATTACK, [1, 4, 10, 20], RATES)
    keys = ("objective.rho_growth", "objective.step_factor", "objective.steps", "train.learning_rate")
    wanted = {tuple(zip(keys, values, strict=True)) for values in product}
    assert len(set(found)) == len(found) == 16
    assert set(found) <= wanted
    assert len(wanted) == 128
    assert method(name, "ACCE-ACT").train["batch_size"] == 2048


def test_imagenet_tries_6_per_method():
    for one in study("imagenet").method:
        assert {flat(changes) for changes in expand(one.sweep)} == {
            (("objective.step_factor", v), ("train.learning_rate", rate))
            for v, rate in itertools.product([1.0, 5.0], [0.001, 0.005, 0.01])
        }


def test_fine_tuning_and_baselines_follow_the_paper():
    for name in ("cifar10", "cifar100", "svhn", "fashion-mnist"):
        own = study(name)
        assert own.finetune.items() >= {"epochs": 10, "batch_size": 256, "decay_every": 4, "epsilon_warmup": 3}.items()
        assert len(own.baseline) == 7
        assert (own.train.get("sigma_warmup"), own.train.get("epsilon_zero")) == (
            (None, None) if name == "cifar10" else (8, 8)
        )
        assert own.certify["n"] == 100_000
        assert (own.evaluate["method"], own.evaluate["joint"]) == ("cdf", False)
        assert list(own.about.radii) == paper_table(name)["radii"]
    assert study("imagenet").certify["n"] == 10_000
    assert {(one.train["sigma"], one.train["epsilon"]) for one in study("imagenet").baseline} == {
        (0.25, 0.5), (0.5, 1.0), (1.0, 2.0), (1.0, 4.0)
    }  # fmt: skip


@pytest.mark.parametrize("name", [name for name in study_names() if name != "digits"])
def test_the_papers_tables_are_complete(name):
    table = paper_table(name)
    assert {"AT", "Brier-ACT", "ACCE-ACT"} <= table["ACCE"].keys() == table["CBS"].keys()
    for row in [table["CA"], *table["ACCE"].values(), *table["CBS"].values()]:
        assert len(row) == len(table["radii"])


def test_samples_repeat_and_bad_sweeps_are_refused():
    over = {"train.seed": list(range(50))}
    first, again, other = (expand(SweepSettings(over=over, sample=9, seed=seed)) for seed in (0, 0, 1))
    assert first == again != other
    assert len({flat(one) for one in first}) == 9
    assert expand(SweepSettings()) == [{}]
    for bad, message in (
        ({"seed": [1]}, "section.key"),
        ({"train.seed": []}, "at least one value"),
        ({"train.seed": 3}, "be a list"),
        ({"train.seed": "12"}, "be a list"),
    ):
        with pytest.raises(InputError, match=message):
            expand(SweepSettings(over=bad))
    with pytest.raises(InputError, match=r"at most the number of combinations \(50\)"):
        expand(SweepSettings(over=over, sample=51))


outcomes = st.lists(
    st.builds(
        Outcome,
        method=st.sampled_from(["AT", "ACT", "other"]),
        model=st.uuids().map(str),
        radius=st.sampled_from([0.1, 0.5]),
        certified_accuracy=st.integers(50, 60).map(lambda points: points / 100),
        certified_ece=st.one_of(st.floats(0, 1), st.just(math.nan)),
        certified_brier=st.floats(0, 1),
    ),
    min_size=1,
    max_size=12,
)


@given(outcomes)
def test_selection_is_what_brute_force_selects(made):
    for radius in {one.radius for one in made}:
        chosen = select(made, radius=radius)
        here = [one for one in made if one.radius == radius]
        points = {one.model: round(100 * one.certified_accuracy) for one in here}  # exact, unlike 0.60 - 0.57
        near = [one for one in here if max(points.values()) - points[one.model] <= 3]
        assert chosen.within == len(near)
        assert chosen.best_accuracy == max(one.certified_accuracy for one in here)
        for name, score in (("ece", "certified_ece"), ("brier", "certified_brier")):
            found = getattr(chosen, name)
            for how in {one.method for one in here}:
                values = [getattr(one, score) for one in near if one.method == how]
                values = [value for value in values if not math.isnan(value)]
                assert (how in found) == bool(values)
                if values:
                    assert getattr(found[how], score) == min(values)


def test_selection_at_no_radius_is_refused():
    with pytest.raises(InputError, match="evaluated at R = 2"):
        select([Outcome("AT", "a", 0.5, 0.6, 0.4, 0.3)], radius=2.0)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=10))
def test_the_front_is_what_nothing_beats(points):
    high, low = np.array(points, dtype=float).T
    beaten = [any(a >= x and e <= y and (a > x or e < y) for a, e in points) for x, y in points]
    assert pareto_front(high, low).tolist() == [not one for one in beaten]


def test_a_sweep_trains_certifies_and_tabulates_each_trial_once(desk, monkeypatch):
    recipe = build_sweep(RECIPE, "test")
    said = []
    found = run_sweep(recipe, desk / "sweep", progress=False, tell=said.append).outcomes
    assert [one.settings for one in found[::2]] == ["learning_rate 0.01, draws 1", "learning_rate 0.1, draws 1"]
    assert [one.radius for one in found] == [0.05, 0.1] * 2
    kept = json.loads((desk / "sweep" / "results.json").read_text())
    assert [row["model"] for row in kept] == [one.model for one in found]
    assert (desk / "sweep" / "results.csv").read_text().count("\n") == 5
    alone = load_recipe(desk / "sweep" / "trial-2" / "train.toml", {})  # a trial is a run like any other
    assert (alone.train.learning_rate, alone.objective.draws) == (0.1, 1)
    metrics = json.loads((desk / "sweep" / "trial-2" / "metrics.json").read_text())
    assert metrics["rows"][0]["certified_accuracy"] == found[2].certified_accuracy
    assert {"train", "certify"} <= metrics["sampling"].keys()  # one folder remembers both

    monkeypatch.setattr("certcal.runs.train_run", None)  # nothing is left to train
    assert str(run_sweep(recipe, desk / "sweep", progress=False, tell=said.append).outcomes) == str(found)
    again = load_sweep(desk / "sweep" / "sweep.toml", {})
    assert again == recipe
    other = sweep_trials(build_sweep(RECIPE | {"train": RECIPE["train"] | {"seed": 1}}, "test"), desk / "sweep")
    with pytest.raises(TypeError):  # another seed is another trial
        run_trial(other[0])


def test_sweeps_are_read_strictly(desk):
    with pytest.raises(InputError, match=r"Missing test.name"):
        build_sweep({key: value for key, value in RECIPE.items() if key != "test"}, "here")
    with pytest.raises(InputError, match=r"Unknown setting train.sgima in here \(did you mean sigma\?\)"):
        build_sweep(RECIPE | {"train": {"sgima": 1.0}}, "here")
    with pytest.raises(InputError, match=r"`objective` to be one of"):
        build_sweep(RECIPE | {"objective": {"name": "nosie"}}, "here")
    misspelt = build_sweep(RECIPE | {"sweep": {"over": {"train.rate": [1]}}}, "here")
    with pytest.raises(InputError, match=r"Unknown setting train.rate in sweep.over"):
        sweep_trials(misspelt, desk)
    several = build_sweep(RECIPE | {"machine": {"devices": 2}}, "here")
    with pytest.raises(InputError, match=r"`devices` to be 1 for trials"):
        sweep_trials(several, desk)
    (desk / "sweep.toml").write_text("[sweep]\nover = {}\n")
    with pytest.raises(InputError, match=r"run it with `certcal sweep`"):
        load_recipe(desk / "sweep.toml", {})
    assert parse_changes(["certify.n=5", "evaluate.radii=[0.1]", "model.name=lenet"]) == {
        "certify": {"n": 5}, "evaluate": {"radii": [0.1]}, "model": {"name": "lenet"}
    }  # fmt: skip
    for bad in ("epochs=3", "train.epochs", "train.=1"):
        with pytest.raises(InputError, match=r"section.key=value"):
            parse_changes([bad])


def test_studies_are_checked_before_anything_runs():
    own = load_study("digits", methods=("Noise",))
    assert [one.name for one in own.method] == ["Noise"]
    recipe = own.tuning(own.baseline[0], own.method[0], "model.pt")
    assert (recipe.train.epochs, recipe.train.sigma, recipe.model.weights) == (10, 0.25, "model.pt")
    assert recipe.certify.sigma == 0.25
    with pytest.raises(InputError, match="`recipe` to be one of cifar10"):
        load_study("mnist")
    with pytest.raises(InputError, match="`only` to be one of Noise, Finetuned AT"):
        load_study("digits", methods=("Noisy",))
    with pytest.raises(InputError, match="`weights` to name a baseline"):
        load_study("digits", methods=("Noise",), weights={"other": "net.pt"})
    with pytest.raises(InputError, match=r"Unknown setting train.epoch .*did you mean epochs"):
        load_study("digits", {"train": {"epoch": 3}}, methods=("Noise",))


def test_missing_data_stop_a_sweep_before_its_first_model(desk, monkeypatch):
    monkeypatch.setenv("CERTCAL_DATA", str(desk / "empty"))
    monkeypatch.setattr("certcal.studies.sweep.dataset_splits", lambda name, root: {"train": None, "test": "here"})
    recipe = RECIPE | {"data": {"name": "svhn"}, "test": {"name": "svhn"}}
    told = []
    with pytest.raises(InputError) as caught:
        run_sweep(build_sweep(recipe, "test"), desk / "sweep", progress=False, tell=told.append)
    get = "`certcal data svhn --split train --download`, or add --set data.download=true"
    assert str(caught.value) == f"Expected `data` to be here, but got no svhn train: get it by {get}."
    recipe = RECIPE | {"test": {"name": "nowhere.npz"}}
    with pytest.raises(InputError, match=r"nowhere\.npz"):
        run_sweep(build_sweep(recipe, "test"), desk / "sweep", progress=False, tell=told.append)
    assert not (desk / "sweep").exists()
    assert told == []


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "svhn", "fashion-mnist", "imagenet"])
def test_baselines_are_what_their_names_say(name):
    """Names follow the paper's tables of baselines: σ, ε, m_train and T."""
    for own in study(name).baseline:
        found = re.fullmatch(r"s([\d.]+)-e([\d.]+)(?:-m(\d+)-T(\d+))?", own.name)
        assert found, own.name
        sigma, epsilon, draws, steps = found.groups()
        assert (own.train["sigma"], own.train["epsilon"]) == (float(sigma), float(epsilon))
        assert own.objective["draws"] == int(draws or 1)
        assert own.objective["steps"] == int(steps or 1)


def test_the_papers_numbers_add_up():
    """Sums of each table as it stands in the paper, typed from it by themselves."""
    sums = {("fashion-mnist", "ACCE", "ACCE-ACT"): 118.17, ("fashion-mnist", "CBS", "Brier-ACT"): 71.59}
    sums |= {("fashion-mnist", "ACCE", "AT"): 132.24, ("fashion-mnist", "CBS", "AT"): 74.19}
    sums |= {("fashion-mnist", "CBS", "ACCE-ACT"): 60.39, ("fashion-mnist", "ACCE", "Brier-ACT"): 129.50}
    for (data, table, method_name), total in sums.items():
        assert sum(paper_table(data)[table][method_name]) == pytest.approx(total, abs=1e-9)

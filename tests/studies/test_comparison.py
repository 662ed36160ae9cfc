"""What a study shows: selected models beside the paper's, and the figure of what fine-tuning changes."""

import math

import numpy as np
import pytest

from certcal.errors import InputError
from certcal.evaluation import Outcome, pareto_front, select
from certcal.report import comparison_cells, comparison_markdown, comparison_table, plot_changes, prepare_changes
from certcal.report.figures import STYLES, style_of
from certcal.studies import paper_table


def made():
    rng = np.random.default_rng(0)
    models = [Outcome("AT", "base", 0.5, 0.60, 0.40, 0.30, baseline="base")]
    for name, shift in (("Brier-ACT", 0.02), ("ACCE-ACT", 0.06)):
        for place in range(6):
            accuracy, error = 0.6 + 0.02 * rng.standard_normal(), 0.4 - shift + 0.02 * rng.standard_normal()
            models.append(Outcome(name, f"{name} {place}", 0.5, accuracy, error, error - 0.1, baseline="base"))
    return models


def test_changes_are_measured_from_the_baseline():
    models = made()
    changes = prepare_changes(models, baseline="base", radius=0.5)
    assert len(changes.accuracy) == 12
    assert changes.accuracy[0] == pytest.approx(100 * (models[1].certified_accuracy - 0.6))
    assert changes.error[-1] == pytest.approx(100 * (models[-1].certified_ece - 0.4))
    whole = pareto_front([one.certified_accuracy for one in models], [one.certified_ece for one in models])
    assert changes.front.tolist() == whole[1:].tolist()
    axes = plot_changes(changes)
    labels = axes.get_legend_handles_labels()[1]
    assert {"Brier-ACT", "ACCE-ACT", "baseline", "Pareto front"} == set(labels)
    with pytest.raises(InputError, match="be a model evaluated at R = 1"):
        prepare_changes(models, baseline="base", radius=1.0)


def test_the_table_has_the_papers_numbers_beside_ours():
    models = [*made(), Outcome("AT", "base", 1.0, 0.0, math.nan, math.nan, baseline="base")]
    chosen = [select(models, radius=radius) for radius in (0.5, 1.0)]
    table = comparison_table(chosen, paper_table("cifar10"))
    cells = comparison_cells(table)
    by_method = {(row[0], row[1]): row[2:] for row in cells}
    best = chosen[0].ece["ACCE-ACT"].certified_ece
    shown = by_method["CCE", "ACCE-ACT"][0]
    assert shown.endswith("(42.16)")
    assert shown.startswith("**")  # least of all methods
    assert 0 <= float(shown.split("**")[1]) - 100 * best < 0.01  # rounded up
    assert by_method["CCE", "Finetuned AT"] == ["— (42.72)", "— (51.71)"]
    assert by_method["CCE", "AT"][1] == "— (56.36)"
    assert by_method["CA", ""][1] == "— (35–38)"
    near = comparison_table([select([Outcome("AT", "a", 0.5, 0.6, 0.4, 0.3)], radius=0.5, margin=0.01)], None)
    assert near.accuracy == ("59.0–60.0",)  # by the margin that it was selected with
    ordered = comparison_cells(comparison_table(chosen, None, methods=["AT", "ACCE-ACT"]))
    assert [row[1] for row in ordered[2:5]] == ["AT", "ACCE-ACT", "Brier-ACT"]
    assert "approximates the CCE from below" in comparison_markdown(table)
    assert "paper" not in comparison_markdown(comparison_table(chosen, None))


def test_the_table_says_what_it_takes_models_from_and_names_those_outside():
    models = [*made(), Outcome("baseline", "far", 0.5, 0.375, 0.125, 0.0625, baseline="far")]
    chosen = [select(models, radius=0.5)]
    table = comparison_table(chosen, paper_table("fashion-mnist"), methods=["baseline"], outcomes=models)
    assert "baseline" not in [row[1] for row in comparison_cells(table)]  # of dashes alone
    text = comparison_markdown(table)
    assert "CA, certified accuracy: the 3 points up to the best model's at R, from which all are taken." in text
    assert "\n- R = 0.5: baseline with CA 37.5, CCE 12.50, CBS 6.25" in text
    gap = 76 - 100 * chosen[0].best_accuracy
    assert f"below the paper's range, in points: {gap:.1f} at R = 0.5. So errors are not comparable" in text
    assert "above the paper's range" not in text
    for accuracies, above in (((0.67, 0.645), "1.5 at R = 1"), ((0.664, 0.66), "3.0 at R = 1"), ((0.65, 0.634), "")):
        strong = [Outcome("AT", "base", 0.5, 0.67, 0.3, 0.2)]
        strong += [Outcome(name, name, 1.0, own, 0.3, 0.2) for name, own in zip(("AT", "ACT"), accuracies, strict=True)]
        chosen = [select(strong, radius=radius) for radius in (0.5, 1.0)]
        told = comparison_markdown(comparison_table(chosen, paper_table("fashion-mnist")))  # which has 60–63 at R = 1
        assert f"above the paper's range, in points: {above}. So" in told if above else "above the" not in told
    chosen = [select(models, radius=0.5)]
    for near in (comparison_table(chosen, None, outcomes=models), comparison_table(chosen, paper_table("cifar10"))):
        assert "below the paper's range" not in comparison_markdown(near)
    assert "baseline" in [row[1] for row in comparison_cells(comparison_table(chosen, None, methods=["baseline"]))]


def test_a_method_looks_the_same_in_all_figures():
    alone = [one for one in made() if one.method in ("AT", "ACCE-ACT")]
    axes = [plot_changes(prepare_changes(own, baseline="base", radius=0.5)) for own in (made(), alone)]
    looks = [{one.get_label(): one for one in own.collections} for own in axes]
    first, second = (own["ACCE-ACT"] for own in looks)
    assert first.get_facecolor().tolist() == second.get_facecolor().tolist()
    assert np.array_equal(first.get_paths()[0].vertices, second.get_paths()[0].vertices)
    assert looks[0]["Brier-ACT"].get_facecolor().tolist() != first.get_facecolor().tolist()
    assert len({style_of(name) for name in (*STYLES, "mine", "yours")}) == len(STYLES) + 2
    assert style_of("mine") == style_of("mine")

"""A run as a section of a model card in Markdown, headed by the Hub's evaluation results (`model-index`) in YAML."""

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from certcal.errors import InputError, kind_of
from certcal.evaluation import METRICS, Report, Row, number
from certcal.recalibration import caution_about
from certcal.report.assumptions import assumptions_table
from certcal.report.content import default_view
from certcal.report.tables import complement, main_cells, markdown_text
from certcal.report.words import caveats, explanation, guarantee, model_words, perturbation
from certcal.scalars import exactly, guarded
from certcal.settings import Population

# Of the row that is shown first: values without an attack, then what is guaranteed.
LISTED = ("accuracy", "ece", "brier", "certified_share", "joint_accuracy", "joint_ece", "joint_brier")


@guarded
def model_card(
    report: Report,
    *,
    model: str,
    data: str,
    task: str = "other",
    facts: Sequence[tuple[str, str]] = (),
    doubts: Sequence[str] = (),
) -> str:
    """A section for a model card: what is guaranteed, with which probability, for which inputs, and what is not.

    Above it stands a `model-index`, from which the Hugging Face Hub reads evaluation results. Without that block the
    section fits any card.

    Paper: —.   Errs: every number is rounded to the cautious side.

    Args:
        report: from `evaluate`.
        model, data: their names.
        task: as the Hub calls it, such as "image-classification".
        facts: what else an auditor would ask, as pairs.
        doubts: what speaks against trusting the numbers, such as labels in another order; it comes first.
    """
    pairs = facts if isinstance(facts, list | tuple) else [facts]
    if not all(isinstance(text, str) for text in (model, data, task)):
        raise InputError.expected("model, data and task", "be texts", "others")
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise InputError.expected("facts", "be pairs of texts", kind_of(facts))
    if isinstance(doubts, str) or not all(isinstance(text, str) for text in doubts):
        raise InputError.expected("doubts", "be texts", kind_of(doubts))
    told = [*doubts, *filter(None, [caution_about(report.recalibration)])]
    shown = default_view(report)
    parts = [
        "## Calibration under attack",
        "### Before you trust this" if told else "",
        "\n".join(f"- {_plain(one)}" for one in told),
        "### What is guaranteed" if told else "",
        guarantee(report, shown),
        explanation(report, shown),
        markdown_text(*main_cells(report, "population_ece")).rstrip("\n"),
        "### What this means, and what it does not",
        "\n".join(f"- {_plain(one)}" for one in caveats(report)),
        "### What is assumed, and what is not" if report.evidence is not None else "",
        assumptions_table() if report.evidence is not None else "",
        "### How it was obtained",
        "By certcal, whose documentation the names of files refer to.",
        "\n".join(f"- {name}: {_plain(value)}" for name, value in facts),
    ]
    body = "\n\n".join(part for part in parts if part)
    return f"---\n{model_index(report, model=model, data=data, task=task)}---\n\n{body}\n"


def model_index(report: Report, *, model: str, data: str, task: str) -> str:
    """The evaluation results of the row that is shown first, as the Hub reads them. Strings are JSON, which YAML is."""
    row, own = report[default_view(report)], report.bounds[0]
    args = {
        "radius": row.radius,
        "norm": str(own.norm),
        "alpha_per_input": report.alpha,
        "delta": report.delta if report.level else 0,
        "certificate": str(report.method),
        "population": str(report.population),
        "inputs": row.inputs,
        "of": report.inputs,
        "bins": len(report.bins),
    } | ({} if report.evidence is None else {"sigma": report.evidence.header.sigma})
    lines = [
        "model-index:",
        f"- name: {_quoted(model)}",
        "  results:",
        "  - task:",
        f"      type: {_quoted(task)}",
        "    dataset:",
        f"      name: {_quoted(data)}",
        f"      type: {_quoted(data)}",
        "    metrics:",
    ]
    for name in LISTED:
        value = getattr(row, name)
        if value == value:  # nothing is certified: nothing is claimed
            lines += [
                f"    - type: {name.replace('joint', 'guaranteed')}",
                f"      name: {_quoted(_title(report, row, name))}",
                f"      value: {number(value, METRICS[name].rounding, 4)}",
                f"      args: {_quoted(args)}",
            ]
    return "\n".join(lines) + "\n"


def _title(report: Report, row: Row, name: str) -> str:
    """A metric with the inputs and the terms that it holds for."""
    own, radius = METRICS[name], exactly(row.radius)
    some = not own.of_all and report.population is Population.CERTIFIED
    on = f"{row.inputs:,} of {report.inputs:,} inputs, those certified at R = {radius}" if some else "all inputs"
    words = [f"{own.label} of the {model_words(report)} on {on}"]
    if name.startswith(("joint", "certified")) and row.radius > 0:
        words.append(f"under any {perturbation(report, row.radius)}")
    if name.startswith("joint") and report.level:
        words.append(f"with probability at least {complement(report.delta)}")
    return ", ".join(words)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _plain(text: str) -> str:
    """A text that Markdown shows as it is."""
    return escape(text, quote=False).replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")

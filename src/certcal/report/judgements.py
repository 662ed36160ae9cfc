"""Judgements for machines and reviewers: JUnit XML for CI, Markdown for summaries."""

from collections.abc import Sequence
from xml.etree import ElementTree

from certcal.evaluation import Judgement
from certcal.report.tables import markdown_text


def to_junit(judgements: Sequence[Judgement], name: str, caution: str = "") -> str:
    """The judgements of a run as JUnit XML: one test case each, and what has to be known of all of them."""
    failed = [one for one in judgements if not one.passed]
    counts = {"tests": str(len(judgements)), "failures": str(len(failed))}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": f"certcal check {name}", **counts})
    for one in judgements:
        case = ElementTree.SubElement(suite, "testcase", {"classname": name, "name": one.requirement.text})
        if not one.passed:
            ElementTree.SubElement(case, "failure", {"message": str(one)})
    if judgements and judgements[0].terms:
        ElementTree.SubElement(suite, "system-out").text = judgements[0].asked
    if caution:
        ElementTree.SubElement(suite, "system-err").text = f"warning: {caution}"
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def judgements_markdown(judgements: Sequence[Judgement], name: str, caution: str = "") -> str:
    """The judgements of a run as a table in Markdown, with what has to be known of all of them."""
    lines = [
        [
            "✅" if one.passed else "❌",
            f"`{one.requirement.text}`",
            "—" if one.value != one.value else f"{one.value:.6g}",
        ]
        for one in judgements
    ]
    table = markdown_text(["", "requirement", "value"], lines, sides="llr")
    asked = f"\n{judgements[0].asked}\n" if judgements and judgements[0].terms else ""
    return f"### certcal check {name}\n\n{table}{asked}" + (f"\n⚠️ {caution}" if caution else "")

"""The Python of README and docs runs as pasted and gives what they say, and their links lead somewhere."""

import pkgutil
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import certcal
from certcal.models import model_fingerprint
from places import ROOT
from smoothing_oracles import random_evidence

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"(?:^<!-- (not run): [^\n]* -->\n\n?)?^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
# These must run as they stand. The others speak of the reader's own model, data and bounds.
COMPLETE = {
    "README.md", "index.md", "tutorial.md", "concepts.md", "examples.md",
    "operating.md", "any_binning.md", "one_sided.md",
}  # fmt: skip
SLOW = {"tutorial.md", "admm.md", "examples.md"}  # which train a model or run all of ADMM


def blocks(page):
    """The Python of a page with the output shown right below it, or None. `<!-- not run: why -->` above skips one."""
    fences = list(FENCE.finditer(page.read_text()))
    for fence, after in pairwise([*fences, None]):
        if fence[2] == "python" and not fence[1]:
            below = after is not None and after[2] == "text" and not fence.string[fence.end() : after.start()].strip()
            yield fence[3], after[3] if below else None


def given():
    """What the reader of a page that is not complete already has."""
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    rng = np.random.default_rng(0)
    clean = rng.uniform(0.4, 0.9, 40)
    names = {"certcal": certcal, "model": model, "data": (torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 2, 0]))}
    bounds = {"lower": clean - 0.1, "upper": clean + 0.1, "correct": rng.random(40) < clean}
    more = {"clean": clean, "clean_confidence": clean, "uncertified": 3, "network": model, "images": names["data"][0]}
    evidence = random_evidence(rng, inputs=200, draws=2000)
    evidence = replace(evidence, header=replace(evidence.header, model=model_fingerprint(model)))
    some_wrong = replace(evidence, label=np.where(rng.random(200) < 0.4, evidence.selected, 1 - evidence.selected))
    x, y = names["data"]
    return names | bounds | more | {"evidence": some_wrong, "x": x, "y": y}


def pages_with_code():
    for page in filter(lambda page: list(blocks(page)), PAGES):
        yield pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name in SLOW else [])


@pytest.mark.parametrize("page", pages_with_code())
def test_python_runs_and_gives_what_the_page_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names = {} if page.name in COMPLETE else given()
    for code, output in blocks(page):
        if page.name == "README.md":  # whose blocks are pasted one by one
            names = {}
        exec(compile(code, page.name, "exec"), names)
        printed = capsys.readouterr().out
        if output is not None:
            assert_same_output(printed, output)
        for expression, number in re.findall(r"^(\S.*?)\s+# (\d+\.\d+)", code, flags=re.MULTILINE):
            assert eval(expression, names) == pytest.approx(float(number), abs=5e-5), expression


def assert_same_output(printed, shown):
    """The same words, and nearly the same numbers: training differs a little between processors."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split()
    for got, said in zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True):
        wanted = float(said.replace(",", ""))
        slack = 0.02 if wanted < 1 else 2.0
        assert float(got.replace(",", "")) == pytest.approx(wanted, rel=0.05, abs=slack), printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = page.read_text()
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", text):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), f"{target}#{anchor}"
    for target in re.findall(r"\b((?:bench|tests|docs|examples|src)/[\w/.-]+\.\w+)", text):
        assert (ROOT / target).exists() or (page.parent / target).exists(), target


def anchors(page):
    """The anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 800


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_exist(page):
    for name in set(re.findall(r"\bcertcal(?:\.\w+)+", page.read_text(encoding="utf-8"))):
        pkgutil.resolve_name(name)

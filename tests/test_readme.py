"""The README's and docs' Python runs as pasted, the values in its comments are true, and links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=["from a model", "from bounds"])
def test_block_runs_and_its_numbers_are_true(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(block, names)
    for expression, number in re.findall(r"^(\S.*?)\s+# (\d+\.\d+)", block, flags=re.MULTILINE):
        assert eval(expression, names) == pytest.approx(float(number), abs=5e-5), expression


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
    for target in re.findall(r"\b((?:bench|tests|docs|examples|src)/[\w/.-]+\.\w+)", page.read_text()):
        assert (ROOT / target).exists() or (page.parent / target).exists(), target

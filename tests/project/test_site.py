"""The documentation site, as far as it can be checked without building it: no page, room or name is forgotten."""

import ast
import importlib.util
import re

import certcal
from places import ROOT, statements

DOCS = ROOT / "docs"


def navigation():
    """The pages in mkdocs.yml, read without a YAML parser."""
    (block,) = re.findall(r"^nav:\n((?: .*\n)+)", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    return re.findall(r"- [\w' ]+: (\S+\.md)$", block, flags=re.MULTILINE)


def test_navigation_lists_every_page_once():
    pages = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    made = [f"notebooks/{path.stem}.md" for path in (ROOT / "examples").glob("*.ipynb")]  # by docs/hooks/notebooks.py
    assert sorted(navigation()) == sorted(pages + made)


def test_site_asks_the_network_for_nothing():
    for source in (ROOT / "mkdocs.yml", *(DOCS / "assets").iterdir()):
        assert not re.search(r"https?:|//\w", re.sub(r"^\s*//.*", "", source.read_text(), flags=re.MULTILINE)), source
    settings = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in settings  # the theme would ask Google
    assert "iframe-worker" in settings  # the offline plugin would ask a CDN for its own


def test_every_room_has_its_page():
    for source in sorted((ROOT / "src" / "certcal").glob("*/__init__.py")):
        room = source.parent.name
        if room == "cli":  # whose page is docs/command_line.md
            continue
        page = DOCS / "api" / f"{room}.md"
        assert page.is_file(), f"docs/api/{room}.md should hold `::: certcal.{room}`, and mkdocs.yml list it"
        assert f"\n::: certcal.{room}" in page.read_text()


def test_overview_lists_every_public_name():
    text = (DOCS / "api" / "index.md").read_text()
    missing = [name for name in certcal.__all__ if f"`{name}`" not in text and f"::: certcal.{name}\n" not in text]
    assert not missing, f"add to docs/api/index.md: {missing}"


def load(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / "hooks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_facts_of_docstrings_are_told_apart():
    text = "Paper: App. A.1; it says why: so.   Errs: low, strictly: by\na hair.\nRaises: InputError if not."
    shown = re.findall(r"<dt>(\w+)</dt><dd>(.*?)</dd>", load("facts").as_list(text), flags=re.DOTALL)
    assert shown == [
        ("Paper", "App. A.1; it says why: so."),
        ("Errs", "low, strictly: by\na hair."),
        ("Raises", "InputError if not."),
    ]


def test_only_public_names_in_running_text_become_links(monkeypatch):
    monkeypatch.chdir(ROOT)
    link = load("crosslinks").on_page_content
    target = '<autoref optional identifier="certcal.evaluation.evaluate">'
    assert link("<p><code>certcal.evaluate(e, …)</code></p>").startswith(f"<p>{target}<code>certcal.evaluate(")
    for tag in ("pre", "h2", "a"):
        assert link(f"<{tag}><code>evaluate</code></{tag}>") == f"<{tag}><code>evaluate</code></{tag}>"
    for code in ("model.evaluate", "evaluates", "evaluate this"):
        assert link(f"<code>{code}</code>") == f"<code>{code}</code>"


def functions_with_arguments():
    """Every function and class of the library whose docstring lists arguments."""
    for source in sorted((ROOT / "src" / "certcal").rglob("*.py")):
        for node in statements(source.read_text(encoding="utf-8")):
            if isinstance(node, ast.FunctionDef) and "\nArgs:\n" in (ast.get_docstring(node) or ""):
                yield f"{source.stem}.{node.name}", node


def test_documented_arguments_exist():
    found = list(functions_with_arguments())
    assert len(found) > 40
    for where, node in found:
        (section,) = re.findall(r"^Args:\n((?:    .*\n?|\n)+)", ast.get_docstring(node), flags=re.MULTILINE)
        documented = re.findall(r"^    ([\w*, ]+):", section, flags=re.MULTILINE)
        arguments = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        named = {name.strip("* ") for names in documented for name in names.split(",")}
        assert named <= arguments, where

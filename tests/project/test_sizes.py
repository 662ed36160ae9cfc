"""Files and functions stay small enough to be read at once."""

import ast
import importlib

import pytest

from places import ROOT, statements

FILES = sorted((ROOT / "src" / "certcal").rglob("*.py"))
ROOMS = [path.parent.name for path in (ROOT / "src" / "certcal").glob("*/__init__.py")]
LINES, PARAMETERS = 300, 12


def test_no_file_is_longer_than_can_be_read():
    all_files = [*FILES, *(ROOT / "tests").rglob("*.py")]
    long = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in all_files}
    assert {path: lines for path, lines in long.items() if lines > LINES} == {}


def many_parameters(source):
    """Functions with more parameters than a reader keeps in mind; those of a class by the name of the class."""
    nodes = statements(source)
    owner = {own: node.name for node in nodes if isinstance(node, ast.ClassDef) for own in node.body}
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            own = node.args
            if len(own.posonlyargs + own.args + own.kwonlyargs) > PARAMETERS:
                yield owner.get(node, node.name)


def test_only_the_doors_take_many_parameters():
    """What a room offers, verbs and other libraries' classes: there each is an option of the user's."""
    offered = {name for room in ROOMS for name in getattr(importlib.import_module(f"certcal.{room}"), "__all__", ())}
    inside = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in FILES
        if path.parent.name not in ("cli", "integrations")
        and path.name != "kernels.py"  # whose language has no records
        for name in many_parameters(path.read_text(encoding="utf-8"))
        if name not in offered
    ]
    assert inside == []


@pytest.mark.parametrize(("count", "found"), [(PARAMETERS, []), (PARAMETERS + 1, ["f"])])
def test_parameters_are_counted(count, found):
    names = [f"p{number}" for number in range(count)]
    assert list(many_parameters(f"def f({', '.join(names[:3])}, *, {', '.join(names[3:])}): ...")) == found

"""A room is used through its door: what another room imports from it is in its `__all__`."""

import ast
import importlib

from places import ROOT, statements

SOURCE = ROOT / "src" / "certcal"
ROOMS = {path.parent.name for path in SOURCE.glob("*/__init__.py")}


def imported(source, package):
    """The module and name of every `from … import …` and `import …` in a file of that package."""
    for node in statements(source):
        if isinstance(node, ast.ImportFrom):
            above = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (above, node.module)))
            yield from ((module, name.name) for name in node.names)
        elif isinstance(node, ast.Import):
            yield from ((name.name, None) for name in node.names)


def past_the_door(source, package):
    """What a file takes from other rooms without their offering it."""
    for module, name in imported(source, package):
        parts = module.split(".")
        if parts[0] != "certcal":
            continue
        room = parts[1] if len(parts) > 1 else None
        if room not in ROOMS or room in package[1:2]:
            continue
        offered = getattr(importlib.import_module(f"certcal.{room}"), "__all__", ())
        if len(parts) > 2 or (name is not None and name not in offered):
            yield f"{module}.{name}" if name else module


def test_rooms_take_only_what_others_offer():
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        package = ("certcal", *path.relative_to(SOURCE).parts[:-1])
        names = past_the_door(path.read_text(encoding="utf-8"), package)
        found += [f"{path.relative_to(SOURCE)}: {name}" for name in names]
    assert not found, "\n".join(found)


def test_ways_past_a_door_are_seen():
    package = ("certcal", "report")
    for line in (
        "from certcal.metrics.binning import bin_edges",
        "from certcal.metrics import binning",
        "import certcal.metrics.binning",
        "from ..metrics.binning import bin_edges",
    ):
        assert list(past_the_door(line, package)), line
    for line in (
        "from certcal.metrics import brier_score",
        "from certcal.report.words import x",
        "from .words import x",
    ):
        assert not list(past_the_door(line, package)), line

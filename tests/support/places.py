"""Where things are, and what Python reads there."""

import ast
from functools import cache
from pathlib import Path

SUPPORT = Path(__file__).parent
ROOT = SUPPORT.parent.parent


@cache
def statements(source: str) -> list[ast.AST]:
    """The statements of a file, with those inside others: what is left out, expressions, is most of it."""
    found: list[ast.AST] = [ast.parse(source)]
    for node in found:
        for part in ("body", "orelse", "handlers", "cases", "finalbody"):
            inside = getattr(node, part, ())
            found += inside if isinstance(inside, list) else ()
    return found

"""Names that a room loads when they are first used, so that importing the room is quick."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def later(room: str, **modules: str) -> Callable[[str], Any]:
    """The `__getattr__` of a room: by module, the names that come from it, separated by spaces; `dir` lists them."""
    home = {name: module for module, names in modules.items() for name in names.split()}
    known = vars(sys.modules[room])
    known["__dir__"] = lambda: sorted({*known, *home})

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(import_module(f"{room}.{home[name]}"), name)

    return load

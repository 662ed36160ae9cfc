"""Results that notebooks show as a table, a sentence and a figure."""

from importlib import import_module
from typing import Any


class Shown:
    """A result that can be shown. Results know that they can; the room `report`, above them, knows how."""

    def _repr_html_(self) -> str:
        html: str = import_module("certcal.report").as_html(self)
        return html

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the result on matplotlib's axes, or on new ones, and return them."""
        return import_module("certcal.report").draw(self, ax=ax)

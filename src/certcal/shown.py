"""Results that notebooks show as a table, a sentence and a figure."""

from abc import abstractmethod
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from certcal.errors import CertcalError

if TYPE_CHECKING:
    import pandas as pd

Row = TypeVar("Row")


class Shown:
    """A result that can be shown. Results know that they can; the room `report`, above them, knows how."""

    def _repr_html_(self) -> str:
        html: str = import_module("certcal.report").as_html(self)
        return html

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the result on matplotlib's axes, or on new ones, and return them."""
        return import_module("certcal.report").draw(self, ax=ax)


def by_row(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Columns of one length as one dictionary per row."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


class ShownRows(Shown):
    """A result that is also rows of numbers."""

    @abstractmethod
    def as_dicts(self) -> list[dict[str, Any]]:
        """The rows as plain dictionaries, for JSON or a data frame."""

    def to_frame(self) -> "pd.DataFrame":
        """The rows as a pandas data frame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise CertcalError("to_frame needs pandas: pip install pandas; as_dicts() does without it.") from error
        return pd.DataFrame(self.as_dicts())


class ShownTable(ShownRows, Generic[Row]):
    """A result that is a list of such rows."""

    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

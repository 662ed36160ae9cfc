"""docs/equations.md lists every public function, and what it names exists."""

import re
from operator import attrgetter

import pytest

import certcal
from places import ROOT
from signatures import SIGNATURES

TABLE = (ROOT / "docs" / "equations.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.splitlines() if line.startswith("| ")][
    1:
]


@pytest.mark.parametrize("name", SIGNATURES)
def test_every_function_is_listed_under_the_place_its_docstring_names(name):
    places = [place for place, _, functions, _ in ROWS if f"`{name}`" in functions]
    assert places, f"{name} is missing from docs/equations.md"
    cited = re.search(r"Paper: (.*)", attrgetter(name)(certcal).__doc__).group(1)
    first = re.match(r"(—|(?:Sec|Eq|Thm|Def|App|Alg)\. \(?[A-Z0-9.]*[A-Z0-9])", cited).group(1)
    assert any(first in place for place in places), f"{name} cites {first!r}, the table says {places}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1])
def test_what_the_table_names_exists(row):
    _, _, functions, test = row
    assert all(attrgetter(name)(certcal) for name in re.findall(r"`([\w.]+)`", functions))
    assert (ROOT / test.strip("`")).is_file()

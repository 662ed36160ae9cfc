"""docs/measured.md shows the recorded speeds, every one of them, as they are in bench/results."""

import json
import re

from places import ROOT

PAGE = ROOT / "docs" / "measured.md"


def shown(value):
    """Three digits, thousands apart: 26.8, 181 000.

    >>> shown(26.805), shown(180673.4), shown(0.1812)
    ('26.8', '181 000', '0.181')
    """
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}".replace(",", " ") if rounded >= 100 else f"{rounded:g}"


def table():
    """The table of all records; paste it into the page after a new `make bench`."""
    lines = ["| what | measured | wanted | details |", "|---|---:|---:|---|"]
    for path in sorted((ROOT / "bench" / "results").glob("*.json")):
        for figure in json.loads(path.read_text(encoding="utf-8"))["figures"]:
            wanted = f"{'≥' if figure['at_least'] else '≤'} {figure['limit']:g}"
            measured = f"{shown(figure['value'])} {figure['unit']}"
            where = "GPU: " if path.stem.endswith("-gpu") else ""
            note = re.sub(r"[\d.]+e\+\d+", lambda number: f"{float(number[0]):.0f}", figure["note"])
            lines.append(f"| {where}{figure['name']} | {measured} | {wanted} | {note} |")
    return "\n".join(lines)


def test_the_page_shows_the_records():
    assert f"\n{table()}\n" in PAGE.read_text(encoding="utf-8"), table()

"""The paper's tables and figures on the command line: the list of them, and one drawn."""

import tomllib
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from certcal.cli.screen import Screen, new_table, print_json, show_path, show_whole, tell, wide_console
from certcal.errors import InputError

_LETTERS = "abcdefgh"  # for what tables and figures are drawn from


def draw_one(name: str, sources: list[str], into: str, *, others: list[str], json: bool) -> None:
    """Draw a table or figure of the paper, and say where it is."""
    from certcal.runs import RunFolder
    from certcal.studies import draw_exhibit

    if others:
        wanted = f"be a study with {others[0]}: a table or figure takes only --from, --into and --json"
        raise InputError.expected("recipe", wanted, repr(name))
    place = RunFolder.named(into)
    drawn = draw_exhibit(name, sources, place)
    for note in () if drawn.text and not json else drawn.notes:  # a table says so itself
        tell(note)
    if json:
        print_json({"name": name, "folder": str(place.path), "files": [str(path) for path in drawn.files]})
        return
    if drawn.text:
        _show_markdown(drawn.text)
    for path in drawn.files:
        show_path(wide_console(), "", path)


def _show_markdown(text: str) -> None:
    """What a file of ours says, its tables as those of other commands."""
    console, title, rows = wide_console(), "", list[list[str]]()
    for line in [*text.splitlines(), ""]:
        if line.startswith("| "):
            rows.append(line[2:-2].split(" | "))
        elif rows:
            head, sides, *lines = rows
            table = paper_like([head, *lines], title, words=sides.index("---:") if "---:" in sides else len(sides))
            fits = Screen(width=1000).measure(table).minimum <= console.width
            console.print(table) if fits else show_whole(console, table)
            title, rows = "", []
        if line.startswith("#"):
            title = line.lstrip("# ")
        elif not line.startswith("| ") and not (title and not line):
            console.print(Text(line.replace("**", ""), "dim"))


def show_list(*, json: bool) -> None:
    """What can be reproduced: the studies, and the paper's tables and figures."""
    from certcal.studies import EXHIBITS, study_names, study_text

    about = {name: tomllib.loads(study_text(name))["about"] for name in study_names()}
    known = {one.name: {"place": one.place, "shows": one.shows, "from": one.source} for one in EXHIBITS.values()}
    if json:
        print_json({"studies": about, "exhibits": known})
        return
    table = new_table("study", "about", "size")
    table.columns[0].no_wrap = True  # a name is there to be typed
    for name, one in about.items():
        table.add_row(Text(name, "bold"), one["title"], Text(one["cost"], "dim"))
    console = wide_console()
    console.print(table)
    sources = list(dict.fromkeys(one.source for one in EXHIBITS.values() if one.source))
    table = new_table("table or figure", "in the paper", "shows", "from")
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for one in EXHIBITS.values():
        letter = _LETTERS[sources.index(one.source)] if one.source else "—"
        table.add_row(Text(one.name, "bold"), one.place, one.shows, Text(letter, "dim"))
    console.print()
    console.print(table)
    console.print("\nWhat --from names:", style="dim")
    for letter, source in zip(_LETTERS, sources, strict=False):
        console.print(Text(f"{letter}  {source}", "dim"))
    console.print("—  nothing: leave --from out", style="dim")


def paper_like(lines: Sequence[Sequence[str]], title: str, *, words: int = 2) -> Table:
    """A head and lines, the first columns words. Where the screen is narrow, the paper's number is below ours."""
    head, *rows = lines
    table, last = new_table(*head[:words], numbers=head[words:], title=title or None), ""
    for column in table.columns[:words]:
        column.no_wrap = True
    for row in rows:
        if row[0] != last:
            table.add_section()
        table.add_row("" if row[0] == last else row[0], *map(_bold, row[1:]))
        last = row[0]
    return table


def _bold(cell: str) -> Text:
    """A cell whose part between asterisks is bold."""
    before, *inner = cell.split("**")
    return Text.assemble(before, (inner[0], "bold"), inner[1]) if len(inner) == 2 else Text(cell)

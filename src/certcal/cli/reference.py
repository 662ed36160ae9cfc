"""`certcal reference`: a pack of evidence that anyone can verify and recompute."""

import math
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from certcal.cli import options as o
from certcal.cli.screen import complain, in_percent, new_table, print_json, show_path, tell, wide_console
from certcal.errors import InputError, several
from certcal.files import plain, replacing
from certcal.progress import Progress
from certcal.scalars import did_you_mean, exactly

if TYPE_CHECKING:
    from certcal.studies import Entry, Pack, ReferenceRow


class Action(StrEnum):
    """What to do with a pack."""

    LIST = "list"
    VERIFY = "verify"
    RECOMPUTE = "recompute"
    PAGE = "page"
    ADD = "add"


# What each action takes; another option would do nothing.
TAKES = {
    Action.LIST: ("--only", "--json"),
    Action.VERIFY: ("--json",),
    Action.RECOMPUTE: ("--only", "--approximate", "--write", "--json"),
    Action.PAGE: ("--out",),
    Action.ADD: ("--run", "--name", "--fact", "--approximate"),
}
# What `--fact` cannot say of an entry, and what does.
_NOT_FACTS = {"name": "--name", "run": "--run", "sha256": "the evidence itself"}

_MAPS = (
    "with a map: the share of the halves in which one was learned; a row is the mean\n"
    "over all halves. ±: how far certified ECEs of the splits are apart, in points"
)


def reference(
    action: Annotated[Action, typer.Argument(help="What to do.", show_default=False)],
    pack: Annotated[Path, typer.Argument(metavar="PACK", help="Folder of the pack.", show_default=False)],
    *,
    run: Annotated[str | None, o.option("--run", "add: the run whose evidence is added.")] = None,
    name: Annotated[str | None, o.option("--name", "add: name of the entry.")] = None,
    fact: Annotated[
        list[str] | None, o.option("--fact", "add: what the run does not know, as method=Brier-ACT.", "KEY=VALUE")
    ] = None,
    only: Annotated[list[str] | None, o.option("--only", "list, recompute: this entry; repeatable.")] = None,
    approximate: Annotated[
        bool, o.option("--approximate", "add, recompute: also the paper's ACCE, half a minute per radius.")
    ] = False,
    write: Annotated[bool, o.option("--write", "recompute: store the rows.")] = False,
    out: Annotated[Path | None, o.option("--out", "page: where to, else leaderboard.html.")] = None,
    json: o.Json = False,
) -> None:
    """List, verify or recompute a reference pack, write its leaderboard, or add a run's evidence to it.

    A pack is a folder with manifest.toml, evidence and rows.json. `verify` compares digests, `recompute` makes every
    row again from the evidence; both exit with 1 on any difference.

    [dim]Examples:[/dim] certcal reference recompute reference · certcal reference add mine --run run --name my-model
    """
    from certcal.studies import Pack

    _check_options(action, {"--run": run, "--name": name, "--fact": fact, "--only": only, "--approximate": approximate,
                            "--write": write, "--out": out, "--json": json})  # fmt: skip
    if action is Action.ADD:
        _add(pack, run, name, fact or [], approximate=approximate)
        return
    own = Pack.read(pack)
    names = [one.name for one in own.entry]
    for one in only or ():
        if one not in names:
            raise InputError.expected("only", "name an entry of the pack", f"{one!r}{did_you_mean(one, names)}")
    if action is Action.LIST:
        _list(own, only or names, rows=bool(only), json=json)
    elif action is Action.PAGE:
        _page(own, out or own.folder / "leaderboard.html")
    else:
        changed: list[str] = []
        found = own.problems() if action is Action.VERIFY else own.evidence_problems()
        if action is Action.RECOMPUTE and not found:
            found, changed = _recomputed(own, only or [], approximate=approximate, write=write)
        count = len(set(only)) if only and action is Action.RECOMPUTE else len(own.entry)
        acce = action is Action.RECOMPUTE and not approximate and any(row.acce == row.acce for row in own.rows())
        _judge(count, action, found, changed, json=json, left_out=acce)


def _check_options(action: Action, given: dict[str, Any]) -> None:
    for option, value in given.items():
        if value not in (None, False, []) and option not in TAKES[action]:
            others = " and ".join(f"`{one}`" for one in Action if option in TAKES[one])
            raise InputError(f"{option} does nothing for `{action}`: it is an option of {others}.")


def _recomputed(pack: "Pack", only: list[str], *, approximate: bool, write: bool) -> tuple[list[str], list[str]]:
    """How stored rows differ from those made again; with `write` these are stored, and what differed has changed."""
    from certcal.studies import differences

    names, made = list(dict.fromkeys(only)) or [one.name for one in pack.entry], []
    with Progress(1, len(names), show=None, doing="recomputing", unit="entries", done="recomputed") as bar:
        for name in names:
            made += pack.recompute([name], approximate=approximate)
            bar.drew(1)
    if write:
        return [], pack.store(made, only)
    found = differences([row for row in pack.rows() if not only or row.entry in only], made)
    return list(dict.fromkeys([*found, *pack.row_problems()])), []


def _page(pack: "Pack", target: Path) -> None:
    from certcal.report import leaderboard_page
    from certcal.studies import boards_of

    if target.is_dir() or not target.parent.is_dir():
        raise InputError.expected(
            "out", "be a file in a folder that exists", f"{target}{', a folder' * target.is_dir()}"
        )
    page = leaderboard_page(boards_of(pack))
    with (
        InputError.expecting("out", "be a file that can be written", f"{target}", on=OSError),
        replacing(target) as part,
    ):
        part.write_text(page, encoding="utf-8")
    show_path(wide_console(), "Page: ", target)


def _judge(entries: int, action: Action, found: list[str], changed: list[str], *, json: bool, left_out: bool) -> None:
    for line in (*found, *changed) if not json else ():
        complain(line)
    if json:
        not_made = ["acce"] if left_out else []  # again
        print_json({"entries": entries, "problems": found, "changed": changed, "not_made": not_made})
    elif not found:
        done = "evidence as it was added" if action is Action.VERIFY else "recomputed: every row is as stored"
        if changed:
            done = f"recomputed and stored: {several(len(changed), 'number')} changed, as told above"
        also = " The paper's ACCE was not made again: that takes --approximate." if left_out else ""
        wide_console().print(f"{several(entries, 'entry', 'entries')}, {done}.{also}", soft_wrap=True)
    if found:
        raise typer.Exit(1)


def _list(pack: "Pack", names: list[str], *, rows: bool, json: bool) -> None:
    stored = [row for row in pack.rows() if row.entry in names]
    entries = [one for one in pack.entry if one.name in names]
    if json:
        print_json({"entries": [plain(vars(one)) for one in entries], "rows": [plain(vars(row)) for row in stored]})
        return
    lines = _row_lines if rows else _entry_lines
    for line in lines(entries, stored):
        wide_console().print(line, soft_wrap=isinstance(line, Text))
    if any(row.maps == row.maps for row in stored):
        wide_console().print(Text(_MAPS, style="dim"))


def _entry_lines(entries: list["Entry"], rows: list["ReferenceRow"]) -> Iterator[Text]:
    """An entry's name, then what it has, in columns: names are too long to stand beside them."""
    table: list[tuple[str, ...]] = [("method", "R", "maps at", "freer", "with a map", "±")]
    for one in entries:
        own = [row for row in rows if row.entry == one.name and row.maps == row.maps]
        radii = (" ".join(map(exactly, own)) for own in (one.radii, one.mapped, one.freer))
        least, most = (_share(end(row.maps for row in own)) if own else "" for end in (min, max))
        spread = max((row.deviation for row in own if row.deviation == row.deviation), default=math.nan)
        shares = most if least == most else f"{least.removesuffix(' %')}–{most}"
        table.append((one.method, *radii, shares, _points(spread)))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    head, *lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in table]
    for data in dict.fromkeys(one.data for one in entries):
        yield Text(f"{data}, {several(sum(one.data == data for one in entries), 'entry', 'entries')}", style="bold")
        yield Text(f"  {head}", style="dim")
        for one, line in zip(entries, lines, strict=True):
            if one.data == data:
                yield Text(f"{one.name}\n  {line if one.radii else 'only there to fit maps on'}")


def _row_lines(entries: list["Entry"], rows: list["ReferenceRow"]) -> Iterator[Text | Table]:
    """An entry's name, then its rows."""
    for own in entries:
        table = new_table("track", numbers=("R", "cert. accuracy", "cert. ECE", "±", "cert. Brier", "with a map"))
        for row in rows:
            if row.entry == own.name:
                ece, brier = (in_percent(value, "up") for value in (row.certified_ece, row.certified_brier))
                accuracy, share = in_percent(row.certified_accuracy, "down"), _share(row.maps)
                table.add_row(row.track, exactly(row.radius), accuracy, ece, _points(row.deviation), brier, share)
        yield Text.assemble((own.name, "bold"), f"  {own.data}, {own.method}")
        if table.row_count:  # evidence without radii has no rows
            yield table
        yield Text()


def _share(value: float) -> str:
    return "" if value != value else f"{math.floor(100 * value)} %"


def _points(value: float) -> str:
    return "" if value != value else f"{100 * value:.1f}"


def _add(pack: Path, run: str | None, name: str | None, facts: list[str], *, approximate: bool) -> None:
    from certcal.runs import RunFolder
    from certcal.smoothing import load_evidence
    from certcal.studies import add_to_pack, entry_of_run

    if run is None:
        raise InputError("Missing --run: which run's evidence to add.")
    if name is None:
        raise InputError("Missing --name: what to call the entry.")
    given: dict[str, Any] = {}
    for key, value in map(_fact, facts):
        if given.setdefault(key, value) != value:
            raise InputError.expected("fact", f"say {key} once", f"{given[key]!r} and {value!r}")
    folder = RunFolder.existing(run)
    entry = entry_of_run(folder, name=name, **given)
    for needed in ("method", "data", "network", "radii"):
        if needed not in entry:
            value = "[…]" if needed == "radii" else '"…"'
            raise InputError(f"Missing {needed}: the run does not know it. Give --fact {needed}={value}.")
    made = add_to_pack(pack, load_evidence(folder.evidence), entry, approximate=approximate)
    own = made.entry[-1]
    tell(f"added {name}: {made.file(own)}")
    if own.mapped and "brier_loss" not in given:
        others = sum(one.data == own.data for one in made.entry) > 1
        why = f", as most entries of {own.data} have" * others
        tell(f"brier_loss = {own.brier_loss:g}{why}; --fact brier_loss=… sets another")
    for row in made.rows():
        if row.entry == own.name and row.maps == 0:
            tell(f"R = {exactly(row.radius)}: no half learned a map, so the {row.track} row is of plain confidences")


def _fact(text: str) -> tuple[str, Any]:
    """The name and value of a fact: TOML, but for what an entry has as text: 801e174 is a commit, not a number."""
    from certcal.studies import Entry

    key, equals, value = text.partition("=")
    if not (key and equals):
        raise InputError.expected("fact", "be KEY=VALUE", repr(text))
    if key in _NOT_FACTS:
        raise InputError.expected("fact", f"leave out {key}, which {_NOT_FACTS[key]} says", repr(text))
    known = {one.name: one.type for one in fields(Entry) if one.name not in _NOT_FACTS}
    if key not in known:
        raise InputError.expected("fact", f"be of {', '.join(known)}", f"{key!r}{did_you_mean(key, known)}")
    if known[key] is str and not value.startswith(('"', "'")):
        return key, value
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return key, value

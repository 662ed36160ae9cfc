"""`certcal reference`: a pack of evidence that anyone can verify and recompute."""

import tomllib
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from certcal.cli import options as o
from certcal.cli.screen import complain, in_percent, new_table, print_json, show_path, tell, wide_console
from certcal.errors import InputError, several
from certcal.files import plain, replacing
from certcal.progress import Progress
from certcal.scalars import did_you_mean, exactly

if TYPE_CHECKING:
    from certcal.studies import Pack


class Action(StrEnum):
    """What to do with a pack."""

    LIST = "list"
    VERIFY = "verify"
    RECOMPUTE = "recompute"
    PAGE = "page"
    ADD = "add"


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
    from certcal.studies import Pack, boards_of

    if action is Action.ADD:
        _add(pack, run, name, fact or [], approximate=approximate)
        return
    own = Pack.read(pack)
    names = [one.name for one in own.entry]
    for one in only or ():
        if one not in names:
            raise InputError.expected("only", "name an entry of the pack", f"{one!r}{did_you_mean(one, names)}")
    if action is Action.LIST:
        _list(own, only or names, json=json)
    elif action is Action.PAGE:
        from certcal.report import leaderboard_page

        target = out or own.folder / "leaderboard.html"
        if not target.parent.is_dir():
            raise InputError.expected("out", "be a file in a folder that exists", target)
        with replacing(target) as part:
            part.write_text(leaderboard_page(boards_of(own)), encoding="utf-8")
        show_path(wide_console(), "Page: ", target)
    else:
        changed: list[str] = []
        found = own.problems()
        if action is Action.RECOMPUTE and not found:
            found, changed = _recomputed(own, only or [], approximate=approximate, write=write)
        count = len(set(only)) if only and action is Action.RECOMPUTE else len(own.entry)
        acce = any(row.acce == row.acce for row in own.rows()) and not approximate and action is Action.RECOMPUTE
        _judge(count, action, found, changed, json=json, left_out=acce)


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
    return differences([row for row in pack.rows() if not only or row.entry in only], made), []


def _judge(entries: int, action: Action, found: list[str], changed: list[str], *, json: bool, left_out: bool) -> None:
    for line in (*found, *changed) if not json else ():
        complain(line)
    if json:
        print_json({"entries": entries, "problems": found, "changed": changed})
    elif not found:
        done = "evidence as it was added" if action is Action.VERIFY else "recomputed: every row is as stored"
        if changed:
            done = f"recomputed and stored: {several(len(changed), 'number')} changed, as told above"
        also = " The paper's ACCE was not made again: that takes --approximate." if left_out else ""
        wide_console().print(f"{several(entries, 'entry', 'entries')}, {done}.{also}", soft_wrap=True)
    if found:
        raise typer.Exit(1)


def _list(pack: "Pack", names: list[str], *, json: bool) -> None:
    rows = [row for row in pack.rows() if row.entry in names]
    entries = [one for one in pack.entry if one.name in names]
    if json:
        print_json({"entries": [plain(vars(one)) for one in entries], "rows": [plain(vars(row)) for row in rows]})
        return
    console = wide_console()
    for own in entries:  # its name above its rows, since the longest leave no room beside them
        table = new_table("track", numbers=("R", "cert. accuracy", "cert. ECE", "cert. Brier"))
        for row in rows:
            if row.entry == own.name:
                errors = (in_percent(value, "up") for value in (row.certified_ece, row.certified_brier))
                table.add_row(row.track, exactly(row.radius), in_percent(row.certified_accuracy, "down"), *errors)
        console.print(Text.assemble((own.name, "bold"), f"  {own.data}, {own.method}"), soft_wrap=True)
        if table.row_count:  # evidence without radii has no rows
            console.print(table)
        console.print()


def _add(pack: Path, run: str | None, name: str | None, facts: list[str], *, approximate: bool) -> None:
    from certcal.runs import RunFolder
    from certcal.smoothing import load_evidence
    from certcal.studies import add_to_pack, entry_of_run

    if run is None or name is None:
        raise InputError("Missing --run or --name: which run's evidence to add, and under which name.")
    given: dict[str, Any] = {}
    for text in facts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise InputError.expected("fact", "be KEY=VALUE", repr(text))
        try:
            given |= tomllib.loads(f"{key} = {value}")
        except tomllib.TOMLDecodeError:
            given[key] = value
    folder = RunFolder.existing(run)
    made = add_to_pack(
        pack, load_evidence(folder.evidence), entry_of_run(folder, name=name, **given), approximate=approximate
    )
    tell(f"added {name}: {made.file(made.entry[-1])}")

"""`certcal attack`: how far adversaries get with a run's model, beside what is certified."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from certcal.cli import options as o
from certcal.cli.declare import takes
from certcal.cli.screen import new_table, print_json, show_path, tell, wide_console
from certcal.settings import AttackSettings, Sections

if TYPE_CHECKING:
    from certcal.attacks import AceTable, Sandwich

_SHOWN = (
    "radius", "adversary", "inputs", "clean_ece", "attacked_ece", "certified_ece", "attacked_brier", "certified_brier",
)  # fmt: skip
_NARROW = 100  # columns of a screen


@takes(attack=AttackSettings)
def attack(
    run: o.RunName, *, given: Sections, trust: o.Trust = False, no_figures: o.NoFigures = False, json: o.Json = False
) -> None:
    """Attack the calibration of a run's model: how tight are its certificates?

    Two families. Attacks on the smoothed model within the radii of its certificates, judged by fresh draws: clean ≤
    attacked ≤ certified. And (η, ω)-ACE on the network without noise, which wrecks confidences and leaves every label
    alone.

    Writes tables into the run's folder attack, figures, and a section of its report. What is there already, made with
    the same settings, is not made again.

    [dim]Example:[/dim] certcal attack mine --radii 0.1,0.25 --epsilon 2/255,8/255
    """
    from certcal.runs import RunFolder, attack_run

    folder, asked = RunFolder.existing(run), AttackSettings(**given["attack"])
    results = attack_run(folder, asked, trust=trust, figures=not no_figures, progress=True, tell=tell)
    if json:
        print_json(results.attacks.metrics())
        return
    # The other family, from an earlier time, is in the report.
    console, kept = wide_console(), results.attacks
    if kept.sandwich is not None and asked.family != "ace":
        _show_sandwich(console, kept.sandwich)
    if kept.ace is not None and asked.family != "smoothed":
        _show_ace(console, kept.ace)
    show_path(console, "\nTables: ", results.run.path / "attack")
    show_path(console, "Report: ", results.page)


def _show_sandwich(console: Console, own: "Sandwich") -> None:
    from certcal.report import SANDWICH_COLUMNS, sandwich_cells, tightness, verdict

    close = any(row.attacked_ece > row.certified_ece for row in own.rows)
    shown = (*_SHOWN, *(("limit_ece", "excess") if close or not own.holds else ()), *(() if own.holds else ("holds",)))
    wanted = [key for key in SANDWICH_COLUMNS if key in shown]
    best = own.strongest()
    what = "smoothed model" if own.terms.draws else "network without noise"
    table = new_table(title=f"The {what}: clean, attacked, certified (bold: the strongest attack)")
    for key in wanted:
        label = SANDWICH_COLUMNS[key].label
        table.add_column(label, justify="left" if key == "adversary" else "right", vertical="bottom")
    for place, line in enumerate(sandwich_cells(own, wanted)):
        style = "bold red" if not own.rows[place].holds else "bold" if place in best else None
        table.add_row(*line, style=style)
    console.print()
    console.print(table)
    attacked = (
        f"{own.inputs:,} of the {own.of:,} inputs were attacked"
        if own.of is not None and own.inputs < own.of
        else "All were attacked"
    )
    many = f"{attacked}, and judged by {own.terms.draws:,} fresh draws each" if own.terms.draws else attacked
    console.print(Text(f"\n{tightness(own, best[-1])} {many}."))
    console.print(Text(verdict(own), style="dim" if own.holds else "bold red"))


def _show_ace(console: Console, own: "AceTable") -> None:
    from certcal.report import GALIL, ace_cells, ace_heads, ace_sentence

    table = new_table(title="The network without noise: (η, ω)-ACE, which keeps labels")
    lines = ace_cells(own)
    for place, head in enumerate(ace_heads(own)):
        # A narrow screen breaks heads between words, but no number.
        least = max(map(len, (*head.split(), *(line[place] for line in lines))))
        width = least if console.width < _NARROW else None
        table.add_column(head, justify="left" if place < 2 else "right", vertical="bottom", width=width)
    for line in lines:
        table.add_row(*line)
    console.print()
    console.print(table)
    console.print(Text(f"\nThis is {ace_sentence(own)}.{f' {GALIL}' if own.galil else ''}", style="dim"))

"""Write docs/reproduction.md, its figure and its tables: the paper's numbers, ours from the pack, and differences.

    python -m experiments.reproduction

Every number comes from reference/, experiments/results, bench/results or the paper's tables in paper.toml.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from certcal.errors import several
from certcal.studies import EXHIBITS, Entry, Pack
from experiments.beside_others import approximations, correlations, published, spread
from experiments.directions import directions, tuned
from experiments.glance import answers, in_short, overview, picture
from experiments.headlines import freer, headline, unseen
from experiments.not_run import attacks, not_run
from experiments.pack_table import Table, markdown

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reproduction.md"
SCORES = (("CCE", "ACCE", "certified_ece", "ece"), ("CBS", "CBS", "certified_brier", "brier"))
TABLES, PICTURE = PAGE.with_name("reproduction_tables.md"), ROOT / "docs" / "images" / "reproduction.svg"
WRITTEN = (
    "<!-- written by `python -m experiments.reproduction`; a test compares it with the files it is made from -->\n"
)
HEAD = f"""# Reproduction

{WRITTEN}
The paper's numbers of training, and ours from the evidence in [the reference pack](reference_pack.md), which
`certcal reference recompute reference` makes again without a GPU. This page has the answers;
[all tables](reproduction_tables.md) have every model, seed and setting.

{{answers}}
![Certified calibration error of the paper's methods over the radius, four ways](images/reproduction.svg)

Words and units, here and in the figure:

- All numbers are in percent, R is the radius. Certified accuracy (CA) is rounded down, certified errors up.
- CCE is the certified calibration error, exact. The paper has the ACCE, which approximates it from below. CBS is the
  certified Brier score.
- AT (SmoothAdv), Brier-ACT, ACCE-ACT and ACCE-ACT* are the paper's [ways to train](training.md). CCE-ACT, Certified
  Brier and Consistency are not in its tables.
- A model is called by σ, ε, draws m and steps T of its baseline, then by method and setting.
- “The paper's bounds” are its certificate (cdf). cdf-cp gives sharper bounds from the same draws. A map
  [recalibrates](recalibration.md) confidences. More words are in the [glossary](glossary.md).
"""
TABLES_HEAD = f"""# Reproduction: all tables

{WRITTEN}
Every row behind [Reproduction](reproduction.md), where words and units are explained. `certcal reference recompute
reference` makes the rows again from stored evidence, with `--approximate` ADMM's ACCE too. Tables about published logs,
approximations and attacks come from `experiments/results`. Differences are of the numbers before they are rounded.
"""
SELECTED = (
    "Ours are selected as in the paper: per method, the least error among models of seed 0 within 3 points of the best "
    "CA at R, on the inputs reported on. The least of many errs low."
)
DETAILS = (
    "CA is by the paper's bounds; by cdf-cp it differs by tenths. ADMM's ACCE is the paper's approximation from our "
    "bounds. By cdf-cp, looks at the draws count: evidence that was drawn on without a plan has limits up to a point "
    "wider."
)
Part = Callable[[Table], str]
HEADS = ["R", "metric", "method", "CA", "paper", "ours, paper's bounds", "difference", "ours, cdf-cp",
         "with a map", "ADMM's ACCE", "draws", "model"]  # fmt: skip


def training(table: Table) -> str:
    """What there is to say of a data set, from the short to the long."""
    bands = ", ".join(f"{low}–{high} at R = {radius:g}" for radius, (low, high) in
                      zip(table.paper.get("radii", ()), table.paper.get("CA", ()), strict=True))  # fmt: skip
    compared = f"The paper compares models with a CA of {bands}." if bands else "It is not in the paper."
    return f"{compared} {SELECTED}\n\n{_parts(table, ANSWERS)}"


def every_row(table: Table) -> str:
    """What is behind it: the models selected, by either choice, their seeds, and where each comes from."""
    return f"{SELECTED} {DETAILS}\n\n{_parts(table, ROWS)}"


def _parts(table: Table, wanted: Mapping[str, Sequence[Part]]) -> str:
    """Parts under their headings, where the table has something for them."""
    told = {heading: [text for part in parts if (text := part(table))] for heading, parts in wanted.items()}
    return "\n".join(f"### {heading}\n\n" + "\n".join(texts) for heading, texts in told.items() if texts)


def chosen(table: Table) -> str:
    """The selected models of each method at each radius."""
    lines = [
        table.line(radius, name, theirs, score, entry)
        for radius in sorted({row.radius for row in table.rows})
        for name, theirs, score, field in SCORES
        for entry in (*table.selected(radius, field), *table.others(radius))
    ]
    return f"{markdown(HEADS, lines, 3)}\n{worse(table)}"


def worse(table: Table) -> str:
    """How often a map is worse than none on inputs that it has not seen."""
    pairs = [
        (row, table.at("plain", row.radius)[row.entry]) for row in table.rows
        if row.track == "recalibrated" and row.maps and not table.entries[row.entry].fitted_on
    ]  # fmt: skip
    if not pairs:
        return ""
    error, brier = (
        sum(getattr(row, name) > getattr(before, name) for row, before in pairs)
        for name in ("certified_ece", "certified_brier")
    )
    return f"With a map the CCE is larger than without in {error} of {len(pairs)} rows, the CBS in {brier}.\n"


def missed(table: Table) -> str:
    """What the paper's approximation misses of the exact value, from the same bounds."""
    gaps = [100 * (row.certified_ece - row.acce) for row in table.rows if not math.isnan(row.acce)]
    if not gaps:
        return ""
    return (
        f"From the same bounds, ADMM's ACCE is below the exact CCE by {statistics.median(gaps):.2f} points in the "
        f"median of {several(len(gaps), 'row')}, and by {min(gaps):.2f} to {max(gaps):.2f}.\n"
    )


def honest(table: Table) -> str:
    """The models that held-out training images choose, at the radii they are chosen for."""
    lines = [
        table.line(radius, name, theirs, score, entry)
        for name, theirs, score, field in SCORES
        for radius in sorted({row.radius for row in table.rows})
        for entry in table.entries.values()
        if entry.name in table.at("paper", radius) and table.held_out(entry.name, field, radius)
        and (table.inputs[entry.name] == table.usual or entry.network != table.network)
        and entry.train_seed == 0 and table.at("paper", radius)[entry.name].certified_accuracy > 0
    ]  # fmt: skip
    if not lines:
        return ""
    told = (
        "Chosen on held-out training images instead, the test inputs unseen. Models of each baseline were chosen among "
        "themselves, so a method has a line for each baseline it starts from:"
    )
    return f"{told}\n\n{markdown(HEADS, sorted(lines, key=lambda line: (float(line[0]), line[1], line[2])), 3)}"


def sources(table: Table) -> str:
    """What each entry is, and what it took."""
    lines = [
        [one.name, one.method, one.settings or "—", _fitted(one), one.device, one.commit,
         *(f"{took:.0f} s" if took else "—" for took in (one.train_seconds, one.certify_seconds))]
        for one in table.entries.values()
    ]  # fmt: skip
    heads = ["entry", "method", "settings", "maps fitted on", "device", "commit", "training", "certification"]
    told = "Wall times are of models that ran beside others on the same device."
    return f"{markdown(heads, lines, 6)}\n{told}\n"


def _fitted(entry: Entry) -> str:
    if entry.fitted_on:
        return f"{entry.fitted_on}, clean Brier + {100 * entry.brier_loss:g} at most"
    return "halves" if entry.mapped else "—"


def exhibits() -> str:
    """The names under which `certcal reproduce` draws what the paper shows."""
    lines = [[f"`{one.name}`", one.place, one.shows, one.source or "nothing"] for one in EXHIBITS.values()]
    told = (
        "`certcal reproduce NAME --from reference` draws each again from the pack, where it has the data; `--from` "
        "also takes runs, studies and evidence files:"
    )
    return f"{told}\n\n{markdown(['name', 'in the paper', 'shows', 'drawn from'], lines, 4)}"


ANSWERS: dict[str, Sequence[Part]] = {
    "The paper's methods": (in_short, missed),
    "Directions": (directions, tuned),
    "With a map": (headline, freer, unseen),
    "Beside published logs": (published,),
    "The paper's approximations": (approximations,),
    "Robust and calibrated": (correlations,),
}
ROWS: dict[str, Sequence[Part]] = {
    "Selected on the test inputs": (chosen,),
    "Selected on held-out images": (honest,),
    "Seeds": (spread,),
    "Where each comes from": (sources,),
}


def tables_of(pack: Pack) -> list[Table]:
    """The pack by data set, those of the paper first."""
    found = [Table(pack, data) for data in dict.fromkeys(one.data for one in pack.entry)]
    return sorted(found, key=lambda one: not one.paper)


def page(found: list[Table]) -> str:
    """The page of answers."""
    parts = [HEAD.format(answers=answers(found)), overview(found)]
    parts += [f"## {table.data}\n\n{_models(table)} {training(table)}" for table in found if table.paper]
    parts.append(f"## Table 1, CIFAR-10, ε = 8/255: AdaECE under attack\n\n{attacks()}")
    parts.append(f"## What is not run, and what it would take\n\n{not_run(found)}")
    parts.append(f"## The paper's tables and figures\n\n{exhibits()}")
    return "\n".join(parts)


def tables_page(found: list[Table]) -> str:
    """The page of all tables."""
    return "\n".join([TABLES_HEAD, *(f"## {table.data}\n\n{_models(table)} {every_row(table)}" for table in found)])


def _models(table: Table) -> str:
    methods = sorted({one.method for one in table.models.values()})
    return f"{several(table.distinct, 'model')} ({', '.join(methods)})."


if __name__ == "__main__":
    every = tables_of(Pack.read(ROOT / "reference"))
    PAGE.write_text(page(every), encoding="utf-8")
    TABLES.write_text(tables_page(every), encoding="utf-8")
    PICTURE.write_bytes(picture(every[0]))

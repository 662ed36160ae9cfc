"""Write docs/reproduction.md, its figure and its tables: the paper's numbers, ours from the pack, and differences.

    python -m experiments.reproduction

Every number comes from reference/, experiments/results, bench/results or the paper's tables in paper.toml.
"""

import html
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from certcal.errors import several
from certcal.studies import Entry, Pack
from experiments.beside_others import approximations, correlations, published, spread
from experiments.directions import directions
from experiments.every_setting import every_setting
from experiments.exhibits import exhibits
from experiments.glance import answers, in_short, overview, picture
from experiments.headlines import freer, headline, unseen
from experiments.not_run import attacks, few_draws, not_run
from experiments.pack_table import FULL, NO_MAP, OURS, Table, down, mapped, mark, markdown, stem_of, up
from experiments.tuned import tuned

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
- CCE, or error, is the certified calibration error, exact. The paper has the ACCE, which approximates it from below.
  CBS is the certified Brier score.
- “The paper's methods” are AT (SmoothAdv), Brier-ACT and ACCE-ACT, whose numbers it has for the data sets below; see
  [training](training.md). Finetuned AT, AT trained on like the others, it has for CIFAR-10 only, ACCE-ACT* for ImageNet
  only. CCE-ACT, Certified Brier and Consistency it does not have.
- A model is called by σ, ε, draws m and steps T of its baseline, then by method and setting. “Selected” is as in the
  paper: per method, the least error at R among models of seed 0 within 3 points of the best CA of its network, on the
  inputs reported on. The least of many estimates tends to be too small.
- “The paper's bounds” are its certificate (cdf). cdf-cp gives sharper bounds from the same draws. A map
  [recalibrates](recalibration.md) confidences; most maps leave [two or three](recalibration.md#steps) of them.
- A map is chosen and fitted on one random half of the inputs and scored on the other, each in turn. Numbers are means
  over the halves. ± is the standard deviation over the halves, which share inputs: no confidence interval.
- ◦: in some halves no map could be learned; confidences stayed as they are there, and the number is the mean over both.
- More words are in the [glossary](glossary.md).
"""
DETAILS = f"""
CA is by the paper's bounds; by cdf-cp it differs by tenths. ADMM's ACCE is the paper's approximation from our bounds.
By cdf-cp, looks at the draws count: evidence that was drawn on without a plan has limits up to a point wider. Draws are
{FULL} where nothing else is said. Models of another network than the paper's are all listed.
"""
TABLES_HEAD = f"""# Reproduction: all tables

{WRITTEN}
Every row behind [Reproduction](reproduction.md), where words and units are explained. `certcal reference recompute
reference` makes the rows again from stored evidence, with `--approximate` ADMM's ACCE too. Tables about published logs,
approximations, attacks and every setting of one baseline come from `experiments/results`. Differences are of the
numbers before they are rounded.
{DETAILS}"""
SUBMITTED = (
    "Rows of entries whose source is another than this project's. They are in no other table and no number of either "
    "page. [The pack's page](reference_pack.md#submitting-a-row) says what such rows prove:"
)
TIMES = "Maps are fitted on halves of the inputs, or on another entry. Wall times are of models that ran beside others."
Part = Callable[[Table], str]
HEADS = ["R", "metric", "method", "CA", "paper", "ours, paper's bounds", "difference", "ours, cdf-cp",
         "with a map", "ADMM's ACCE", "model"]  # fmt: skip


def training(table: Table) -> str:
    """What there is to say of a data set, from the short to the long."""
    bands = ", ".join(f"{low}–{high} at R = {radius:g}" for radius, (low, high) in
                      zip(table.paper.get("radii", ()), table.paper.get("CA", ()), strict=True))  # fmt: skip
    compared = f"The paper compares models with a CA of {bands}." if bands else "It is not in the paper."
    return f"{compared}\n\n{_parts(table, ANSWERS)}"


def every_row(table: Table) -> str:
    """What is behind it: the models selected, by either choice, and their seeds."""
    return _parts(table, ROWS)


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
        for entry in sorted((*table.selected(radius, field), *table.others(radius)), key=table.place)
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
    return (
        f"With a map the CCE is larger than without in {error} of {len(pairs)} rows, the CBS in {brier}. Of these rows "
        f"{sum(bool(mark(row)) for row, _ in pairs)} are{NO_MAP}.\n"
    )


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
        for radius in sorted({row.radius for row in table.rows})
        for name, theirs, score, field in SCORES
        for entry in table.chosen_held_out(radius, field)
    ]
    if not lines:
        return ""
    twice = several_lines(table)
    again = f"; in {several(twice, 'case')} several studies chose a model of the same baseline" if twice else ""
    told = (
        "Chosen on held-out training images instead, the test inputs unseen. Each study chose among its own models of "
        f"each baseline, so a method has several lines at some R{again}:"
    )
    return f"{told}\n\n{markdown(HEADS, lines, 3)}"


def several_lines(table: Table) -> int:
    """How often held-out images chose several models of one method and baseline at one R by one score."""
    counts = Counter(
        (radius, field, one.method, one.baseline.lower() or table.short(stem_of(one.name)))
        for radius in {row.radius for row in table.rows} for *_, field in SCORES
        for one in table.chosen_held_out(radius, field)
    )  # fmt: skip
    return sum(count > 1 for count in counts.values())


def sources(table: Table) -> str:
    """What each entry is, and what it took."""
    lines = [
        [table.short(one.name), one.method, one.settings or "—", _fitted(one), one.commit,
         *(f"{took:.0f} s" if took else "—" for took in (one.train_seconds, one.certify_seconds))]
        for one in table.entries.values()
    ]  # fmt: skip
    heads = ["entry", "method", "settings", "maps fitted on", "commit", "training", "certification"]
    devices = ", ".join(sorted({one.device for one in table.entries.values()}))
    return f"### {table.data}: entries\n\nMade on {devices}:\n\n{markdown(heads, lines, 5)}"


def _fitted(entry: Entry) -> str:
    if entry.fitted_on:
        return f"{entry.fitted_on}, clean Brier + {100 * entry.brier_loss:g} at most"
    return "halves" if entry.mapped else "—"


ANSWERS: dict[str, Sequence[Part]] = {
    "The paper's methods": (in_short, missed),
    "Directions": (tuned, directions),
    "With a map": (headline, freer, unseen),
    "Beside published logs": (published,),
    "The paper's approximations": (approximations,),
    "Robust and calibrated": (correlations,),
}
ROWS: dict[str, Sequence[Part]] = {
    "Selected on the test inputs": (chosen,),
    "Selected on held-out images": (honest,),
    "Seeds": (spread,),
    "Every setting of one baseline": (every_setting,),
}


def tables_of(pack: Pack) -> list[Table]:
    """Our entries of the pack by data set, those of the paper first."""
    found = [Table(pack, data) for data in dict.fromkeys(one.data for one in pack.entry if one.source == OURS)]
    return sorted(found, key=lambda one: not one.paper)


def page(found: list[Table]) -> str:
    """The page of answers."""
    parts = [HEAD.format(answers=answers(found)), overview(found)]
    for table in found:
        parts += [_once(f"## {table.data}\n\n{_models(table)} {training(table)}", parts)] if table.paper else []
    parts.append(f"## Table 1, CIFAR-10, ε = 8/255: AdaECE under attack\n\n{attacks()}")
    parts.append(f"## What is not run, and what it would take\n\n{not_run(found)}")
    parts.append(f"## The paper's tables and figures\n\n{exhibits(found)}")
    return "\n".join(parts)


def _once(text: str, before: Sequence[str]) -> str:
    """The text without the paragraphs above a table that stand on the page already."""
    known = {one for part in before for one in part.split("\n\n")}
    told = text.split("\n\n")
    return "\n\n".join("As above:" if one in known and one.endswith((":", ".")) else one for one in told)


def tables_page(found: list[Table]) -> str:
    """The page of all tables."""
    parts = [TABLES_HEAD, *(f"## {table.data}\n\n{_models(table)}\n\n{every_row(table)}" for table in found)]
    parts.append(f"## Certified with fewer draws\n\n{few_draws(found)}")
    parts += [f"## Where each comes from\n\n{TIMES}\n", *map(sources, found)]
    return "\n".join([*parts, *submitted(found[0].pack)])


def submitted(pack: Pack) -> list[str]:
    """The rows that others submitted, with who did; they stand in nothing else."""
    others = [one for one in pack.entry if one.source != OURS]
    lines = []
    for table in (Table(pack, data, ours=False) for data in dict.fromkeys(one.data for one in others)):
        for name, one in table.models.items():
            for radius in one.radii:
                paper, plain, after = (
                    table.at(track, radius).get(name) for track in ("paper", "plain", "recalibrated")
                )
                lines.append([*map(_told, (one.source, name, one.data, one.network, one.method)), f"{radius:g}",
                              "—" if paper is None else down(paper.certified_accuracy),
                              *("—" if row is None else up(row.certified_ece) for row in (paper, plain)),
                              "—" if after is None else mapped(after), table.draws[name]])  # fmt: skip
    heads = ["source", "entry", "data", "network", "method", "R", "CA", "CCE, paper's bounds", "cdf-cp", "with a map",
             "draws"]  # fmt: skip
    return [f"## Submitted by others\n\n{SUBMITTED}\n\n{markdown(heads, lines, 5)}"] if lines else []


def _told(text: str) -> str:
    """What a stranger wrote, as plain text in a cell of a table."""
    plain = html.escape(" ".join(text.split()).replace("|", "/").replace("`", "'"), quote=False)
    return re.sub(r"([\\\[\]*_~])", r"\\\1", plain) or "—"  # no Markdown of theirs


def _models(table: Table) -> str:
    """How many models there are, of which methods, and on how many inputs."""
    methods = sorted({one.method for one in table.models.values()})
    sizes = Counter(table.inputs[name] for name in table.models)
    inputs = ", ".join(f"{count} on {size:,}" for size, count in sorted(sizes.items()))
    told = f"{next(iter(sizes)):,} test inputs each" if len(sizes) == 1 else f"evidence by test inputs: {inputs}"
    return f"{several(table.distinct, 'model')} ({', '.join(methods)}); {told}."


if __name__ == "__main__":
    every = tables_of(Pack.read(ROOT / "reference"))
    PAGE.write_text(page(every), encoding="utf-8")
    TABLES.write_text(tables_page(every), encoding="utf-8")
    PICTURE.write_bytes(picture(every[0]))

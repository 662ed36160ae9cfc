"""What a leaderboard shows of a reference pack, with the paper's tables beside it."""

import hashlib
from collections import Counter

import numpy as np

from certcal.errors import several
from certcal.report import Board, Standing, Track
from certcal.settings import BRIER_LOSS
from certcal.smoothing import Evidence
from certcal.studies.pack import Entry, Pack
from certcal.studies.paper import paper_table
from certcal.studies.reference_rows import FREER_LOSS, PLAIN, ReferenceRow

# Title and explanation of each track, in this order.
TOLD = {
    "paper": ("The paper's bounds", "The paper's certificate (cdf); the certified ECE is exact."),
    "plain": ("Our bounds", "Sharper limits from the same draws (cdf-cp)."),
    "recalibrated": (
        "Recalibrated",
        "Our bounds after a map of the confidences, chosen and fitted on other inputs than those it is scored on. "
        "“With a map” is the share of random halves in which one was learned; a row is the mean over all halves, "
        "and ± is how far the certified ECEs of their splits are apart.",
    ),
    "freer": (
        "Recalibrated, freer",
        f"The same, by maps that may raise the clean Brier score by up to {100 * FREER_LOSS:g} points; others by at "
        f"most {100 * BRIER_LOSS:g}. Limits are of the inputs that maps are fitted on; others can pass them.",
    ),
}


def boards_of(pack: Pack) -> list[Board]:
    """One board for each data set of the pack, from its stored rows: those of the paper first, large before small."""
    entries = {one.name: one for one in pack.entry}
    rows = [row for row in pack.rows() if row.track in PLAIN or row.maps != 0]  # without any map it is a plain row
    told = {one.name: _told(one, pack.evidence(one)) for one in pack.entry}
    size = Counter(one.data for one in pack.entry)
    return [
        Board(
            data,
            [
                Track(title, way, [_standing(row, entries[row.entry].method, *told[row.entry]) for row in own])
                for track, (title, way) in TOLD.items()
                if (own := [row for row in rows if row.track == track and entries[row.entry].data == data])
            ],
            published(data),
        )
        for data in sorted(size, key=lambda data: (not published(data), -size[data], data))
    ]


def draws_of(evidence: Evidence) -> str:
    """The draws of each input: one number, or the least and the most."""
    return "–".join(f"{one:,}" for one in dict.fromkeys((int(evidence.draws.min()), int(evidence.draws.max()))))


def published(data: str) -> list[tuple[str, float, str, str, str]]:
    """The paper's numbers for a data set, as printed: method, radius, range of certified accuracy, ACCE and CBS."""
    table = paper_table(data)
    if table is None:
        return []
    return [
        (method, float(radius), f"{low}–{high}", f"{acce:.2f}", f"{table['CBS'][method][place]:.2f}")
        for method, line in table["ACCE"].items()
        for place, (radius, (low, high), acce) in enumerate(zip(table["radii"], table["CA"], line, strict=True))
    ]


def _told(entry: Entry, evidence: Evidence) -> tuple[str, str]:
    """What a table says of an entry's evidence, and which inputs it is of, in any order."""
    seed = "" if entry.train_seed is None else f", seed {entry.train_seed}"
    source = "" if entry.source == "certcal" else f"; {entry.source}"  # ours is most of it
    about = f"{entry.network}{seed}: {several(len(evidence))}, {draws_of(evidence)} draws{source}"
    return about, f"{len(evidence)} {hashlib.sha256(np.sort(evidence.content).tobytes()).hexdigest()}"


def _standing(row: ReferenceRow, method: str, about: str, inputs: str) -> Standing:
    return Standing(
        row.entry, method, row.radius, row.certified_accuracy, row.certified_ece, row.certified_brier,
        row.brier_all, about, inputs, row.deviation, row.maps,
    )  # fmt: skip

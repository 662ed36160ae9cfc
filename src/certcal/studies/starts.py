"""Which stored baseline a stored model was fine-tuned from, and the rows of both, as far as a pack tells."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from certcal.evaluation import Outcome
from certcal.studies.pack import Entry, Pack

AGAIN = re.compile(r"-seed\d+((?:-again)*)$")


def start_of(own: Entry, known: Iterable[Entry]) -> Entry | None:
    """The training of a model's baseline with its own seed; of several that of the same session, else the first."""
    name = own.baseline.lower()
    trainings = [
        one for one in known
        if not one.baseline and (one.data, one.network, one.train_seed) == (own.data, own.network, own.train_seed)
        and name in (one.name.lower(), _settings(one).lower())
    ]  # fmt: skip
    return max(trainings, key=lambda one: (one.commit == own.commit, -len(one.name)), default=None)


def paired_outcomes(pack: Pack, data: str, track: str) -> list[Outcome]:
    """Fine-tuned models and the baselines that these started from, as outcomes; of each baseline one seed, the least.

    Only of as many inputs and draws as most have: fewer draws of a baseline would pass for a gain of what is tuned from
    it. A baseline that was trained again, or with another seed, is called so.
    """
    entries = [one for one in pack.entry if one.data == data and one.radii]
    networks = Counter(one.network for one in entries)
    drawn = {one.name: _drawn(pack, one) for one in entries if one.network == networks.most_common(1)[0][0]}
    usual = Counter(drawn.values()).most_common(1)[0][0]
    known = [one for one in entries if drawn.get(one.name) == usual]
    pairs = [(one, start) for one in known if one.baseline and (start := start_of(one, known))]
    least: dict[str, Any] = {}
    for one, _ in sorted(pairs, key=lambda pair: pair[0].train_seed or 0):
        least.setdefault(one.baseline, one.train_seed)
    starts = {one.name: start for one, start in pairs if one.train_seed == least[one.baseline]}
    starts |= {start.name: start for start in starts.values()}
    methods = {one.name: one.method for one in known}
    spelt = {start.name: one.baseline for one, start in pairs}
    names = {name: _called(start, spelt[start.name]) for name, start in starts.items()}
    return [
        Outcome(methods[row.entry], names[row.entry] if row.entry == starts[row.entry].name else row.entry, row.radius,
                row.certified_accuracy, row.certified_ece, row.certified_brier, baseline=names[row.entry])
        for row in pack.rows()
        if row.track == track and row.entry in starts and row.certified_accuracy > 0
    ]  # fmt: skip


def _settings(baseline: Entry) -> str:
    return AGAIN.sub("", baseline.name.removeprefix(f"{baseline.data}-"))


def _called(baseline: Entry, name: str) -> str:
    found = AGAIN.search(baseline.name)
    seed = f", seed {baseline.train_seed}" if baseline.train_seed else ""
    return f"{name}{seed}{', trained again' if found and found[1] else ''}"


def _drawn(pack: Pack, one: Entry) -> tuple[int, int, int]:
    evidence = pack.evidence(one)
    return len(evidence), int(evidence.draws.min()), int(evidence.draws.max())

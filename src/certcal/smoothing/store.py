"""The evidence on disk: a folder of Parquet shards that only ever grows, so that runs resume and shards merge."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from certcal.errors import CertcalError, InputError
from certcal.files import lock_folder, remove_litter
from certcal.scalars import guarded
from certcal.smoothing.evidence import (
    CELLS,
    SCORE_UNIT,
    Counts,
    Evidence,
    EvidenceHeader,
    Scores,
    check_same_header,
)
from certcal.smoothing.plan import read_plan, write_plan
from certcal.smoothing.shards import (
    Rows,
    check_same_probe,
    concatenate,
    is_whole,
    read_header,
    read_probe,
    read_shard,
    read_temperature,
    trouble_in,
    write_shard,
)
from certcal.types import FloatArray


class EvidenceStore:
    """A folder of shards that share one header. Its plan of looks is the first that was made for the folder.

    The plan is on the disk before anybody can look at a draw, such as a rule that stops sampling.
    """

    def __init__(
        self, folder: str | os.PathLike[str], header: EvidenceHeader, *, probe: list[float] | None = None
    ) -> None:
        self.folder, self._probe = Path(folder), probe
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError.expected(
                "store", "be a folder that can be written", f"{folder} ({error.strerror})"
            ) from error
        self._lock = lock_folder(self.folder, "store", "is sampling into")
        try:
            remove_litter(self.folder)
            headers = {shard: read_header(shard) for shard in self.shards()}
            for shard, found in headers.items():
                check_same_header(found, header, str(self.folder))
                check_same_probe(shard, probe)
            planned, plan = list(headers.values()), read_plan(self.folder)
            if plan is not None and replace(plan, looks=header.looks, stages=header.stages) == header:
                planned.append(plan)  # written down for these very draws
            for own in planned:
                _check_same_plan(own, planned[0], str(self.folder))
            first = planned[0] if planned else header
            self.header = replace(header, looks=first.looks, stages=first.stages)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let other processes use the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def shards(self) -> list[Path]:
        """The complete shards, in the order of their names."""
        return sorted(self.folder.glob("shard-*.parquet"))

    def keep_plan(self) -> None:
        """Write the plan down: from now on it is the folder's, whatever becomes of this run."""
        write_plan(self.folder, self.header)

    def append(self, rows: Rows) -> None:
        """Keep rows in a shard of their own."""
        write_shard(self.folder, self.header, rows, probe=self._probe)

    def rows(self) -> Rows:
        """All rows of all shards."""
        return _rows_of(self.shards(), self.header)


@guarded
def load_evidence(path: str | os.PathLike[str]) -> Evidence:
    """The evidence in a folder of shards, in one Parquet file, or in a run folder.

    Paper: —; evidence that outlives a run is ours.
    """
    return merge_shards([path])


@guarded
def load_so_far(folder: str | os.PathLike[str]) -> Evidence:
    """The evidence in a folder of shards that is still being drawn: of each input its draws up to the first gap.

    Paper: —; how sampling was cut off has nothing to do with what was drawn.
    """
    shards = _shards_of(Path(folder))
    header = _check_mergeable(shards)
    rows = _rows_of(shards, header)
    order, reached = np.lexsort((rows.first, rows.index)), dict[int, int]()
    kept = []
    for place in order.tolist():
        index = int(rows.index[place])
        if rows.first[place] == reached.get(index, 0):
            reached[index] = int(rows.stop[place])
            kept.append(place)
    return sum_rows(rows.take(kept), header)


def _shards_of(place: Path) -> list[Path]:
    shards = sorted(place.glob("shard-*.parquet")) if place.is_dir() else [place]
    if not shards and (place / "evidence.parquet").is_file():  # a run folder
        shards = [place / "evidence.parquet"]
    if not place.exists() or not shards:
        raise InputError.expected("path", "be an evidence file or a folder of shards", str(place))
    return shards


@guarded
def save_evidence(
    evidence: Evidence, path: str | os.PathLike[str], *, compact: bool = False, share_inputs: bool = False
) -> None:
    """Write evidence to one Parquet file, whole or not at all. What is read again is in the order of `index`.

    Paper: —; evidence that outlives a run is ours.

    Args:
        evidence: what to write; each input once, with whole chunks of draws.
        path: the file.
        compact: a file smaller by more than a third that takes seconds to write, as reference packs hold it.
        share_inputs: hashes and labels go, first, to `inputs-….parquet` beside it, for all evidence of these inputs.
    """
    _check_whole(evidence)
    chunks = evidence.draws // evidence.header.chunk
    scores = [_units(own) for own in evidence.tempered or (evidence,)]
    sums, squares, histogram = (np.column_stack(columns) for columns in zip(*scores, strict=True))
    sums, squares = (sums[:, 0], squares[:, 0]) if len(scores) == 1 else (sums, squares)
    known = evidence.index, evidence.content, evidence.label, evidence.selected
    rows = Rows(*known, np.zeros_like(chunks), chunks, evidence.votes, sums, squares, histogram)
    if trouble := trouble_in(evidence.header, rows):
        raise InputError(f"Expected `evidence` to be such as can be read again, but {trouble}.")
    at = None if evidence.temperature == _temperatures(evidence.header)[0] else evidence.temperature
    write_shard(
        Path(path), evidence.header, rows, whole=True, compact=compact, share_inputs=share_inputs, temperature=at
    )


def _check_whole(evidence: Evidence) -> None:
    """Refuse inputs that come twice, chunks that are not whole, and a temperature that nothing was counted at."""
    (known, times), header = np.unique(evidence.index, return_counts=True), evidence.header
    if (times > 1).any():
        raise InputError.expected("evidence", "hold each input once", f"input {known[times > 1][0]} more than once")
    broken = (evidence.draws < header.chunk) | (evidence.draws % header.chunk > 0)
    if broken.any():
        got = f"{evidence.draws[broken][0]} draws of input {evidence.index[broken][0]}"
        raise InputError.expected("evidence", f"hold one or more whole chunks of {header.chunk} draws per input", got)
    if len(evidence.tempered) != len(header.temperatures) or evidence.temperature not in _temperatures(header):
        got = f"those of {max(1, len(evidence.tempered))} at {evidence.temperature:g}"
        raise InputError.expected("evidence", "hold the scores at each temperature of its header", got)


def _temperatures(header: EvidenceHeader) -> tuple[float, ...]:
    return header.temperatures or (1.0,)


def _units(own: Evidence | Scores) -> tuple[Counts, Counts, Counts]:
    def whole(values: FloatArray) -> Counts:
        return np.rint(values / SCORE_UNIT).astype(np.int64)

    return whole(own.score_sum), whole(own.score_square_sum), own.histogram


def merge_shards(paths: Iterable[str | os.PathLike[str]]) -> Evidence:
    """The evidence of several shards, folders of them, or run folders, together.

    Their headers and the answers of their models to a fixed input must agree, and no chunk may come twice.
    """
    places = [Path(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    if len(places) > 1:  # of run folders, the draws as they came
        places = [place / "shards" if (place / "shards").is_dir() else place for place in places]
    shards = [shard for place in places for shard in _shards_of(place)]
    if not shards:
        raise InputError.expected("paths", "name at least one shard", "none")
    header = _check_mergeable(shards)
    rows = _rows_of(shards, header)
    check_complete(rows)
    found, at = sum_rows(rows, header), read_temperature(shards[0], header)  # only in a file that was saved as a whole
    return found if at is None else found.at_temperature(at)


def _rows_of(shards: list[Path], header: EvidenceHeader) -> Rows:
    return concatenate((read_shard(path)[1] for path in shards), header)


def _check_mergeable(shards: list[Path]) -> EvidenceHeader:
    """The one header that all shards go with, chosen first; the draws of another model, noise or seed are refused."""
    headers = [read_header(path) for path in shards]
    header = headers[0]
    probe = next((own for own in map(read_probe, shards) if own is not None), None)
    for path, found in zip(shards, headers, strict=True):
        if len(shards) > 1 and is_whole(path):
            raise InputError.expected(
                "paths",
                "name run folders, or folders of shards",
                f"{path}, which was saved as a whole and merges with nothing",
            )
        check_same_header(found, header, str(path), drawing=False)
        check_same_probe(path, probe)
        if found.schema > 1:
            _check_same_plan(found, header, str(path))
    # Earlier versions let a plan grow, and kept none of a run without stages: what was planned is not known.
    return replace(header, looks=1, stages=()) if header.schema == 1 else header


def _check_same_plan(found: EvidenceHeader, wanted: EvidenceHeader, place: str) -> None:
    """Refuse evidence planned for other looks: a plan that grew after a look would spend α again."""
    if found.stages != wanted.stages:
        plan, own = (", ".join(map(str, header.stages)) for header in (wanted, found))
        raise InputError(
            f"Expected the evidence in {place} to be planned for looks after {plan} draws like the "
            f"rest, but its plan is {own}. Certify it by itself, or draw with one n or the same stages."
        )


def sum_rows(rows: Rows, header: EvidenceHeader) -> Evidence:
    """Rows of the same input added up, in the order of the inputs."""
    check_disjoint(rows)
    index, first, inverse = np.unique(rows.index, return_index=True, return_inverse=True)

    once = len(index) == len(rows)  # as in a file that was saved as a whole: nothing adds up
    in_order = once and bool((first == np.arange(len(rows))).all())

    def total(values: Counts) -> Counts:
        if once:
            return values if in_order else values[first]
        sums = np.zeros((len(index), *values.shape[1:]), dtype=np.int64)
        np.add.at(sums, inverse, values)
        return sums

    shape = (len(index), header.kinds)
    sums, squares = (
        total(units).reshape(shape).astype(np.float64) * SCORE_UNIT for units in (rows.score_units, rows.square_units)
    )
    histogram = total(rows.histogram).reshape(*shape, CELLS)
    scores = tuple(Scores(sums[:, t], squares[:, t], histogram[:, t]) for t in range(header.kinds))
    return Evidence(
        header,
        index,
        rows.content[first],
        rows.label[first],
        rows.selected[first],
        total(rows.stop - rows.first) * header.chunk,
        total(rows.votes),
        scores[0].score_sum,
        scores[0].score_square_sum,
        scores[0].histogram,
        tempered=scores if header.temperatures else (),
        temperature=_temperatures(header)[0],
    )


def check_complete(rows: Rows) -> None:
    """Refuse draws with a gap before them: limits are for an input's first n draws, not for any n of them."""
    order = np.lexsort((rows.first, rows.index))
    index, first, stop = rows.index[order], rows.first[order], rows.stop[order]
    before = np.where(np.r_[True, index[1:] != index[:-1]], 0, np.r_[0, stop[:-1]])
    if (first > before).any():
        at = int(np.argmax(first > before))
        raise InputError(
            f"Expected the evidence to hold an input's draws from the first on, but chunks {before[at]} to "
            f"{first[at] - 1} of input {index[at]} are missing. Add their shards, or go on with the run that drew them."
        )


def check_disjoint(rows: Rows) -> None:
    """Refuse rows that count a chunk twice or disagree about an input."""
    order = np.lexsort((rows.first, rows.index))
    index, first, stop = rows.index[order], rows.first[order], rows.stop[order]
    same = index[1:] == index[:-1]
    for trouble, flags in (
        ("the same draws are counted twice", same & (first[1:] < stop[:-1])),
        ("two different inputs are recorded", same & (np.diff(rows.content[order]) != 0)),
        ("two selected classes are recorded", same & (np.diff(rows.selected[order]) != 0)),
        ("two labels are recorded", same & (np.diff(rows.label[order]) != 0)),
    ):
        if flags.any():
            raise CertcalError(f"Evidence cannot be merged: {trouble} for input {index[1:][flags][0]}.")

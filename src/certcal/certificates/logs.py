"""Certification logs in the field's common format: tab-separated idx, label, predict, radius, correct, time.

Such a log writes an abstention as predict −1 with radius 0. In memory it is a `Radii` whose radius is NaN there.
"""

import math
from collections.abc import Sequence
from datetime import timedelta
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from certcal.certificates.intervals import ConfidenceIntervals, Stated
from certcal.certificates.radius import NO_CLASS, Radii
from certcal.errors import InputError
from certcal.scalars import check_flag, check_level, guarded
from certcal.settings import Norm, RunnerUp, checks
from certcal.types import FloatArray

COLUMNS = ("idx", "label", "predict", "radius", "correct", "time")
RUNNER_UP = "runner_up"  # a further column, where the second class was bounded by its own votes
LOG_METHOD = "log (vote share)"
MOST = 7  # a radius in σ beyond which p_A > 1 − 1.3e-12: more than 10^12 draws without another vote
_ABSTAINED = "-1"
_LAST_DIGIT = Decimal("0.000001")


@guarded
def write_certification_log(path: str | Path, radii: Radii, *, seconds: Sequence[float] | None = None) -> None:
    """Nothing; writes one line per input, each radius rounded down to six decimals.

    Rounding goes through exact decimals, so that no written radius exceeds the certified one. Radii with a bounded
    runner-up get a further column that says so: from these no vote share follows.

    Args:
        path: file to write; an existing one is replaced.
        radii: what to write.
        seconds: time spent per input, for the last column; zeros if not given.

    Paper: —; the format of Cohen et al. (2019).   Errs: low (radii are rounded down).
    Raises: InputError if `seconds` does not have one entry per input.
    """
    times = [0.0] * len(radii) if seconds is None else list(seconds)
    if len(times) != len(radii):
        raise InputError.expected("seconds", f"have as many entries as `radii` ({len(radii)})", len(times))
    bounded = radii.runner_up == RunnerUp.BOUNDED
    lines = ["\t".join((*COLUMNS, RUNNER_UP) if bounded else COLUMNS)]
    columns = (radii.index, radii.label, radii.predicted, radii.radius, radii.correct)
    rows = zip(*(column.tolist() for column in columns), times, strict=True)
    for index, label, predicted, radius, correct, time in rows:
        abstained = math.isnan(radius)
        predict, right = (_ABSTAINED, 0) if abstained else (predicted, int(correct))
        shown = format_radius(0.0 if abstained else radius)
        lines.append(
            f"{index}\t{label}\t{predict}\t{shown}\t{right}\t{timedelta(seconds=time)}"
            + bounded * f"\t{RunnerUp.BOUNDED}"
        )
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def format_radius(radius: float) -> str:
    """A radius with six decimals, never rounded up.

    >>> format_radius(0.1239999), format_radius(2.0), format_radius(0.3)
    ('0.123999', '2.000000', '0.299999')
    """
    # A float is a binary fraction: 0.3 lies just below three tenths, so six decimals below it are 0.299999.
    return str(Decimal(radius).quantize(_LAST_DIGIT, rounding=ROUND_FLOOR))


@guarded
def read_certification_log(path: str | Path) -> Radii:
    """The radii that a certification log holds, NaN and `NO_CLASS` where it abstained.

    Columns are found by name, so their order is free and further ones are ignored; `time` may be absent. The radii are
    what the file says: many writers round to nearest, which can exceed what was proven by half a digit.

    Paper: —; the format of Cohen et al. (2019).
    Raises: InputError naming file and line if the log is malformed; OSError if it cannot be read.
    """
    return _read(Path(path))[0]


def _read(file: Path) -> tuple[Radii, list[str]]:
    """The radii of a log, and how each of them is written."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError.expected(str(file), "be a UTF-8 text file", "other bytes") from error
    header = lines[0].split("\t") if lines else []
    missing = [name for name in COLUMNS[:5] if name not in header]
    if missing:
        raise InputError.expected(f"{file}, line 1", f"name the columns {', '.join(COLUMNS)}", f"no {missing[0]!r}")
    rows = [
        _values(f"{file}, line {number}", header, line)
        for number, line in enumerate(lines[1:], start=2)
        if line.strip()
    ]
    if not rows:
        raise InputError.expected(str(file), "hold at least one input", "none")
    # Through float64, which holds every index below 2^53 exactly.
    index, label, predicted, radius = np.array([row[:4] for row in rows], dtype=np.float64).T
    index, label, predicted = (own.astype(np.int64) for own in (index, label, predicted))
    rule = RunnerUp.BOUNDED if RUNNER_UP in header else RunnerUp.COMPLEMENT
    return Radii(index, label, predicted, radius.copy(), None, rule), [row[4] for row in rows]


@guarded
def intervals_from_log(
    path: str | Path, *, sigma: float, radius: float, alpha: float, rounded: bool = True
) -> ConfidenceIntervals:
    """Certificates of the vote share of a smoothed classifier from its certification log, at one radius.

    The log must come from CERTIFY of Cohen et al., where r = σ Φ⁻¹(p_A) of one lower limit p_A. There a radius r says
    that the noisy votes for the class have a share of at least Φ(r / σ), hence at a distance of R of at least
    Φ((r − R) / σ). Radii with a bounded runner-up, σ/2 (Φ⁻¹(p_A) − Φ⁻¹(p_B)), are larger and say nothing of p_A alone:
    certcal's own logs mark them and are refused, others must not be given.

    A log knows no upper bound but 1, no confidence of the network, and nothing of inputs it abstained on. In place of
    the unknown share at the input itself stands its lower limit Φ(r / σ).

    Paper: —; docs/certificates.md, with Cohen et al. (2019), Theorem 1.   Errs: outward, and towards not certified.

    Args:
        path: the log, with columns idx, label, predict, radius, correct.
        sigma: of the noise, which logs do not say.
        radius: R.
        alpha: error probability per input with which the log was made, which it does not say either.
        rounded: whether radii may have been rounded to nearest, as is the custom. Then half a unit is taken off, of the
            last decimal or of the last digit that counts that the log has anywhere, whichever is more. False for logs
            that round down, such as certcal's.
    """
    scale = checks.positive("sigma", sigma)
    distance = checks.radius("radius", radius)
    read, written = _read(Path(path))
    if read.runner_up == RunnerUp.BOUNDED:
        wanted = "hold radii σ Φ⁻¹(p_A), from which a vote share follows"
        raise InputError.expected(str(path), wanted, "radii with a bounded runner-up, which are larger")
    if (farthest := float(np.nan_to_num(read.radius).max())) > MOST * scale:
        wanted = f"be the σ of the log, whose radii are at most {MOST} σ: no sample shows a larger share of votes"
        raise InputError.expected("sigma", wanted, f"{scale:g} and a radius of {farthest:g}")
    least = read.radius - (_half_units(read.radius, written) if check_flag("rounded", rounded) else 0.0)
    known = np.where(least > 0, least, np.nan)
    lower, share = (np.nan_to_num(scipy.special.ndtr((known - off) / scale) * (1 - 1e-12)) for off in (distance, 0.0))
    return Stated(LOG_METHOD, distance, Norm.L2, check_level("alpha", alpha)).intervals(
        lower,
        np.ones(len(read)),
        labels=read.label,
        predicted=read.predicted,
        certified=np.asarray(known >= distance),
        confidence=share,
        index=read.index,
        certified_radius=known,
    )


def _half_units(radius: FloatArray, written: list[str]) -> FloatArray:
    """What rounding to nearest can have added, whether to so many decimals or to so many digits that count.

    Zeros at the end may have been cut off, so what counts is the longest number in the log.   Errs: high.
    """
    forms = [Decimal(text.strip()).as_tuple() for text, own in zip(written, radius.tolist(), strict=True) if own > 0]
    decimals = max((-int(form.exponent) for form in forms), default=0)
    digits = max((len(form.digits) for form in forms), default=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.floor(np.log10(np.where(radius > 0, radius, np.nan)))
    return np.nan_to_num(0.5000001 * np.maximum(10.0 ** (size - digits + 1), 10.0**-decimals))


def _values(place: str, header: list[str], line: str) -> tuple[int, int, int, float, str]:
    """Index, label, predicted class or `NO_CLASS`, radius or NaN, and its text, of one line at `place`."""
    fields = line.split("\t")
    if len(fields) != len(header):
        raise InputError.expected(place, f"have {len(header)} tab-separated fields", len(fields))
    found = dict(zip(header, fields, strict=True))

    def number(name: str, kind: type[int | float], wanted: str = "be an integer ≥ 0") -> Any:
        try:
            value = kind(found[name])
        except ValueError:
            value = -1
        if not 0 <= value < math.inf:
            raise InputError.expected(f"{place}, {name}", wanted, repr(found[name]))
        return value

    index, label = number("idx", int), number("label", int)
    abstained = found["predict"].strip() == _ABSTAINED
    predicted = NO_CLASS if abstained else number("predict", int)
    radius = number("radius", float, "be a finite number ≥ 0")
    if number("correct", int) != (predicted == label):
        wanted = "be 1 if `predict` equals `label`, else 0"
        raise InputError.expected(f"{place}, correct", wanted, repr(found["correct"]))
    return index, label, predicted, math.nan if abstained else radius, found["radius"]

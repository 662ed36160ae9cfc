"""What a run would come to, foreseen from a short one: draws for a budget of minutes, noise and draws for a radius."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from certcal.certificates import confidence_bounds
from certcal.errors import CertcalWarning, several
from certcal.evaluation import row_at, with_more_draws
from certcal.models import best_device, place_seed
from certcal.runs.checkup import Checkup, about_training, check_up
from certcal.runs.folder import Tell
from certcal.runs.load import load_data, load_model
from certcal.scalars import guarded
from certcal.settings import MAX_DRAWS, RunSettings
from certcal.smoothing import Evidence, collect_evidence

SAMPLE, DRAWS = 48, 1000  # inputs and draws of the short run
PILOT = 100  # what its noise is for, so that no run draws it again: σ and n are chosen by it
USUAL = (1_000, 10_000, 100_000)  # draws that are foreseen
LIKE = 1000  # inputs that the sample stands for at most: so many certificates may fail as in a set of that size
_WANTED = ("certified_share", "mean_width", "joint_ece")
NEAR = 0.01  # points of ECE that further draws are not worth


@dataclass(frozen=True)
class Foreseen:
    """What one noise and number of draws would come to at one radius; estimates."""

    sigma: float
    n: int
    seconds: float
    radius: float
    certified_share: float
    mean_width: float
    guaranteed_ece: float


@dataclass(frozen=True)
class Plan:
    """What runs would come to, and which of them to make."""

    options: tuple[Foreseen, ...]
    best: Foreseen | None  # None where nothing would be certified
    why: str
    checkup: Checkup


@guarded
def plan_run(
    settings: RunSettings,
    *,
    minutes: float | None,
    sigmas: Sequence[float],
    draws: int | None = None,
    tell: Tell,
) -> Plan:
    """What runs of these settings would come to, each noise tried on a few inputs, with usual draws or those given.

    Paper: —; estimates, from draws counted several times.
    Raises: InputError if the checks before a run find something wrong.
    """
    data = load_data(settings.data, settings.model)
    model = load_model(settings.model, data, sigma=settings.certify.sigma)
    device = settings.certify.device or best_device()
    checkup = check_up(model, data, settings, device)
    checkup = replace(checkup, warnings=(*checkup.warnings, *about_training(settings, data)))
    for warning in checkup.warnings:
        tell(f"warning: {warning}")
    tried: list[Evidence] = []
    own, some, speed = settings.certify, data.take(limit=min(SAMPLE, len(data))), 0.0
    for sigma in sigmas:
        tell(f"trying σ = {sigma:g} on {several(len(some))}")
        start = time.perf_counter()
        with warnings.catch_warnings(action="ignore", category=CertcalWarning):  # the checks have told
            evidence = collect_evidence(
                model, some, sigma=sigma, n=DRAWS, outputs=own.outputs, device=device,
                precision=own.precision, seed=place_seed(own.seed, PILOT),
            )  # fmt: skip
        # As runs draw, and not the bare passes of the checks. Other programs may slow one down: the fastest counts.
        speed = max(speed, len(some) * (DRAWS + evidence.header.n0) / (time.perf_counter() - start))
        tried.append(evidence)
    found = [row for one in tried for row in _foreseen(one, len(data), settings, speed, minutes, draws)]
    best, why = _best(found, minutes)
    if draws is not None and minutes is None and best is not None:
        why = "the draws asked for"
    return Plan(tuple(found), best, why, checkup)


def _foreseen(
    evidence: Evidence, inputs: int, settings: RunSettings, speed: float, minutes: float | None, draws: int | None
) -> list[Foreseen]:
    """One noise at the usual numbers of draws, or at that asked for, and at that which the minutes allow."""
    asked, sigma = settings.evaluate, evidence.header.sigma
    like = evidence.select(np.arange(min(inputs, LIKE)) % len(evidence))
    radius = asked.open_at if asked.open_at is not None else sigma / 2
    counts = set(USUAL) if draws is None else {draws}
    if minutes is not None:
        allowed = int(60 * minutes * speed / inputs) - settings.certify.n0  # which an input is drawn before
        counts.add(min(MAX_DRAWS, max(DRAWS, allowed // DRAWS * DRAWS)))
    rows = []
    for n in sorted(counts):
        bounds = confidence_bounds(with_more_draws(like, max(1, n // DRAWS)), radius=radius, **asked.terms)
        row = row_at(bounds, population=asked.population, n_bins=asked.n_bins, delta=asked.delta, metrics=_WANTED)
        seconds = inputs * (n + settings.certify.n0) / speed
        certified = (getattr(row, name) for name in _WANTED)
        rows.append(Foreseen(sigma, n, seconds, radius, *certified))
    return rows


def _best(found: list[Foreseen], minutes: float | None) -> tuple[Foreseen | None, str]:
    """The least error within the minutes; without them the fewest draws that come near it.

    Where less than half would be certified, an error says little, and the largest certified share is best.
    """

    def error(one: Foreseen) -> float:
        few = one.certified_share < 0.5 or np.isnan(one.guaranteed_ece)
        return 2.0 - one.certified_share if few else one.guaranteed_ece

    useful = [one for one in found if one.certified_share > 0]
    if not useful:
        return None, (
            f"nothing would be certified at R = {found[0].radius:g}: ask for a smaller --radius, or train the model "
            "under such noise (certcal train --objective noise)"
        )
    affordable = [one for one in useful if minutes is None or one.seconds <= 60 * minutes]
    if not affordable:
        shortest = min(useful, key=lambda one: (one.seconds, error(one)))
        return shortest, "the shortest that certifies anything, but longer than asked"
    least = min(affordable, key=error)
    if minutes is not None:
        return least, f"the least error within {minutes:g} minute{'s' if minutes != 1 else ''}"
    near = [one for one in affordable if one.sigma == least.sigma and error(one) <= error(least) + NEAR]
    return min(near, key=lambda one: one.n), "further draws gain less than a point"

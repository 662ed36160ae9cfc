"""`choose_map`: the kind of map and the weight of clean points, chosen on the fitting inputs alone.

Whoever compares maps on the inputs that they report on reports too well. Here every candidate is fitted on parts of the
fitting inputs and scored on their rest; the best is fitted to all of them. Inputs held out beforehand stay unseen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from certcal.certificates import confidence_bounds_at
from certcal.recalibration.fitting import recalibrate_bounds
from certcal.recalibration.heldout import held_out_evidence
from certcal.recalibration.inside import fit_inside
from certcal.recalibration.maps import AnyMap
from certcal.recalibration.scores import Scores
from certcal.scalars import check_number, one_or_more
from certcal.settings import AUROC_LOSS, MapKind, Objective, OnFailure
from certcal.smoothing import Evidence

_TERMS = ("alpha", "method", "split_alpha", "runner_up")


@dataclass(frozen=True)
class Candidate:
    """One way to make a map: of scores, of the mean, or of both."""

    inside: str | None = None  # objective of the map of scores; None: there is none
    outside: str | None = None  # kind of the map of the mean
    clean_weight: float = 0.5

    def fit(self, evidence: Evidence, *, radii: Sequence[float], **options: Any) -> AnyMap:
        """The map, from the evidence of some inputs; the identity where they cannot teach one."""
        shared: dict[str, Any] = {"clean_weight": self.clean_weight, "on_failure": OnFailure.IDENTITY} | options
        if self.inside is not None:
            return fit_inside(evidence, radii=radii, outside=self.outside, objective=self.inside, **shared)
        bounds = confidence_bounds_at(
            evidence, radii=radii, **{name: shared.pop(name) for name in _TERMS if name in shared}
        )
        return recalibrate_bounds(bounds, method=self.outside or MapKind.ISOTONIC, **shared)


CANDIDATES = tuple(
    Candidate(inside, outside, share)
    for inside, outside, shares in (
        (None, MapKind.ISOTONIC, (0.5,)),
        (None, MapKind.BETA, (0.5,)),
        (Objective.BRIER, None, (0.0, 0.5)),
        (Objective.BRIER, MapKind.ISOTONIC, (0.5,)),
        (Objective.CALIBRATION, None, (0.1, 0.25, 0.5)),
    )
    for share in shares
)


@dataclass(frozen=True, eq=False)
class Choice:
    """The map that was chosen, and what every candidate came to on parts of the fitting inputs."""

    map: AnyMap
    chosen: Candidate
    tried: tuple[tuple[Candidate, Scores], ...]  # means at the largest radius
    untouched: Scores  # without a map


def choose_map(
    evidence: Evidence,
    *,
    radii: Iterable[float] | float,
    alpha: float,
    auroc_loss: float = AUROC_LOSS,
    candidates: Sequence[Candidate] = CANDIDATES,
    repeats: int = 2,
    seed: int = 0,
    n_bins: int = 15,
    **terms: Any,
) -> Choice:
    """The map with the least certified calibration error among those that keep the confidences sharp.

    Candidates are compared at the largest radius on random halves of these inputs, which are to be all that a map is
    fitted on. One counts if its AUROC is at most `auroc_loss` below that of the untouched confidences; if none does,
    the sharpest is taken. The certificate of a map does not depend on how it was chosen, and a report on other inputs
    is one of a map fixed without them.

    Paper: —; docs/recalibration.md.

    Args:
        evidence: of the inputs to fit on.
        radii, alpha, terms: as for `fit_score_map`.
        auroc_loss: how much AUROC may be given up.
        candidates: what to choose from.
        repeats, seed: random halves to compare on.
        n_bins: bins of the calibration error.
    """
    share = check_number("auroc_loss", auroc_loss, "be a number ≥ 0", lambda value: value >= 0)
    distances, options = one_or_more("radii", radii), {"alpha": alpha, **terms}
    tried: list[tuple[Candidate, Scores]] = []
    untouched: Scores | None = None
    for one in candidates:
        held = held_out_evidence(
            evidence,
            lambda part, one=one: one.fit(part, radii=distances, n_bins=n_bins, **options),  # type: ignore[misc]
            radii=distances,
            terms=options,
            repeats=repeats,
            seed=seed,
            n_bins=n_bins,
        )
        untouched, after = held.mean(max(distances))
        tried.append((one, after))
    assert untouched is not None
    sharp = [pair for pair in tried if pair[1].auroc >= untouched.auroc - share]
    kept = sharp or [max(tried, key=lambda pair: pair[1].auroc)]
    chosen = min(kept, key=lambda pair: pair[1].certified_ece)[0]
    own = chosen.fit(evidence, radii=distances, n_bins=n_bins, **options)
    about = dict(own.about) | {"chosen": asdict(chosen), "auroc_loss": share, "candidates": len(tried)}
    return Choice(replace(own, about=about), chosen, tuple(tried), untouched)  # type: ignore[type-var]

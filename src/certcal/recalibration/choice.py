"""`choose_map`: the kind of map and the weight of clean points, chosen on the fitting inputs alone.

Whoever compares maps on the inputs that they report on reports too well. Here every candidate is fitted on parts of the
fitting inputs and scored on their rest; the best is fitted to all of them. Inputs held out beforehand stay unseen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals, remembered
from certcal.errors import InputError, renamed, renaming
from certcal.evaluation import pareto_front
from certcal.files import plain
from certcal.recalibration.data import as_intervals
from certcal.recalibration.fitting import recalibrate_bounds
from certcal.recalibration.heldout import Indices, split_inputs
from certcal.recalibration.inside import fit_inside, fit_outside
from certcal.recalibration.maps import AnyMap, IdentityMap, facts_of, temperature_facts
from certcal.recalibration.score_maps import TemperedMap
from certcal.recalibration.scores import Scores, score_bounds, summary
from certcal.scalars import check_number, guarded, one_or_more
from certcal.settings import AUROC_LOSS, BRIER_LOSS, CLEAN_WEIGHT, TERMS, MapKind, Objective, OnFailure
from certcal.shown import ShownRows
from certcal.smoothing import Evidence

PARTS = 4  # of the fitting inputs: with halves, maps would be judged that half as many inputs taught
_INSIDE = {Objective.BRIER: "inside", Objective.CALIBRATION: "inside, for the ECE"}

Bounds = ConfidenceIntervals | Sequence[ConfidenceIntervals]


@dataclass(frozen=True)
class Candidate:
    """One way to make a map: of scores, of the mean, of both, or none; at a temperature of the logits."""

    inside: str | None = None  # objective of the map of scores; None: there is none
    outside: str | None = None  # kind of the map of the mean
    clean_weight: float = CLEAN_WEIGHT
    temperature: float | None = None  # one that the evidence was drawn for; None: the one it stands at
    reaching: float | None = None  # instead of `inside`: a map of scores that is 1 from this score on, and 0 below

    @property
    def name(self) -> str:
        """What a page calls it."""
        first = None if self.inside is None else _INSIDE[Objective(self.inside)]
        first = first if self.reaching is None else f"share of scores ≥ about {self.reaching:g}"
        parts = [str(part) for part in (first, self.outside) if part is not None]
        told = f"{', then '.join(parts)}, λ = {self.clean_weight:g}" if parts else "no map"
        return told if self.temperature is None else f"temperature {self.temperature:g}, {told}"

    def fit(self, evidence: Evidence | Bounds, *, radii: Sequence[float] | None = None, **options: Any) -> AnyMap:
        """The map, from the evidence or bounds of some inputs; the identity where they cannot teach one."""
        if self.temperature is not None and isinstance(evidence, Evidence):
            own = replace(self, temperature=None).fit(evidence.at_temperature(self.temperature), radii=radii, **options)
            return own if "reason" in own.about else TemperedMap(self.temperature, own, about=own.about)
        shared: dict[str, Any] = {"clean_weight": self.clean_weight, "on_failure": OnFailure.IDENTITY} | options
        if self.inside is not None or self.reaching is not None:
            shared |= {} if self.inside is None else {"objective": self.inside}
            return fit_inside(evidence, radii=radii, outside=self.outside, reaching=self.reaching, **shared)  # type: ignore[arg-type]
        if self.outside is None:
            first = evidence if isinstance(evidence, Evidence) else as_intervals(evidence)[0]
            return IdentityMap(about=temperature_facts(first.temperature))
        if isinstance(evidence, Evidence):
            return fit_outside(evidence, None, self.outside, shared | {"radii": radii or ()})
        others = {name: value for name, value in shared.items() if name not in TERMS}  # which bounds have
        return recalibrate_bounds(evidence, method=self.outside, **others)


# Maps of steps, which are chosen most often, alone and after the share of draws that reach a score; and others, which
# move confidences less.
CANDIDATES = (
    *(
        Candidate(outside=MapKind.STEPS, clean_weight=share, reaching=score)
        for score in (None, 0.9, 0.975, 0.99)
        for share in (0.8, 0.85, 0.9, 0.95, 0.975)
    ),
    *(
        Candidate(inside, outside, share)
        for inside, outside, shares in (
            (None, MapKind.ISOTONIC, (0.5,)),
            (None, MapKind.BETA, (0.5,)),
            (Objective.BRIER, None, (0.25, 0.5)),
            (Objective.BRIER, MapKind.ISOTONIC, (0.25, 0.5)),
            (Objective.CALIBRATION, None, (0.25, 0.5)),
        )
        for share in shares
    ),
)


@dataclass(frozen=True, eq=False, repr=False)
class Choice(ShownRows):
    """The map that was chosen, and what every candidate came to on parts of the fitting inputs."""

    map: AnyMap
    chosen: Candidate
    tried: tuple[tuple[Candidate, Scores], ...]  # means at the largest radius, and the fewest levels
    untouched: Scores  # without a map
    radius: float
    auroc_loss: float
    brier_loss: float
    refused: tuple[Candidate, ...] = ()  # that would have been chosen, but leave one confidence on all of the inputs

    @property
    def scores(self) -> tuple[Scores, ...]:
        """What each candidate came to."""
        return tuple(own for _, own in self.tried)

    @property
    def limits(self) -> dict[str, float]:
        """The least AUROC and the largest clean Brier score, both of all inputs, that a map may have."""
        own = self.untouched
        return {"auroc": own.auroc - self.auroc_loss, "brier_all": own.brier_all + self.brier_loss}

    def allows(self, scores: Scores) -> bool:
        """Whether a candidate with these scores stays within the limits; not where a score is unknown.

        Nor where it leaves one confidence, or step, in some part: within a step order is kept, and AUROC with it.
        """
        own = self.limits
        return bool(scores.auroc >= own["auroc"] and scores.brier_all <= own["brier_all"] and scores.levels > 1)

    @property
    def nothing_better(self) -> str:
        """Why there is no map, where the limits and a single confidence leave none."""
        lower = "the certified error within the limits on AUROC and Brier score"
        if self.refused:
            return f"Each map that lowers {lower} leaves a single confidence when fitted to all of these inputs."
        return f"No map that was tried lowers {lower}."

    def within(self, *, auroc_loss: float | None = None, brier_loss: float | None = None) -> tuple[Candidate, Scores]:
        """The candidate with the least certified error within these limits or others; no map if none is better."""
        own = replace(
            self,
            auroc_loss=self.auroc_loss if auroc_loss is None else auroc_loss,
            brier_loss=self.brier_loss if brier_loss is None else brier_loss,
        )
        return own.ranked()[0]

    def ranked(self) -> list[tuple[Candidate, Scores]]:
        """The candidates within the limits, but for those refused, and no map, the least certified error first."""
        kept = [pair for pair in self.tried if self.allows(pair[1]) and pair[0] not in self.refused]
        return sorted([(Candidate(), self.untouched), *kept], key=lambda pair: pair[1].certified_ece)

    def pareto(self, against: str) -> list[tuple[float, float]]:
        """Where a lower certified error costs more: (score, certified ECE) of maps that no other beats in both.

        `against` is "auroc", of which more is better, or another of the `Scores`, of which less is.
        """
        sign = -1.0 if against == "auroc" else 1.0
        points = np.array([(getattr(own, against), own.certified_ece) for own in (self.untouched, *self.scores)])
        best = points[pareto_front(-sign * points[:, 0], points[:, 1])]
        return sorted({(x, y) for x, y in best.tolist()}, key=lambda point: sign * point[0])

    def as_dict(self) -> dict[str, Any]:
        """All of it but the map, as plain data."""
        rows = [
            {"name": one.name, "allowed": self.allows(own), "refused": one in self.refused, **plain(asdict(own))}
            for one, own in self.tried
        ]
        limits = {"auroc_loss": self.auroc_loss, "brier_loss": self.brier_loss}
        found = {"radius": self.radius, "chosen": self.chosen.name, **limits, "tried": rows}
        return found | {"untouched": plain(asdict(self.untouched))}

    def __repr__(self) -> str:
        return f"Choice({self.map!r}, among {len(self.tried)} candidates)"

    def as_dicts(self) -> list[dict[str, Any]]:
        """The candidates with what they came to; the first row, of nothing, is without a map."""
        nothing = dict.fromkeys(asdict(self.chosen)) | vars(self.untouched) | {"chosen": False}
        return [nothing] + [asdict(one) | vars(own) | {"chosen": one == self.chosen} for one, own in self.tried]


@guarded
def choose_map(
    evidence: Evidence | Bounds,
    *,
    radii: Iterable[float] | float | None = None,
    alpha: float | None = None,
    auroc_loss: float = AUROC_LOSS,
    brier_loss: float = BRIER_LOSS,
    candidates: Sequence[Candidate] = CANDIDATES,
    repeats: int = 1,
    seed: int = 0,
    n_bins: int = 15,
    weights: Sequence[float] | None = None,
    on_failure: str = OnFailure.RAISE,
    **terms: Any,
) -> Choice:
    """The map with the least certified calibration error among those that keep the confidences sharp.

    Candidates are compared at the largest radius on four parts of these inputs, which are to be all that a map is
    fitted on: fitted on three parts and scored on the fourth, each in turn. One counts if, without an attack and in the
    mean, its AUROC is at most `auroc_loss` below that of the untouched confidences and its Brier score at most
    `brier_loss` above theirs. The best is fitted to all of them, or the next one, if that leaves a single confidence.
    It, and other inputs, can pass these limits, as the best of many looks better than it is. If none has a lower
    certified error than no map, there is none. The certificate of a map does not depend on how it was chosen, and a
    report on other inputs is one of a map fixed without them.

    Paper: —; docs/recalibration.md.

    Args:
        evidence: of the inputs to fit on; or bounds of theirs at some radii, for which only maps of the mean count.
        radii, alpha, terms: as for `fit_score_map`; bounds have their own, but for `edges`.
        auroc_loss: how much AUROC may be given up.
        brier_loss: by how much the Brier score may rise.
        candidates: what to choose from.
        repeats, seed: how often to divide them at random, and the seed.
        n_bins: bins of the calibration error.
        weights: one per radius.
        on_failure: where these inputs can teach no map, "raise" says why, and "identity" keeps confidences as they are.
    """
    limits = [
        check_number(name, value, "lie in [0, 1]: a share, 0.01 for a hundredth", lambda value: 0 <= value <= 1)
        for name, value in (("auroc_loss", auroc_loss), ("brier_loss", brier_loss))
    ]
    if unknown := sorted(terms.keys() - {*TERMS, "edges"}):  # before candidates are fitted, which takes a while
        raise InputError.expected(unknown[0], "be left out here", repr(terms[unknown[0]]))
    fitting: dict[str, Any] = {"n_bins": n_bins, "weights": weights}
    if isinstance(evidence, Evidence):
        if radii is None or alpha is None:
            raise InputError.expected("radii and alpha", "be given with evidence", "None")
        fitting |= {"radii": tuple(one_or_more("radii", radii)), "alpha": alpha, **terms}
        known, names = tuple(candidates), {"bounds": "evidence", "correct": "label"}
        for other in evidence.header.temperatures:
            if other != evidence.temperature:
                known += (Candidate(temperature=other), *(replace(one, temperature=other) for one in candidates))
    else:
        for name, value in {"radii": radii, "alpha": alpha, **terms}.items():
            if name != "edges" and value is not None:
                raise InputError.expected(name, "be left out with bounds, which have their own", value)
        evidence = as_intervals(evidence)
        fitting |= {"radii": [own.radius for own in evidence], **terms}
        known, names = tuple(one for one in candidates if {one.inside, one.reaching, one.temperature} == {None}), {}
        if candidates and not known:
            wanted = "hold a map of the mean without a temperature, as bounds teach no others"
            raise InputError.expected("candidates", wanted, f"only such as “{candidates[0].name}”")
    at, refused = max(fitting["radii"]), list[Candidate]()
    # What cannot teach the simplest map is no ground to choose others on, nor a temperature.
    with renaming(names):
        taught = Candidate(outside=MapKind.ISOTONIC).fit(evidence, **fitting, on_failure=on_failure)
    untouched, *scores = _compared(evidence, one_or_more("candidates", known), fitting, at, repeats=repeats, seed=seed)
    tried = tuple(zip(known, scores, strict=True))
    compared = Choice(IdentityMap(), Candidate(), tried, untouched, at, limits[0], limits[1])
    for chosen in [Candidate()] if "reason" in taught.about else [one for one, _ in compared.ranked()]:
        own = chosen.fit(evidence, **fitting)
        if chosen == Candidate() or _scores(own, evidence, fitting, at).levels > 1:
            break  # of all these inputs, too, it leaves more than one confidence
        refused.append(chosen)
    origin = facts_of(evidence) if isinstance(evidence, Evidence) else {}
    about = origin | dict(own.about) | {"chosen": asdict(chosen), "auroc_loss": limits[0], "brier_loss": limits[1]}
    about["candidates"] = len(known)
    compared = replace(compared, chosen=chosen, refused=tuple(refused))
    if chosen == Candidate():
        about["reason"] = renamed(taught.about.get("reason", compared.nothing_better), names)
    return replace(compared, map=replace(own, about=about))  # type: ignore[type-var]


def _compared(
    evidence: Evidence | tuple[ConfidenceIntervals, ...],
    candidates: Sequence[Candidate],
    fitting: dict[str, Any],
    radius: float,
    **how: int,
) -> list[Scores]:
    """Mean scores at a radius on parts of the inputs, of maps that were fitted to the rest; without a map first."""
    several = () if isinstance(evidence, Evidence) else evidence

    def pick(part: Indices) -> Any:
        return evidence.select(part) if isinstance(evidence, Evidence) else tuple(own.select(part) for own in several)

    def over(found: list[Scores]) -> Scores:
        return replace(summary(found, np.mean), levels=summary(found, np.min).levels)

    if not (inputs := len(several[0] if several else evidence)):
        raise InputError.expected("evidence", "hold at least one input", "none")
    # Fewer inputs than parts teach nothing, however they are divided.
    pairs = split_inputs(inputs, folds=PARTS, **how) if inputs >= PARTS else [(np.arange(inputs),) * 2]
    parts = [(pick(rest), pick(part)) for rest, part in pairs]
    with remembered([] if several else [one for pair in parts for one in pair]):
        return [
            over([_scores(one.fit(rest, **fitting), part, fitting, radius) for rest, part in parts])
            for one in (Candidate(), *candidates)
        ]


def _scores(
    own: AnyMap, part: Evidence | tuple[ConfidenceIntervals, ...], fitting: dict[str, Any], radius: float
) -> Scores:
    """What a map comes to at a radius on some inputs."""
    if isinstance(part, Evidence):
        terms = {name: fitting[name] for name in TERMS if name in fitting}
        (at,) = own.certify(part, radii=radius, **terms)
    else:
        at = next(own.intervals(one) for one in part if one.radius == radius)
    return score_bounds(at, n_bins=fitting["n_bins"], edges=fitting.get("edges"))

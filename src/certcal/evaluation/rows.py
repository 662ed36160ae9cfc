"""Rows over radii: what evidence or given bounds certify, for the certified inputs or for all of them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals, Method, RunnerUp, check_of_one_model, confidence_bounds_at
from certcal.errors import InputError
from certcal.evaluation.claim import ways_of, with_best_claim
from certcal.evaluation.confidence_map import ConfidenceMap, warn_if_fitted_to, warn_of_maps_of
from certcal.evaluation.further import ANY_BINNING, FURTHER, WANTED
from certcal.evaluation.groups import as_columns, group_tables
from certcal.evaluation.report import Report
from certcal.evaluation.row import WITH_MAP, WITHOUT_MAP, row_at
from certcal.scalars import exactly, one_or_more
from certcal.settings import PREDICTION_SHARE, Claim, EvaluateSettings, Population
from certcal.smoothing import Evidence
from certcal.types import ArrayLike
from certcal.worstcase import allowed_failures, choose_few_bins


def evaluate(
    evidence: Evidence | ConfidenceIntervals | Sequence[ConfidenceIntervals],
    *,
    radii: Iterable[float] | float | None = None,
    alpha: float | None = None,
    delta: float = 0.001,
    method: str = Method.CDF_CP,
    split_alpha: bool = True,
    prediction_share: float = PREDICTION_SHARE,
    runner_up: str = RunnerUp.COMPLEMENT,
    population: str = Population.CERTIFIED,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    approximations: Iterable[str] = (),
    recalibration: ConfidenceMap | None = None,
    claim: str = Claim.FAILURES,
    open_at: float | None = None,
    threshold: float = 0.8,
    accept_accuracy: float | None = None,
    groups: Any = (),
    any_binning: bool = False,
) -> Report:
    """Certified accuracy, calibration error and Brier score at each radius, beside the clean ones.

    Per input, all its certificates hold together with probability at least 1 - alpha; the certified errors are what
    follows when they hold for every input. The joint ones are made for the set as a whole: with probability at least
    1 - delta over all noise draws, every joint value of every row holds. `population_ece` speaks of inputs not seen: at
    each radius by itself it holds with probability at least 1 - delta over inputs and draws, under the assumptions of
    `population_bound`.

    Paper: Sec. 5.   Errs: certified accuracy low, certified errors high.

    Args:
        evidence: of a smoothed model; or certificates from elsewhere, at one radius or a list for several.
        radii: at which to certify, in the units of the inputs; by default 0 to 2 σ by σ/4; given bounds have theirs.
        alpha: error probability per input, by default 0.001; given bounds state theirs, 0 if they are proven.
        delta: error probability of the joint claim.
        method, split_alpha, prediction_share, runner_up: as for `confidence_bounds`; given bounds do not ask for them.
        population: "certified" leaves out inputs that are not certified at R, as the paper does; "all" counts them
            as far from being right as their bounds allow, and at their estimated confidence in the clean columns.
        n_bins, edges: bins of the calibration errors.
        approximations: which of "admm", "dece" and "brier" to run beside the exact value; slow, and they certify
            nothing.
        recalibration: a map of the confidences, fitted on other inputs than these: see `recalibrate`, `fit_score_map`.
            On those that it was fitted on there is a warning, and no `population_ece`.
        claim: "failures", or "best" for the least of three bounds of the set's calibration error, each with a part of
            delta: docs/guarantee.md. The row's `claim` names it, `claims` has all.
        open_at: one of the radii, that pages and screens show first; by default the largest at which half of the inputs
            are certified.
        threshold: confidence from which predictions are accepted, of the operating points that are shown first.
        accept_accuracy: of those accepted, such as 0.95: also the smallest threshold that guarantees it, which has the
            largest coverage; see `Report.least_threshold`.
        groups: "predicted", "label", an array with one entry per input, or a mapping of names to such arrays: what is
            certified of each group, at levels that hold for all groups together; docs/groups.md.
        any_binning: also the worst case over every binning: seconds per radius for thousands of inputs.
    """
    own_draws = evidence if isinstance(evidence, Evidence) else None
    radii = None if radii is None else one_or_more("radii", radii)  # once: they may be gone when they were read
    if own_draws is not None:  # as on the command line
        radii = EvaluateSettings().radii_at(own_draws.header.sigma) if radii is None else radii
        alpha = EvaluateSettings().alpha if alpha is None else alpha
    asked = EvaluateSettings(
        radii=radii,
        alpha=0.0 if alpha is None else alpha,
        delta=delta,
        method=method,
        split_alpha=split_alpha,
        prediction_share=prediction_share,
        runner_up=runner_up,
        population=population,
        n_bins=n_bins,
        approximations=()
        if isinstance(approximations, tuple | list) and not approximations
        else one_or_more("approximations", approximations),
        claim=claim,
        open_at=open_at,
        threshold=threshold,
        accept_accuracy=accept_accuracy,
        any_binning=any_binning,
    )
    bins, chosen = choose_few_bins(n_bins, edges), Population(asked.population)
    if not isinstance(recalibration, ConfidenceMap | None):
        raise InputError.expected("recalibration", "be a map from `recalibrate`", type(recalibration).__name__)
    if own_draws is None:
        found = as_given(evidence, radii, alpha)
    else:
        found = tuple(confidence_bounds_at(own_draws, radii=radii or (), **asked.terms))
    distances = [own.radius for own in found]
    if open_at is not None and asked.open_at not in distances:
        raise InputError.expected("open_at", f"be one of the radii, {', '.join(map(str, distances))}", open_at)
    options: dict[str, Any] = {"population": chosen, "edges": bins.edges, "delta": delta}
    columns = as_columns(groups, found[0])
    further = (
        *FURTHER,
        *(() if asked.accept_accuracy is None else WANTED),
        *(ANY_BINNING if any_binning else ()),
    )
    accepting: dict[str, Any] = {"threshold": asked.threshold, "accept_accuracy": asked.accept_accuracy}

    def certify(terms: Mapping[str, Any]) -> tuple[ConfidenceIntervals, ...]:
        """The bounds that the report is about, at other terms."""
        asked_for: dict[str, Any] = {"radii": distances, **asked.terms, **terms}
        if own_draws is None:
            return tuple(map(recalibration.intervals, found)) if recalibration else found
        make = confidence_bounds_at if recalibration is None else recalibration.certify
        return tuple(make(own_draws, **asked_for))

    bounds = found if recalibration is None else certify({})
    ways = ways_of(asked.claim, own_draws, mapped=recalibration is not None)
    share = 1 / len(ways)
    wanted = None if recalibration is None else WITH_MAP
    rows = [
        row_at(
            own,
            approximations=asked.approximations,
            further=further,
            metrics=wanted,
            share=share,
            **options,
            **accepting,
        )
        for own in bounds
    ]
    if own_draws is not None and len(ways) > 1:
        rows = with_best_claim(rows, bounds, own_draws, certify, ways, delta=delta, population=chosen, bins=bins)
    if recalibration is not None:
        # Limits at two temperatures fail by events of their own, which would both have to be paid for.
        same = all(old.temperature == new.temperature for old, new in zip(found, bounds, strict=True))
        plain = WITHOUT_MAP if same else [name for name in WITHOUT_MAP if not name.startswith("joint_")]
        rows = [
            replace(row, before=row_at(old, metrics=plain, share=share, **options))
            for row, old in zip(rows, found, strict=True)
        ]
    seen = found[0] if own_draws is None else own_draws
    if warn_of_maps_of(found[0]) or (recalibration is not None and warn_if_fitted_to(recalibration, seen)):
        rows = [replace(row, population_ece=math.nan) for row in rows]
    apart = own_draws is not None
    tables = [
        group_tables(own, columns, threshold=asked.threshold, drawn_apart=apart, **options) for own in bounds if columns
    ]
    return Report(
        tuple(rows),
        bounds,
        own_draws,
        float(delta),
        allowed_failures(bounds[0], delta=delta * share),
        chosen,
        bins,
        recalibration,
        open_at,
        asked.claim,
        groups=tuple(tables),
        share=share,
        asked=asked,
        **accepting,
    )


def as_given(
    bounds: Any, radii: Iterable[float] | float | None, alpha: float | None
) -> tuple[ConfidenceIntervals, ...]:
    """Certificates of the same inputs at each of their radii, or at those asked for, if nothing stays unsaid.

    `alpha` is for those that do not state theirs.
    """
    several = (bounds,) if isinstance(bounds, ConfidenceIntervals) else one_or_more("bounds", bounds)
    for own in several:
        if not isinstance(own, ConfidenceIntervals):
            wanted = "be evidence, or certificates from `confidence_bounds` or `certcal.certificates.intervals_from_…`"
            raise InputError.expected("evidence", wanted, type(own).__name__)
        # Bounds of other draws fail by events of their own, each with alpha.
        for name, words in (("index",) * 2, ("label",) * 2, ("predicted",) * 2, ("drawn", "draws")):
            if not np.array_equal(getattr(own, name), getattr(several[0], name)):
                raise InputError.expected("bounds", f"have the same {words} at every radius", "others")
        for name in ("alpha", "norm", "domain", "method", "split_alpha", "prediction_share", "runner_up"):
            first, here = getattr(several[0], name), getattr(own, name)
            if here != first and not (here != here and first != first):
                raise InputError.expected("bounds", f"have one {name}", f"{first} and {here}")
    check_of_one_model(several)
    stated = several[0].alpha
    if alpha is not None and not np.isnan(stated) and alpha != stated:
        raise InputError.expected("alpha", f"be left out, or be {stated:g}, which the bounds state", alpha)
    if alpha is None and np.isnan(stated):
        raise InputError.expected("alpha", "be stated: 0 if the bounds are proven", "none")
    if any(np.isnan(own.radius) for own in several):
        raise InputError.expected("radius", "be given for bounds that do not state it", "none")
    if any(np.isnan(own.confidence).any() for own in several):
        wanted = "be known at every input, for the values without an attack"
        got = "none: give its column, or rows at radius 0 whose bounds meet"
        raise InputError.expected("confidence", wanted, got)
    if radii is not None:
        by_radius = {own.radius: own for own in several}
        for radius in (asked := one_or_more("radii", radii)):
            if radius not in by_radius:
                there = ", ".join(map(exactly, by_radius))
                raise InputError.expected("radii", f"be some of those that the bounds have ({there})", exactly(radius))
        several = tuple(by_radius[radius] for radius in asked)
    return tuple(replace(own, alpha=float(stated if alpha is None else alpha)) for own in several)

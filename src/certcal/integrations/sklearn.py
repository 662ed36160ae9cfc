"""Certified recalibration as a scikit-learn estimator."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.metrics import top_label_brier_score
from certcal.recalibration import fit_score_map, recalibrate
from certcal.scalars import check_number
from certcal.smoothing import Evidence
from certcal.types import ArrayLike, FloatArray
from certcal.worstcase import certified_brier_score

__all__ = ["CertifiedRecalibrator", "InsideRecalibrator"]

COLUMNS = ("lower", "upper", "confidence")
_FITTING = ("clean_weight", "method", "objective", "n_bins", "edges", "on_failure")


class CertifiedRecalibrator(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fits the map of `certcal.recalibrate` to certified bounds, and maps bounds with it.

    X has the columns lower, upper and, for a clean_weight > 0, the clean confidence; y is whether the prediction is
    right. By default clean_weight is 0.5 with that column and 0 without.
    `transform` gives the mapped columns. `score` is one minus the certified Brier score, mixed with that of the clean
    confidences by `score_clean_weight`; so cross-validation and grid search choose by a certified score on data that
    was not fitted on. By the certified score alone, the best clean_weight is always about 0, and the map may be flat.

    Other parameters as for `recalibrate`. After `fit`: `map_`, `n_features_in_` and, for X with names,
    `feature_names_in_`.

    >>> X, y = np.array([[0.1, 0.5], [0.5, 0.9], [0.6, 1.0]] * 10), [0, 1, 1] * 10
    >>> round(CertifiedRecalibrator().fit(X, y).score(X, y), 4)
    0.8333
    """

    def __init__(
        self,
        *,
        clean_weight: float | None = None,
        method: str = "isotonic",
        objective: str | None = None,
        n_bins: int = 15,
        edges: ArrayLike | None = None,
        on_failure: str = "raise",
        score_clean_weight: float = 0.0,
    ) -> None:
        self.clean_weight = clean_weight
        self.method = method
        self.objective = objective
        self.n_bins = n_bins
        self.edges = edges
        self.on_failure = on_failure
        self.score_clean_weight = score_clean_weight

    def fit(self, X: Any, y: Any) -> "CertifiedRecalibrator":  # noqa: N803 (scikit-learn's name)
        """Fit the map."""
        columns, correct = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2, ensure_min_features=2)
        check_non_negative(columns, type(self).__name__)
        type_of_target(correct, raise_unknown=True)
        if columns.shape[1] not in (2, 3):
            raise InputError.expected("X", "have the columns lower, upper[, confidence]", f"{columns.shape[1]} columns")
        self.map_ = recalibrate(
            columns[:, 0],
            columns[:, 1],
            correct,
            confidence=columns[:, 2] if columns.shape[1] == 3 else None,
            **{name: getattr(self, name) for name in _FITTING},
        )
        return self

    def transform(self, X: Any) -> FloatArray:  # noqa: N803
        """The mapped columns, bounds rounded outward."""
        check_is_fitted(self)
        columns = validate_data(self, X, dtype=np.float64, reset=False)
        mapped = [*self.map_.bounds(columns[:, 0], columns[:, 1])]
        if columns.shape[1] == 3:
            mapped.append(self.map_.transform(columns[:, 2]))
        return np.stack(mapped, axis=1)

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """One minus (1 − w) · certified + w · clean Brier score after the map, w = score_clean_weight."""
        share = check_number("score_clean_weight", self.score_clean_weight, "lie in [0, 1]", lambda w: 0 <= w <= 1)
        mapped = np.asarray(self.transform(X))
        certified = certified_brier_score(mapped[:, 0], mapped[:, 1], y).value
        if share == 0:
            return 1.0 - certified
        if mapped.shape[1] < len(COLUMNS):
            raise InputError.expected("X", f"have a third column, confidence, to score with w = {share:g}", "two")
        return 1.0 - (1 - share) * certified - share * top_label_brier_score(mapped[:, 2], y)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the mapped columns: those of X where it has names, else lower, upper[, confidence]."""
        check_is_fitted(self)
        known = getattr(self, "feature_names_in_", None)
        if input_features is None:
            return np.array(COLUMNS[: self.n_features_in_] if known is None else known, dtype=object)
        names = np.atleast_1d(np.array(input_features, dtype=object))
        if len(names) != self.n_features_in_:
            raise InputError(f"input_features should have length equal to number of features ({self.n_features_in_})")
        if known is not None and list(names) != list(known):
            raise InputError("input_features is not equal to feature_names_in_")
        return names

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.target_tags.required = True
        tags.target_tags.single_output = True
        return tags


class InsideRecalibrator(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fits the map of scores of `certcal.recalibration.fit_score_map`, and gives the bounds of what it makes of inputs.

    X has one column, positions of inputs in `evidence`, so that pipelines and cross-validation can split them; y is
    whether the prediction is right and must be what the evidence says. `transform` gives lower, upper and confidence at
    `radius` after the map, which `CertifiedRecalibrator` takes: the two make a pipeline, one inside the expectation and
    one outside. `score` is one minus the certified Brier score of the inputs certified at `radius`.

    Other parameters as for `fit_score_map`. After `fit`: `map_`.
    """

    def __init__(
        self,
        evidence: Evidence | None = None,
        *,
        radius: float = 0.0,
        alpha: float = 0.001,
        clean_weight: float = 0.5,
        objective: str = "brier",
        on_failure: str = "raise",
    ) -> None:
        self.evidence = evidence
        self.radius = radius
        self.alpha = alpha
        self.clean_weight = clean_weight
        self.objective = objective
        self.on_failure = on_failure

    def fit(self, X: Any, y: Any = None) -> "InsideRecalibrator":  # noqa: N803 (scikit-learn's name)
        """Fit the map to the inputs at these positions."""
        fitting = {name: getattr(self, name) for name in ("alpha", "clean_weight", "objective", "on_failure")}
        self.map_ = fit_score_map(self._part(X, y), radii=self.radius, **fitting)
        return self

    def transform(self, X: Any) -> FloatArray:  # noqa: N803
        """Bounds and confidences after the map, shape (n, 3)."""
        own = self._certified(X)
        return np.stack([own.lower, own.upper, own.confidence], axis=1)

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        """One minus the certified Brier score after the map, of those of the inputs that are certified."""
        return 1.0 - certified_brier_score(self._certified(X, y)).value

    def _certified(self, X: Any, y: Any = None) -> ConfidenceIntervals:  # noqa: N803
        check_is_fitted(self)
        return self.map_.certify(self._part(X, y), radii=self.radius, alpha=self.alpha)[0]

    def _part(self, X: Any, y: Any) -> Evidence:  # noqa: N803
        if not isinstance(self.evidence, Evidence):
            raise InputError.expected(
                "evidence", "be Evidence, such as load_evidence gives", type(self.evidence).__name__
            )
        where = np.asarray(X)
        if where.ndim != 2 or where.shape[1] != 1 or where.dtype.kind not in "iu":
            raise InputError.expected("X", "be one column of whole positions in `evidence`", f"shape {where.shape}")
        place = where[:, 0]
        if len(place) and not (place.min() >= 0 and place.max() < len(self.evidence)):
            raise InputError.expected("X", f"hold positions from 0 to {len(self.evidence) - 1}", place.max())
        part = self.evidence.select(place)
        if y is not None and not np.array_equal(np.asarray(y, dtype=bool), part.correct):
            raise InputError.expected("y", "say which predictions of the evidence are right", "others")
        return part

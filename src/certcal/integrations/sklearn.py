"""Certified recalibration as a scikit-learn estimator."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from certcal.errors import InputError
from certcal.metrics import top_label_brier_score
from certcal.recalibration import recalibrate
from certcal.scalars import check_number
from certcal.types import ArrayLike, FloatArray
from certcal.worstcase import certified_brier_score

__all__ = ["CertifiedRecalibrator"]

COLUMNS = ("lower", "upper", "confidence")


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
        objective: str = "brier",
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
            clean_weight=self.clean_weight,
            method=self.method,
            objective=self.objective,
            n_bins=self.n_bins,
            edges=self.edges,
            on_failure=self.on_failure,
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

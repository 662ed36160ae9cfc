"""Certified recalibration as a scikit-learn estimator. Extra: `certcal[sklearn]`."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_array, check_is_fitted, check_non_negative, check_X_y

from certcal.errors import InputError
from certcal.recalibration import recalibrate
from certcal.types import ArrayLike, FloatArray
from certcal.worstcase import certified_brier_score

__all__ = ["CertifiedRecalibrator"]


class CertifiedRecalibrator(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fits the map of `certcal.recalibrate` to certified bounds, and maps bounds with it.

    X has the columns lower, upper and, if clean_weight > 0, the clean confidence; y is whether the prediction is right.
    `transform` gives the mapped columns, `score` one minus the certified Brier score, so that cross-validation and
    grid search over the parameters choose by a certified score on data that was not fitted on.

    Parameters as for `recalibrate`. After `fit`: `map_`, `n_features_in_`.

    >>> X, y = np.array([[0.1, 0.5], [0.5, 0.9], [0.6, 1.0]] * 10), [0, 1, 1] * 10
    >>> round(CertifiedRecalibrator().fit(X, y).score(X, y), 4)
    0.8333
    """

    def __init__(
        self,
        *,
        clean_weight: float = 0.0,
        method: str = "isotonic",
        objective: str = "brier",
        n_bins: int = 15,
        edges: ArrayLike | None = None,
        on_failure: str = "raise",
    ) -> None:
        self.clean_weight = clean_weight
        self.method = method
        self.objective = objective
        self.n_bins = n_bins
        self.edges = edges
        self.on_failure = on_failure

    def fit(self, X: Any, y: Any) -> "CertifiedRecalibrator":  # noqa: N803 (scikit-learn's name)
        """Fit the map."""
        columns, correct = check_X_y(X, y, dtype=np.float64, ensure_min_samples=2, ensure_min_features=2)
        check_non_negative(columns, type(self).__name__)
        type_of_target(correct, raise_unknown=True)
        if columns.shape[1] not in (2, 3):
            raise InputError.expected("X", "have the columns lower, upper[, confidence]", f"{columns.shape[1]} columns")
        self.n_features_in_ = columns.shape[1]
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
        columns = check_array(X, dtype=np.float64)
        if columns.shape[1] != self.n_features_in_:
            got = f"X has {columns.shape[1]} features, but CertifiedRecalibrator is expecting {self.n_features_in_}"
            raise InputError(f"{got} features as input.")  # scikit-learn's own words, which its checks look for
        mapped = [*self.map_.bounds(columns[:, 0], columns[:, 1])]
        if columns.shape[1] == 3:
            mapped.append(self.map_.transform(columns[:, 2]))
        return np.stack(mapped, axis=1)

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """One minus the certified Brier score after the map: larger is better."""
        mapped = self.transform(X)
        return 1.0 - certified_brier_score(mapped[:, 0], mapped[:, 1], y).value

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.target_tags.required = True
        tags.target_tags.single_output = True
        return tags

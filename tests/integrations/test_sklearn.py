"""The scikit-learn estimator: the library's own checks, and use in pipelines and grid search."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils import estimator_checks

from certcal import InputError, certified_brier_score, recalibrate
from certcal.integrations.sklearn import CertifiedRecalibrator
from problems import smoothed_like


def as_bounds(_, features, kernel=None):
    """Arbitrary features as the bounds that the estimator needs; a single column stays one, which it must refuse."""
    features = np.asarray(features, dtype=float)
    if features.shape[1] == 1:
        return features
    share = expit(3 * features / (np.abs(features).max() + 1))
    return np.column_stack([share.min(axis=1), share.max(axis=1)])


CHECKS = list(estimator_checks.estimator_checks_generator(CertifiedRecalibrator(on_failure="identity"), mark=None))


@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=[getattr(c, "func", c).__name__ for _, c in CHECKS])
def test_scikit_learns_checks(monkeypatch, estimator, check):
    """All that run, on data made into bounds and correctness where the checks adapt theirs to an estimator."""
    monkeypatch.setattr(estimator_checks, "_enforce_estimator_tags_X", as_bounds)
    monkeypatch.setattr(estimator_checks, "_enforce_estimator_tags_y", lambda _, y: np.arange(len(y)) % 2)
    check(estimator)


@pytest.fixture
def data():
    lower, upper, correct, clean = smoothed_like(400)
    return np.column_stack([lower, upper, clean]), correct


def test_is_the_map_of_recalibrate(data):
    bounds, correct = data
    fitted = CertifiedRecalibrator(clean_weight=0.3).fit(bounds, correct)
    g = recalibrate(bounds[:, 0], bounds[:, 1], correct, confidence=bounds[:, 2], clean_weight=0.3)
    assert fitted.map_.parameters() == g.parameters()
    mapped = fitted.transform(bounds)
    np.testing.assert_array_equal(mapped[:, :2].T, g.bounds(bounds[:, 0], bounds[:, 1]))
    np.testing.assert_array_equal(mapped[:, 2], g.transform(bounds[:, 2]))
    assert fitted.score(bounds, correct) == 1 - certified_brier_score(mapped[:, 0], mapped[:, 1], correct).value


def test_grid_search_chooses_by_the_certified_score_on_other_folds(data):
    search = GridSearchCV(CertifiedRecalibrator(), {"clean_weight": [0.0, 1.0]}, cv=4).fit(*data)
    assert search.best_params_ == {"clean_weight": 0.0}
    assert search.get_params()["estimator__method"] == "isotonic"


def test_grid_search_may_weigh_clean_scores_too(data):
    """With both scores in the balance neither end wins by definition, and the chosen one has the best mix."""
    shares = {"clean_weight": [0.0, 0.5, 1.0]}
    search = GridSearchCV(CertifiedRecalibrator(score_clean_weight=0.8), shares, cv=4).fit(*data)
    assert search.best_params_["clean_weight"] > 0
    bounds, correct = data
    mapped = search.best_estimator_.transform(bounds)
    certified = certified_brier_score(mapped[:, 0], mapped[:, 1], correct).value
    clean = np.square(correct - mapped[:, 2]).mean()
    assert search.score(bounds, correct) == pytest.approx(1 - 0.2 * certified - 0.8 * clean, abs=1e-12)
    with pytest.raises(InputError, match="Expected `X` to have a third column"):
        CertifiedRecalibrator(score_clean_weight=0.5).fit(bounds[:, :2], correct).score(bounds[:, :2], correct)


def test_names_of_columns(data):
    bounds, correct = data
    assert list(CertifiedRecalibrator().fit(bounds, correct).get_feature_names_out()) == [
        "lower",
        "upper",
        "confidence",
    ]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(bounds, columns=["low", "high", "clean"])
    fitted = CertifiedRecalibrator().set_output(transform="pandas").fit(frame, correct)
    assert list(fitted.feature_names_in_) == ["low", "high", "clean"]
    assert list(fitted.transform(frame).columns) == ["low", "high", "clean"]
    assert fitted.score(frame, correct) == CertifiedRecalibrator().fit(bounds, correct).score(bounds, correct)


def test_bad_input(data):
    bounds, correct = data
    with pytest.raises(InputError, match="Expected `X` to have the columns lower, upper"):
        CertifiedRecalibrator().fit(np.column_stack([bounds, bounds]), correct)
    with pytest.raises(InputError, match="Expected `lower` to be at most `upper`"):
        CertifiedRecalibrator().fit(bounds[:, 1::-1], correct)
    with pytest.raises(InputError, match="Expected `confidence` to be given"):
        CertifiedRecalibrator(clean_weight=0.5).fit(bounds[:, :2], correct)
    with pytest.raises(ValueError, match="X has 2 features, but CertifiedRecalibrator is expecting 3"):
        CertifiedRecalibrator().fit(bounds, correct).transform(bounds[:, :2])
    with pytest.raises(NotFittedError):
        CertifiedRecalibrator().transform(bounds)

"""The scikit-learn estimator: the library's own checks, and use in pipelines and grid search."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from certcal import InputError, certified_brier_score, recalibrate
from certcal.integrations.sklearn import CertifiedRecalibrator, InsideRecalibrator
from certcal.recalibration import FullMap, fit_inside
from problems import smoothed_like
from smoothing_oracles import random_evidence


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


def test_a_subclass_may_have_parameters_of_its_own(data):
    class Named(CertifiedRecalibrator):
        def __init__(self, *, name="", clean_weight=0.5):
            super().__init__(clean_weight=clean_weight)
            self.name = name

    own, plain = (one.fit(*data).map_ for one in (Named(name="mine"), CertifiedRecalibrator()))
    assert own.parameters() == plain.parameters()


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


class TestInside:
    @pytest.fixture
    def evidence(self, rng):
        found = random_evidence(rng, inputs=200, draws=500)
        return replace(found, label=(rng.random(200) < found.confidence).astype(np.int64))

    def test_grid_search_chooses_by_the_certified_score_of_other_inputs(self, evidence):
        estimator = InsideRecalibrator(evidence, radius=0.05, alpha=0.01)
        search = GridSearchCV(estimator, {"clean_weight": [0.0, 0.5, 1.0]}, cv=3)
        where = np.arange(200)[:, None]
        search.fit(where, evidence.correct)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        own = search.best_estimator_.map_.certify(evidence, radii=0.05, alpha=0.01)[0]
        assert search.best_estimator_.score(where) == 1 - certified_brier_score(own).value

    def test_a_pipeline_is_the_map_inside_and_the_one_outside(self, evidence):
        inside = InsideRecalibrator(evidence, radius=0.05, alpha=0.01)
        pipeline = make_pipeline(clone(inside), CertifiedRecalibrator(clean_weight=0.5))
        certified = inside.fit(np.arange(200)[:, None]).map_.certify(evidence, radii=0.05, alpha=0.01)[0].certified
        where = np.flatnonzero(certified)[:, None]
        mapped = pipeline.fit(where, evidence.correct[certified]).transform(where)
        both = FullMap(pipeline[0].map_, pipeline[1].map_)
        both = both.certify(evidence.select(certified), radii=0.05, alpha=0.01)[0]
        np.testing.assert_allclose(mapped, np.stack([both.lower, both.upper, both.confidence], axis=1), atol=1e-15)
        same = fit_inside(evidence.select(certified), radii=[0.05], alpha=0.01, outside="isotonic")
        np.testing.assert_array_equal(same.inside.levels, pipeline[0].map_.levels)

    def test_other_answers_and_positions_are_refused(self, evidence):
        own = InsideRecalibrator(evidence, radius=0.05, alpha=0.01)
        with pytest.raises(InputError, match="Expected `y` to say which predictions of the evidence are right"):
            own.fit([[0], [1]], [not evidence.correct[0], True])
        for where in ([[200]], [[0.5]], [[0, 1]]):
            with pytest.raises(InputError, match="Expected `X` to"):
                own.fit(where)
        with pytest.raises(InputError, match="Expected `evidence` to be Evidence"):
            InsideRecalibrator().fit([[0]])

"""Do classifiers of pairs, triplets and quadruplets keep metric-learn's meaning and scikit-learn's contract?"""

import pickle
from functools import partial

import numpy as np
import oracles
import pytest
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import fbeta_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from test_lmnn import blobs
from test_triplets import quadruplets_of, triplets_of

import outmetric
from outmetric import kernels
from outmetric.baselines import ITML, LMNN, KernelITML, KernelLMNN
from outmetric.tuples import (
    PairsITML,
    PairsKernelITML,
    QuadrupletsKernelLMNN,
    QuadrupletsLMNN,
    TripletsKernelLMNN,
    TripletsLMNN,
)
from outmetric.verification import PUBLISHED, best_threshold

X, y = load_iris(return_X_y=True)


def pairs_of(labels, count=120, seed=0):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(len(labels), size=(count, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return pairs, np.where(labels[pairs[:, 0]] == labels[pairs[:, 1]], 1, -1)


PAIRS, ALIKE = pairs_of(y)
# (class, row numbers, y for `fit`)
LEARNERS = {
    "pairs": (PairsITML, PAIRS, (ALIKE,)),
    "pairs, kernel": (partial(PairsKernelITML, 10), PAIRS, (ALIKE,)),
    "triplets": (TripletsLMNN, triplets_of(y), ()),
    "triplets, kernel": (TripletsKernelLMNN, triplets_of(y), ()),
    "quadruplets": (QuadrupletsLMNN, quadruplets_of(y), ()),
    "quadruplets, kernel": (QuadrupletsKernelLMNN, quadruplets_of(y), ()),
}
COMPARISONS = [name for name in LEARNERS if not name.startswith("pairs")]


@pytest.mark.parametrize("name", LEARNERS)
class TestContract:
    def test_row_numbers_and_points_agree(self, name):
        kind, rows, targets = LEARNERS[name]
        numbered, pointed = kind(preprocessor=X).fit(rows, *targets), kind().fit(X[rows], *targets)
        np.testing.assert_array_equal(numbered.components_, pointed.components_)
        for method in ("predict", "decision_function"):
            expected = getattr(pointed, method)(X[rows])
            np.testing.assert_array_equal(getattr(numbered, method)(rows), expected)
            np.testing.assert_array_equal(getattr(numbered, method)(rows.tolist()), expected)
            np.testing.assert_array_equal(getattr(numbered, method)(X[rows]), expected)
            np.testing.assert_array_equal(getattr(pointed, method)(X[rows].tolist()), expected)
        assert numbered.score(rows, *targets) == pointed.score(X[rows], *targets)
        np.testing.assert_array_equal(numbered.transform([0, 1]), pointed.transform(X[:2]))

    def test_cross_validation(self, name):
        kind, rows, targets = LEARNERS[name]
        scores = cross_val_score(kind(preprocessor=X), rows, *targets, cv=3)
        np.testing.assert_array_equal(scores, cross_val_score(kind(), X[rows], *targets, cv=3))
        assert scores.mean() > 0.85
        assert set(cross_val_predict(kind(preprocessor=X), rows, *targets, cv=3)) <= {-1, 1}

    def test_a_pipeline_of_one_step(self, name):
        kind, rows, targets = LEARNERS[name]
        pipeline, alone = make_pipeline(kind()).fit(X[rows], *targets), kind().fit(X[rows], *targets)
        assert pipeline.score(X[rows], *targets) == alone.score(X[rows], *targets)

    def test_cloning_pickling_and_files(self, name, tmp_path):
        kind, rows, targets = LEARNERS[name]
        model = kind(tol=1e-3, preprocessor=X)
        assert clone(model).get_params().keys() == model.get_params().keys()
        model.fit(rows, *targets)
        outmetric.save(model, tmp_path / "model")
        for same in (pickle.loads(pickle.dumps(model)), outmetric.load(tmp_path / "model")):
            np.testing.assert_array_equal(same.predict(rows), model.predict(rows))
            np.testing.assert_array_equal(same.decision_function(rows), model.decision_function(rows))

    def test_parameters_are_the_baselines_without_what_concerns_labels(self, name):
        kind = type(LEARNERS[name][0]())
        baseline = {PairsITML: ITML, PairsKernelITML: KernelITML}.get(kind, KernelLMNN if "Kernel" in kind.__name__ else LMNN)
        ours, theirs = kind().get_params(), baseline().get_params()
        assert theirs.keys() - ours.keys() == ({"n_constraints"} if baseline in (ITML, KernelITML) else {"n_neighbors"})
        assert {key: theirs[key] for key in ours} == ours

    def test_not_fitted(self, name):
        kind, rows, targets = LEARNERS[name]
        for method in ("predict", "decision_function", "transform", "pair_distance", "pair_score"):
            with pytest.raises(NotFittedError):
                getattr(kind(), method)(X[rows])
        with pytest.raises(NotFittedError):
            kind().score(X[rows], *targets)
        for method in ("get_metric", "get_mahalanobis_matrix"):
            with pytest.raises(NotFittedError):
                getattr(kind(), method)()

    def test_wrong_tuples(self, name):
        kind, rows, targets = LEARNERS[name]
        model = kind().fit(X[rows], *targets)
        size = rows.shape[1]
        for wrong in (X[:size], X[rows][:, :1], X[rows][..., :3], X[rows][0]):
            with pytest.raises(ValueError, match=rf"must have the shape \(n_\w+, {size}, 4\); theirs is"):
                model.decision_function(wrong)
        with pytest.raises(ValueError, match="NaN"):
            model.predict(np.full((1, size, 4), np.nan))
        with pytest.raises(ValueError, match="from 0 to 149"):
            kind(preprocessor=X).fit(rows, *targets).predict(rows + 150)

    def test_its_kind(self, name):
        kind, rows, targets = LEARNERS[name]
        assert is_classifier(kind())
        np.testing.assert_array_equal(kind().classes_, [-1, 1])
        model = kind().fit(X[rows], *targets)
        assert "classes" not in model.summary()
        assert f"{len(np.unique(X[rows].reshape(-1, 4), axis=0))} samples, 4 features" in model.summary()
        assert model.components_.shape == (len(model.components_),) * 2


class TestPairs:
    def test_is_itml_on_these_pairs(self):
        model = PairsITML(2.0, prior="covariance").fit(X[PAIRS], ALIKE)
        plain = ITML(2.0, prior="covariance").fit_pairs(X[PAIRS], ALIKE)
        np.testing.assert_array_equal(model.components_, plain.components_)
        np.testing.assert_array_equal(model.decision_function(X[PAIRS]), -plain.pair_distance(X[PAIRS]))

    def test_predictions_follow_from_the_threshold(self):
        model = PairsITML().fit(X[PAIRS], ALIKE)
        distances = model.pair_distance(X[PAIRS])
        for threshold in (model.threshold_, *np.percentile(distances, [10, 60])):
            predicted = model.set_threshold(threshold).predict(X[PAIRS])
            np.testing.assert_array_equal(predicted, np.where(distances <= threshold, 1, -1))
        assert model.set_threshold(3).threshold_ == 3.0
        assert "similar up to 3" in model.summary()

    def test_score_is_the_area_under_the_curve(self):
        train, test = slice(0, 80), slice(80, None)
        model = PairsITML(preprocessor=X).fit(PAIRS[train], ALIKE[train])
        differences = X[PAIRS[test, 0]] - X[PAIRS[test, 1]]
        squares = np.einsum("ij,jk,ik->i", differences, model.get_mahalanobis_matrix(), differences)
        assert model.score(PAIRS[test], ALIKE[test]) == pytest.approx(roc_auc_score(ALIKE[test], -squares))

    @pytest.mark.parametrize("scoring", ["accuracy", "f1", "roc_auc", "average_precision", "precision", "recall"])
    def test_any_score_of_scikit_learn(self, scoring):
        scores = cross_val_score(PairsITML(preprocessor=X), PAIRS, ALIKE, scoring=scoring, cv=3)
        assert (scores > 0.6).all()

    def test_grid_search(self):
        search = GridSearchCV(PairsITML(preprocessor=X), {"gamma": [0.01, 1.0]}, cv=3).fit(PAIRS, ALIKE)
        assert search.best_score_ > 0.9

    @pytest.mark.parametrize("params", [None, {}, {"strategy": "f_beta", "beta": 0.5}, {"strategy": "max_tpr", "min_rate": 0.9}])
    def test_fit_calibrates_on_its_pairs(self, params):
        model = PairsITML().fit(X[PAIRS], ALIKE, calibration_params=params)
        again = clone(model).fit(X[PAIRS], ALIKE).calibrate_threshold(X[PAIRS], ALIKE, **(params or {}))
        assert again.threshold_ == model.threshold_

    def test_a_threshold_from_other_pairs(self):
        model = PairsITML(preprocessor=X).fit(PAIRS, ALIKE)
        others, alike = pairs_of(y, seed=1)
        model.calibrate_threshold(others, alike, strategy="max_tnr", min_rate=1.0)
        assert (model.predict(others)[alike > 0] == 1).all()

    def test_without_a_threshold(self):
        model = PairsITML().fit_pairs(X[PAIRS], ALIKE)
        with pytest.raises(AttributeError, match="no threshold yet: call fit, calibrate_threshold or set_threshold"):
            model.predict(X[PAIRS])

    def test_the_threshold_of_another_metric_is_forgotten(self):
        model = PairsITML().fit(X[PAIRS], ALIKE)
        model.fit_pairs(2 * X[PAIRS], ALIKE)
        assert not hasattr(model, "threshold_")
        with pytest.raises(AttributeError, match="no threshold yet"):
            model.predict(X[PAIRS])

    def test_pairs_of_one_kind_only(self):
        similar = PAIRS[ALIKE > 0]
        model = PairsITML(preprocessor=X).fit(similar, np.ones(len(similar)))
        assert (model.predict(similar) == 1).all()
        with pytest.raises(ValueError, match=r"need pairs of both kinds; \d+ are the same and 0 different"):
            model.calibrate_threshold(similar, np.ones(len(similar)), "max_tpr", min_rate=0.5)

    def test_words(self):
        words = np.array(["banana", "bandana", "pepper", "peppers", "cabana"], dtype=object)
        pairs, alike = [[0, 1], [2, 3], [0, 2], [1, 3]], [1, 1, -1, -1]
        numbered = PairsKernelITML(kernel=kernels.Spectrum(2), preprocessor=words).fit(pairs, alike)
        pointed = PairsKernelITML(kernel=kernels.Spectrum(2)).fit(words[np.array(pairs)], alike)
        np.testing.assert_array_equal(numbered.predict([[4, 0], [4, 3]]), [1, -1])
        np.testing.assert_array_equal(pointed.predict([("cabana", "banana"), ("cabana", "peppers")]), [1, -1])

    def test_a_kernel_matrix_as_preprocessor(self):
        K = X @ X.T
        model = PairsKernelITML(kernel="precomputed", preprocessor=K).fit(PAIRS, ALIKE)
        linear = PairsKernelITML(kernel="linear", preprocessor=X).fit_pairs(PAIRS, ALIKE, X)
        np.testing.assert_allclose(model.pair_distance(PAIRS), linear.pair_distance(PAIRS), rtol=1e-4, atol=1e-6)

    def test_sparse_points_as_preprocessor(self):
        dense, sparse = (PairsITML(preprocessor=form(X)).fit(PAIRS, ALIKE) for form in (np.asarray, scipy.sparse.csr_array))
        np.testing.assert_array_equal(sparse.predict(PAIRS), dense.predict(PAIRS))

    @pytest.mark.parametrize("threshold", ["a", None, [1, 2], np.nan, np.inf, 1j])
    def test_bad_thresholds(self, threshold):
        model = PairsITML().fit(X[PAIRS], ALIKE)
        with pytest.raises(ValueError, match="threshold must be a real number"):
            model.set_threshold(threshold)

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"strategy": "weird"}, "strategy must be one of 'accuracy', 'f_beta', 'max_tpr', 'max_tnr', not 'weird'"),
            ({"strategy": "max_tpr"}, "'max_tpr' needs min_rate, the least rate of true negatives"),
            ({"strategy": "max_tnr", "min_rate": 1.2}, "min_rate must be a number from 0 to 1, not 1.2"),
            ({"strategy": "max_tnr", "min_rate": "a"}, "min_rate must be a number from 0 to 1, not 'a'"),
            ({"strategy": "f_beta", "beta": None}, "beta must be a finite number >= 0, not None"),
            ({"strategy": "f_beta", "beta": np.nan}, "beta must be a finite number >= 0, not nan"),
            ({"strategy": "far"}, "'max_tnr', not 'far'"),
            ({"min_rate": 0.5}, "min_rate belongs to the strategies 'max_tpr' and 'max_tnr'"),
            ({"rate": 3}, "calibration_params has rate"),
        ],
    )
    def test_bad_calibrations_are_found_before_the_fit(self, params, message):
        with pytest.raises(ValueError, match=message):
            PairsITML().fit("no pairs at all", None, calibration_params=params)

    @pytest.mark.parametrize("signs", [[0] * 5, ALIKE[:4], np.tile(ALIKE[:5], (2, 1))])
    def test_bad_signs(self, signs):
        model = PairsITML(preprocessor=X).fit(PAIRS, ALIKE)
        with pytest.raises(ValueError, match=r"y must be 1|one y each"):
            model.calibrate_threshold(PAIRS[:5], signs)
        with pytest.raises(ValueError, match=r"y must be 1|one y each"):
            PairsITML(preprocessor=X).fit(PAIRS[:5], signs)


class TestThresholds:
    @pytest.mark.parametrize("strategy", PUBLISHED)
    @pytest.mark.parametrize("number", [0.0, 0.1, 0.5, 0.8, 1.0])
    @pytest.mark.parametrize("ties", [False, True])
    @pytest.mark.parametrize("seed", range(3))
    def test_they_are_those_of_an_exhaustive_search(self, strategy, number, ties, seed):
        rng = np.random.default_rng(seed)
        distances, similar = rng.uniform(size=40), rng.uniform(size=40) < 0.5
        distances = np.round(distances, 1) if ties else distances
        settings = {"f_beta": {"beta": number}, "accuracy": {}}.get(strategy, {"min_rate": number})
        model = PairsITML().fit(X[PAIRS], ALIKE)
        model.pair_distance = lambda pairs: distances
        model.calibrate_threshold(None, np.where(similar, 1, -1), strategy, **settings)
        chosen = oracles.best_threshold(distances, similar, strategy, **settings)
        assert model.threshold_ == pytest.approx(oracles.midway(distances, chosen), rel=1e-8)

    @pytest.mark.parametrize("strategy", ["accuracy", "f_beta"])
    @pytest.mark.parametrize("kind", [True, False])
    def test_pairs_of_one_kind(self, strategy, kind):
        distances, similar = np.array([1.0, 2.0, 4.0]), np.full(3, kind)
        chosen = oracles.best_threshold(distances, similar, strategy)
        assert best_threshold(distances, similar, strategy) == pytest.approx(oracles.midway(distances, chosen), rel=1e-8)

    def test_f_beta_is_that_of_scikit_learn(self):
        rng = np.random.default_rng(0)
        distances, similar = rng.uniform(size=40), rng.uniform(size=40) < 0.5
        threshold = best_threshold(distances, similar, "f_beta", beta=2.0)
        scores = [fbeta_score(similar, distances <= other, beta=2.0) for other in distances]
        assert fbeta_score(similar, distances <= threshold, beta=2.0) == pytest.approx(max(scores))

    def test_lies_midway(self):
        distances, similar = np.array([1.0, 2.0, 4.0, 5.0]), np.array([True, True, False, False])
        assert best_threshold(distances, similar) == 3.0
        assert best_threshold(distances, ~similar) < 0  # none is similar up to it
        assert best_threshold(distances, similar | True) == pytest.approx(5.0)


@pytest.mark.parametrize("name", COMPARISONS)
class TestComparisons:
    def test_is_lmnn_on_these_tuples(self, name):
        kind, rows, _ = LEARNERS[name]
        plain = KernelLMNN(push_weight=0.3) if "kernel" in name else LMNN(push_weight=0.3)
        learn = plain.fit_triplets if rows.shape[1] == 3 else plain.fit_quadruplets
        np.testing.assert_array_equal(kind(push_weight=0.3).fit(X[rows]).components_, learn(X[rows]).components_)

    def test_decisions_by_their_definition(self, name):
        kind, rows, _ = LEARNERS[name]
        model = kind(preprocessor=X).fit(rows)
        near, far = (rows[:, :2], rows[:, [0, 2]]) if rows.shape[1] == 3 else (rows[:, :2], rows[:, 2:])
        expected = model.pair_distance(far) - model.pair_distance(near)
        np.testing.assert_allclose(model.decision_function(rows), expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(model.predict(rows), np.where(expected > 0, 1, -1))
        assert model.score(rows) == np.mean(expected > 0)
        assert model.score(rows) > 0.9
        turned = rows[:, [0, 2, 1]] if rows.shape[1] == 3 else rows[:, [2, 3, 0, 1]]
        assert model.score(turned) == pytest.approx(1 - model.score(rows))

    def test_equal_distances_are_no_success(self, name):
        kind, rows, _ = LEARNERS[name]
        model = kind(preprocessor=X).fit(rows)
        assert model.predict([[3] * rows.shape[1]]).tolist() == [-1]

    def test_y_is_not_looked_at(self, name):
        kind, rows, _ = LEARNERS[name]
        one, other = kind(preprocessor=X).fit(rows), kind(preprocessor=X).fit(rows, -np.ones(len(rows)))
        np.testing.assert_array_equal(one.components_, other.components_)
        assert one.score(rows, -np.ones(len(rows))) == one.score(rows)


def test_what_labels_do_not_say_is_learned():
    """Judgements by the second feature, on data whose labels say nothing of it."""
    points, _ = blobs((40, 40), d=3)
    rng = np.random.default_rng(0)
    rows = rng.integers(80, size=(400, 3))
    height = points[:, 1]
    right = np.abs(height[rows[:, 0]] - height[rows[:, 1]]) + 0.2 < np.abs(height[rows[:, 0]] - height[rows[:, 2]])
    train, test = rows[right][:100], rows[right][100:]
    model = TripletsLMNN(preprocessor=points).fit(train)
    plain = np.linalg.norm(points[test[:, 0]] - points[test[:, 1]], axis=1) < np.linalg.norm(
        points[test[:, 0]] - points[test[:, 2]], axis=1
    )
    assert model.score(test) > max(0.95, plain.mean())

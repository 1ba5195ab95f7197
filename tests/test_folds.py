"""Are the sums over training parts what they should be, however few classes are gathered at a time?"""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.model_selection import RepeatedStratifiedKFold

from outmetric import LearnedKernelMetric, MetricSearchCV
from outmetric.choosing import evaluation
from outmetric.kernels import Features, Landmarks
from outmetric.kernels.scalar import Scalar
from outmetric.rows import folds

X, Y = make_blobs(600, 5, centers=12, cluster_std=2.0, random_state=0)
WEIGHTS = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
GRID = {"regression_weight": [0.3, 3.0], "collocation_weight": ["auto", 0.0]}


def features():
    kernel = Scalar("rbf", 3.0)
    return Features((Landmarks.make(kernel, X[::20], kernel.gram(X[::20]), single=False),))


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {3: 2.5}], ids=str)
@pytest.mark.parametrize("held", [1, 2**20, 2**30])
def test_sums_are_those_of_the_definition(weights, class_weight, held, monkeypatch):
    monkeypatch.setattr(folds, "HELD_BYTES", held)
    splits = list(RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0).split(X, Y))
    signatures = evaluation._signatures(splits, len(X))
    parts = evaluation._parts(signatures, splits)
    given = features()
    found = folds.fold_sums(given, X, Y, np.arange(12), signatures, parts, weights, class_weight)
    phi = given.features(X)
    own = np.ones(len(X)) if weights is None else weights
    assert len(found) == len(splits) + 1
    for sums, (train, _) in zip(found, [*splits, (np.arange(len(X)), None)], strict=True):
        counts = np.bincount(Y[train], own[train])
        factors = {
            "None": np.ones(12),
            "balanced": counts.sum() / (12 * counts),
            "{3: 2.5}": np.where(np.arange(12) == 3, 2.5, 1.0),
        }[str(class_weight)]
        w = own[train] * factors[Y[train]]
        same = w[:, None] * (Y[train][:, None] == Y[train]) * w
        laplacian = phi[train].T @ (np.diag(same.sum(axis=1)) - same) @ phi[train]
        summary = sums.summary
        np.testing.assert_allclose(summary.gram, (phi[train].T * w) @ phi[train], rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(summary.laplacian, laplacian, rtol=1e-8, atol=1e-7)
        np.testing.assert_allclose(summary.counts, counts * factors)
        assert sums.n_rows == len(train)


def test_few_classes_are_held_at_a_time_and_no_row_is_evaluated_twice(monkeypatch):
    evaluated, held = [], []
    plain, gather = Landmarks.evaluate, folds.gather
    monkeypatch.setattr(Landmarks, "evaluate", lambda self, rows: evaluated.append(len(rows)) or plain(self, rows))
    monkeypatch.setattr(folds, "gather", lambda *args: [cells := gather(*args), held.append(len(cells))][0])
    expected = MetricSearchCV(LearnedKernelMetric(n_landmarks=40, random_state=0), GRID, cv=3).fit(X, Y)
    assert sum(evaluated) == len(X)
    evaluated.clear()
    monkeypatch.setattr(folds, "HELD_BYTES", 1)
    found = MetricSearchCV(LearnedKernelMetric(n_landmarks=40, random_state=0), GRID, cv=3).fit(X, Y)
    assert sum(evaluated) == len(X)
    assert held == [3] * 12
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-9)
    np.testing.assert_allclose(found.transform(X), expected.transform(X), atol=1e-8)


def test_chunks_too(monkeypatch):
    da = pytest.importorskip("dask.array")
    monkeypatch.setattr("outmetric.choosing.search.EXACT_SAMPLES", 0)
    monkeypatch.setattr(folds, "CHUNK_BYTES", 1)
    metric = LearnedKernelMetric(n_landmarks=40, random_state=0, class_weight="balanced")
    for weights in (None, WEIGHTS):
        expected = MetricSearchCV(metric, GRID, cv=3).fit(X, Y, sample_weight=weights)
        found = MetricSearchCV(metric, GRID, cv=3).fit(da.from_array(X, chunks=(150, 5)), Y, sample_weight=weights)
        np.testing.assert_allclose(found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-8)
        np.testing.assert_allclose(found.transform(X), expected.transform(X), atol=1e-8)

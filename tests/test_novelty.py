"""Are rows that are far from all training data told, and what is near in the best map?"""

import pickle
from pathlib import Path

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold

import outmetric
from outmetric import MetricClassifier
from outmetric.choosing import Novelty, classifier

REFERENCE = Path(__file__).parent / "reference"
pytestmark = pytest.mark.usefixtures("one_preparation")


def overlapping(n, seed=0):
    """Two classes that overlap much, so that maps take many rows to where they take rows that are far from everything."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.normal(size=(n, 3)) + 0.7 * y[:, None], y


def mean_of_nearest(known, new, count):
    distances = np.sqrt(((new[:, None] - known[None]) ** 2).sum(axis=2))
    return np.sort(distances, axis=1)[:, :count].mean(axis=1)


def test_novelty_is_a_quantile_of_distances_out_of_fold():
    X, y = overlapping(120)
    model = MetricClassifier(random_state=0).fit(X, y)
    best = model.committee_[0].candidate
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    own = np.empty((2, 120))
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        pipeline = clone(best.pipeline).set_params(**best.params).fit(X[train], y[train])
        own[0, test] = mean_of_nearest(pipeline.transform(X[train]), pipeline.transform(X[test]), best.n_neighbors)
        centre, spread = X[train].mean(axis=0), X[train].std(axis=0)
        own[1, test] = mean_of_nearest((X[train] - centre) / spread, (X[test] - centre) / spread, best.n_neighbors)
    np.testing.assert_allclose(model.novelty_.in_map, np.sort(own[0]), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.novelty_.in_features, np.sort(own[1]), rtol=1e-10)
    new = overlapping(30, seed=1)[0]
    features = mean_of_nearest(scaled, (new - X.mean(axis=0)) / X.std(axis=0), best.n_neighbors)
    places = mean_of_nearest(model.transform(X), model.transform(new), best.n_neighbors)
    larger = np.maximum(
        [np.mean(model.novelty_.in_map < one) for one in places], [np.mean(model.novelty_.in_features < one) for one in features]
    )
    np.testing.assert_allclose(model.novelty(new), [np.mean(model.novelty_.larger < one) for one in larger])


@pytest.mark.parametrize("scaling", ["standard", "quantile"])
def test_rows_far_from_all_others_are_told_and_others_are_not(monkeypatch, scaling):
    monkeypatch.setattr(classifier, "SCALINGS", (scaling,))
    X, y = overlapping(300)
    model = MetricClassifier(random_state=0).fit(X, y)
    new = overlapping(300, seed=1)[0]
    found = model.novelty(new)
    assert found.min() >= 0
    assert 0.35 < found.mean() < 0.65
    assert np.mean(found == 1) < 0.05
    far = np.array([[100.0, 100.0, 100.0], [0.0, 50.0, 0.0], [-30.0, 0.0, 30.0]])
    np.testing.assert_array_equal(model.novelty(far), 1)


def test_the_map_alone_would_not_tell():
    X, y = overlapping(300)
    model = MetricClassifier(random_state=0).fit(X, y)
    far = model.transform(np.full((1, 3), 1000.0))
    nearest = mean_of_nearest(model.transform(X), far, model.committee_[0].candidate.n_neighbors)
    assert nearest < model.novelty_.in_map[-1]


def test_tables_files_and_pickles_keep_it(tmp_path):
    X, y = overlapping(80)
    table = pandas.DataFrame(X, columns=list("abc")).assign(kind=np.where(y, "u", "v"))
    table.loc[::7, "a"] = np.nan
    model = MetricClassifier(random_state=0).fit(table, y)
    strange = table[:5].assign(b=1e3)
    np.testing.assert_array_equal(model.novelty(strange), 1)
    outmetric.save(model, tmp_path / "model")
    for again in (outmetric.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.novelty(table), model.novelty(table))
        assert again.left_out_ == model.left_out_
        assert again.summary() == model.summary()


def test_models_that_do_not_know_say_so():
    old = outmetric.load(REFERENCE / "format-1.outmetric")
    old = getattr(old, "estimator", old)
    with pytest.raises(ValueError, match="saved by an earlier version"):
        old.novelty(pandas.DataFrame(columns=old.feature_names_in_))
    assert "maps vote" in old.summary()


def test_rows_that_are_too_few_know_nothing_of_novelty():
    X, y = overlapping(40)
    model = MetricClassifier(random_state=0).fit(X, y)
    best = model.committee_[0].candidate
    model.novelty_ = Novelty.learn(best.unfitted(), model.best_estimator_, X[:2], y[:2], 1)
    with pytest.raises(ValueError, match="or they are too few"):
        model.novelty(X)


def test_neighbours_and_distances_are_those_of_the_best_map():
    X, y = overlapping(60)
    model = MetricClassifier(random_state=0).fit(X, y)
    new = overlapping(7, seed=1)[0]
    places, known = model.transform(new), model.transform(X)
    distances = np.sqrt(((places[:, None] - known[None]) ** 2).sum(axis=2))
    found, rows = model.kneighbors(new, 4)
    np.testing.assert_allclose(found, np.sort(distances, axis=1)[:, :4], atol=1e-7)
    np.testing.assert_array_equal(rows, np.argsort(distances, axis=1)[:, :4])
    assert model.kneighbors(new, return_distance=False).shape == (7, model.committee_[0].candidate.n_neighbors)
    assert (model.kneighbors(n_neighbors=1)[1][:, 0] != np.arange(60)).all()
    pairs = np.stack([new, X[:7]], axis=1)
    expected = distances[np.arange(7), np.arange(7)]
    np.testing.assert_allclose(model.pair_distance(pairs), expected)
    np.testing.assert_allclose(model.pair_score(pairs), -expected)
    metric = pickle.loads(pickle.dumps(model.get_metric()))
    assert metric(new[0], X[0]) == pytest.approx(expected[0])
    assert metric(new[0], X[0], squared=True) == pytest.approx(expected[0] ** 2)
    with pytest.raises(ValueError, match=r"must have the shape \(n_pairs, 2, 3\)"):
        model.pair_distance(new)


def test_neighbours_and_distances_of_tables():
    X, y = overlapping(60)
    table = pandas.DataFrame(X, columns=list("abc")).assign(kind=np.where(y, "u", "v"))
    model = MetricClassifier(random_state=0).fit(table, y)
    expected = np.linalg.norm(model.transform(table[:1]) - model.transform(table[1:2]))
    rows = table.astype(object).to_numpy()
    assert model.pair_distance([[rows[0], rows[1]]])[0] == pytest.approx(expected)
    assert model.get_metric()(table[:1], table[1:2]) == pytest.approx(expected)
    assert model.get_metric()(rows[0], rows[1]) == pytest.approx(expected)
    assert model.kneighbors(table[:3], 1)[0].ravel() == pytest.approx(0, abs=1e-7)


def test_the_accuracy_is_told_beside_the_log_likelihood():
    X, y = overlapping(100)
    model = MetricClassifier(random_state=0).fit(X, y)
    best = model.committee_[0].candidate
    folds = classifier.stratified_folds(y, np.random.RandomState(0))
    right = [
        np.mean(_voted(clone(best.pipeline).set_params(**best.params), X, y, *fold, best.n_neighbors) == y[fold[1]])
        for fold in folds
    ]
    assert best.scores["accuracy"] == pytest.approx(np.mean(right))
    assert f"accuracy {best.scores['accuracy']:.4g}" in model.summary()


def _voted(pipeline, X, y, train, test, count):
    places = pipeline.fit(X[train], y[train]).transform(X)
    distances = np.sqrt(((places[test][:, None] - places[train][None]) ** 2).sum(axis=2))
    return y[train][np.argsort(distances, axis=1)[:, :count]].mean(axis=1) > 0.5

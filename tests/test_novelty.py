"""Are rows that are far from all training data told, and what is near in the best map?"""

import pickle
from pathlib import Path

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold

import outmetric
from outmetric import MetricClassifier, MetricRegressor
from outmetric.automatic import screening
from outmetric.automatic.base import NEIGHBOURS
from outmetric.automatic.goals import ClassGoal
from outmetric.choosing import Novelty

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
        own[0, test] = mean_of_nearest(pipeline.transform(X[train]), pipeline.transform(X[test]), NEIGHBOURS)
        centre, spread = X[train].mean(axis=0), X[train].std(axis=0)
        own[1, test] = mean_of_nearest((X[train] - centre) / spread, (X[test] - centre) / spread, NEIGHBOURS)
    np.testing.assert_allclose(model.novelty_.in_map, np.sort(own[0]), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.novelty_.in_features, np.sort(own[1]), rtol=1e-10)
    new = overlapping(30, seed=1)[0]
    features = mean_of_nearest(scaled, (new - X.mean(axis=0)) / X.std(axis=0), NEIGHBOURS)
    places = mean_of_nearest(model.transform(X), model.transform(new), NEIGHBOURS)
    larger = np.maximum(
        [np.mean(model.novelty_.in_map < one) for one in places], [np.mean(model.novelty_.in_features < one) for one in features]
    )
    np.testing.assert_allclose(model.novelty(new), [np.mean(model.novelty_.larger < one) for one in larger])


@pytest.mark.parametrize("scaling", ["standard", "quantile"])
def test_rows_far_from_all_others_are_told_and_others_are_not(monkeypatch, scaling):
    monkeypatch.setattr(screening, "SCALINGS", (scaling,))
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
    nearest = mean_of_nearest(model.transform(X), far, NEIGHBOURS)
    assert nearest < model.novelty_.in_map[-1]


def test_a_regressor_tells_too(tmp_path):
    X, _ = overlapping(120)
    model = MetricRegressor(random_state=0).fit(X, X @ [1.0, -2.0, 0.5])
    found = model.novelty(overlapping(120, seed=1)[0])
    assert 0.35 < found.mean() < 0.65
    np.testing.assert_array_equal(model.novelty(np.array([[100.0, 100.0, 100.0], [0.0, 50.0, 0.0]])), 1)
    outmetric.save(model, tmp_path / "model")
    np.testing.assert_array_equal(outmetric.load(tmp_path / "model").novelty(X), model.novelty(X))
    assert model.kneighbors(X, 1)[1].ravel().tolist() == list(range(120))


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
    assert model.kneighbors(new, return_distance=False).shape == (7, NEIGHBOURS)
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
    rng = np.random.RandomState(0)
    rng.randint(2**31)  # the seed of landmarks and forests
    named = np.empty(100)
    for train, test in ClassGoal(y, 2).folds(rng):
        # Scaled by all rows, whose targets play no part in it.
        metric = clone(best.pipeline[-1]).fit(model.best_estimator_[0].transform(X[train]), y[train])
        places = metric.transform(model.best_estimator_[0].transform(X[test]))
        named[test] = np.linalg.norm(places[:, None] - metric.prototypes_, axis=2).argmin(axis=1)
    assert best.scores["accuracy"] == pytest.approx(np.mean(named == y))
    assert f"accuracy {best.scores['accuracy']:.4g}" in model.summary()

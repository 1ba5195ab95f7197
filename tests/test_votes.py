"""Do votes predict and score as scikit-learn's neighbours do?"""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from outmetric import LearnedKernelMetric
from outmetric.choosing import AverageVote, Scoring
from outmetric.choosing.votes import ClassVote, counted_votes, neighbour_averages, neighbour_votes, score_function

RNG = np.random.default_rng(0)
COUNTS = np.array([1, 4, 11])
MAPS = RNG.normal(size=(3, 60, 2))
ROWS = np.arange(60)
VOTERS, ASKED = ROWS[:40], ROWS[40:]


@pytest.mark.parametrize("width", [1, 2])
def test_averages_are_those_of_scikit_learn(width, monkeypatch):
    monkeypatch.setattr("outmetric.choosing.votes.DISTANCES", 40 * 7)
    targets = RNG.normal(size=(60, width))
    found = AverageVote(COUNTS, targets).scores(MAPS[:, :40], VOTERS, MAPS[:, 40:], ASKED, None)
    for row, points in zip(found, MAPS, strict=True):
        for score, count in zip(row, COUNTS, strict=True):
            predicted = KNeighborsRegressor(count).fit(points[:40], targets[:40]).predict(points[40:])
            assert score == pytest.approx(-mean_squared_error(targets[40:], predicted))


def test_classes_are_those_of_scikit_learn():
    labels, classes = RNG.integers(3, size=60), np.array(["a", "b", "c"])
    vote = ClassVote(COUNTS, labels, classes, score_function("accuracy", classes))
    found = vote.scores(MAPS[:, :40], VOTERS, MAPS[:, 40:], ASKED, None)
    for row, points in zip(found, MAPS, strict=True):
        for score, count in zip(row, COUNTS, strict=True):
            assert score == KNeighborsClassifier(count).fit(points[:40], labels[:40]).score(points[40:], labels[40:])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 5, 300])
def test_neighbours_are_the_nearest(n, dtype):
    """Also of points far from the origin, beside a formula without any shortcut."""
    rng = np.random.default_rng(n)
    train, new = (1000 + rng.normal(size=(2, rows, 3)).astype(dtype) for rows in (n, 40))
    counts = np.array([min(7, n), 1])
    values = rng.normal(size=(n, 2))
    distances = np.linalg.norm(new[:, :, None].astype(float) - train[:, None].astype(float), axis=3)
    nearest = np.argsort(distances, axis=2)
    expected = np.stack([values[nearest[:, :, :count]].mean(axis=2) for count in counts], axis=1)
    np.testing.assert_allclose(neighbour_averages(train, values, new, counts), expected, atol=1e-12)


def test_of_points_at_the_same_distance_the_first_vote():
    labels = np.array([2, 0, 1, 1])
    votes = neighbour_votes(np.zeros((1, 4, 2)), labels, np.ones((1, 3, 2)), np.array([1, 2]), 3)
    np.testing.assert_array_equal(votes[0, 0], [[0, 0, 1]] * 3)
    np.testing.assert_array_equal(votes[0, 1], [[1, 0, 1]] * 3)


@pytest.mark.parametrize("kind", ["classes", "averages"])
def test_some_of_the_rows(kind):
    labels, classes = RNG.integers(3, size=60), np.arange(3)
    whole = {
        "classes": ClassVote(COUNTS, labels, classes, score_function("neg_log_loss", classes)),
        "averages": AverageVote(COUNTS, labels[:, None].astype(float)),
    }[kind]
    rows = RNG.permutation(60)[:50]
    part = whole.of(rows)
    expected = whole.scores(MAPS[:, rows[:30]], rows[:30], MAPS[:, rows[30:]], rows[30:], None)
    np.testing.assert_allclose(
        part.scores(MAPS[:, rows[:30]], np.arange(30), MAPS[:, rows[30:]], np.arange(30, 50), None), expected
    )


def test_votes_are_counted():
    X, y = load_iris(return_X_y=True)
    voters = KNeighborsClassifier(7).fit(X[::2], y[::2])
    neighbours = voters.kneighbors(X[1::2], return_distance=False)
    expected = [np.bincount(y[::2][row], minlength=3) for row in neighbours]
    np.testing.assert_array_equal(counted_votes(voters, X[1::2]), expected)


def test_real_targets_are_scored_as_by_fits_of_their_own():
    X, y = load_diabetes(return_X_y=True)
    X, targets = X[:120], y[:120, None]
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))
    candidates = [
        {"learnedkernelmetric__bandwidth": width, "learnedkernelmetric__regression_weight": weight}
        for width in (2.0, "median")
        for weight in (0.1, 3.0)
    ]
    pipeline = make_pipeline(StandardScaler(), LearnedKernelMetric(collocation_weight=0.0, tol=1e-14))
    scoring = Scoring.plan(pipeline, candidates, folds, [3, 9], len(X), dimension=1)
    scoring.run(X, targets, AverageVote(scoring.neighbours, targets), n_jobs=None, advance=lambda: None)
    assert scoring.n_decompositions == 2 * 3
    expected = np.zeros((4, 2))
    for index, params in enumerate(candidates):
        for train, test in folds:
            pipeline.set_params(**params).fit(X[train], targets[train])
            for place, count in enumerate((3, 9)):
                voters = KNeighborsRegressor(count).fit(pipeline.transform(X[train]), targets[train])
                expected[index, place] -= mean_squared_error(targets[test], voters.predict(pipeline.transform(X[test]))) / 3
    np.testing.assert_allclose(scoring.table.means, expected.ravel(), rtol=1e-6)
    assert scoring.best_index() == expected.argmax()

"""Does the committee have those members that predict best together?"""

import numpy as np
import pytest
from sklearn.metrics import log_loss

from outmetric.automatic import selection
from outmetric.automatic.goals import ClassGoal, RealGoal
from outmetric.automatic.selection import Criterion, by_scorer, combine, select


def greedy_naively(predictions, truth, rows, steps):
    """Caruana's selection for squared errors, one loop at a time."""
    taken = []
    for _ in range(steps):
        losses = []
        for candidate in range(len(predictions)):
            mean = np.mean([predictions[one] for one in [*taken, candidate]], axis=0)
            losses.append(np.mean((mean[rows] - truth[rows]) ** 2))
        taken.append(int(np.argmin(losses)))
    return np.bincount(taken, minlength=len(predictions))


def test_it_is_greedy_on_resampled_rows(monkeypatch):
    rng = np.random.default_rng(0)
    goal = RealGoal.make(rng.normal(size=(40, 1)))
    predictions = goal.values + rng.normal(size=(6, 40, 1)) * np.array([1.0, 1.1, 1.2, 2.0, 3.0, 0.9])[:, None, None]
    monkeypatch.setattr(selection, "RESAMPLINGS", 3)
    found = select(goal.essence(predictions), goal.loss_of_essence, np.random.default_rng(5), 3)
    draws, expected = np.random.default_rng(5), np.zeros(6)
    for _ in range(3):
        expected += greedy_naively(predictions, goal.values, draws.integers(0, 40, 40), selection.STEPS)
    np.testing.assert_allclose(found, expected / expected.sum())


def test_errors_that_cancel_are_found():
    truth = np.linspace(-1, 1, 50)[:, None]
    goal = RealGoal.make(truth)
    error = np.sin(7 * truth)
    predictions = [truth + error, truth - error, truth + 0.5 * np.cos(5 * truth)]
    weights = Criterion(goal.essence, goal.loss_of_essence).weights(predictions, np.random.default_rng(0))
    assert weights.sum() == pytest.approx(1)
    assert goal.loss(combine(weights, predictions)) < 0.2 * min(goal.loss(one) for one in predictions)


def test_averages_of_essences_are_essences_of_averages():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 30)
    for goal, shape in ((ClassGoal(labels, 3), (4, 30, 3)), (RealGoal.make(rng.normal(size=(30, 2))), (4, 30, 2))):
        predictions = rng.dirichlet(np.ones(shape[2]), shape[:2])
        np.testing.assert_allclose(goal.essence(predictions.mean(axis=0)), goal.essence(predictions).mean(axis=0))
        rows = rng.integers(0, 30, 30)
        some = goal.of(rows)
        np.testing.assert_allclose(goal.loss_of_essence(goal.essence(predictions), rows), some.loss(predictions[:, rows]))
    probabilities = rng.dirichlet(np.ones(3), 30)
    assert ClassGoal(labels, 3).loss(probabilities) == pytest.approx(log_loss(labels, probabilities, labels=[0, 1, 2]))


def test_a_committee_of_many_rows_is_small(monkeypatch):
    rng = np.random.default_rng(0)
    goal = RealGoal.make(rng.normal(size=(100, 1)))
    predictions = goal.values + rng.normal(size=(30, 100, 1))
    sizes = {}
    for rows in (100, 99):
        monkeypatch.setattr(selection, "SMALL_ROWS", rows)
        sizes[rows] = np.count_nonzero(select(goal.essence(predictions), goal.loss_of_essence, np.random.default_rng(0)))
    assert sizes[99] == selection.MEMBERS
    assert selection.MEMBERS < sizes[100] <= selection.SMALL_MEMBERS


def test_a_scorer_is_asked_about_rows_on_which_it_is_defined():
    labels = np.array([0] * 29 + [1])
    asked = []

    def ask(found, rows):
        asked.append(set(labels[rows].tolist()))
        return -float(np.mean((found[:, 0] - labels[rows]) ** 2))

    predictions = [np.full((30, 1), level) for level in (0.0, 0.03, 0.5)]
    criterion = by_scorer(ask, lambda rows: len(set(labels[rows].tolist())) == 2, np.arange(len(labels)))
    weights = criterion.weights(predictions, np.random.default_rng(0))
    assert all(classes == {0, 1} for classes in asked)
    assert weights.argmax() == 1

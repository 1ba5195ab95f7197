"""Does a time budget hold, for the whole of a fit, and does the model tell what was left out?"""

import time

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.model_selection import KFold

from outmetric import LearnedKernelMetric, MetricClassifier, MetricRegressor
from outmetric.automatic import screening
from outmetric.choosing import Scoring, votes
from outmetric.foundation import Budget, progress
from outmetric.foundation.progress import now


class Clock:
    """Stands still unless it is moved."""

    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock(monkeypatch):
    moved = Clock()
    monkeypatch.setattr(progress, "clock", moved)
    return moved


@pytest.fixture
def work(clock, monkeypatch):
    """A function that makes scores and fits take time, by the number of rows or landmarks and a factor."""

    def take(factor):
        score, fit = screening.out_of_fold, LearnedKernelMetric.fit

        def slow_score(features, *others):
            clock.time += factor * 0.01 * len(features) * (features[0].values.shape[1] / 200) ** 2
            return score(features, *others)

        def slow_fit(self, X, y, sample_weight=None):
            size = min(self.n_landmarks or len(X), len(X))
            clock.time += factor * (0.01 * (size / 200) ** 2 + 1e-9 * len(X) * size**2)
            return fit(self, X, y, sample_weight)

        monkeypatch.setattr(screening, "out_of_fold", slow_score)
        monkeypatch.setattr(LearnedKernelMetric, "fit", slow_fit)

    return take


@pytest.fixture(scope="module")
def data():
    return make_classification(900, 4, n_informative=3, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0)


@pytest.fixture
def fewer_preparations(monkeypatch):
    """So that tests end before their readers do."""
    for name, value in {"KERNELS": ("exponential", "rbf"), "FORESTS": (), "ROUNDS": 1, "TRACKS": 2}.items():
        monkeypatch.setattr(screening, name, value)


def test_a_budget_counts_from_when_it_is_made(clock):
    budget = Budget(10)
    clock.time += 4
    assert (budget.spent, budget.left) == (4, 6)
    assert budget.allows(6)
    assert not budget.allows(6.1)
    kept = budget.keeping(5)
    assert kept.left == 1
    assert not kept.keeping(1).allows(0)
    clock.time += 7
    assert budget.left == -1
    assert not budget.allows(0)


def test_without_seconds_there_is_no_end(clock):
    budget = Budget().keeping(1e9)
    clock.time += 1e9
    assert budget.allows(1e300)
    assert not budget.limited


@pytest.mark.usefixtures("fewer_preparations")
@pytest.mark.parametrize("seconds", [0.3, 1, 3, 10, 30])
@pytest.mark.parametrize("factor", [1, 10])
def test_the_whole_fit_keeps_to_the_budget(clock, work, data, seconds, factor):
    work(factor)
    began = now()
    model = MetricClassifier(time_budget=seconds, random_state=0).fit(*data)
    assert now() - began <= 1.2 * seconds + 1
    assert model.fit_time_ == pytest.approx(now() - began)
    assert model.score(*data) > 0.6


@pytest.mark.usefixtures("fewer_preparations")
def test_what_was_left_out_is_told(clock, work, data):
    work(20)
    model = MetricClassifier(time_budget=3, random_state=0).fit(*data)
    found = "; ".join(model.left_out_)
    compared = len({(one.description["kernel"], one.description["scaling"]) for one in model.candidates_})
    assert 0 < compared < 4
    assert f"{4 - compared} of 4 kernels" in found
    landmarks = model.best_estimator_[-1].n_landmarks_
    assert f"maps are made of {landmarks} landmarks instead of all rows" in found
    told = " ".join(model.summary().split())
    assert f"left out for lack of time: {found}" in told


@pytest.mark.usefixtures("fewer_preparations")
def test_only_what_happens_is_told(clock, work, data):
    work(20)
    told = []
    model = MetricClassifier(time_budget=3, random_state=0, verbose=lambda *news: told.append(news)).fit(*data)
    *searched, committee = told
    names = {f"{one.description['kernel']}, {one.description['scaling']}" for one in model.candidates_}
    assert {text for _, _, text in searched} == names
    assert 0 < len(names) < 4
    assert "if there is time" in committee[2]


@pytest.mark.usefixtures("fewer_preparations")
def test_an_ample_budget_changes_nothing(clock, work, data):
    X, y = data[0][:300], data[1][:300]
    work(1)
    free = MetricClassifier(random_state=0).fit(X, y)
    ample = MetricClassifier(time_budget=1e6, random_state=0).fit(X, y)
    assert ample.left_out_ == free.left_out_ == []
    np.testing.assert_array_equal(ample.predict_proba(X), free.predict_proba(X))
    np.testing.assert_array_equal(ample.novelty(X), free.novelty(X))
    assert [one.score for one in ample.candidates_] == [one.score for one in free.candidates_]


def test_the_smallest_model(data):
    X, y = data
    one, two = (MetricClassifier(time_budget=1e-9, random_state=0).fit(X, y) for _ in range(2))
    assert len(one.committee_) == 1
    assert one.score(X, y) > 0.6
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    small = MetricRegressor(time_budget=1e-9, random_state=0).fit(X[:, 1:], X[:, 0])
    assert len(small.committee_) == 1


def test_a_machine_that_is_too_slow_is_told(clock, work, data):
    work(200)
    with pytest.warns(UserWarning, match=r"time_budget=1 s was not enough for the smallest model: it took \d+"):
        MetricClassifier(time_budget=1, random_state=0).fit(*data)


def test_data_that_suit_no_setting_are_told_at_once(clock, work):
    work(100)
    began = now()
    with pytest.raises(ValueError, match="all training points coincide"):
        MetricClassifier(time_budget=5, random_state=0).fit(np.ones((900, 3)), np.arange(900) % 3)
    assert now() - began <= 1


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize(("needed", "scored"), [(True, 1), (False, 0)])
def test_a_search_leaves_out_what_it_has_no_time_for(clock, data, n_jobs, needed, scored):
    X, y = data[0][:60], data[1][:60]
    grid = [{"bandwidth": width} for width in (0.5, 1.0, 2.0)]
    scoring = Scoring.plan(LearnedKernelMetric(), grid, list(KFold(3).split(X)), 3, len(y), n_classes=3)
    vote = votes.ClassVote(scoring.neighbours, y, np.arange(3), votes.score_function("accuracy", np.arange(3)))
    budget = Budget(1)
    clock.time += 2
    scoring.run(X, y, vote, n_jobs=n_jobs, budget=budget, needed=needed)
    assert scored <= np.isfinite(scoring.table.means).sum() < 3
    assert scoring.skipped == 9 - np.isfinite(scoring.table.columns.get("test_score", np.full(1, np.nan))).sum()


def test_in_real_time():
    X, y = make_classification(2500, 10, n_informative=5, n_classes=4, random_state=0)
    began = time.perf_counter()
    model = MetricClassifier(time_budget=0.5, random_state=0).fit(X, y)
    assert time.perf_counter() - began < 15  # it took a minute once; machines may be busy
    assert model.left_out_

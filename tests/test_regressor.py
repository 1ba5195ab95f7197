"""Does the settings-free regressor choose, predict, cover and explain as it says, on any table?"""

import pickle

import numpy as np
import pandas
import pytest
from conftest import FEW
from sklearn.base import clone
from sklearn.datasets import load_linnerud, make_friedman1
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import outmetric
from outmetric import MetricRegressor
from outmetric.automatic import screening
from outmetric.automatic.goals import RealGoal
from outmetric.automatic.regressor import conformal_quantile

QUICK = {"random_state": 0}
EVERYTHING = {name: getattr(screening, name) for name in FEW}
pytestmark = pytest.mark.usefixtures("one_preparation")


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(260, noise=0.5, random_state=0)
    return X[:140], y[:140], X[140:], y[140:]


@pytest.fixture(scope="module")
def fitted(friedman, one_preparation):
    X, y, _, _ = friedman
    return MetricRegressor(**QUICK).fit(X, y)


@pytest.mark.slow
def test_the_whole_search(friedman, monkeypatch):
    for name, value in EVERYTHING.items():
        monkeypatch.setattr(screening, name, value)
    X, y, X_new, y_new = friedman
    model = MetricRegressor(random_state=0).fit(X, y)
    assert model.score(X_new, y_new) > LinearRegression().fit(X, y).score(X_new, y_new) + 0.1
    assert any(candidate.description.get("n_rounds") for candidate in model.candidates_)
    assert any("forest" in candidate.description["kernel"] for candidate in model.candidates_)


def test_predictions_are_the_weighted_mean_of_the_members(fitted, friedman):
    _, y, X_new, y_new = friedman
    expected = np.zeros(len(y_new))
    for member in fitted.committee_:
        coordinates = member.pipeline.transform(X_new)
        stretched = y.mean() + member.slope * (coordinates - y.mean())
        own = stretched if member.voters is None else member.voters.predict(coordinates)
        expected += member.weight * np.ravel(own)
    np.testing.assert_allclose(fitted.predict(X_new), expected)
    residual = np.sum((y_new - expected) ** 2) / np.sum((y_new - y_new.mean()) ** 2)
    assert fitted.score(X_new, y_new) == pytest.approx(1 - residual)
    assert fitted.score(X_new, y_new) > 0.6


def test_a_member_that_is_read_by_itself_predicts_as_its_map(fitted, friedman):
    _, _, X_new, _ = friedman
    member = next(member for member in fitted.committee_ if member.voters is None)
    scaled = member.pipeline[:-1].transform(X_new)
    outputs = member.pipeline[-1].map(scaled)
    assert member.slope != 1
    stretched = friedman[1].mean() + member.slope * (outputs - friedman[1].mean())
    np.testing.assert_allclose(member.predictions(member.pipeline.transform(X_new)), stretched)


def test_several_targets():
    X, y = load_linnerud(return_X_y=True)
    model = MetricRegressor(**QUICK).fit(X, y)
    assert model.predict(X).shape == (20, 3)
    assert model.predict_interval(X).shape == (20, 3, 2)
    # Units of single targets do not matter.
    scaled = MetricRegressor(**QUICK).fit(X, y * [1, 1000, 0.01])
    np.testing.assert_allclose(scaled.predict(X), model.predict(X) * [1, 1000, 0.01], rtol=5e-3)  # ties fall by round-off
    one = MetricRegressor(**QUICK).fit(X, y[:, :1])
    assert one.predict(X).shape == (20, 1)
    np.testing.assert_allclose(one.predict(X)[:, 0], MetricRegressor(**QUICK).fit(X, y[:, 0]).predict(X))


def test_the_unit_and_origin_of_the_target_do_not_matter(fitted, friedman):
    X, y, X_new, _ = friedman
    other = MetricRegressor(**QUICK).fit(X, 1e6 * y - 3e7)
    np.testing.assert_allclose(other.predict(X_new), 1e6 * fitted.predict(X_new) - 3e7, rtol=1e-5)


def test_quantiles_are_conformal():
    sizes = np.arange(1.0, 20.0)[:, None]  # 19 of them: of 20 exchangeable ones 18 are at most the 18th
    assert conformal_quantile(sizes, 0.9) == 18
    assert conformal_quantile(sizes, 0.5) == 10
    assert conformal_quantile(sizes, 0.95) == 19
    assert conformal_quantile(sizes, 0.96) == np.inf


@pytest.mark.slow
def test_intervals_cover_what_they_promise():
    covered = {0.5: [], 0.9: []}
    for seed in range(6):
        X, y = make_friedman1(600, noise=1.0, random_state=seed)
        model = MetricRegressor(random_state=seed).fit(X[:100], y[:100])
        for coverage, found in covered.items():
            low, high = model.predict_interval(X[100:], coverage).T
            found.append(np.mean((low <= y[100:]) & (y[100:] <= high)))
    assert 0.86 <= np.mean(covered[0.9]) <= 0.96
    assert 0.42 <= np.mean(covered[0.5]) <= 0.62


def test_intervals_are_around_the_prediction(fitted, friedman):
    _, _, X_new, _ = friedman
    narrow, wide = fitted.predict_interval(X_new, 0.5), fitted.predict_interval(X_new, 0.9)
    np.testing.assert_allclose(narrow.mean(axis=1), fitted.predict(X_new))
    assert (wide[:, 0] < narrow[:, 0]).all()
    for coverage in (0, 1, 1.5, "x"):
        with pytest.raises(ValueError, match="coverage"):
            fitted.predict_interval(X_new, coverage)


def test_targets_that_are_permuted_are_not_learned(friedman):
    X, y, _, _ = friedman
    shuffled = np.random.default_rng(0).permutation(y)
    assert cross_val_score(MetricRegressor(**QUICK), X, shuffled, cv=3).mean() < 0.1


def test_another_score_may_decide():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X[:, 0] + rng.standard_cauchy(200)
    usual, robust = (
        MetricRegressor(scoring=scoring, **QUICK).fit(X, y) for scoring in ("neg_mean_squared_error", "neg_median_absolute_error")
    )
    assert [member.weight for member in usual.committee_] != [member.weight for member in robust.committee_]
    with pytest.raises(ValueError, match="nonsense"):
        MetricRegressor(scoring="nonsense", **QUICK).fit(X, y)


def test_weights_count_in_other_scores():
    """Two candidates, each exact on half of the rows: the one that is right where weight is has the say."""
    goal = RealGoal.make(np.arange(40.0)[:, None], np.where(np.arange(40) < 20, 9.0, 1.0))
    first, second = (goal.values + np.where((np.arange(40) < 20) == place, 3.0, 0.0)[:, None] for place in (False, True))
    model = MetricRegressor(scoring="neg_mean_absolute_error")
    weights = model._weights(goal, [second, first], np.random.default_rng(0))
    assert weights[1] > 0.9


def test_predictions_outside_of_a_scores_domain_are_not_chosen():
    rng = np.random.default_rng(0)
    goal = RealGoal.make(rng.poisson(1.0, size=(60, 1)).astype(float))
    fitting, negative = np.maximum(goal.values, 0.1), goal.values - 1.0
    model = MetricRegressor(scoring="neg_mean_poisson_deviance")
    np.testing.assert_array_equal(model._weights(goal, [negative, fitting], rng), [0.0, 1.0])
    with pytest.raises(ValueError, match="strictly positive"):
        model._weights(goal, [negative, negative], rng)


def test_a_scorer_that_does_not_suit_the_targets_is_told_before_the_search(monkeypatch):
    monkeypatch.setattr(screening.Screening, "run", lambda self: pytest.fail("searched"))
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(ValueError, match=r"strictly positive|non-negative"):
        MetricRegressor(scoring="neg_mean_gamma_deviance").fit(X, -np.exp(X[:, 0]))


def test_tables_with_categories_gaps_and_dates(friedman):
    X, y, _, _ = friedman
    frame = pandas.DataFrame(X, columns=[f"x{k}" for k in range(10)])
    frame["group"] = np.where(y > np.median(y), "high", "low")
    frame["day"] = pandas.date_range("2020-01-01", periods=len(y), freq="D")
    frame.loc[::7, "x3"] = np.nan
    model = MetricRegressor(**QUICK).fit(frame[:100], y[:100])
    assert model.score(frame[100:], y[100:]) > 0.5
    assert model.novelty(frame[:5]).shape == (5,)
    assert model.kneighbors(frame[:3], 4, return_distance=False).shape == (3, 4)


def test_it_keeps_its_word_in_files(fitted, friedman, tmp_path):
    _, _, X_new, _ = friedman
    outmetric.save(fitted, tmp_path / "model")
    again = outmetric.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X_new), fitted.predict(X_new))
    np.testing.assert_array_equal(again.predict_interval(X_new), fitted.predict_interval(X_new))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(X_new), fitted.predict(X_new))


def test_it_tells_what_it_chose(fitted):
    text = fitted.summary()
    assert "a regressor, by learned maps" in text
    assert "R2" in text
    assert f"{len(fitted.committee_)} maps vote" in text


def test_the_random_state_decides_everything(friedman, fitted):
    X, y, X_new, _ = friedman
    np.random.seed(5)  # noqa: NPY002
    np.testing.assert_array_equal(clone(fitted).fit(X, y).predict(X_new), fitted.predict(X_new))
    np.testing.assert_array_equal(MetricRegressor(n_jobs=2, **QUICK).fit(X, y).predict(X_new), fitted.predict(X_new))


def test_an_interrupted_fit_can_be_finished(friedman):
    X, y, X_new, y_new = friedman

    def interrupt(done, total, text):
        if text.startswith("fitting"):
            raise KeyboardInterrupt

    model = MetricRegressor(verbose=interrupt, **QUICK)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X_new)
    model.set_params(verbose=False).finish(X, y)
    assert model.score(X_new, y_new) > 0.6


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.eye(4), [1.0, 1.0, 1.0, 1.0], "y is constant"),
        (np.eye(4), ["a", "b", "a", "b"], "learns real targets, and y holds such as 'a'; for classes, take MetricClassifier"),
        (np.eye(4), [1.0, np.nan, 2.0, 3.0], r"The first is y\[1\]"),
        (np.eye(4), None, "requires y"),
        (np.ones((8, 2)), np.arange(8.0), "all training points coincide"),
        (np.eye(4), np.arange(3.0), "inconsistent numbers of samples"),
        (np.array([[1.0], [np.inf], [2.0], [3.0]]), np.arange(4.0), "infinity"),
        (np.eye(4), [1e200, 1.0, 2.0, 3.0], "squares overflow"),
    ],
)
def test_bad_input(X, y, message):
    with pytest.raises(ValueError, match=message):
        MetricRegressor(**QUICK).fit(X, y)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_scales_of_features(friedman, fitted, scale):
    X, y, X_new, _ = friedman
    found = MetricRegressor(**QUICK).fit(X * scale, y).predict(X_new * scale)
    np.testing.assert_allclose(found, fitted.predict(X_new), rtol=1e-3)


def choosing_by_folds(estimator):
    """Repeated rows are divided among folds, weights are not (tests/test_weights.py has what holds)."""
    names = [f"check_sample_weight_equivalence_on_{form}_data" for form in ("dense", "sparse")]
    return dict.fromkeys(names, "a repeated row may be on both sides of a fold")


@parametrize_with_checks([MetricRegressor(**QUICK)], expected_failed_checks=choosing_by_folds)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_scikit_learns_checks(estimator, check):
    check(estimator)

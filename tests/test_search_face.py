"""Does the search take what GridSearchCV takes, and tell what it tells?"""

import functools
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sklearn
from peers import FitsOnce
from sklearn.datasets import load_wine
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.metrics import accuracy_score, f1_score, get_scorer, make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import outmetric
from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricSearchCV
from outmetric.baselines import LMNN
from outmetric.choosing import evaluation

NEIGHBOURS = [1, 3, 8]
X, Y = load_wine(return_X_y=True)
X, Y = StandardScaler().fit_transform(X)[::2], Y[::2]
FITTED = FitsOnce()
GROUPS = np.arange(len(Y)) % 6
GRID = {"bandwidth": [2.0, "median"], "regression_weight": [0.3, 30.0]}


class SmoothedVotes(KNeighborsClassifier):
    """An independent statement of the probabilities."""

    def predict_proba(self, X):
        votes = super().predict_proba(X) * self.n_neighbors
        return (votes + 0.5) / (self.n_neighbors + len(self.classes_) / 2)


def search(grid=GRID, estimator=None, **settings):
    return MetricSearchCV(estimator or LearnedKernelMetric(), grid, **{"n_neighbors": NEIGHBOURS, "cv": 3, **settings})


def peer(grid=GRID, estimator=None, **settings):
    """GridSearchCV with rows in our order."""
    estimator = estimator or LearnedKernelMetric()
    steps = estimator.steps if isinstance(estimator, Pipeline) else [("metric", estimator)]
    prefix = "" if isinstance(estimator, Pipeline) else "metric__"
    named = {**{prefix + name: values for name, values in grid.items()}, "vote__n_neighbors": NEIGHBOURS}
    return GridSearchCV(Pipeline([*steps, ("vote", SmoothedVotes())], memory=FITTED), named, **{"cv": 3, **settings})


def scores(found):
    """Its scores, ranks left out: scikit-learn does not take nearly equal scores for equal."""
    return {name: values for name, values in found.cv_results_.items() if "_test_" in name or "_train_" in name}


def assert_equal_scores(ours, theirs):
    mine, others = scores(ours), scores(theirs)
    assert mine.keys() == others.keys()
    for name in [name for name in mine if not name.startswith("rank")]:
        np.testing.assert_allclose(mine[name], others[name], rtol=0, atol=1e-9, err_msg=name)


def test_several_metrics_and_training_scores_are_those_of_grid_search():
    scoring = ["accuracy", "neg_log_loss", "f1_macro"]
    ours = search(scoring=scoring, refit="accuracy", return_train_score=True).fit(X, Y)
    theirs = peer(scoring=scoring, refit="accuracy", return_train_score=True).fit(X, Y)
    assert_equal_scores(ours, theirs)
    assert ours.multimetric_
    assert set(ours.scorer_) == set(theirs.scorer_)
    assert ours.best_score_ == pytest.approx(theirs.best_score_)
    assert ours.best_score_ == ours.cv_results_["mean_test_accuracy"].max()
    assert ours.score(X, Y) == accuracy_score(Y, ours.predict(X))
    by_name = search(scoring={"hits": "accuracy", "F": make_scorer(f1_score, average="macro")}, refit="F").fit(X, Y)
    np.testing.assert_allclose(by_name.cv_results_["mean_test_F"], ours.cv_results_["mean_test_f1_macro"])
    np.testing.assert_array_equal(by_name.cv_results_["mean_test_hits"], ours.cv_results_["mean_test_accuracy"])
    assert by_name.score(X, Y) == f1_score(Y, by_name.predict(X), average="macro")


def test_training_scores_of_single_metrics_and_fits_of_their_own():
    for grid, estimator in [({"solver": ["dense"]}, LearnedKernelMetric()), ({"n_components": [2]}, LMNN())]:
        settings = {"scoring": "accuracy", "return_train_score": True}
        assert_equal_scores(search(grid, estimator, **settings).fit(X, Y), peer(grid, estimator, **settings).fit(X, Y))


def test_training_scores_with_landmarks():
    settings = {"return_train_score": True, "refit": False, "scoring": ["accuracy", "neg_log_loss"]}
    exact = search(**settings).fit(X, Y)
    ours = search(estimator=LearnedKernelMetric(n_landmarks=len(X)), **settings).fit(X, Y)
    assert scores(ours).keys() == scores(exact).keys()
    assert np.abs(ours.cv_results_["mean_train_neg_log_loss"] - exact.cv_results_["mean_train_neg_log_loss"]).max() < 0.2
    assert (ours.cv_results_["mean_train_accuracy"][::3] == 1).all()  # each point is its own first neighbour


def both(estimator, X, y):
    guess = estimator.predict(X)
    return {"accuracy": accuracy_score(y, guess), "f1": f1_score(y, guess, average="macro")}


def test_a_function_may_return_several_metrics():
    ours = search(scoring=both, refit="f1").fit(X, Y)
    assert_equal_scores(ours, peer(scoring=both, refit="f1").fit(X, Y))
    assert ours.multimetric_
    assert ours.best_score_ == ours.cv_results_["mean_test_f1"].max()
    assert ours.score(X, Y) == both(ours, X, Y)["f1"]
    for refit in (True, "recall"):
        with pytest.raises(ValueError, match=r"refit must be one of them \(accuracy, f1\)"):
            search(scoring=both, refit=refit).fit(X, Y)
    with pytest.raises(ValueError, match="is not the metric"):
        search(scoring=lambda estimator, X, y: 1.0, refit="f1").fit(X, Y)


def worst(results):
    return int(np.argmin(results["mean_test_score"]))


def test_a_function_may_choose():
    ours = search(refit=worst).fit(X, Y)
    assert ours.best_index_ == np.argmin(ours.cv_results_["mean_test_score"])
    assert ours.best_params_ == ours.cv_results_["params"][ours.best_index_]
    assert ours.best_estimator_.regression_weight == ours.best_params_["regression_weight"]
    assert not hasattr(ours, "best_score_")  # as in GridSearchCV
    several = search(scoring=["accuracy", "f1_macro"], refit=lambda results: 5).fit(X, Y)
    assert several.best_index_ == 5
    assert several.n_neighbors_ == several.best_params_["n_neighbors"] == 8
    with pytest.raises(ValueError, match="score takes one metric"):
        several.score(X, Y)
    with pytest.raises(TypeError, match="must return an integer"):
        search(refit=lambda results: 1.5).fit(X, Y)
    for row in (-1, 12):
        with pytest.raises(IndexError, match="rows 0 to 11"):
            search(refit=lambda results, row=row: row).fit(X, Y)


def test_a_function_may_choose_among_fits_with_landmarks():
    ours = search(estimator=LearnedKernelMetric(n_landmarks=40, random_state=0), refit=worst).fit(X, Y)
    anew = LearnedKernelMetric(n_landmarks=40, random_state=0, **{name: ours.best_params_[name] for name in GRID}).fit(X, Y)
    np.testing.assert_allclose(ours.transform(X), anew.transform(X), atol=1e-9)


def test_of_several_metrics_the_one_that_decides_is_shown():
    ours = search(scoring=["accuracy", "f1_macro"], refit="f1_macro").fit(X, Y)
    assert "f1_macro, mean ± standard deviation over folds" in ours.summary()


def test_without_refit_several_metrics_have_no_best():
    ours = search(scoring=["accuracy", "f1_macro"], refit=False).fit(X, Y)
    for name in ("best_index_", "best_params_", "best_score_", "best_estimator_", "n_neighbors_"):
        assert not hasattr(ours, name)
    assert "no best candidate: none of the metrics decides" in ours.summary()
    single = search(refit=False).fit(X, Y)
    assert single.best_params_ == single.cv_results_["params"][single.best_index_]
    assert not single.multimetric_


@pytest.mark.parametrize("name", ["predict", "predict_proba", "predict_log_proba", "transform", "get_feature_names_out"])
def test_methods_that_need_a_model_are_not_there_without(name):
    assert hasattr(search(), name)
    for one in (search(refit=False), search(refit=False).fit(X, Y)):
        assert not hasattr(one, name)
        with pytest.raises(NotFittedError, match="refit=False"):
            getattr(one, name)
    with pytest.raises(NotFittedError, match="no model"):
        search(refit=False).fit(X, Y).score(X, Y)


def test_output_can_be_frames():
    ours = search().set_output(transform="pandas").fit(X, Y)
    assert list(ours.transform(X).columns) == list(ours.get_feature_names_out())


@pytest.mark.parametrize(
    "scoring", [None, "accuracy", "neg_log_loss", "f1_macro", lambda estimator, X, y: estimator.predict(X).sum()]
)
def test_score_is_that_of_scoring(scoring):
    ours = search({}, scoring=scoring).fit(X, Y)
    scorer = scoring if callable(scoring) else get_scorer(scoring or "accuracy")
    assert ours.score(X, Y) == pytest.approx(scorer(ours, X, Y))
    assert not ours.multimetric_
    assert ours.scorer_(ours, X, Y) == ours.score(X, Y)
    assert not hasattr(search({}), "scorer_")


def test_score_takes_weights():
    ours = search({}, scoring="accuracy").fit(X, Y)
    weights = np.where(ours.predict(X) == Y, 0.0, 1.0) + (np.arange(len(Y)) == 0)
    assert ours.score(X, Y, sample_weight=weights) == accuracy_score(Y, ours.predict(X), sample_weight=weights)


def test_logarithms_of_probabilities():
    ours = search({}).fit(X, Y)
    np.testing.assert_allclose(np.exp(ours.predict_log_proba(X)), ours.predict_proba(X))


def test_columns_have_the_types_of_grid_search():
    grids = {
        "regression_weight": [1, 2.5],
        "bandwidth": [2.0, "median"],
        "max_iter": [500, 600],
        "n_components": [None, 2],
    }
    ours, theirs = search(grids, refit=False).fit(X, Y), peer(grids, refit=False, scoring="neg_log_loss").fit(X, Y)
    for name in grids:
        mine, others = ours.cv_results_[f"param_{name}"], theirs.cv_results_[f"param_metric__{name}"]
        assert mine.dtype == others.dtype
        assert set(mine.tolist()) == set(others.tolist())
    assert ours.cv_results_["param_n_neighbors"].dtype.kind == "i"
    apart = search([{"regression_weight": [1.0]}, {"bandwidth": [2.0]}, {"prototypes": ["simplex"]}], refit=False).fit(X, Y)
    assert apart.cv_results_["param_bandwidth"].dtype == np.float64
    np.testing.assert_array_equal(apart.cv_results_["param_bandwidth"].mask, np.repeat([True, False, True], 3))


INVALID = {
    "bandwidth": [-1.0, 0.0, "wide", np.nan, [1.0, -1.0]],
    "regression_weight": [-1.0, 0, "large", None, np.nan],
    "collocation_weight": [-1.0, "none"],
    "output_penalty": [-1.0, "big"],
    "similarity": ["rank", 7, np.eye(3)],
    "kernel": ["gauss", 3, len],
    "n_components": [0, 10_000, 1.5, "two"],
    "prototypes": ["circle", np.eye(2), 5],
    "solver": ["best"],
    "n_landmarks": [-3, 0],
    "landmarks": ["far", 7],
    "max_iter": [0],
    "tol": [-1.0],
}


METRICS = {"exact": LearnedKernelMetric(), "landmarks": LearnedKernelMetric(n_landmarks=30, random_state=0)}


@functools.cache
def sound_candidates(kind):
    """Scores and the best of two candidates without a third that is invalid."""
    alone = search([{}, {"regression_weight": [0.01]}], sklearn.clone(METRICS[kind]), n_neighbors=[3], cv=2).fit(X, Y)
    return alone.cv_results_["mean_test_score"], alone.best_index_


@pytest.mark.parametrize("kind", METRICS)
@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in INVALID.items() for value in values], ids=repr)
def test_an_invalid_candidate_costs_no_other(name, value, kind):
    """It comes first, and shares its group with a sound one wherever it can."""
    grids = [{name: [value]}, {}, {"regression_weight": [0.01]}]
    ours = search(grids, sklearn.clone(METRICS[kind]), n_neighbors=[3], cv=2)
    with pytest.warns(FitFailedWarning, match="1 candidates were not scored; the first failure: ..."):
        ours.fit(X, Y)
    found = ours.cv_results_["mean_test_score"]
    assert np.isnan(found[0])
    scores, best = sound_candidates(kind)
    np.testing.assert_allclose(found[1:], scores)
    assert ours.best_index_ == 1 + best
    assert ours.cv_results_["rank_test_score"][0] == 3


def test_an_invalid_penalty_of_the_other_model():
    with pytest.warns(FitFailedWarning, match="metric_ridge"):
        ours = search({"metric_ridge": [-1.0, 1.0]}, FixedKernelMetric(), n_neighbors=3).fit(X, Y)
    np.testing.assert_array_equal(np.isfinite(ours.cv_results_["mean_test_score"]), [False, True])


@pytest.mark.parametrize("value", [0.0, -5.0])
def test_the_score_of_a_failure_can_be_a_number(value):
    ours = search({"regression_weight": [-1.0, 3.0]}, error_score=value, n_neighbors=3, scoring="accuracy")
    with pytest.warns(FitFailedWarning, match=rf"1 candidates were given error_score={value} where they failed.*> 0"):
        ours.fit(X, Y)
    assert [ours.cv_results_[f"split{fold}_test_score"][0] for fold in range(3)] == [value] * 3
    assert ours.best_params_["regression_weight"] == 3.0
    with pytest.raises(ValueError, match="no candidate could be scored"):
        search({"regression_weight": [-1.0]}, error_score=value).fit(X, Y)


def test_a_failure_can_end_the_search():
    with pytest.raises(ValueError, match=r"^regression_weight must be a finite number > 0"):
        search({"regression_weight": [3.0, -1.0]}, error_score="raise").fit(X, Y)
    with pytest.raises(RuntimeError, match="no score today"):
        search(scoring=refusing(RuntimeError("no score today")), error_score="raise").fit(X, Y)
    scoring = {"a": "accuracy", "b": refusing(RuntimeError("no score today"))}
    with pytest.raises(RuntimeError, match="no score today"):
        search(scoring=scoring, refit="a", error_score="raise").fit(X, Y)


def refusing(error, score=1.0):
    """A scorer that fails, or returns a value, where the first neighbour alone votes: then probabilities are those of one vote."""

    def scorer(estimator, X, y):
        if estimator.predict_proba(X).max() < 0.65:
            if isinstance(error, Exception):
                raise error
            return error
        return score

    return scorer


ONE_VOTE = np.array([True, False, False] * 4)  # (1 + 1/2) / (1 + 3/2) = 0.6; with three votes 3.5 / 4.5


def test_a_scorer_that_says_nan_is_told():
    ours = search(scoring=refusing(np.nan))
    with pytest.warns(UserWarning, match="4 candidates have a test_score that is not finite") as told:
        ours.fit(X, Y)
    assert not [one for one in told if one.category is FitFailedWarning]
    np.testing.assert_array_equal(np.isnan(ours.cv_results_["mean_test_score"]), ONE_VOTE)
    assert ours.n_neighbors_ != 1
    with pytest.raises(ValueError, match="no candidate could be scored; the first failure: a score is not finite"):
        search(scoring=lambda estimator, X, y: np.nan).fit(X, Y)


@pytest.mark.parametrize("error_score", [np.nan, -7.0])
def test_a_scorer_that_fails_costs_no_other_candidate(error_score):
    ours = search(scoring=refusing(RuntimeError("no score today")), error_score=error_score)
    with pytest.warns(FitFailedWarning, match=r"4 candidates.*scoring failed: RuntimeError\('no score today'\)"):
        ours.fit(X, Y)
    np.testing.assert_array_equal(ours.cv_results_["mean_test_score"], np.where(ONE_VOTE, error_score, 1.0))
    both = {"good": "accuracy", "bad": refusing(RuntimeError("no score today"))}
    several = search(scoring=both, refit="good", error_score=error_score)
    with pytest.warns(FitFailedWarning, match="no score today"):
        several.fit(X, Y)
    np.testing.assert_array_equal(several.cv_results_["mean_test_bad"], np.where(ONE_VOTE, error_score, 1.0))
    plain = search(scoring="accuracy").fit(X, Y)
    np.testing.assert_array_equal(several.cv_results_["mean_test_good"], plain.cv_results_["mean_test_score"])


def test_a_score_must_be_a_number():
    with pytest.raises(ValueError, match="scoring must return a number"):
        search(scoring=lambda estimator, X, y: [1.0, 2.0]).fit(X, Y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_iter": 1.5}, "n_iter must be None or an integer >= 1"),
        ({"n_iter": 0}, "n_iter must be None or an integer >= 1"),
        ({"verbose": "a"}, "verbose must be True, False, a number >= 0 or a function, not 'a'"),
        ({"verbose": -1}, "verbose must be"),
        ({"cv": iter([])}, "gives no splits"),
        ({"grid": []}, "holds no candidates"),
        ({"refit": 3}, "refit must be True, False, the name of a metric or a function"),
        ({"refit": None}, "refit must be"),
        ({"refit": "accuracy"}, "refit='accuracy' is not the metric that scoring='neg_log_loss' asks for"),
        ({"scoring": ["accuracy", "f1_macro"]}, r"refit must be one of them \(accuracy, f1_macro\).*not True"),
        ({"scoring": ["accuracy", "f1_macro"], "refit": "recall"}, "not 'recall'"),
        ({"scoring": []}, "mpty list"),
        ({"scoring": ["accuracy", "accuracy"], "refit": False}, "uplicate"),
        ({"scoring": accuracy_score}, "looks like it is a metric function"),
        ({"error_score": "nan"}, "error_score must be a number or 'raise'"),
        ({"error_score": True}, "error_score must be"),
        ({"return_train_score": "yes"}, "return_train_score must be True or False"),
    ],
)
def test_what_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        search(**change).fit(X, Y)


@pytest.mark.parametrize(
    "settings", [{"scoring": "accuracy", "refit": "accuracy"}, {"refit": "score"}, {"verbose": 0}, {"n_iter": 2}]
)
def test_what_is_taken(settings):
    assert search(**settings).fit(X, Y).predict(X).shape == Y.shape


def test_how_long_the_last_fit_took_is_told():
    fitted = search().fit(X, Y)
    assert 0 < fitted.refit_time_ < 600
    assert f"the best, on all samples, in {fitted.refit_time_:.2g} s" in fitted.summary()
    assert not hasattr(search(refit=False).fit(X, Y), "refit_time_")


def test_a_pipeline_may_be_the_metric_alone():
    grid = {"regression_weight": [0.3, 3.0]}
    alone = search(grid, LearnedKernelMetric()).fit(X, Y)
    piped = search({f"metric__{name}": values for name, values in grid.items()}, Pipeline([("metric", LearnedKernelMetric())]))
    np.testing.assert_array_equal(piped.fit(X, Y).cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_groups_are_routed(routing):
    """The outer and the inner splitter both keep groups together."""
    found = [
        cross_validate(
            one(scoring="accuracy", cv=GroupKFold(3)), X, Y, cv=GroupKFold(2), params={"groups": GROUPS}, return_estimator=True
        )
        for one in (search, peer)
    ]
    for ours, theirs in zip(*(one["estimator"] for one in found), strict=True):
        assert_equal_scores(ours, theirs)
    direct = search(scoring="accuracy", cv=GroupKFold(3)).fit(X, Y, groups=GROUPS)
    assert_equal_scores(direct, peer(scoring="accuracy", cv=GroupKFold(3)).fit(X, Y, groups=GROUPS))
    with pytest.raises(TypeError, match="unexpected argument"):
        search().fit(X, Y, groups=GROUPS)  # stratified folds know no groups


def weighted(estimator):
    weights = np.where(Y == 0, 50.0, 1.0)
    grid = {"metric__regression_weight": [0.3, 3.0]}
    return weights, grid, Pipeline([("scale", StandardScaler()), ("metric", estimator)])


@pytest.mark.parametrize("estimator", [LearnedKernelMetric(), LearnedKernelMetric(solver="dense")], ids=["shared", "alone"])
def test_steps_get_their_arguments(estimator):
    weights, grid, pipeline = weighted(estimator)
    ours = search(grid, pipeline, scoring="accuracy").fit(X, Y, scale__sample_weight=weights)
    assert_equal_scores(ours, peer(grid, pipeline, scoring="accuracy").fit(X, Y, scale__sample_weight=weights))
    expected = StandardScaler().fit(X, sample_weight=weights)
    np.testing.assert_allclose(ours.best_estimator_[0].mean_, expected.mean_)
    assert not np.allclose(expected.mean_, X.mean(axis=0), atol=0.1)
    for given, one in (("metric__wishes", pipeline), ("wishes", LearnedKernelMetric())):
        with pytest.raises(TypeError, match=f"takes X, y and sample_weight, not '{given}'"):
            search({}, one).fit(X, Y, **{given: weights})


def test_steps_get_their_arguments_with_landmarks():
    weights, grid, pipeline = weighted(LearnedKernelMetric(n_landmarks=30))
    ours, plain = (search(grid, pipeline).fit(X, Y, **params) for params in ({"scale__sample_weight": weights}, {}))
    assert not np.array_equal(ours.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])


def test_arguments_of_fits_and_scorers_are_routed(routing):
    weights, grid, _ = weighted(None)
    scorer, unweighted = (make_scorer(accuracy_score).set_score_request(sample_weight=asked) for asked in (True, False))
    scale = StandardScaler().set_fit_request(sample_weight=True)
    pipeline = Pipeline([("scale", scale), ("metric", LearnedKernelMetric().set_fit_request(sample_weight=False))])
    for scoring in (scorer, {"weighted": scorer, "plain": unweighted}):
        settings = {"scoring": scoring, "refit": "weighted" if isinstance(scoring, dict) else True}
        ours, theirs = (one(grid, pipeline, **settings).fit(X, Y, sample_weight=weights) for one in (search, peer))
        assert_equal_scores(ours, theirs)
        expected = accuracy_score(Y, ours.predict(X), sample_weight=weights)
        assert ours.score(X, Y, sample_weight=weights) == pytest.approx(expected)


def in_other_threads(function, items):
    with ThreadPoolExecutor(2) as pool:
        yield from pool.map(function, items)


@pytest.mark.parametrize("threads", [False, True])
def test_arguments_of_scorers_are_routed_with_landmarks(routing, threads, monkeypatch):
    """Half of the weights are zero: the scores are those of the other rows alone. Threads do not know that there is routing."""
    if threads:
        monkeypatch.setattr(evaluation, "in_threads", in_other_threads)
    weights = (np.arange(len(Y)) % 2).astype(float)
    plain, asked = (make_scorer(accuracy_score).set_score_request(sample_weight=asked) for asked in (False, True))
    only = make_scorer(lambda y, guess, rows=None: np.mean((y == guess)[rows > 0])).set_score_request(rows=True)
    scoring = {"plain": plain, "asked": asked, "only": only}
    metric = LearnedKernelMetric(n_landmarks=30, random_state=0).set_fit_request(sample_weight=False)
    scale = StandardScaler().set_fit_request(sample_weight=False)
    for estimator in (metric, make_pipeline(scale, metric)):
        ours = search({}, estimator, scoring=scoring, refit="plain").fit(X, Y, sample_weight=weights, rows=weights)
        np.testing.assert_allclose(ours.cv_results_["mean_test_asked"], ours.cv_results_["mean_test_only"])
        assert not np.array_equal(ours.cv_results_["mean_test_asked"], ours.cv_results_["mean_test_plain"])


def test_model_files_hold_the_whole_search(tmp_path):
    settings = {"scoring": ["accuracy", "f1_macro"], "refit": "f1_macro", "return_train_score": True, "error_score": -1.0}
    ours = search(**settings).fit(X, Y)
    outmetric.save(ours, tmp_path / "model")
    again = outmetric.load(tmp_path / "model")
    assert again.score(X, Y) == ours.score(X, Y)
    assert again.best_params_ == ours.best_params_
    assert again.multimetric_
    for name, column in ours.cv_results_.items():
        np.testing.assert_array_equal(again.cv_results_[name], column)
        assert getattr(again.cv_results_[name], "dtype", None) == getattr(column, "dtype", None)


def test_pickles_without_the_new_parameters_load():
    ours = search().fit(X, Y)
    state = {name: value for name, value in ours.__getstate__().items() if name not in ("error_score", "return_train_score")}
    old = MetricSearchCV.__new__(MetricSearchCV)
    old.__setstate__(state)
    assert repr(old) == repr(ours)
    assert pickle.loads(pickle.dumps(old)).score(X, Y) == ours.score(X, Y)


def test_nothing_is_warned_of_a_sound_search():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search(scoring=["accuracy", "f1_macro"], refit="accuracy", return_train_score=True).fit(X, Y)

"""Does the search give scikit-learn's scores, at the price of its decompositions?"""

import joblib
import numpy as np
import pandas
import pytest
from peers import FitsOnce
from scipy.stats import loguniform
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.metrics import make_scorer, recall_score
from sklearn.model_selection import GridSearchCV, GroupKFold, LeaveOneGroupOut, ShuffleSplit, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricSearchCV
from outmetric.choosing import scoring as search
from outmetric.choosing import votes
from outmetric.kernels import Scalar
from outmetric.solvers import batch as path

MODELS = {"fixed": FixedKernelMetric, "learned": LearnedKernelMetric}
NEIGHBOURS = [1, 3, 8]
X, Y = load_wine(return_X_y=True)
X, Y = StandardScaler().fit_transform(X)[::2], Y[::2]
FITTED = FitsOnce()


class SmoothedVotes(KNeighborsClassifier):
    """An independent statement of the default score's probabilities."""

    def predict_proba(self, X):
        votes = super().predict_proba(X) * self.n_neighbors
        return (votes + 0.5) / (self.n_neighbors + len(self.classes_) / 2)


def half_alike(y):
    return np.where(y[:, None] == y, 1.0, 0.3 * (np.abs(y[:, None] - y) == 1))


def scikit_learns(estimator, grid, *, scoring="accuracy", cv=3, X=X, groups=None):
    grids = [grid] if isinstance(grid, dict) else grid
    steps = Pipeline([("metric", estimator), ("vote", SmoothedVotes())], memory=FITTED)
    prefixed = [{**{f"metric__{k}": v for k, v in one.items()}, "vote__n_neighbors": NEIGHBOURS} for one in grids]
    refit = isinstance(scoring, str)
    return GridSearchCV(steps, prefixed, scoring=scoring, cv=cv, refit=refit, error_score="raise").fit(X, Y, groups=groups)


def by_setting(results, score="score"):
    return {
        tuple(sorted((name.rpartition("__")[2], str(value)) for name, value in params.items())): [
            results[f"split{fold}_test_{score}"][row] for fold in range(3)
        ]
        for row, params in enumerate(results["params"])
    }


def assert_equal_scores(ours, theirs, score="score"):
    mine, others = by_setting(ours.cv_results_), by_setting(theirs.cv_results_, score)
    assert mine.keys() == others.keys()
    for setting in mine:
        np.testing.assert_allclose(mine[setting], others[setting], rtol=0, atol=1e-9, err_msg=str(setting))


@pytest.mark.parametrize("similarity", ["class", half_alike], ids=["class", "dense"])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_grid_search(name, kernel, similarity):
    estimator = MODELS[name](kernel=kernel, similarity=similarity)
    penalty = {"fixed": {"metric_ridge": [0.3, 3.0]}, "learned": {"output_penalty": ["auto", 1.0]}}[name]
    grid = {"bandwidth": [2.0, "median"], "regression_weight": [0.3, 30.0], "n_components": [1, 2], **penalty}
    scorings = ["accuracy", "neg_log_loss", "balanced_accuracy", "f1_macro"]
    theirs = scikit_learns(estimator, grid, scoring=scorings)
    for scoring in scorings:
        ours = MetricSearchCV(estimator, grid, n_neighbors=NEIGHBOURS, scoring=scoring, cv=3, refit=False).fit(X, Y)
        assert_equal_scores(ours, theirs, scoring)
        assert ours.n_decompositions_ == 2 * 3


GRIDS = {
    "collocation": {"collocation_weight": [0.0, "auto", 1.0], "regression_weight": [1.0, 10.0]},
    "prototypes": {"prototypes": ["simplex", "onehot"], "regression_weight": [1.0, 10.0]},
    "list of grids": [{"regression_weight": [1.0]}, {"bandwidth": [1.0, 3.0], "collocation_weight": [0.1]}],
    "grids with other defaults": [{"regression_weight": [100.0]}, {"n_components": [1, 2]}, {"collocation_weight": [0.5]}],
    "a nearly constant map": {"bandwidth": [1e6], "regression_weight": [1.0, 10.0]},
    "a fit of its own": {"solver": ["dense", "auto"], "regression_weight": [1.0]},
}


@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize("name", MODELS)
def test_any_grid(name, kind):
    ours = MetricSearchCV(MODELS[name](), GRIDS[kind], n_neighbors=NEIGHBOURS, scoring="accuracy", cv=3).fit(X, Y)
    assert_equal_scores(ours, scikit_learns(MODELS[name](), GRIDS[kind]))


def test_kernels_that_cannot_share():
    grid = {"bandwidth": [[1.0, 3.0], 2.0], "metric_penalty": [50.0, "auto"]}
    ours = MetricSearchCV(FixedKernelMetric(), grid, n_neighbors=NEIGHBOURS, scoring="accuracy", cv=3).fit(X, Y)
    assert_equal_scores(ours, scikit_learns(FixedKernelMetric(), grid))
    assert ours.n_decompositions_ == 3


def test_steps_before_the_metric_learn_from_the_training_part_only():
    """The test part of each fold is poisoned with huge values; scikit-learn's search cannot leak, so equal scores show no leak."""
    poisoned = X.copy()
    rows = np.arange(len(X)) % 3 == 0
    poisoned[rows] *= 1e3
    folds = [(np.flatnonzero(~rows), np.flatnonzero(rows))] * 3
    estimator = Pipeline([("scale", QuantileTransformer(n_quantiles=20)), ("inner", LearnedKernelMetric())])
    grid = {"inner__regression_weight": [0.3, 3.0], "scale__output_distribution": ["uniform", "normal"]}
    ours = MetricSearchCV(estimator, grid, n_neighbors=NEIGHBOURS, scoring="neg_log_loss", cv=folds).fit(poisoned, Y)
    assert_equal_scores(ours, scikit_learns(estimator, grid, scoring="neg_log_loss", cv=folds, X=poisoned))


def test_candidates_that_cannot_differ_are_fitted_once(monkeypatch):
    fitted = []
    plain = path.Decomposition.maps

    def count(self, targets, weights, *args, **kwargs):
        fitted.append(len(weights))
        return plain(self, targets, weights, *args, **kwargs)

    monkeypatch.setattr(path.Decomposition, "maps", count)
    grids = [
        {"regression_weight": [s], "collocation_weight": [0.1 * s], "output_penalty": [s**3, 5 * s**3]} for s in (0.5, 1.0, 4.0)
    ]
    ours = MetricSearchCV(LearnedKernelMetric(), grids, n_neighbors=NEIGHBOURS, cv=3, refit=False).fit(X, Y)
    assert fitted == [2, 2, 2]
    assert ours.n_decompositions_ == 3
    assert_equal_scores(ours, scikit_learns(LearnedKernelMetric(), grids, scoring="neg_log_loss"))
    fitted.clear()
    grids = [
        {"regression_weight": [s], "collocation_weight": [0.1 * s], "metric_penalty": [np.sqrt(s)], "metric_ridge": [1.0, 2.0]}
        for s in (0.5, 1.0, 4.0)
    ]
    ours = MetricSearchCV(FixedKernelMetric(), grids, n_neighbors=NEIGHBOURS, scoring="accuracy", cv=3, refit=False).fit(X, Y)
    assert fitted == [2, 2, 2]
    assert_equal_scores(ours, scikit_learns(FixedKernelMetric(), grids))


def test_results_have_the_columns_of_grid_search():
    grid = [{"regression_weight": [1.0, 10.0]}, {"bandwidth": [3.0]}]
    ours = MetricSearchCV(LearnedKernelMetric(), grid, n_neighbors=NEIGHBOURS, scoring="accuracy", cv=3).fit(X, Y)
    theirs = scikit_learns(LearnedKernelMetric(), grid)
    columns = {name.replace("metric__", "").replace("vote__", "") for name in theirs.cv_results_}
    assert set(ours.cv_results_) == columns
    assert ours.cv_results_["param_bandwidth"].mask.sum() == 6
    np.testing.assert_allclose(sorted(ours.cv_results_["rank_test_score"]), sorted(theirs.cv_results_["rank_test_score"]))
    assert ours.best_score_ == pytest.approx(theirs.best_score_)
    assert ours.cv_results_["rank_test_score"][ours.best_index_] == 1
    assert (ours.cv_results_["mean_fit_time"] > 0).all()


def simplest_of(estimator, grid, **settings):
    """What is chosen if all candidates have the same score."""
    constant = {"scoring": lambda estimator, X, y: 1.0, "n_neighbors": [1, 5], "cv": 3, "refit": False, **settings}
    found = MetricSearchCV(estimator, grid, **constant).fit(X, Y)
    return {**found.best_params_, "n_neighbors": found.n_neighbors_}


def test_ties_go_to_the_simpler_model():
    grid = {"regression_weight": [10.0, 1.0], "bandwidth": [2.0, 4.0, 1.0], "n_components": [2, 1]}
    expected = {"regression_weight": 1.0, "bandwidth": 4.0, "n_components": 1, "n_neighbors": 5}
    assert simplest_of(LearnedKernelMetric(), grid) == expected
    # What a grid leaves open counts with the estimator's own value.
    assert "regression_weight" in simplest_of(LearnedKernelMetric(), [{"bandwidth": [5.0]}, {"regression_weight": [0.01]}])
    assert simplest_of(LearnedKernelMetric(), {"bandwidth": [9.0, "0.5*median", "median"]})["bandwidth"] == "median"
    assert simplest_of(LearnedKernelMetric(), {"prototypes": ["onehot", "simplex"]})["prototypes"] == "simplex"
    pipeline = Pipeline([("pca", PCA()), ("metric", LearnedKernelMetric())])
    grid = [{"metric__n_components": [2], "pca__n_components": [2]}, {"metric__n_components": [1], "pca__n_components": ["mle"]}]
    assert simplest_of(pipeline, grid)["metric__n_components"] == 1


def test_any_splitter():
    groups = np.arange(len(X)) % 4
    grid = {"regression_weight": [1.0, 10.0]}
    splitters = [(GroupKFold(3), groups), (LeaveOneGroupOut(), groups), (ShuffleSplit(3, random_state=0), None)]
    for cv, given in [*splitters, (StratifiedKFold(3), None)]:
        ours = MetricSearchCV(LearnedKernelMetric(), grid, n_neighbors=NEIGHBOURS, scoring="accuracy", cv=cv)
        ours.fit(X, Y, groups=given)
        theirs = scikit_learns(LearnedKernelMetric(), grid, cv=cv, groups=given)
        assert ours.n_splits_ == theirs.n_splits_
        assert_equal_scores(ours, theirs)


def test_random_candidates_from_continuous_ranges():
    ranges = {"regression_weight": loguniform(0.1, 100), "bandwidth": [2.0, 4.0], "output_penalty": loguniform(0.1, 10)}
    searches = [
        MetricSearchCV(LearnedKernelMetric(), ranges, n_iter=20, random_state=seed, n_neighbors=[3], cv=3).fit(X, Y)
        for seed in (0, 0, 1)
    ]
    assert len(searches[0].cv_results_["params"]) == 20
    assert searches[0].n_decompositions_ == 6
    assert searches[0].best_params_ == searches[1].best_params_ != searches[2].best_params_


@pytest.mark.parametrize("name", MODELS)
def test_the_best_candidate_is_used(name):
    ours = MetricSearchCV(MODELS[name](), {"regression_weight": [0.001, 3.0]}, n_neighbors=NEIGHBOURS, cv=3).fit(X, Y)
    assert ours.best_params_ == {"regression_weight": 3.0, "n_neighbors": ours.n_neighbors_}
    assert ours.best_estimator_.regression_weight == 3.0
    votes = SmoothedVotes(ours.n_neighbors_).fit(ours.transform(X), Y)
    new = X[:20] + 0.1
    np.testing.assert_allclose(ours.predict_proba(new), votes.predict_proba(ours.transform(new)))
    np.testing.assert_array_equal(ours.predict(new), votes.predict(ours.transform(new)))
    assert np.mean(ours.predict(X) == Y) > 0.95


def test_labels_may_be_words_and_scorers_functions():
    names = np.array(["red", "green", "blue"])[Y]
    scorer = make_scorer(lambda truth, guess: recall_score(truth, guess, labels=["green"], average="macro"))
    ours = MetricSearchCV(LearnedKernelMetric(), {"regression_weight": [3.0]}, scoring=scorer, cv=3).fit(X, names)
    assert ours.best_score_ > 0.8
    assert set(ours.predict(X[:5])) <= set(names)


def test_strings_and_precomputed_kernels():
    words = np.array(["".join(np.random.default_rng(k).choice(list("AC" if k % 2 else "GT"), 6)) for k in range(40)], dtype=object)
    y = np.arange(40) % 2
    grid = {"regression_weight": [0.3, 3.0]}

    def same(s, t):
        return float(sum(a == b for a, b in zip(s, t, strict=True)))

    ours = MetricSearchCV(LearnedKernelMetric(kernel=same), grid, n_neighbors=[1, 3], cv=3).fit(words, y)
    K = np.array([[same(s, t) for t in words] for s in words])
    given = MetricSearchCV(LearnedKernelMetric(kernel="precomputed"), grid, n_neighbors=[1, 3], cv=3).fit(K, y)
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], given.cv_results_["mean_test_score"])


def test_several_jobs_change_nothing():
    grid = {"bandwidth": [2.0, 4.0], "regression_weight": [0.3, 3.0]}
    one, two = (MetricSearchCV(LearnedKernelMetric(), grid, cv=3, n_jobs=jobs).fit(X, Y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])


def test_an_interrupt_keeps_what_was_scored(monkeypatch):
    plain, calls = search.evaluate, []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return plain(*args)

    monkeypatch.setattr(search, "evaluate", interrupted)
    ours = MetricSearchCV(LearnedKernelMetric(), {"bandwidth": [2.0, 4.0]}, n_neighbors=[3], cv=3)
    with pytest.raises(KeyboardInterrupt):
        ours.fit(X, Y)
    np.testing.assert_array_equal(np.isfinite(ours.cv_results_["mean_test_score"]), [True, False])
    with pytest.raises(NotFittedError, match="has scores but no model"):
        ours.predict(X)
    ours.finish(X, Y)
    assert ours.best_params_ == {"bandwidth": 2.0, "n_neighbors": 3}
    monkeypatch.setattr(search, "evaluate", plain)
    expected = MetricSearchCV(LearnedKernelMetric(), {"bandwidth": [2.0]}, n_neighbors=[3], cv=3).fit(X, Y)
    np.testing.assert_array_equal(ours.predict_proba(X), expected.predict_proba(X))
    with pytest.raises(NotFittedError, match="no interrupted fit"):
        ours.finish(X, Y)


def test_nothing_of_an_earlier_fit_survives():
    ours = MetricSearchCV(LearnedKernelMetric(), {"regression_weight": [3.0]}, cv=3).fit(X, Y)
    ours.set_params(refit=False).fit(X[:, :5], Y)
    with pytest.raises(NotFittedError, match="refit=False"):
        ours.predict(X)


def test_settings_that_cannot_be_pickled_are_told_apart():
    weights = [np.ones(1500), np.r_[np.ones(700), np.zeros(100), np.ones(700)]]  # alike in print
    wide = np.random.default_rng(0).normal(size=(len(X), 1500)) * (1 + Y[:, None])
    kernel = Scalar(lambda A, B, w: (A * w) @ B.T / 1500, pairwise=False)
    grid = {"kernel": [Scalar(kernel.function, params={"w": w}, pairwise=False) for w in weights]}
    ours = MetricSearchCV(LearnedKernelMetric(), grid, n_neighbors=[3], cv=3).fit(wide, Y)
    assert ours.n_decompositions_ == 6
    assert len(set(ours.cv_results_["mean_test_score"])) == 2


def test_a_candidate_that_fails_gets_no_score():
    grid = {"prototypes": ["simplex", np.eye(3)], "regression_weight": [3.0]}
    folds = [(np.flatnonzero(Y != 2), np.flatnonzero(Y == 2)), *StratifiedKFold(3).split(X, Y)]
    ours = MetricSearchCV(LearnedKernelMetric(), grid, n_neighbors=[3], cv=folds)
    with pytest.warns(FitFailedWarning, match="1 candidates were not scored.*one row per class"):
        ours.fit(X, Y)
    np.testing.assert_array_equal(np.isfinite(ours.cv_results_["mean_test_score"]), [True, False])
    with pytest.raises(ValueError, match=r"no candidate could be scored.*one row per class"):
        MetricSearchCV(LearnedKernelMetric(prototypes=np.eye(3)), {}, cv=folds).fit(X, Y)


def test_weights_beyond_double_precision_get_no_score():
    K = (X + 50) @ (X + 50).T
    ours = MetricSearchCV(LearnedKernelMetric(kernel="precomputed"), {"regression_weight": [1e-3, 1e14]}, n_neighbors=[3], cv=3)
    with pytest.warns(FitFailedWarning, match="round-off"):
        ours.fit(K, Y)
    np.testing.assert_array_equal(np.isfinite(ours.cv_results_["mean_test_score"]), [True, False])
    assert ours.best_params_ == {"regression_weight": 1e-3, "n_neighbors": 3}


def test_scorers_see_the_data():
    seen = MetricSearchCV(LearnedKernelMetric(), {}, scoring=lambda estimator, X, y: float(X.shape[1]), cv=3, refit=False)
    assert seen.fit(X, Y).best_score_ == X.shape[1]
    default = MetricSearchCV(LearnedKernelMetric(), {}, scoring=None, cv=3).fit(X, Y)
    assert default.best_score_ == MetricSearchCV(LearnedKernelMetric(), {}, scoring="accuracy", cv=3).fit(X, Y).best_score_


def test_frames_go_through():
    frame = pandas.DataFrame(X, columns=[f"f{k}" for k in range(X.shape[1])])
    pipeline = make_pipeline(StandardScaler(), LearnedKernelMetric()).set_output(transform="pandas")
    ours = MetricSearchCV(pipeline, {}, cv=3).fit(frame, Y)
    assert len(ours.predict(frame)) == len(Y)
    assert list(ours.get_feature_names_out()) == ["learnedkernelmetric0", "learnedkernelmetric1"]
    np.testing.assert_array_equal(ours.feature_names_in_, frame.columns)


@pytest.mark.parametrize("backend", ["threading", "multiprocessing"])
def test_any_backend(backend):
    with joblib.parallel_config(backend=backend):
        ours = MetricSearchCV(LearnedKernelMetric(), {"bandwidth": [2.0, 4.0]}, n_neighbors=[3], cv=3, n_jobs=2).fit(X, Y)
    alone = MetricSearchCV(LearnedKernelMetric(), {"bandwidth": [2.0, 4.0]}, n_neighbors=[3], cv=3).fit(X, Y)
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])


def test_progress_goes_to_stderr(capsys):
    MetricSearchCV(LearnedKernelMetric(), {"bandwidth": [2.0, 4.0]}, cv=3, verbose=True).fit(X, Y)
    told = capsys.readouterr()
    assert told.out == ""
    assert "6 of 6" in told.err


def test_progress_can_go_to_a_function():
    told = []
    grid = {"bandwidth": [2.0, 4.0]}
    MetricSearchCV(LearnedKernelMetric(), grid, cv=3, verbose=lambda *news: told.append(news)).fit(X, Y)
    assert told == [(done, 6, "kernels and folds scored") for done in range(1, 7)]


def test_scikit_learns_callbacks_are_told():
    pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")
    tasks = []

    class Watch:
        def setup(self, estimator, context): ...

        def teardown(self, estimator, context):
            tasks.append("teardown")

        def on_fit_task_begin(self, estimator, context, **kwargs): ...

        def on_fit_task_end(self, estimator, context, **kwargs):
            tasks.append(context.task_name)

    ours = MetricSearchCV(LearnedKernelMetric(), {"bandwidth": [2.0, 4.0]}, n_neighbors=[3], cv=3)
    ours.set_callbacks(Watch()).fit(X, Y)
    assert tasks == ["kernel and fold"] * 6 + ["fit", "teardown"]


def test_votes_are_those_of_nearest_neighbours():
    rng = np.random.default_rng(0)
    train, new, labels = rng.normal(size=(2, 30, 3)), rng.normal(size=(2, 7, 3)), rng.integers(0, 4, 30)
    neighbours = np.array([1, 4, 30])
    counted = votes.neighbour_votes(train, labels, new, neighbours, 4)
    for candidate in range(2):
        for k, count in enumerate(neighbours):
            expected = KNeighborsClassifier(count).fit(train[candidate], labels).predict_proba(new[candidate]) * count
            np.testing.assert_allclose(counted[candidate, k], expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"estimator": StandardScaler()}, "tunes the metrics of outmetric, not StandardScaler"),
        ({"n_neighbors": 0}, "n_neighbors must be integers >= 1"),
        ({"n_neighbors": [1.5]}, "n_neighbors must be integers >= 1"),
        ({"n_neighbors": 1000}, "exceeds the 59 points of the smallest training fold"),
        ({"param_grid": {"metric_ridge": [1.0]}}, "Invalid parameter 'metric_ridge'"),
        ({"param_grid": {"regression_weight": [-1.0]}}, "regression_weight must be a finite number > 0"),
        ({"scoring": "speed"}, "speed"),
    ],
)
def test_what_cannot_be_searched(change, message):
    settings = {"estimator": LearnedKernelMetric(), "param_grid": {"regression_weight": [1.0]}, "cv": 3, **change}
    with pytest.raises((ValueError, TypeError), match=message):
        MetricSearchCV(**settings).fit(X, Y)


@pytest.mark.parametrize("scoring", ["neg_log_loss", "accuracy", "f1_macro", ["neg_mean_squared_error", "accuracy"]])
def test_real_targets_cannot_be_voted_on(scoring):
    with pytest.raises(ValueError, match="Unknown label type"):
        MetricSearchCV(LearnedKernelMetric(), {"regression_weight": [1.0]}, scoring=scoring, refit=False).fit(X, X[:, 0])


def serves_real_targets(search):
    """Unless its scoring is for classes, a search averages real targets (tests/test_search_real.py) instead of refusing them."""
    broken = ["check_classifiers_regression_target"] if search.scoring == "auto" else []
    scaled = ["check_sample_weight_equivalence_on_dense_data"] if isinstance(search.estimator, Pipeline) else []
    return {**dict.fromkeys(broken, "real targets are served"), **dict.fromkeys(scaled, "rows are scaled without weights")}


@parametrize_with_checks(
    [
        MetricSearchCV(LearnedKernelMetric(), {"regression_weight": [1.0, 10.0]}, n_neighbors=[1, 3], cv=2),
        MetricSearchCV(LearnedKernelMetric(), {}, n_neighbors=[1, 3], cv=2, scoring="neg_log_loss"),
        MetricSearchCV(make_pipeline(StandardScaler(), FixedKernelMetric()), {}, n_neighbors=[1, 3], cv=2),
    ],
    expected_failed_checks=serves_real_targets,
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_iris_needs_no_tuning_but_survives_it():
    data, labels = load_iris(return_X_y=True)
    grid = {"bandwidth": [0.3, 1.0, 3.0], "regression_weight": [0.3, 3.0, 30.0]}
    ours = MetricSearchCV(LearnedKernelMetric(), grid).fit(data[::2], labels[::2])
    assert np.mean(ours.predict(data[1::2]) == labels[1::2]) > 0.9


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("weight", ["regression_weight", "collocation_weight"])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("model", [FixedKernelMetric, LearnedKernelMetric])
def test_what_a_fit_on_all_rows_refuses_has_no_score(model, kernel, weight):
    X, y = (part[::2] for part in load_iris(return_X_y=True))
    values = [10.0**power for power in range(-4, 20, 2)]
    search = MetricSearchCV(model(kernel=kernel), {weight: values}, n_neighbors=[5], refit=False).fit(X, y)
    scored = [value for value, score in zip(values, search.cv_results_["mean_test_score"], strict=True) if np.isfinite(score)]
    assert len(scored) >= 2
    assert len(scored) < len(values)
    for value in scored:
        model(kernel=kernel, **{weight: value}).fit(X, y)  # does not raise

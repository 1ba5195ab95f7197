"""Does a search over real targets give the scores of scikit-learn's own, and a regressor that can be kept and exported?"""

import numpy as np
import pandas
import pytest
import sklearn
from peers import FitsOnce
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_diabetes, load_wine
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.metrics import (
    get_scorer_names,
    make_scorer,
    max_error,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
)
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, LeaveOneOut, ShuffleSplit, cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

import outmetric
from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricSearchCV
from outmetric.choosing import scoring as scoring_module
from outmetric.choosing.scores import REAL_SCORES
from outmetric.columns import check_columns
from outmetric.solvers import batch
from outmetric.tables.fitting import fit_table

MODELS = {"fixed": FixedKernelMetric, "learned": LearnedKernelMetric}
NEIGHBOURS = [1, 4, 9]
X, ONE = load_diabetes(return_X_y=True)
X, ONE = StandardScaler().fit_transform(X)[:90], ONE[:90] + 0.5
FITTED = FitsOnce()
RNG = np.random.default_rng(0)
# Of very different units, as several targets are.
THREE = np.column_stack([ONE, 1e-3 * X[:, 2] + 1e-4 * RNG.normal(size=90), 50 * np.sin(X[:, 8])])
TARGETS = {"one": ONE, "column": ONE[:, None], "three": THREE}
SCORES = ["neg_mean_squared_error", "r2", "neg_mean_absolute_error", "neg_root_mean_squared_error"]
GRID = {"bandwidth": [2.0, "median"], "regression_weight": [0.3, 30.0]}


def search(grid=GRID, estimator=None, **settings):
    return MetricSearchCV(estimator or LearnedKernelMetric(), grid, **{"n_neighbors": NEIGHBOURS, "cv": 3, **settings})


def peer(grid=GRID, estimator=None, **settings):
    """GridSearchCV over the metric and neighbours."""
    estimator = clone(estimator or LearnedKernelMetric())
    steps = estimator.steps if isinstance(estimator, Pipeline) else [("metric", estimator)]
    prefix = "" if isinstance(estimator, Pipeline) else "metric__"
    grids = [grid] if isinstance(grid, dict) else grid
    named = [{**{prefix + name: values for name, values in one.items()}, "vote__n_neighbors": NEIGHBOURS} for one in grids]
    voting = Pipeline([*steps, ("vote", KNeighborsRegressor())], memory=FITTED)
    return GridSearchCV(voting, named, **{"cv": 3, "refit": False, "error_score": "raise", **settings})


def assert_equal_scores(ours, theirs):
    """In every fold and of every metric, candidate by candidate."""

    def plain(params):
        return tuple(sorted((name.removeprefix("metric__").removeprefix("vote__"), str(value)) for name, value in params.items()))

    mine = {plain(params): row for row, params in enumerate(ours.cv_results_["params"])}
    others = {plain(params): row for row, params in enumerate(theirs.cv_results_["params"])}
    assert mine.keys() == others.keys()
    columns = [name for name in theirs.cv_results_ if name.startswith(("split", "mean_t", "std_t"))]
    assert columns
    order = [[rows[key] for key in mine] for rows in (mine, others)]
    for name in columns:
        found, expected = ours.cv_results_[name][order[0]], theirs.cv_results_[name][order[1]]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=name)


def random_grid(name, seed):
    """Weights, components and bandwidths as they happen to come."""
    rng = np.random.default_rng(seed)
    penalty = {"fixed": "metric_ridge", "learned": "output_penalty"}[name]
    return {
        "bandwidth": [float(rng.uniform(1, 6)), f"{rng.uniform(0.3, 2):.3f}*median"],
        "regression_weight": (10 ** rng.uniform(-2, 2, 2)).tolist(),
        "collocation_weight": [0.0, ["auto", float(rng.uniform(0, 0.1))][seed]],
        "n_components": [None, 1],
        penalty: [float(rng.uniform(0.5, 5))],
    }


@pytest.mark.filterwarnings("ignore:n_components")
@pytest.mark.parametrize("targets", ["one", "three"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", range(2))
def test_scores_are_those_of_grid_search(name, targets, seed):
    estimator = MODELS[name](kernel=["rbf", "laplacian"][seed], tol=1e-13, max_iter=500)
    grid = random_grid(name, seed)
    y = TARGETS[targets]
    ours = search(grid, estimator, scoring=SCORES, refit=False, return_train_score=True).fit(X, y)
    assert_equal_scores(ours, peer(grid, estimator, scoring=SCORES, return_train_score=True).fit(X, y))
    # For each fold, bandwidth, number of components and ratio of weights: 0, and auto, or one for each regression weight.
    assert ours.n_decompositions_ == 3 * 2 * 2 * (2 + seed)


@pytest.mark.parametrize("scoring", [*SCORES, "neg_max_error", "explained_variance", "neg_mean_poisson_deviance"])
def test_one_score_at_a_time(scoring):
    assert_equal_scores(search(scoring=scoring).fit(X, ONE), peer(scoring=scoring).fit(X, ONE))


def test_weights_are_coupled_even_if_the_estimator_itself_is_not():
    grid = {"collocation_weight": [0.0, 0.05]}
    ours = search(grid, LearnedKernelMetric(collocation_weight=0.0)).fit(X, ONE)
    assert_equal_scores(ours, peer(grid, LearnedKernelMetric(collocation_weight=0.0), scoring="neg_mean_squared_error").fit(X, ONE))
    assert ours.cv_results_["mean_test_score"][0] != ours.cv_results_["mean_test_score"][3]


def alike(y):
    return np.exp(-np.abs(np.subtract.outer(y.ravel(), y.ravel())) / 50)


GRIDS = {
    "a fit of its own": ({"solver": ["dense", "auto"], "regression_weight": [1.0]}, {}),
    "a similarity": ({"collocation_weight": [0.0, 0.01], "regression_weight": [1.0, 3.0]}, {"similarity": alike}),
    "landmarks": ({"regression_weight": [1.0, 3.0]}, {"n_landmarks": 20, "random_state": 0, "collocation_weight": 0.0}),
    "landmarks that couple": ({"regression_weight": [1.0]}, {"solver": "nystroem", "n_landmarks": 20, "random_state": 0}),
    "rounds": ({"n_rounds": [0, 2], "regression_weight": [1.0, 3.0]}, {"input_metric": "diagonal"}),
    "several grids": ([{"regression_weight": [1.0]}, {"bandwidth": [1.0], "n_components": [1]}], {}),
    "a forest": ({"regression_weight": [1.0]}, {"kernel": "forest", "random_state": 0}),
}


@pytest.mark.parametrize("kind", GRIDS)
def test_any_grid(kind):
    grid, settings = GRIDS[kind]
    estimator = LearnedKernelMetric(**settings)
    ours = search(grid, estimator, scoring="r2").fit(X, ONE)
    assert_equal_scores(ours, peer(grid, estimator, scoring="r2").fit(X, ONE))
    assert (ours.n_decompositions_ == 0) == ("landmarks" in kind)


def test_steps_before_the_metric_learn_from_the_training_part_only():
    """The test part of each fold is poisoned with huge values; scikit-learn's search cannot leak, so equal scores show no leak."""
    poisoned = X.copy()
    rows = np.arange(len(X)) % 3 == 0
    poisoned[rows] *= 1e3
    folds = [(np.flatnonzero(~rows), np.flatnonzero(rows))] * 3
    scaling = QuantileTransformer(n_quantiles=20)
    estimator = Pipeline([("scale", scaling), ("few", SelectKBest(f_regression, k=6)), ("inner", LearnedKernelMetric())])
    grid = {"inner__regression_weight": [0.3, 3.0], "scale__output_distribution": ["uniform", "normal"]}
    ours = search(grid, estimator, cv=folds).fit(poisoned, ONE)
    assert_equal_scores(ours, peer(grid, estimator, cv=folds, scoring="neg_mean_squared_error").fit(poisoned, ONE))


@pytest.mark.parametrize("cv", [GroupKFold(3), ShuffleSplit(3, random_state=0), KFold(3, shuffle=True, random_state=1), 4])
def test_splits(cv):
    groups = np.arange(len(X)) % 7 if isinstance(cv, GroupKFold) else None
    ours = search(scoring="r2", cv=cv).fit(X, ONE, groups=groups)
    assert_equal_scores(ours, peer(scoring="r2", cv=cv).fit(X, ONE, groups=groups))
    assert ours.n_splits_ == (4 if cv == 4 else 3)


@pytest.mark.filterwarnings("ignore:R\\^2 score is not well-defined")
@pytest.mark.parametrize("truth", [[0.5], [0.5, 2.0], [0.5, 0.5], [1.0, 1.0], [0.5, 2.0, 0.3]])
def test_scores_of_few_rows_are_scikit_learns(truth):
    averages = np.ones((1, 1, len(truth)))
    expected = {
        "r2": r2_score(truth, averages[0, 0]),
        "neg_mean_squared_error": -mean_squared_error(truth, averages[0, 0]),
        "neg_mean_absolute_error": -mean_absolute_error(truth, averages[0, 0]),
    }
    for name, score in REAL_SCORES.items():
        found = score(averages, np.array([3]), np.array(truth))
        np.testing.assert_allclose(found, [[expected[name]]], err_msg=name)
        assert found.shape == (1, 1)  # candidates, and numbers of neighbours


def test_nothing_is_predicted_without_a_model():
    ours = search().fit(X, ONE)
    del ours.best_estimator_, ours.voters_  # as an interrupt leaves it
    with pytest.raises(NotFittedError, match=r"has scores but no model: .* the search was interrupted"):
        ours.predict(X)


def test_splits_of_real_targets_are_not_stratified():
    """One column of floats is real, even if its values could be classes: then folds of sorted targets hold one value each."""
    y = np.repeat([0.0, 1.0, 2.0], 30)[:, None]
    ours = search(cv=3, scoring="neg_mean_absolute_error", n_neighbors=1).fit(X, y)
    assert min(-ours.cv_results_[f"split{fold}_test_score"].max() for fold in range(3)) >= 1


def spread(estimator, X, y):
    guess = estimator.predict(X)
    assert guess.shape == y.shape
    return {"worst": float(np.abs(y - guess).max()), "r2": r2_score(y, guess)}


def test_several_metrics_and_functions():
    scoring = {"R2": "r2", "worst": make_scorer(max_error, greater_is_better=False), "size": "neg_mean_absolute_error"}
    ours = search(scoring=scoring, refit="size").fit(X, ONE)
    assert_equal_scores(ours, peer(scoring=scoring).fit(X, ONE))
    assert ours.multimetric_
    assert set(ours.scorer_) == set(scoring)
    assert ours.best_score_ == ours.cv_results_["mean_test_size"].max()
    assert ours.score(X, ONE) == pytest.approx(-mean_absolute_error(ONE, ours.predict(X)))
    for y in (ONE, THREE):
        several = search(scoring=spread, refit="r2").fit(X, y)
        assert_equal_scores(several, peer(scoring=spread).fit(X, y))
        assert several.score(X, y) == pytest.approx(r2_score(y, several.predict(X)))


def test_arguments_of_scorers():
    weights = np.random.default_rng(1).uniform(size=len(X))
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_scorer(r2_score).set_score_request(sample_weight=True)
        metric = LearnedKernelMetric().set_fit_request(sample_weight=False)
        ours = search(estimator=metric, scoring=scorer).fit(X, ONE, sample_weight=weights)
        assert_equal_scores(ours, peer(estimator=metric, scoring=scorer).fit(X, ONE, sample_weight=weights))


def test_what_scores_mean_by_default():
    ours, theirs = search().fit(X, ONE), peer(scoring="neg_mean_squared_error").fit(X, ONE)
    assert_equal_scores(ours, theirs)
    assert ours.score(X, ONE) == pytest.approx(-mean_squared_error(ONE, ours.predict(X)))
    assert "neg_mean_squared_error, mean" in ours.summary()
    nothing = search(scoring=None).fit(X, ONE)
    assert_equal_scores(nothing, peer(scoring=None).fit(X, ONE))
    assert nothing.score(X, ONE) == pytest.approx(r2_score(ONE, nothing.predict(X)))
    data, labels = load_wine(return_X_y=True)
    classes = search({"bandwidth": ["median"]}).fit(data, labels)
    explicit = search({"bandwidth": ["median"]}, scoring="neg_log_loss").fit(data, labels)
    np.testing.assert_array_equal(classes.cv_results_["mean_test_score"], explicit.cv_results_["mean_test_score"])
    assert search(refit="neg_log_loss").fit(data, labels).n_neighbors_ > 0
    assert search(refit="neg_mean_squared_error").fit(X, ONE).n_neighbors_ > 0


def test_r2_of_what_does_not_vary_and_of_single_rows():
    y = np.where(np.arange(90) < 30, 1.5, ONE)
    ours = search(scoring="r2", cv=KFold(3)).fit(X, y)
    assert_equal_scores(ours, peer(scoring="r2", cv=KFold(3)).fit(X, y))
    assert set(np.unique(ours.cv_results_["split0_test_score"])) <= {0.0, 1.0}
    both = np.column_stack([y, ONE])
    assert_equal_scores(search(scoring="r2", cv=KFold(3)).fit(X, both), peer(scoring="r2", cv=KFold(3)).fit(X, both))
    with pytest.raises(ValueError, match="a score is not finite"):
        search({}, scoring="r2", cv=LeaveOneOut()).fit(X[:12], ONE[:12])


@pytest.mark.parametrize("targets", TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_the_best_is_fitted_on_all_data(name, targets):
    y = TARGETS[targets]
    ours = search(estimator=MODELS[name]()).fit(X, y)
    best = {key: value for key, value in ours.best_params_.items() if key != "n_neighbors"}
    alone = make_pipeline(MODELS[name](**best), KNeighborsRegressor(ours.n_neighbors_)).fit(X, y)
    new = X + 0.1
    assert ours.predict(new).shape == y.shape
    np.testing.assert_allclose(ours.predict(new), alone.predict(new))
    assert isinstance(ours.voters_, KNeighborsRegressor)
    assert ours.n_targets_ == (3 if targets == "three" else 1)
    assert ours.best_index_ == np.argmax(ours.cv_results_["mean_test_score"])


def test_it_is_a_regressor_once_it_has_learned_real_targets():
    ours = search()
    assert is_classifier(ours)
    assert hasattr(ours, "predict_proba")
    ours.fit(X, ONE)
    assert is_regressor(ours)
    assert not is_classifier(ours)
    for name in ("predict_proba", "predict_log_proba"):
        assert not hasattr(ours, name)
        with pytest.raises(AttributeError, match="learned real targets"):
            getattr(ours, name)
    assert not hasattr(ours, "classes_")
    assert "real targets" in ours.summary()
    assert "real targets" in ours._repr_html_()
    data, labels = load_wine(return_X_y=True)
    ours.fit(data, labels)  # nothing of the earlier fit is left
    assert is_classifier(ours)
    assert not hasattr(ours, "n_targets_")
    assert ours.predict_proba(data).shape == (len(data), 3)
    assert not hasattr(search(refit=False).fit(X, ONE), "predict")


def test_scikit_learn_can_validate_it():
    inner = search({"regression_weight": [1.0]}, scoring="r2")
    found = cross_val_score(inner, X, ONE, cv=KFold(3))
    expected = [clone(inner).fit(X[a], ONE[a]).score(X[b], ONE[b]) for a, b in KFold(3).split(X)]
    np.testing.assert_allclose(found, expected)
    by_other = cross_val_score(inner, X, ONE, cv=KFold(3), scoring="neg_mean_absolute_error")
    assert np.isfinite(by_other).all()


def test_whole_numbers_in_one_part_are_no_classes():
    """All but one target are whole, so that the training part without it would be taken for classes by itself."""
    y = np.round(ONE / 10)
    y[0] += 0.5
    ours = search().fit(X, y)
    assert_equal_scores(ours, peer(scoring="neg_mean_squared_error").fit(X, y[:, None]))
    assert ours.predict(X).shape == (90,)


@pytest.mark.parametrize("scoring", ["neg_log_loss", "roc_auc", "balanced_accuracy", "adjusted_rand_score", ["r2", "accuracy"]])
def test_scores_of_classes_do_not_suit(scoring):
    ours = search(scoring=scoring, refit=False)
    with pytest.raises(ValueError, match=r"does not suit the real targets that y holds .* take 'neg_mean_squared_error', 'r2'"):
        ours.fit(X, ONE)
    assert is_classifier(ours)


def test_scores_that_suit_are_not_refused():
    """Every scorer of scikit-learn either works or is refused by its name before anything is fitted."""
    worked = []
    for name in get_scorer_names():
        try:
            search({}, scoring=name, n_neighbors=5, cv=2, refit=False).fit(X[:40], ONE[:40])
        except ValueError as error:
            assert f"scoring={name!r} does not suit" in str(error)  # noqa: PT017
        else:
            worked.append(name)
    assert {"r2", "neg_max_error", "neg_mean_squared_log_error", "d2_absolute_error_score", "neg_mean_gamma_deviance"} <= set(
        worked
    )
    assert not {"accuracy", "jaccard", "top_k_accuracy", "rand_score", "neg_brier_score"} & set(worked)
    with pytest.raises(ValueError, match="scoring='neg_max_error' does not suit"):
        search(scoring="neg_max_error").fit(X, THREE)


def test_failures_get_no_score():
    grid = {"regression_weight": [3.0, -1.0]}
    with pytest.warns(FitFailedWarning, match="3 candidates were not scored"):
        ours = search(grid).fit(X, ONE)
    assert np.isnan(ours.cv_results_["mean_test_score"][3:]).all()
    assert np.isfinite(ours.cv_results_["mean_test_score"][:3]).all()
    assert ours.best_params_["regression_weight"] == 3.0
    with pytest.warns(FitFailedWarning, match="error_score=-1000000.0"):
        given = search(grid, error_score=-1e6).fit(X, ONE)
    assert (given.cv_results_["mean_test_score"][3:] == -1e6).all()
    with pytest.raises(ValueError, match="regression_weight must be"):
        search(grid, error_score="raise").fit(X, ONE)

    def fails(estimator, X, y):
        raise RuntimeError("no score today")

    with pytest.raises(ValueError, match="no score today"):
        search(scoring=fails).fit(X, ONE)


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full(90, 1.5), "y is constant"),
        (np.where(np.arange(90) == 3, np.nan, ONE), r"y\[3\]"),
        (np.arange(90), "pass one column of floats"),
        (ONE[:80], "inconsistent numbers of samples"),
        (None, "requires y"),
    ],
)
def test_targets_that_cannot_be(y, message):
    with pytest.raises(ValueError, match=message):
        search().fit(X, y)


def test_an_interrupted_search_can_be_finished(monkeypatch):
    plain, done = batch.Decomposition.maps, []

    def tired(self, *args, **kwargs):
        done.append(1)
        if len(done) > 4:
            raise KeyboardInterrupt
        return plain(self, *args, **kwargs)

    for y in (ONE, THREE):
        done.clear()
        ours = search({"bandwidth": [2.0, 4.0], "regression_weight": [0.3, 3.0]})
        monkeypatch.setattr(batch.Decomposition, "maps", tired)
        with pytest.raises(KeyboardInterrupt):
            ours.fit(X, y)
        monkeypatch.setattr(batch.Decomposition, "maps", plain)
        assert np.isfinite(ours.cv_results_["mean_test_score"]).sum() == 6
        with pytest.raises(NotFittedError, match="no model"):
            ours.predict(X)
        ours.finish(X, y)
        assert ours.best_params_["bandwidth"] == 2.0
        assert ours.predict(X).shape == y.shape
        assert ours.best_score_ == np.nanmax(ours.cv_results_["mean_test_score"])


@pytest.mark.parametrize("targets", TARGETS)
def test_in_files(targets, tmp_path):
    ours = search(
        {"metric__regression_weight": [0.3, 3.0]}, Pipeline([("scale", StandardScaler()), ("metric", LearnedKernelMetric())])
    )
    ours.fit(X, TARGETS[targets])
    outmetric.save(ours, tmp_path / "model")
    again = outmetric.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), ours.predict(X))
    np.testing.assert_array_equal(again.transform(X), ours.transform(X))
    assert is_regressor(again)
    assert again.summary() == ours.summary()
    assert again.score(X, TARGETS[targets]) == ours.score(X, TARGETS[targets])


@pytest.mark.parametrize("spoil", ["targets", "classes", "other targets"])
def test_files_that_do_not_fit_together(spoil, tmp_path):
    ours = search({}).fit(X, THREE)
    if spoil == "targets":
        ours.n_targets_ = 2
    elif spoil == "classes":
        ours.voters_ = sklearn.neighbors.KNeighborsClassifier().fit(ours.transform(X), np.arange(90) % 3)
    else:
        ours.voters_ = KNeighborsRegressor().fit(ours.transform(X), np.arange(90) % 3)
    outmetric.save(ours, tmp_path / "model")
    with pytest.raises(outmetric.storage.ModelFileError, match="do not fit together"):
        outmetric.load(tmp_path / "model")


@pytest.mark.parametrize("targets", TARGETS)
@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_in_onnx(targets, precision):
    onnxruntime = pytest.importorskip("onnxruntime")
    from outmetric.export import to_onnx

    pipeline = Pipeline([("scale", StandardScaler()), ("metric", LearnedKernelMetric())])
    ours = search({"metric__regression_weight": [3.0]}, pipeline).fit(X, TARGETS[targets])
    graph = to_onnx(ours, X.astype(precision), outputs="both")
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    new = (X + 0.1).astype(precision)
    found = dict(zip([output.name for output in session.get_outputs()], session.run(None, {"X": new}), strict=True))
    assert set(found) == {"variable", "coordinates"}
    np.testing.assert_allclose(found["coordinates"], ours.transform(new), rtol=1e-3, atol=1e-4)
    expected = ours.predict(new).reshape(90, -1)
    assert found["variable"].shape == expected.shape
    # In single precision a neighbour may be another one.
    equal = np.isclose(found["variable"], expected, rtol=1e-6).all(axis=1)
    assert equal.mean() >= (1 if precision == np.float64 else 0.9)
    assert [output.name for output in to_onnx(ours, X).graph.output] == ["variable"]
    assert [output.name for output in to_onnx(ours, X, outputs="coordinates").graph.output] == ["coordinates"]


def test_tables(monkeypatch):
    frame = pandas.DataFrame(X, columns=[f"x{place}" for place in range(X.shape[1])]).assign(y=ONE)
    columns = check_columns(frame, "y")
    heard = []
    found = fit_table(frame, columns, kind="learned", tune=True, tell=lambda *told: heard.append(told))
    model = found.model
    assert not found.interrupted
    assert isinstance(model.estimator, MetricSearchCV)
    assert heard[-1] == (15, 15, "kernels and folds scored")
    best, folds = model.estimator.best_estimator_, KFold(5, shuffle=True, random_state=0)
    voting = Pipeline([*clone(best).steps, ("vote", KNeighborsRegressor(model.estimator.n_neighbors_))])
    errors = -cross_val_score(voting, frame.drop(columns="y"), ONE, cv=folds, scoring="neg_mean_squared_error")
    assert model.score == pytest.approx(1 - errors.mean() / ONE.var())
    np.testing.assert_allclose(model.predict(frame), voting.fit(frame.drop(columns="y"), ONE).predict(frame.drop(columns="y")))
    assert model.scoring == "R2"
    assert model.knows_novelty
    assert "averages of nearest neighbours" in model.summary()

    plain, done = scoring_module.evaluate, []

    def tired(*args):
        done.append(1)
        if len(done) == 8:
            raise KeyboardInterrupt
        return plain(*args)

    monkeypatch.setattr(scoring_module, "evaluate", tired)
    with pytest.raises(KeyboardInterrupt):
        fit_table(frame, columns, kind="learned", tune=True)
    done.clear()
    kept = fit_table(frame, columns, kind="learned", tune=True, keep_best=True)
    assert kept.interrupted
    assert kept.model.estimator.best_params_["metric__bandwidth"] == "0.5*median"

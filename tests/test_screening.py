"""Are maps scored out of fold as separate fits would be, with everything that learns from targets learned anew in each fold?"""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris, load_wine, make_friedman1
from sklearn.ensemble import RandomForestClassifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from outmetric import LearnedKernelMetric
from outmetric.automatic import screening as module
from outmetric.automatic.goals import ClassGoal, RealGoal, best_temperature, softmax
from outmetric.automatic.inputs import Distances, Inputs
from outmetric.automatic.ridge import Features, out_of_fold
from outmetric.automatic.screening import Screening
from outmetric.automatic.selection import can_win
from outmetric.automatic.settings import MapSetting, Prepared
from outmetric.foundation import Budget

X, y = load_wine(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
FOLDS = list(KFold(3, shuffle=True, random_state=0).split(X))


def made(goal, *, rows=X, n_landmarks=500, folds=FOLDS, **settings):
    return Screening(Inputs.make(rows, n_landmarks, np.random.default_rng(0), 0), folds, 0, goal=goal, **settings)


@pytest.fixture(scope="module")
def classes():
    return ClassGoal(y, 3)


@pytest.fixture(scope="module")
def searched(classes):
    found = made(classes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW_SAMPLES", 100)
        found.run()
    return found


def kernel_matrix(A, B, bandwidth):
    return np.exp(-cdist(A, B) / bandwidth)


def test_outputs_are_those_of_kernel_ridge_regression(classes):
    distances = Distances.between(X, np.arange(len(X)), "euclidean")
    np.testing.assert_allclose(distances.values, cdist(X, X), atol=1e-6)
    features = Features.of(kernel_matrix(X, X, 3.0), np.arange(len(X)))
    for weights in ([0.3], [1.0, 100.0]):
        found = out_of_fold([features], classes.targets, FOLDS, weights)
        nested = out_of_fold([features] * len(FOLDS), classes.targets, FOLDS, weights)
        np.testing.assert_allclose(found.outputs, nested.outputs, atol=1e-9)
        for place, weight in enumerate(weights):
            for fold, (train, test) in enumerate(FOLDS):
                ridge = KernelRidge(alpha=1 / weight, kernel="precomputed")
                ridge.fit(kernel_matrix(X[train], X[train], 3.0), classes.targets[train])
                expected = ridge.predict(kernel_matrix(X[test], X[train], 3.0))
                np.testing.assert_allclose(found.outputs[place, test], expected, atol=1e-6)
                coefficients = found.coefficients[fold][place]
                np.testing.assert_allclose(kernel_matrix(X[test], X, 3.0) @ coefficients, expected, atol=1e-6)


def test_with_one_output_they_are_the_models_own():
    rows, values = make_friedman1(60, random_state=0)
    goal = RealGoal.make(values[:, None])
    train, test = np.arange(40), np.arange(40, 60)
    inputs = Inputs.make(rows, 500, np.random.default_rng(0), 0)
    prepared = Prepared.of(inputs, "standard", "exponential")
    kernel = prepared.kernel(1.0)
    scaled = inputs.scaled("standard")
    found = out_of_fold([prepared.features(kernel)], goal.targets, [(train, test)], [3.0]).outputs[0, test]
    model = LearnedKernelMetric(kernel="exponential", bandwidth=kernel.bandwidth, regression_weight=3.0, collocation_weight=0.0)
    model.fit(scaled[train], goal.targets[train])
    # The model has no intercept but centres its targets, those of its own training rows.
    centred = model.transform(scaled[test]) - model.metric_.offset
    offset = goal.targets[train].mean(axis=0)
    shifted = out_of_fold([prepared.features(kernel)], goal.targets - offset, [(train, test)], [3.0]).outputs[0, test]
    np.testing.assert_allclose(centred, shifted, atol=1e-6)
    assert np.abs(found - shifted).max() < 1


@pytest.mark.parametrize("seed", range(3))
def test_the_temperature_is_the_best(seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 200)
    scores = rng.normal(size=(200, 3)) + rng.uniform(0.2, 3) * np.eye(3)[labels]
    found = best_temperature(scores, labels)
    losses = {factor: log_loss(labels, softmax(factor * found * scores)) for factor in (0.97, 1.0, 1.03)}
    assert losses[1.0] <= min(losses.values()) + 1e-9


def test_a_temperature_for_scores_that_tell_nothing_is_small():
    labels = np.arange(200) % 2
    assert best_temperature(np.random.default_rng(0).normal(size=(200, 2)), labels) < 0.3


def test_readings_of_classes(classes):
    outputs = classes.targets + np.random.default_rng(0).normal(scale=0.5, size=classes.targets.shape)
    reading = classes.read_map(outputs)
    distances = cdist(outputs, classes.prototypes) ** 2
    expected = np.exp(-reading.temperature * distances)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(reading.predictions, (len(y) * expected + 0.5) / (len(y) + 1.5))
    assert reading.loss == pytest.approx(log_loss(y, reading.predictions))
    assert reading.loss == pytest.approx(classes.row_losses(reading.predictions).mean())
    assert classes.told(reading.predictions)["accuracy"] == np.mean(reading.predictions.argmax(axis=1) == y)
    train, test = FOLDS[0]
    only = ClassGoal(y, 3)
    (found,) = only.read_neighbours([(train, X[train], test, X[test]), (test, X[test], train, X[train])], np.array([5]))
    votes = KNeighborsClassifier(5).fit(X[train], y[train]).predict_proba(X[test]) * 5
    np.testing.assert_allclose(found.predictions[test], (votes + 0.5) / 6.5)
    assert found.n_neighbors == 5


def test_readings_of_real_targets():
    goal = RealGoal.make(np.column_stack([X[:, 0], 100 * X[:, 1] + 7]))
    reading = goal.read_map(goal.targets)
    np.testing.assert_allclose(reading.predictions, goal.values)
    assert reading.loss == pytest.approx(0, abs=1e-20)
    assert goal.told(reading.predictions) == {"R2": pytest.approx(1)}
    constant = goal.read_map(np.zeros_like(goal.targets))
    assert constant.loss == pytest.approx(1)  # in units of the variance
    assert goal.told(constant.predictions) == {"R2": pytest.approx(0)}
    train, test = FOLDS[0]
    (found,) = goal.read_neighbours([(train, X[train], test, X[test]), (test, X[test], train, X[train])], np.array([4]))
    expected = KNeighborsRegressor(4).fit(X[train], goal.values[train]).predict(X[test])
    np.testing.assert_allclose(found.predictions[test], expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_slope_of_real_targets_is_the_best_but_for_a_little(weighted):
    rng = np.random.default_rng(0)
    weights = rng.integers(1, 4, 300).astype(float) if weighted else None
    goal = RealGoal.make(rng.normal(size=(300, 2)), weights)
    for truth in (0.0, 0.4, 1.0, 2.5):
        outputs = goal.targets / truth if truth else rng.normal(size=(300, 2))
        outputs = outputs + 0.3 * rng.normal(size=(300, 2))
        reading = goal.read_map(outputs)
        stacked, counts = outputs.ravel(), np.repeat(np.ones(300) if weights is None else weights, 2)
        best = LinearRegression(fit_intercept=False).fit(stacked[:, None], goal.targets.ravel(), counts).coef_[0]
        assert reading.slope == pytest.approx(max(0.0, (300 * best + 20) / 320))
        np.testing.assert_allclose(reading.predictions, goal.centre + reading.slope * outputs * goal.scale)
    assert goal.read_map(-goal.targets).slope == 0.0
    assert goal.read_map(np.zeros((300, 2))).slope == 1.0


def test_leaders_are_compared_again_with_more_landmarks(classes):
    """With all rows as landmarks the outputs are those of kernel ridge regression on all of them."""
    few, all_rows = made(classes, n_landmarks=12), made(classes)
    few.run()
    fine = [tried for tried in few.ranked if tried.fine]
    assert len({tried.setting.family[:2] for tried in fine}) == module.REFINED
    assert len(few.fine.landmarks) == len(X)
    tried = next(one for one in fine if one.transforms is None and one.setting.scaling is not None)
    same = [one for one in all_rows._plain(tried.setting.scaling, tried.setting.kernel) if one.setting == tried.setting]
    np.testing.assert_allclose(tried.reading.predictions, same[0].reading.predictions, atol=0.02)
    forest = next(iter(few._forest("extra")))
    (again,) = (one for one in few._again(forest) if one.setting == forest.setting)
    whole = next(iter(all_rows._forest("extra")))
    assert again.setting == whole.setting
    np.testing.assert_allclose(again.reading.predictions, whole.reading.predictions, atol=1e-4)
    # Nothing that fewer landmarks told of these is left.
    for known in few.best.values():
        assert len({one.fine for one in known}) == 1


def test_kernels_race_with_their_like():
    """The additive kernel is far ahead of those of distances, which get an input metric all the same."""
    rows = np.random.default_rng(0).uniform(size=(300, 12))
    goal = RealGoal.make(np.sin(6 * rows).sum(axis=1)[:, None])
    searched = made(goal, rows=rows, folds=list(KFold(5).split(rows)))
    searched.run()
    assert searched.ranked[0].setting.kernel == "additive"
    with_metric = {setting.kernel for setting, _ in searched.losses if setting.n_rounds}
    assert "additive" in with_metric
    assert with_metric - {"additive"}


def test_what_is_tried(searched):
    families = {tried.setting.family[:2] for tried in searched.ranked}
    assert {("standard", "rbf"), ("quantile", "laplacian"), ("standard", "additive"), (None, "extra forest")} <= families
    assert any(tried.setting.n_rounds for tried in searched.ranked)
    assert any(tried.setting.power for tried in searched.ranked)
    assert any(tried.reading.n_neighbors for tried in searched.ranked)
    losses = [tried.loss for tried in searched.kept]
    assert losses == sorted(losses)
    assert searched.ranked[0].loss == min(reading.loss for _, reading in searched.losses)
    assert not searched.failures
    assert not searched.left_out


def test_few_rows_are_not_asked_too_much(classes):
    found = made(classes)
    found.run()
    assert {setting.input_metric for setting, _ in found.losses} == {None, "diagonal"}
    assert {reading.n_neighbors for _, reading in found.losses} == {None}


def nested_naively(setting, transform_of_fold):
    """Out-of-fold outputs with inputs that are transformed by what each training part says, by separate solves."""
    goal, outputs = ClassGoal(y, 3), np.zeros((len(y), 2))
    for fold, (train, test) in enumerate(FOLDS):
        rows = X * transform_of_fold(fold, train)
        among = cdist(rows, rows)
        bandwidth = setting.bandwidth * np.median(among[among > 0])
        K = kernel_matrix(rows, rows, bandwidth)
        system = K[np.ix_(train, train)] + np.eye(len(train)) / setting.regression_weight
        outputs[test] = K[np.ix_(test, train)] @ np.linalg.solve(system, goal.targets[train])
    return outputs


def numerical_gradients(points, coefficients, bandwidth, rows):
    step = 1e-6
    found = np.empty((len(rows), coefficients.shape[1], rows.shape[1]))
    for feature in range(rows.shape[1]):
        move = step * np.eye(rows.shape[1])[feature]
        high, low = (kernel_matrix(rows + sign * move, points, bandwidth) @ coefficients for sign in (1, -1))
        found[:, :, feature] = (high - low) / (2 * step)
    return found


def test_input_metrics_are_learned_in_each_fold(classes, monkeypatch):
    monkeypatch.setattr(module, "ROUNDS", 1)
    searched = made(classes)
    *_, start = searched._plain("standard", "exponential")
    setting = start.setting
    among = cdist(X, X)
    bandwidth = setting.bandwidth * np.median(among[among > 0])

    def transform(fold, train):
        K = kernel_matrix(X[train], X[train], bandwidth)
        coefficients = np.linalg.solve(K + np.eye(len(train)) / setting.regression_weight, classes.targets[train])
        # At a training point itself the kernel has no gradient; the one-sided ones cancel.
        jacobians = numerical_gradients(X[train], coefficients, bandwidth, X[train])
        weights = np.sqrt(np.sum(jacobians**2, axis=(0, 1)))
        return weights / weights.max()

    found = list(searched._track(start, "diagonal"))
    assert {tried.setting.n_rounds for tried in found} == {1}
    for tried in found[:: len(found) // 3]:
        expected = classes.read_map(nested_naively(tried.setting, transform)).predictions
        np.testing.assert_allclose(tried.reading.predictions, expected, atol=1e-3)


def test_feature_weights_are_learned_in_each_fold(classes):
    searched = made(classes)
    list(searched._forest("random"))
    *_, start = searched._plain("standard", "exponential")

    def transform(fold, train):
        rng = np.random.default_rng([0, 0, fold])
        forest = RandomForestClassifier(module.FOLD_TREES, random_state=int(rng.integers(2**31))).fit(X[train], y[train])
        return forest.feature_importances_ / forest.feature_importances_.max()

    found = list(searched._weighed(start))
    for tried in found[:: len(found) // 3]:
        assert tried.setting.power == 1
        expected = classes.read_map(nested_naively(tried.setting, transform)).predictions
        np.testing.assert_allclose(tried.reading.predictions, expected, atol=1e-6)


def test_input_metrics_are_learned_from_feature_weights_where_these_help():
    """Of these features two matter, and only together: what a kernel of all of them learns first is noise."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 30))
    goal = RealGoal.make((rows[:, 0] * rows[:, 1])[:, None])
    searched = made(goal, rows=rows, folds=list(KFold(3).split(rows)))
    searched.run()
    by_kernels = [(setting, reading.loss) for setting, reading in searched.losses if setting.scaling is not None]
    plain, weighed, rounds = (
        min(loss for setting, loss in by_kernels if (setting.power, setting.n_rounds > 0) == kind)
        for kind in [(0, False), (1, False), (1, True)]
    )
    assert rounds < weighed < 0.9 * plain
    tried = next(one for one in searched.ranked if one.setting.power and one.setting.n_rounds)
    for transform in (*tried.transforms, searched.transform(tried.setting)):
        size = np.abs(transform) if transform.ndim == 1 else np.sqrt(np.sum(transform**2, axis=1))
        assert set(np.argsort(size)[-2:]) == {0, 1}


@pytest.mark.parametrize("targets", ["classes", "real"])
def test_nothing_is_found_where_there_is_nothing(targets):
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(150, 8)), rng.integers(0, 2, 150)
    goal = ClassGoal(labels, 2) if targets == "classes" else RealGoal.make(rng.normal(size=(150, 1)))
    searched = made(goal, rows=rows, folds=list(KFold(5).split(rows)))
    searched.run()
    chance = np.log(2) if targets == "classes" else 1.0
    assert searched.ranked[0].loss > 0.9 * chance
    for setting, reading in searched.losses:
        assert reading.loss > 0.85 * chance, setting


def test_the_transform_of_all_rows_is_that_of_the_model(classes):
    searched = made(classes)
    searched.run()
    tried = next(
        one for one in searched.ranked if one.setting.n_rounds == 1 and one.setting.kernel != "additive" and not one.setting.power
    )
    parent = tried.setting.parent
    scaled = searched.inputs.scaled(parent.scaling)
    kernel = Prepared.of(searched.inputs, parent.scaling, parent.kernel).kernel(parent.bandwidth)
    model = LearnedKernelMetric(
        kernel=parent.kernel,
        bandwidth=kernel.bandwidth,
        regression_weight=parent.regression_weight,
        collocation_weight=0.0,
        output_penalty="auto",
        input_metric=tried.setting.input_metric,
        n_rounds=1,
    ).fit(scaled, y)
    found = searched.transform(tried.setting)
    metric = found**2 if found.ndim == 1 else found @ found.T
    # B, which the screening takes for I, changes the metric a little.
    assert np.corrcoef((metric / metric.max()).ravel(), (model.input_metric_ / model.input_metric_.max()).ravel())[0, 1] > 0.98


def test_racing_never_drops_an_equal():
    rng = np.random.default_rng(0)
    best = rng.random(50)
    assert can_win(best, best)
    assert can_win(rng.permutation(best), best)
    assert can_win(best - 1, best)
    assert not can_win(best + 1 + 0.01 * rng.normal(size=50), best)


def test_results_do_not_depend_on_the_number_of_jobs(classes, searched, monkeypatch):
    monkeypatch.setattr(module, "FEW_SAMPLES", 100)
    other = made(classes, n_jobs=2)
    other.run()
    assert [setting for setting, _ in other.losses] == [setting for setting, _ in searched.losses]
    assert [reading.loss for _, reading in other.losses] == [reading.loss for _, reading in searched.losses]


def test_without_time_there_is_one_result(classes):
    found = made(classes, budget=Budget(1e-9))
    found.run()
    assert len({setting.family for setting, _ in found.losses}) == 1
    assert found.left_out == ["9 of 10 kernels", "1 of 1 learned input metrics"]


def test_points_that_coincide_are_told(classes):
    with pytest.raises(ValueError, match="all training points coincide"):
        made(classes, rows=np.ones_like(X)).run()


def test_landmarks_come_close():
    rows, labels = load_iris(return_X_y=True)
    goal = ClassGoal(labels, 3)
    folds = list(KFold(5, shuffle=True, random_state=0).split(rows))
    few, all_of_them = (made(goal, rows=rows, folds=folds, n_landmarks=count) for count in (50, 500))
    for one in (few, all_of_them):
        one.stage([("", one._plain, ("standard", "rbf"))], "kernels")
    assert few.ranked[0].loss == pytest.approx(all_of_them.ranked[0].loss, rel=0.3)
    linear = LogisticRegression(max_iter=500)
    assert few.ranked[0].loss < 3 * log_loss(labels, linear.fit(rows, labels).predict_proba(rows)) + 0.1


def test_a_setting_tells_of_itself():
    plain = MapSetting("standard", "rbf", 0.5, 3.0)
    assert plain.description == {"kernel": "rbf", "regression_weight": 3.0, "scaling": "standard", "bandwidth": "0.5*median"}
    assert MapSetting(None, "extra forest", regression_weight=1.0).description == {
        "kernel": "extra forest",
        "regression_weight": 1.0,
    }

"""Does the settings-free classifier choose, vote and explain as it says, on any table?"""

import pickle

import numpy as np
import pandas
import polars
import pytest
from conftest import FEW
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from outmetric import LearnedKernelMetric, MetricClassifier, MetricSearchCV
from outmetric.automatic import base, landmarks, screening
from outmetric.automatic.goals import ClassGoal
from outmetric.automatic.members import to_learn_anew
from outmetric.columns.weights import FeatureWeights
from outmetric.kernels import Forest, Scalar, Transformed

QUICK = {"random_state": 0}  # with one preparation only, see `one_preparation`
EVERYTHING = {name: getattr(screening, name) for name in FEW}
pytestmark = pytest.mark.usefixtures("one_preparation")


@pytest.fixture
def all_preparations(monkeypatch):
    for name, value in EVERYTHING.items():
        monkeypatch.setattr(screening, name, value)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True, as_frame=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X.iloc[order[:90]], y.iloc[order[:90]], X.iloc[order[90:]], y.iloc[order[90:]]


@pytest.fixture(scope="module")
def noisy(one_preparation):
    """Of classes that overlap, so that several candidates have a say."""
    X, y = make_classification(260, 6, n_informative=3, n_classes=3, flip_y=0.3, random_state=0)
    return MetricClassifier(**QUICK).fit(X, y)


@pytest.fixture(scope="module")
def fitted(wine, one_preparation):
    X, y, _, _ = wine
    return MetricClassifier(**QUICK).fit(X, y)


def preparation(candidate):
    return candidate.description["kernel"], candidate.description.get("scaling")


def test_feature_weights_are_shares_of_explained_variance():
    X, y = load_iris(return_X_y=True)
    shares = []
    for column in X.T:
        within = sum(np.sum((column[y == label] - column[y == label].mean()) ** 2) for label in range(3))
        shares.append(1 - within / np.sum((column - column.mean()) ** 2))
    for power in (0.0, 0.25, 1.0):
        weights = FeatureWeights(power).fit(X, y)
        np.testing.assert_allclose(weights.weights_, (np.array(shares) / max(shares)) ** power)
        np.testing.assert_allclose(weights.transform(X), X * weights.weights_)
    constant = np.column_stack([X, np.ones(len(X))])
    assert FeatureWeights(0.5).fit(constant, y).weights_[-1] == 0
    np.testing.assert_array_equal(FeatureWeights(0.5).fit(np.ones((4, 2)), [0, 1, 0, 1]).weights_, 1)


@pytest.mark.parametrize("real", [False, True])
def test_feature_weights_may_be_importances_of_a_forest(real):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = X[:, 2] * X[:, 4] if real else (X[:, 2] * X[:, 4] > 0).astype(int)  # alone neither tells anything
    weights = FeatureWeights(0.5, Forest(n_estimators=30), random_state=3).fit(X, y)
    seed = np.random.default_rng(np.random.RandomState(3).randint(2**31)).integers(2**31)
    forest = (RandomForestRegressor if real else RandomForestClassifier)(30, random_state=int(seed)).fit(X, y)
    importances = forest.feature_importances_
    np.testing.assert_allclose(weights.weights_, np.sqrt(importances / importances.max()))
    assert set(np.argsort(weights.weights_)[-2:]) == {2, 4}
    for wrong in (Forest(forest), "forest"):
        with pytest.raises(ValueError, match="Forest that learns"):
            FeatureWeights(forest=wrong).fit(X, y)


def test_a_map_with_feature_weights_and_an_input_metric_is_learned_anew():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    metric = LearnedKernelMetric(kernel=Transformed(Scalar("rbf", 1.0), np.ones(5))).fit(X, y)
    described = {"kernel": "rbf", "bandwidth": "1*median", "power": 1.0, "input_metric": "diagonal", "n_rounds": 2}
    found = to_learn_anew(Pipeline([("metric", metric)]), described, real=False).fit(X, y)
    assert set(np.argsort(found["weigh"].weights_)[-2:]) == {0, 1}
    assert found[-1].n_rounds == 2
    assert found[-1].kernel == "rbf"


def test_feature_weights_are_learned_inside_each_fold():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 200)), np.arange(60) % 2  # nothing to learn, but much to overfit
    pipeline = Pipeline([("weigh", FeatureWeights(1.0)), ("metric", LearnedKernelMetric())])
    ours = MetricSearchCV(pipeline, {"metric__regression_weight": [3.0]}, n_neighbors=[5], scoring="accuracy", cv=3).fit(X, y)
    theirs = GridSearchCV(
        Pipeline([*pipeline.steps, ("vote", KNeighborsClassifier())]), {"metric__regression_weight": [3.0]}, cv=3
    ).fit(X, y)
    assert ours.best_score_ == pytest.approx(theirs.best_score_)
    assert ours.best_score_ < 0.7
    leaking = MetricSearchCV(LearnedKernelMetric(), {}, n_neighbors=[5], scoring="accuracy", cv=3)
    assert leaking.fit(FeatureWeights(1.0).fit_transform(X, y), y).best_score_ > ours.best_score_ + 0.1


@pytest.mark.slow
@pytest.mark.usefixtures("all_preparations")
def test_the_whole_search_on_a_small_table(wine):
    X, y, X_new, y_new = wine
    model = MetricClassifier(random_state=0).fit(X, y)
    euclidean = KNeighborsClassifier().fit(X, y).score(X_new, y_new)
    assert model.score(X_new, y_new) > euclidean + 0.1
    scores = [candidate.score for candidate in model.candidates_]
    assert scores == sorted(scores, reverse=True)
    assert model.best_score_ == model.committee_[0].candidate.score <= scores[0]
    assert {"rbf", "laplacian", "exponential", "additive", "random forest", "extra forest"} == {
        candidate.description["kernel"] for candidate in model.candidates_
    }
    assert 1 < len(model.committee_) <= 16
    assert sum(member.weight for member in model.committee_) == pytest.approx(1)
    assert {candidate.description.get("n_rounds", 0) for candidate in model.candidates_} >= {0, 1}


def test_probabilities_are_the_weighted_mean_of_the_members(fitted, wine):
    _, _, X_new, _ = wine
    probabilities = fitted.predict_proba(X_new)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    expected = np.zeros_like(probabilities)
    for member in fitted.committee_:
        coordinates = member.pipeline.transform(X_new)
        if member.voters is not None:
            votes = member.voters.predict_proba(coordinates) * member.voters.n_neighbors
            own = (votes + 0.5) / (member.voters.n_neighbors + 1.5)
        else:
            distances = ((coordinates[:, None] - member.pipeline[-1].prototypes_) ** 2).sum(axis=-1)
            own = np.exp(-member.temperature * distances)
            own = (90 * own / own.sum(axis=1, keepdims=True) + 0.5) / (90 + 1.5)
        expected += member.weight * own
    np.testing.assert_allclose(probabilities, expected)
    np.testing.assert_allclose(fitted.predict_log_proba(X_new), np.log(expected))
    np.testing.assert_array_equal(fitted.predict(X_new), fitted.classes_[probabilities.argmax(axis=1)])
    np.testing.assert_allclose(fitted.transform(X_new), fitted.best_estimator_.transform(X_new))
    assert list(fitted.get_feature_names_out()) == ["metricclassifier0", "metricclassifier1"]


def test_both_ways_to_read_a_map_are_there(noisy):
    assert {member.voters is None for member in noisy.committee_} == {True, False}
    maps = {str(member.candidate.description) for member in noisy.committee_}
    assert len({id(member.pipeline) for member in noisy.committee_}) == len(maps)  # one that is read in two ways is fitted once


def test_probabilities_are_those_that_were_promised_out_of_fold():
    X, y = make_classification(600, 6, n_informative=4, n_classes=3, random_state=0)
    model = MetricClassifier(**QUICK).fit(X[:300], y[:300])
    probabilities = model.predict_proba(X[300:])
    found = np.log(probabilities[np.arange(300), y[300:]]).mean()
    assert found == pytest.approx(model.best_score_, abs=0.15)


@pytest.mark.parametrize("others", [29, 99])
def test_rare_classes_are_found_if_that_is_asked_for(others):
    rng = np.random.default_rng(0)
    y, y_new = ((np.arange(n) % (others + 1) == 0).astype(int) for n in (14 * (others + 1), 6000))
    X, X_new = (rng.normal(size=(len(labels), 4)) + 1.2 * labels[:, None] for labels in (y, y_new))
    usual = MetricClassifier(**QUICK).fit(X, y)
    asked = MetricClassifier(scoring="balanced_accuracy", **QUICK).fit(X, y)
    assert usual.class_offsets_.tolist() == [0, 0]
    assert asked.class_offsets_[1] > asked.class_offsets_[0]
    found = [np.mean(model.predict(X_new)[y_new == 1] == 1) for model in (usual, asked)]
    assert found[1] >= found[0] + 0.3
    ranked = MetricClassifier(scoring="average_precision", **QUICK).fit(X, y)
    assert ranked.class_offsets_.tolist() == [0, 0]  # it does not depend on the classes that are named
    with pytest.raises(ValueError, match="nonsense"):
        MetricClassifier(scoring="nonsense", **QUICK).fit(X, y)


def test_the_random_state_decides_the_folds(wine):
    X, y, X_new, _ = wine
    one, two = (MetricClassifier(**QUICK).fit(X, y).predict_proba(X_new) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    other = MetricClassifier(random_state=1).fit(X, y)
    assert other.best_score_ != MetricClassifier(**QUICK).fit(X, y).best_score_


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    frame = pandas.DataFrame(
        {
            "size": rng.normal(size=80) + y,
            "gaps": np.where(rng.random(80) < 0.3, np.nan, y + rng.normal(size=80)),
            "colour": np.where(rng.random(80) < 0.8, np.array(["red", "blue"])[y], "green"),
            "flag": rng.random(80) < 0.5,
            "kind": pandas.Categorical(rng.choice(["a", "b"], 80)),
        }
    )
    frame.loc[::9, "colour"] = None
    return frame, np.array(["no", "yes"])[y]


def test_categories_and_gaps(table):
    X, y = table
    model = MetricClassifier(**QUICK).fit(X.iloc[:60], y[:60])
    assert model.score(X.iloc[60:], y[60:]) > 0.7
    strange = X.iloc[60:].copy()
    strange["colour"] = "never seen"
    strange["size"] = np.nan
    assert np.isfinite(model.predict_proba(strange)).all()
    encoded = model.best_estimator_.named_steps["encode"].get_feature_names_out()
    assert {"numbers__missingindicator_gaps", "categories__colour_red"} <= set(encoded)


def test_missing_values_of_any_kind(table):
    X, y = table
    expected = MetricClassifier(**QUICK).fit(X, y).predict_proba(X)
    nullable = X.astype({"colour": "string", "gaps": "Float64"})
    assert nullable["colour"].isna().any()
    np.testing.assert_array_equal(MetricClassifier(**QUICK).fit(nullable, y).predict_proba(nullable), expected)


def test_polars_frames(table):
    X, y = table
    frame = polars.from_pandas(X[["size", "gaps", "colour"]])
    model = MetricClassifier(**QUICK).fit(frame[:60], y[:60])
    assert model.score(frame[60:], y[60:]) > 0.7


def test_arrays_with_gaps():
    X, y = load_iris(return_X_y=True)
    X = X.copy()
    X[::7, 2] = np.nan
    model = MetricClassifier(**QUICK).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9


def test_many_samples_are_searched_on_a_part(monkeypatch, wine):
    X, y, X_new, y_new = wine
    monkeypatch.setattr(base, "SEARCHED_ROWS", 60)
    monkeypatch.setattr(base, "SEARCHED_LANDMARKS", 40)
    searched = []
    plain = screening.Screening.run
    monkeypatch.setattr(screening.Screening, "run", lambda self: searched.append(self.inputs) or plain(self))
    model = MetricClassifier(**QUICK).fit(X, y)
    assert model.best_estimator_[-1].solver_ == "spectral"
    assert model.best_estimator_[-1].n_samples_fit_ == 90
    assert (len(searched[0].numbers), len(searched[0].landmarks)) == (60, 40)
    assert model.score(X_new, y_new) > 0.9
    rare = np.zeros(90, dtype=int)
    rare[0], rare[1:40] = 2, 1
    assert MetricClassifier(**QUICK).fit(X, rare).classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize(("gain", "expected"), [(0.9, 16), (-10.0, 32)])
def test_as_many_landmarks_as_the_data_reward(monkeypatch, wine, gain, expected):
    X, y, X_new, y_new = wine
    for name, value in {"EXACT_SAMPLES": 60, "LANDMARKS": 16, "MOST": 79, "SHARE": 2, "VALIDATION": 20, "GAIN": gain}.items():
        monkeypatch.setattr(landmarks, name, value)
    model = MetricClassifier(**QUICK).fit(X, y)
    assert {member.pipeline[-1].n_landmarks_ for member in model.committee_} == {expected}
    assert model.score(X_new, y_new) > 0.9


@pytest.mark.parametrize("seed", range(3))
def test_a_class_of_one_row_is_learned_from_when_landmarks_are_compared(monkeypatch, seed):
    monkeypatch.setattr(landmarks, "EXACT_SAMPLES", 0)
    monkeypatch.setattr(landmarks, "LANDMARKS", 20)
    monkeypatch.setattr(landmarks, "MOST", 40)
    monkeypatch.setattr(landmarks, "VALIDATION", 200)
    X, y = make_classification(500, 4, n_informative=3, n_redundant=0, random_state=0)
    y[:1] = 2
    model = MetricClassifier(random_state=seed).fit(X, y)
    assert model.predict_proba(X).shape == (500, 3)


def test_rare_classes_do_not_take_folds_from_the_others():
    labels = np.array([0] * 60 + [1] * 60 + [2] * 2)
    folds = ClassGoal(labels, 3).folds(np.random.RandomState(0))
    assert len(folds) == 5
    for train, test in folds:
        assert len(np.intersect1d(train, test)) == 0
        assert set(labels[test].tolist()) >= {0, 1}
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in folds])), np.arange(122))


def test_a_scorer_that_does_not_suit_the_classes_is_told_before_the_search(monkeypatch):
    monkeypatch.setattr(screening.Screening, "run", lambda self: pytest.fail("searched"))
    with pytest.raises(ValueError, match="multi_class must be in"):
        MetricClassifier(scoring="roc_auc", **QUICK).fit(*load_iris(return_X_y=True))


def test_scores_count_rows_as_often_as_they_weigh():
    """A discount of the classes' frequencies follows the weights, as those of repeated rows."""
    labels, weights = np.array([0] * 12 + [1] * 4), np.array([1.0] * 12 + [3.0] * 4)
    goal = ClassGoal(labels, 2, weights)
    rows = goal.as_often_as_counted
    counts = np.bincount(labels[rows])
    assert abs(counts[0] / counts[1] - 1.0) < 0.2
    np.testing.assert_array_equal(ClassGoal(labels, 2, np.ones(16)).as_often_as_counted, np.arange(16))


def test_a_map_that_fails_on_all_data_is_left_out(noisy, monkeypatch):
    X, y = make_classification(260, 6, n_informative=3, n_classes=3, flip_y=0.3, random_state=0)
    plain, calls = LearnedKernelMetric.fit, []

    def fails_first(self, X, y, sample_weight=None):
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("not today")
        return plain(self, X, y, sample_weight)

    monkeypatch.setattr(LearnedKernelMetric, "fit", fails_first)
    again = MetricClassifier(**QUICK).fit(X, y)
    first = noisy.committee_[0].candidate
    left = [member.candidate.description for member in noisy.committee_ if member.candidate.description != first.description]
    assert [member.candidate.description for member in again.committee_] == left
    assert sum(member.weight for member in again.committee_) == pytest.approx(1)
    monkeypatch.setattr(
        LearnedKernelMetric, "fit", lambda self, X, y, sample_weight=None: (_ for _ in ()).throw(ValueError("never"))
    )
    with pytest.raises(ValueError, match="never"):
        MetricClassifier(**QUICK).fit(X, y)


def test_it_tells_what_it_chose(fitted):
    text = fitted.summary()
    assert "a classifier, by distances and votes in learned maps" in text
    assert f"{len(fitted.committee_)} maps vote" in text
    assert "left out" not in text
    assert "kernel rbf" in text


def test_progress_goes_to_stderr(wine, capsys):
    X, y, _, _ = wine
    MetricClassifier(verbose=True, **QUICK).fit(X, y)
    told = capsys.readouterr()
    assert told.out == ""
    assert "rbf, standard" in told.err


def test_progress_can_go_to_a_function(wine, fitted):
    X, y, _, _ = wine
    told = []
    MetricClassifier(**QUICK, verbose=lambda *news: told.append(news)).fit(X, y)
    assert told == [(0, 1, "rbf, standard"), (1, 1, f"fitting {len(fitted.committee_)} maps")]


def test_two_rows_are_enough(one_preparation):
    rows = np.array([[0.0, 1.0], [2.0, 3.0]])
    for X in (rows, pandas.DataFrame(rows, columns=["a", "b"])):
        np.testing.assert_array_equal(MetricClassifier(random_state=0).fit(X, ["b", "a"]).predict(X), ["b", "a"])
        with pytest.raises(ValueError, match=r"at least 2 rows|minimum of 2 is required"):
            MetricClassifier().fit(X[:1], ["b"])


def test_there_is_no_metric_before_the_fit():
    with pytest.raises(NotFittedError):
        MetricClassifier().get_metric()


def interrupt_after(count):
    """A function for ``verbose`` that interrupts when so many preparations are done."""

    def tell(done, total, text):
        if done == count:
            raise KeyboardInterrupt

    return tell


@pytest.mark.usefixtures("all_preparations")
def test_an_interrupted_search_can_be_finished(wine):
    X, y, X_new, _ = wine
    model = MetricClassifier(random_state=0, verbose=interrupt_after(2))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X_new)
    preparations = {preparation(candidate) for candidate in model.candidates_}
    assert preparations == {("random forest", None), ("exponential", "standard")}
    model.set_params(verbose=False).finish(X, y)
    assert {preparation(member.candidate) for member in model.committee_} <= preparations
    assert np.mean(model.predict(X) == y) > 0.9


def test_an_interrupt_before_anything_was_scored_leaves_nothing(wine, fitted):
    X, y, X_new, _ = wine
    model = clone(fitted).fit(X, y).set_params(verbose=interrupt_after(0))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X_new)  # not by the committee of the first fit
    with pytest.raises(NotFittedError, match="nothing to go on from"):
        model.finish(X, y)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_rows_of_a_table_may_come_without_names(table):
    X, y = table
    model = MetricClassifier(**QUICK).fit(X, y)
    rows = X.astype(object).to_numpy()
    np.testing.assert_array_equal(model.predict_proba(rows), model.predict_proba(X))
    rows[pandas.isna(X).to_numpy()] = None
    np.testing.assert_array_equal(model.predict_proba(rows), model.predict_proba(X))


def test_it_survives_pickling_and_cloning(fitted, wine):
    _, _, X_new, _ = wine
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X_new), fitted.predict_proba(X_new))
    assert clone(fitted).get_params() == fitted.get_params()


@pytest.mark.parametrize(
    ("X", "y", "settings", "message"),
    [
        (np.ones((4, 2)), [0, 0, 0, 0], {}, "one class only"),
        (np.ones((4, 2)), [0, 1, 0, 1], {"time_budget": -1}, "time_budget must be a finite number > 0"),
        (pandas.DataFrame({"when": pandas.to_timedelta([1, 2, 3, 4])}), [0, 1, 0, 1], {}, r"columns \['when'\] hold times"),
        (np.ones((4, 2)), None, {}, "requires y"),
        (np.ones((8, 2)), [0, 1] * 4, {}, "all training points coincide"),
        (np.ones((4, 2)), [0, 1, 0], {}, "inconsistent numbers of samples"),
        (np.array([[1.0], [np.inf], [2.0], [3.0]]), [0, 1, 0, 1], {}, "infinity"),
        (np.eye(4), [0.1, 0.2, 0.3, 0.4], {}, "Unknown label type"),
    ],
)
def test_bad_input(X, y, settings, message):
    with pytest.raises(ValueError, match=message):
        MetricClassifier(**settings).fit(X, y)


GAPS = {
    "None": np.array(["a", "b", "a", None] * 10, dtype=object),
    "NA among texts": pandas.Series(["a", "b", "a", None] * 10, dtype="string"),
    "NA among numbers": pandas.Series([0, 1, 0, None] * 10, dtype="Int64"),
    "NaN": np.array([0, 1, 0, np.nan] * 10),
}


@pytest.mark.parametrize("case", GAPS)
@pytest.mark.parametrize("model", [MetricClassifier(**QUICK), MetricSearchCV(LearnedKernelMetric(), {}), LearnedKernelMetric()])
def test_a_gap_in_y_is_told_with_its_place(model, case):
    with pytest.raises(ValueError, match=r"in 10 places, .*The first is y\[3\]"):
        model.fit(np.random.default_rng(0).normal(size=(40, 2)), GAPS[case])


@pytest.mark.filterwarnings("ignore:A column-vector y")
@pytest.mark.parametrize("y", [np.arange(40), np.arange(40.0)[:, None], np.linspace(0, 1, 40)[:, None]])
def test_real_targets_are_not_for_classifiers(y):
    with pytest.raises(ValueError, match="learns classes; for real targets, take MetricRegressor") as caught:
        MetricClassifier(**QUICK).fit(np.random.default_rng(0).normal(size=(40, 2)), y)
    assert "astype" not in str(caught.value)


UNUSABLE = {
    "words and numbers": ({"b": [1, 2, "x", 4] * 10}, "'b' mixes numbers and words, 1 in row 1 and 'x' in row 3"),
    "infinity": ({"b": [1.0, 2.0, 3.0, np.inf] * 10}, "'b' has an infinite number in row 4"),
    "lists": ({"b": [[1], [2]] * 20}, "'b' holds nested values"),
    "spans": ({"b": pandas.date_range("2020", periods=40) - pandas.Timestamp("2020")}, r"\['b'\] hold times"),
    "times": ({"b": pandas.date_range("2020", periods=40, freq="h").time}, r"\['b'\] hold times"),
    "no such day": ({"b": ["2020-02-29", "2021-02-29"] * 20}, "'b' should hold dates, .* has '2021-02-29' in row 2"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_columns_that_cannot_be_used_are_named(case):
    columns, message = UNUSABLE[case]
    frame = pandas.DataFrame({"a": np.random.default_rng(0).normal(size=40), **columns})
    with pytest.raises(ValueError, match=message):
        MetricClassifier(**QUICK).fit(frame, np.arange(40) % 2)


@pytest.mark.parametrize("model", [MetricClassifier(**QUICK), LearnedKernelMetric()])
def test_names_of_columns_must_differ(model):
    frame = pandas.DataFrame(np.eye(6)[:, :3], columns=["a", "b", "a"])
    with pytest.raises(ValueError, match="several columns named 'a'"):
        model.fit(frame, [0, 1] * 3)


def test_entries_that_are_no_numbers_are_located():
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = np.arange(40) % 2
    X[5, 1] = np.inf
    for model in (MetricClassifier(**QUICK), LearnedKernelMetric()):
        with pytest.raises(ValueError, match=r"infinity.*X\[5, 1\]"):
            model.fit(X, y)
    frame = pandas.DataFrame(X, columns=list("abc"))
    with pytest.raises(ValueError, match=r"infinity.*column 'b', row 6"):
        LearnedKernelMetric().fit(frame, y)
    with pytest.raises(ValueError, match=r"string.*column 'b', row 3"):
        LearnedKernelMetric().fit(frame.assign(b=["1", "2", "x", "y"] * 10), y)
    with pytest.raises(ValueError, match=r"string.*column 'b', row 3") as caught:
        LearnedKernelMetric().fit(polars.DataFrame({"a": X[:4, 0], "b": ["1", "2", "x", "y"]}), y[:4])
    assert "features" not in str(caught.value)


def test_a_gap_that_only_new_rows_have():
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = np.arange(40) % 2
    new = X[:4].copy()
    new[2, 1] = np.nan
    model = MetricClassifier(**QUICK).fit(X, y)
    for method in (model.predict, model.transform):
        with pytest.raises(ValueError, match=r"X\[2, 1\].*had no missing values; .* fit on a DataFrame") as caught:
            method(new)
        assert "FeatureWeights" not in str(caught.value)
    named = MetricClassifier(**QUICK).fit(pandas.DataFrame(X, columns=list("abc")), y)
    assert named.predict(pandas.DataFrame(new, columns=list("abc"))).shape == (4,)


@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame])
def test_a_column_that_names_the_rows_is_told(frame):
    y = np.arange(40) % 2
    columns = {"size": np.random.default_rng(0).normal(size=40), "id": [f"row {k}" for k in range(40)]}
    with pytest.warns(UserWarning, match="column 'id' has 40 different texts in 40 rows, .* identifier"):
        model = MetricClassifier(**QUICK).fit(frame(columns), y)
    model.predict(frame(columns))  # a table that is not learned from is no reason to warn
    half = {**columns, "id": [f"group {k // 2}" for k in range(40)]}
    MetricClassifier(**QUICK).fit(frame(half), y)


def test_a_table_beyond_memory_once_it_is_encoded(monkeypatch):
    frame = pandas.DataFrame({"size": np.arange(90.0), "town": [f"t{k // 3}" for k in range(90)], "kind": ["a", "b"] * 45})
    monkeypatch.setattr("outmetric.foundation.memory.available_memory", lambda: 90 * 8 * (1 + 30 + 2) - 1)
    with pytest.raises(MemoryError, match=r"the encoded table needs .* many categories \('town': 30, 'kind': 2\)"):
        MetricClassifier(**QUICK).fit(frame, np.arange(90) % 2)


def choosing_by_folds(estimator):
    """Repeated rows are divided among folds, weights are not (tests/test_weights.py has what holds)."""
    names = [f"check_sample_weight_equivalence_on_{form}_data" for form in ("dense", "sparse")]
    return dict.fromkeys(names, "a repeated row may be on both sides of a fold")


@parametrize_with_checks([MetricClassifier(**QUICK), FeatureWeights()], expected_failed_checks=choosing_by_folds)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_scikit_learns_checks(estimator, check):
    check(estimator)

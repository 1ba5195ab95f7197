"""Do pictures show what they claim?"""

from copy import copy
from dataclasses import replace

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgb
from scipy.spatial.distance import cdist
from scipy.stats import norm
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_curve
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricClassifier, MetricSearchCV, plots
from outmetric.baselines import ITML, LMNN
from outmetric.datasets import make_waveform
from outmetric.maps.canvas import COLOURS, HATCHES, look
from outmetric.verification import PairVerifier, draw_pairs

mpl.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def waves():
    X, y = make_waveform(90, random_state=0)
    return X[:45], np.array(["a", "b", "c"])[y[:45]], X[45:], np.array(["a", "b", "c"])[y[45:]]


@pytest.fixture(scope="module")
def plane(waves):
    return LearnedKernelMetric(2).fit(waves[0], waves[1])


def places(ax):
    """Where marks were drawn, by colour and in the order of drawing."""
    found = {}
    for marks in ax.collections:
        offsets = np.ma.getdata(np.column_stack(marks._offsets3d) if ax.name == "3d" else marks.get_offsets())
        found.setdefault(to_hex(marks.get_facecolor()[0]), []).append(offsets)
    return found


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def names(ax):
    """What is written on a map."""
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("model", [FixedKernelMetric, LearnedKernelMetric])
@pytest.mark.filterwarnings("ignore:n_components=3")
@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_maps_show_every_point_where_transform_puts_it(model, n_components, waves):
    X_train, y_train, X, y = waves
    fitted = model(n_components).fit(X_train, y_train)
    ax = plots.output_map(fitted, X, y, X_train=X_train, y_train=y_train)
    targets = fitted.prototypes_ @ fitted.metric_factor_.T
    shown = min(n_components, 3)
    for index, name in enumerate("abc"):
        behind, front, target = places(ax)[look(index)["color"]]
        np.testing.assert_allclose(behind[:, :shown], fitted.transform(X_train)[y_train == name])
        np.testing.assert_allclose(front[:, :shown], fitted.transform(X)[y == name])
        np.testing.assert_allclose(target[0, :shown], targets[index])
    assert ax.name == {1: "rectilinear", 2: "rectilinear", 3: "3d"}[n_components]


def test_classes_are_named(waves, plane):
    X, y = waves[2:]
    ax = plots.output_map(plane, X, y)
    assert names(ax) == ["a", "b", "c"]
    assert ax.get_legend() is None
    assert legend(plots.output_map(plane, X, y, legend=True)) == ["a", "b", "c"]
    assert names(plots.output_map(LearnedKernelMetric(1).fit(X, y), X, y)) == ["a", "b", "c"]
    long = np.where(y == "a", "a name that is far too long for any map", y)
    model = LearnedKernelMetric(2).fit(X, long)
    assert names(plots.output_map(model, X, long))[0] == "a name that is … any map"
    assert legend(plots.output_map(model, X, long, legend=True))[0] == "a name that is … any map"


def test_marks_differ_wherever_colours_repeat():
    looks = [tuple(look(index).values()) for index in range(100)]
    assert len(set(looks)) == 100
    assert len({marker for _, marker in looks[:13]}) == 13


def test_a_class_without_points_keeps_the_looks_of_the_others(waves, plane):
    X, y = waves[2:]
    ax = plots.output_map(plane, X[y != "a"], y[y != "a"])
    np.testing.assert_allclose(places(ax)[look(1)["color"]][0], plane.transform(X)[y == "b"])
    assert names(ax) == ["a", "b", "c"]
    np.testing.assert_allclose(ax.texts[0].xy, (plane.prototypes_ @ plane.metric_factor_.T)[0])  # named at its target
    assert legend(plots.output_map(plane, X[y != "a"], y[y != "a"], legend=True)) == ["a", "b", "c"]


def test_many_points_are_all_drawn_and_no_class_on_top(plane):
    X, y = make_waveform(900, random_state=1)
    ax = plots.output_map(plane, X, np.array(["a", "b", "c"])[y])
    few = plots.output_map(plane, X[:90], np.array(["a", "b", "c"])[y[:90]])
    drawn = np.concatenate([marks for turns in places(ax).values() for marks in turns[:-1]])
    np.testing.assert_allclose(np.sort(drawn[:, 0]), np.sort(plane.transform(X)[:, 0]))
    order = [to_hex(marks.get_facecolor()[0]) for marks in ax.collections[:6]]
    assert order == [look(index)["color"] for index in (0, 1, 2, 0, 1, 2)]
    assert ax.collections[0].get_sizes()[0] < few.collections[0].get_sizes()[0]


@pytest.mark.filterwarnings("ignore:n_components=3")
@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_real_targets_are_told_by_colour(n_components, waves):
    X = waves[0]
    target = X[:, 5]
    fitted = LearnedKernelMetric(n_components).fit(X, X[:, 5:8])
    ax = plots.output_map(fitted, X[:30], target[:30], X_train=X[30:], y_train=target[30:])
    behind, front = ax.collections[:2]
    np.testing.assert_allclose(front.get_array(), target[:30])
    np.testing.assert_allclose(behind.get_array(), target[30:])
    assert front.get_clim() == behind.get_clim() == (target.min(), target.max())
    bars = [other.get_ylabel() for other in ax.figure.axes[1:]]
    assert bars == {1: [], 2: ["target"], 3: ["target"]}[n_components]
    heights = {1: target[:30], 2: fitted.transform(X[:30])[:, -1], 3: fitted.transform(X[:30])[:, -1]}[n_components]
    drawn = np.ma.getdata(front._offsets3d[2] if n_components == 3 else front.get_offsets()[:, 1])
    np.testing.assert_allclose(np.sort(drawn), np.sort(heights))


def inside(X, y):
    """Models that hold a metric."""
    return {
        "pipeline": make_pipeline(StandardScaler(), LearnedKernelMetric(2)).fit(X, y),
        "with voters": make_pipeline(StandardScaler(), LearnedKernelMetric(2), KNeighborsClassifier(3)).fit(X, y),
        "search": MetricSearchCV(
            make_pipeline(StandardScaler(), LearnedKernelMetric(2)), {"learnedkernelmetric__bandwidth": [3.0]}, n_neighbors=7, cv=3
        ).fit(X, y),
        "classifier": MetricClassifier(time_budget=1e-3, random_state=0).fit(X, y),
        "linear": LMNN(2).fit(X, y),
    }


@pytest.fixture(scope="module")
def models(waves):
    return inside(waves[0], waves[1])


def coordinates(model, X):
    return (model[:2] if hasattr(model, "steps") else model).transform(X)


@pytest.mark.parametrize("name", ["pipeline", "with voters", "search", "classifier", "linear"])
def test_the_metric_is_found_inside(name, models, waves):
    X, y = waves[2:]
    ax = plots.output_map(models[name], X, y)
    for index, label in enumerate("abc"):
        np.testing.assert_allclose(places(ax)[look(index)["color"]][0], coordinates(models[name], X)[y == label])


def votes(fields, points, labels, count):
    """The classes of the ``count`` nearest points, counted."""
    nearest = np.argsort(cdist(fields, points), axis=1, kind="stable")[:, :count]
    return np.array([np.bincount(row, minlength=3) for row in labels[nearest]])


def check_regions(ax, points, labels, count):
    """Each field has the pale colour of a class with most votes."""
    image = ax.images[0]
    rows, columns = image.get_array().shape[:2]
    left, right, bottom, top = image.get_extent()
    x = left + (np.arange(columns) + 0.5) * (right - left) / columns
    y = bottom + (np.arange(rows) + 0.5) * (top - bottom) / rows
    counted = votes(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2), points, labels, count)
    pale = np.array([1 - 0.3 * (1 - np.array(to_rgb(look(index)["color"]))) for index in range(3)])
    shown = np.linalg.norm(image.get_array().reshape(-1, 1, 3) - pale, axis=2).argmin(axis=1)
    np.testing.assert_allclose(image.get_array().reshape(-1, 3), pale[shown])
    np.testing.assert_array_equal(counted[np.arange(len(shown)), shown], counted.max(axis=1))
    (low, high), (lower, upper) = ax.get_xlim(), ax.get_ylim()
    assert left <= low < high <= right
    assert bottom <= lower < upper <= top


def test_regions_are_the_votes_of_neighbours(waves, plane):
    X_train, y_train, X, y = waves
    codes = np.searchsorted(["a", "b", "c"], y_train)
    ax = plots.decision_map(plane, X, y, X_train=X_train, y_train=y_train, resolution=25)
    check_regions(ax, plane.transform(X_train), codes, 5)
    assert max(ax.images[0].get_array().shape) == 25
    ax = plots.decision_map(plane, X_train, y_train, n_neighbors=11, resolution=25)
    check_regions(ax, plane.transform(X_train), codes, 11)
    np.testing.assert_allclose(ax.collections[1].get_offsets(), plane.transform(X_train)[y_train == "b"])


@pytest.mark.parametrize(("name", "count"), [("with voters", 3), ("search", 7)])
def test_a_model_votes_with_its_own_neighbours(name, count, models, waves):
    X_train, y_train, X, y = waves
    codes = np.searchsorted(["a", "b", "c"], y_train)
    points = coordinates(models[name], X_train)
    check_regions(plots.decision_map(models[name], X, y, resolution=25), points, codes, count)
    check_regions(plots.decision_map(models[name], X, y, n_neighbors=1, resolution=25), points, codes, 1)
    check_regions(plots.decision_map(models[name], X, y, resolution=25), points, codes, count)  # and was not changed


def test_the_regions_of_a_classifier_are_those_of_its_best_map(models, waves):
    X_train, y_train, X, y = waves
    classifier, codes = models["classifier"], np.searchsorted(["a", "b", "c"], y_train)
    best = classifier.committee_[0]
    assert best.voters is None
    check_regions(plots.decision_map(classifier, X, y, resolution=25), classifier.transform(X_train), codes, 5)
    voting = copy(classifier)
    voters = KNeighborsClassifier(9).fit(classifier.transform(X_train), codes)
    voting.committee_ = [replace(best, voters=voters, temperature=None)]
    check_regions(plots.decision_map(voting, X, y, resolution=25), classifier.transform(X_train), codes, 9)


GREY = to_hex("0.45")


def grey(ax):
    return np.concatenate(places(ax)[GREY])


@pytest.mark.filterwarnings("ignore:n_components=3")
@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_maps_without_labels_are_grey(waves, n_components):
    X, y = waves[:2]
    model = LearnedKernelMetric(n_components).fit(X, y)
    ax = plots.output_map(model, X)
    np.testing.assert_allclose(grey(ax)[:, :n_components], model.transform(X))
    assert set(places(ax)) == {GREY, *(colour for colour in COLOURS[:3])}  # the targets of the classes have colours
    real = LearnedKernelMetric(1).fit(X, X[:, :1])
    assert set(places(plots.output_map(real, X))) == {GREY}


def test_new_points_without_labels_over_training_points_with_labels(waves, plane):
    X_train, y_train, X, _ = waves
    ax = plots.output_map(plane, X, X_train=X_train, y_train=y_train)
    np.testing.assert_allclose(grey(ax), plane.transform(X))
    np.testing.assert_allclose(places(ax)[COLOURS[0]][0], plane.transform(X_train[y_train == "a"]))
    assert names(ax) == ["a", "b", "c"]


def test_maps_by_labels_that_are_not_the_models(waves, plane):
    X, y = waves[:2]
    other = np.where(X[:, 0] > 0, "up", "down")
    ax = plots.output_map(plane, X, pd.Series(other, name="side"))
    assert legend(ax) == ["down", "up"]
    assert ax.get_legend().get_title().get_text() == "side"
    np.testing.assert_allclose(np.concatenate(places(ax)[COLOURS[1]]), plane.transform(X[other == "up"]))
    assert set(places(ax)) == set(COLOURS[:2])  # without the targets of classes that are not drawn
    more = plots.output_map(plane, X, np.where(np.arange(45) < 5, "z", y))
    assert legend(more) == ["a", "b", "c", "z"]
    assert legend(plots.output_map(LearnedKernelMetric(2).fit(X, X[:, :2]), X, y)) == ["a", "b", "c"]


@pytest.mark.parametrize("y", [np.linspace(-2.5, 3, 45), np.arange(45.0)[:, None], pd.Series(np.linspace(0.5, 3, 45), name="age")])
def test_maps_by_real_values(waves, plane, y):
    ax = plots.output_map(plane, waves[0], y)
    (marks,) = ax.collections
    np.testing.assert_allclose(marks.get_array(), np.ravel(y))
    bar = ax.figure.axes[1]
    assert bar.get_ylabel() == getattr(y, "name", "value")
    line = plots.output_map(LearnedKernelMetric(1).fit(*waves[:2]), waves[0], y)
    np.testing.assert_allclose(line.collections[0].get_offsets()[:, 1], np.ravel(y))


def test_points_whose_label_is_missing_are_grey(waves, plane):
    ax = plots.output_map(plane, waves[0], [None, "u", "v"] * 15)
    np.testing.assert_allclose(grey(ax), plane.transform(waves[0][::3]))
    assert legend(ax) == ["u", "v"]


def test_points_whose_value_is_missing_are_hollow(waves, plane):
    hollow, marks = plots.output_map(plane, waves[0], [np.nan, 0.5, 1.5] * 15).collections
    assert len(hollow.get_facecolor()) == 0
    np.testing.assert_allclose(hollow.get_offsets(), plane.transform(waves[0][::3]))
    np.testing.assert_allclose(marks.get_array(), [0.5, 1.5] * 15)


def test_maps_that_cannot_be_drawn(waves, plane):
    X, y = waves[:2]
    many = LearnedKernelMetric().fit(X, np.arange(45) % 5)
    real = LearnedKernelMetric().fit(X, X[:, :2])
    with pytest.raises(ValueError, match="the model has 4"):
        plots.output_map(many, X, np.arange(45) % 5, ax=plt.figure().add_subplot())
    with pytest.raises(ValueError, match="the model has 4"):
        plots.decision_map(many, X, np.arange(45) % 5)
    with pytest.raises(ValueError, match="the model has 1: output_map draws it"):
        plots.decision_map(MetricClassifier(time_budget=1e-3, random_state=0).fit(X, np.arange(45) % 2), X, np.arange(45) % 2)
    with pytest.raises(ValueError, match="y has 2 columns"):
        plots.output_map(real, X, X[:, :2])
    with pytest.raises(ValueError, match="real targets"):
        plots.decision_map(real, X, X[:, 0])
    with pytest.raises(ValueError, match=r"does not know: \['d'\]"):
        plots.decision_map(plane, X, np.full(45, "d"))
    with pytest.raises(ValueError, match="one of y and y_train holds labels and the other real values"):
        plots.output_map(plane, X, X[:, 0], X_train=X, y_train=y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        plots.output_map(plane, X, y[:-1])
    with pytest.raises(TypeError, match="StandardScaler is, or holds, no metric"):
        plots.output_map(StandardScaler().fit(X), X, y)
    with pytest.raises(NotFittedError):
        plots.output_map(LearnedKernelMetric(), X, y)


def test_point_maps_show_classes_of_either_kind_of_points(waves):
    X_train, y_train, X, y = waves
    train, test = X_train[:, :2], X[:, :2]
    ax = plots.point_map(test[y != "b"], y[y != "b"], train=train[y_train != "a"], y_train=y_train[y_train != "a"])
    assert legend(ax) == ["a", "b", "c"]
    np.testing.assert_allclose(places(ax)[look(1)["color"]][0], train[y_train == "b"])
    np.testing.assert_allclose(places(ax)[look(2)["color"]][1], test[y == "c"])
    assert plots.point_map(X[:, :3], y).name == "3d"


@pytest.mark.parametrize(
    ("model", "values", "distance"),
    [
        (LearnedKernelMetric(), ["objective", "fit", "roughness", "penalty"], "gap"),
        (FixedKernelMetric(), ["objective", "fit", "roughness", "penalty"], "optimality"),
        (LMNN(), ["objective", "rounded"], "steepness"),
        (ITML(random_state=0), ["divergence"], "correction"),
    ],
)
def test_the_history_shows_every_record(model, values, distance, waves):
    pipeline = make_pipeline(StandardScaler(), model).fit(waves[0], waves[1])
    ax = plots.history(pipeline)
    records = pipeline[-1].history_
    assert [line.get_label() for line in ax.lines] == values
    for line in ax.lines:
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, len(records) + 1))
        np.testing.assert_array_equal(line.get_ydata(), [getattr(record, line.get_label()) for record in records])
    (twin,) = (other for other in ax.figure.axes if other is not ax)
    assert twin.get_yscale() == "log"
    np.testing.assert_array_equal(twin.lines[0].get_ydata(), [getattr(record, distance) for record in records])
    assert len(legend(ax)) == len(values) + 1


def test_an_exact_zero_leaves_a_gap_on_the_logarithmic_axis(waves):
    model = LearnedKernelMetric().fit(waves[0], waves[1])
    model.history_ = (*model.history_[:-1], replace(model.history_[-1], optimality=0.0))
    drawn = plots.history(model).figure.axes[1].lines[0].get_ydata()
    assert np.isnan(drawn[-1])
    assert np.all(drawn[:-1] > 0)


def test_the_matrices_are_those_of_the_metric(waves):
    X, y = StandardScaler().fit_transform(waves[0]), waves[1]
    learned, fixed = LearnedKernelMetric().fit(X, y), FixedKernelMetric().fit(X, y)
    for ax, matrix in [
        (plots.metric_matrix(learned), learned.output_matrix_),
        (plots.metric_matrix(learned, "A"), np.eye(2)),
        (plots.metric_matrix(fixed), fixed.metric_matrix_),
    ]:
        image = ax.images[0]
        np.testing.assert_allclose(image.get_array(), matrix)
        assert image.get_clim() == (-np.abs(matrix).max(), np.abs(matrix).max())
        written = {text.get_position(): float(text.get_text()) for text in ax.texts}
        np.testing.assert_allclose([[written[column, row] for column in (1, 2)] for row in (1, 2)], matrix, atol=0.005)
    linear = plots.metric_matrix(LMNN().fit(X, y))
    assert not linear.texts
    assert linear.images[0].get_array().shape == (21, 21)
    with pytest.raises(ValueError, match="FixedKernelMetric has no matrix B"):
        plots.metric_matrix(fixed, "B")
    with pytest.raises(ValueError, match="which='C'"):
        plots.metric_matrix(learned, "C")


def test_a_linear_metric_names_the_features(waves):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(waves[0][:, :3], columns=["height", "width", "a feature with a name that is long"])
    names = [text.get_text() for text in plots.metric_matrix(LMNN().fit(table, waves[1])).get_yticklabels()]
    assert names == ["height", "width", "a feature with … is long"]
    plain = plots.metric_matrix(LearnedKernelMetric(2).fit(table.iloc[:, :2], waves[1]))
    assert [text.get_text() for text in plain.get_yticklabels()] == ["1", "2"]


def shares(points, y, references, labels, count, *, itself):
    distances = cdist(points, references)
    distances[np.diag_indices(len(points) * itself)] = np.inf
    nearest = np.argsort(distances, axis=1)[:, :count]
    return np.mean(labels[nearest] == y[:, None], axis=1)


@pytest.mark.parametrize("held_out", [False, True])
def test_purity_is_the_share_of_the_same_class(held_out, models, waves):
    X_train, y_train, X, y = waves
    scaler = models["pipeline"][0]
    reference = {"X_train": X_train, "y_train": y_train} if held_out else {}
    others, labels = (X_train, y_train) if held_out else (X, y)
    ax = plots.neighbor_purity(X, models["pipeline"], y, n_neighbors=4, **reference)
    lines = plots.neighbor_purity(X, models["pipeline"], y, n_neighbors=[1, 4], **reference).lines
    for series, place in enumerate((scaler.transform, models["pipeline"].transform)):
        expected = shares(place(X), y, place(others), labels, 4, itself=not held_out)
        by_class = [expected[y == name].mean() for name in "abc"]
        heights = [bar.get_height() for bar in ax.containers[series]]
        np.testing.assert_allclose(heights, [*by_class, expected.mean()])
        nearest = shares(place(X), y, place(others), labels, 1, itself=not held_out)
        np.testing.assert_allclose(lines[series].get_ydata(), [nearest.mean(), expected.mean()])
    chance = [segment[0, 1] for segment in ax.collections[0].get_segments()]
    np.testing.assert_allclose(chance, [np.mean(labels == name) for name in "abc"])
    assert legend(ax) == ["before", "after", "by chance"]
    assert {text.get_rotation() for text in ax.get_xticklabels()} == {0}
    crowded = plots.neighbor_purity(X, X, np.array([f"a very long name of class {index % 6}" for index in range(45)]))
    assert {text.get_rotation() for text in crowded.get_xticklabels()} == {90}


def test_purity_of_given_coordinates(waves, plane):
    X_train, y_train, X, y = waves
    given = plots.neighbor_purity(
        X, plane.transform(X), y, X_train=X_train, y_train=y_train, mapped_train=plane.transform(X_train), n_neighbors=4
    )
    found = plots.neighbor_purity(X, plane, y, X_train=X_train, y_train=y_train, n_neighbors=4)
    for one, other in zip(given.patches, found.patches, strict=True):
        assert one.get_height() == other.get_height()
    with pytest.raises(ValueError, match="both of X_train and mapped_train"):
        plots.neighbor_purity(X, plane.transform(X), y, X_train=X_train, y_train=y_train)
    with pytest.raises(ValueError, match="from 1 to 44"):
        plots.neighbor_purity(X, plane, y, n_neighbors=45)
    with pytest.raises(ValueError, match="precomputed kernel"):
        plots.neighbor_purity(X @ X.T, LearnedKernelMetric(kernel="precomputed").fit(X @ X.T, y), y)


def test_dots_have_the_given_heights_and_differ_without_colour():
    means = np.array([[90.0, 70.0], [80.0, np.nan], [100.0, 60.0]])
    ax = plots.accuracy_bars(["wine", "wave"], ["one", "_two$x$", "three"], means, np.full((3, 2), 2.0))
    np.testing.assert_array_equal([dots.get_ydata() for dots in ax.lines], means)
    assert not ax.patches[1:]  # no bars; one band parts the second group
    assert len({dots.get_marker() for dots in ax.lines}) == 3
    assert legend(ax) == ["one", "_two$x$", "three"]
    assert len(set(HATCHES)) == len(HATCHES)
    middle = ax.containers[0].lines[2][0].get_segments()[0]
    np.testing.assert_allclose(middle[:, 1], [88, 92])
    # Dots of a group are apart, and none is in the place of another group or cut by the edge.
    across = np.array([dots.get_xdata() for dots in ax.lines])
    assert np.all(np.diff(across, axis=0) > 0.1)
    assert np.all(np.abs(across - [0, 1]) < 0.5)
    assert not ax.lines[2].get_clip_on()


def test_ranks_within_the_critical_difference_are_joined():
    ax = plots.critical_difference(["far", "near", "best"], np.array([2.9, 1.6, 1.5]), 0.5)
    assert [text.get_text().strip() for text in ax.texts if "(" in text.get_text()] == ["best (1.50)", "near (1.60)", "far (2.90)"]
    joined = [lines.get_segments()[0] for lines in ax.collections if lines.get_linewidth()[0] == 3]
    assert len(joined) == 1
    assert joined[0][0, 0] < 1.5 < 1.6 < joined[0][1, 0] < 2.9


@pytest.fixture(scope="module")
def search():
    X, y = make_waveform(90, random_state=0)
    grid = {"bandwidth": [8.0, 2.0, "median"], "regression_weight": [0.1, 3.0], "n_components": [1, 2]}
    return MetricSearchCV(LearnedKernelMetric(), grid, n_neighbors=[1, 9], cv=3, refit=False).fit(X, y)


def best(search, **wanted):
    rows = [k for k, params in enumerate(search.cv_results_["params"]) if wanted.items() <= params.items()]
    return search.cv_results_["mean_test_score"][rows].max()


def test_the_search_map_shows_the_best_score_of_each_field(search):
    ax = plots.search_map(search)
    shown = ax.images[0].get_array()
    assert [text.get_text() for text in ax.get_xticklabels()] == ["2", "8", "median"]
    for column, bandwidth in enumerate([2.0, 8.0, "median"]):
        for row, weight in enumerate([0.1, 3.0]):
            assert shown[row, column] == best(search, bandwidth=bandwidth, regression_weight=weight)
    marked = ax.lines[0].get_xydata()[0]
    assert shown[int(marked[1]), int(marked[0])] == search.best_score_


def test_the_search_path_shows_the_best_score_of_each_value(search):
    ax = plots.search_path(search, "n_neighbors")
    expected = [best(search, n_neighbors=count) for count in (1, 9)]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), expected)
    assert ax.get_xlabel() == "n_neighbors"


def test_a_parameter_that_was_not_searched(search):
    with pytest.raises(ValueError, match="'rho' names 0 parameters of the search; use one of"):
        plots.search_path(search, "rho")


def test_pictures_of_a_search_without_a_model(search, waves):
    with pytest.raises(ValueError, match="refit=True"):
        plots.output_map(search, waves[0], waves[1])


def bars(ax):
    """Names and lengths, from above."""
    assert ax.yaxis_inverted()
    names = [text.get_text() for text in ax.get_yticklabels()]
    found = sorted((round(bar.get_y() + bar.get_height() / 2), bar.get_width()) for bar in ax.patches)
    return names, np.array([width for _, width in found])


@pytest.fixture(scope="module")
def wines():
    data = load_wine(as_frame=True)
    model = make_pipeline(StandardScaler(), LearnedKernelMetric())
    return MetricSearchCV(model, {}, n_neighbors=3).fit(data.data, data.target), data.data


def test_importances_are_drawn_largest_first(wines):
    model, X = wines
    names, lengths = bars(plots.importances(model))
    order = np.argsort(-model.feature_importances_)
    np.testing.assert_allclose(lengths, 100 * model.feature_importances_[order])
    assert all(name[:10] == X.columns[place][:10] for name, place in zip(names, order, strict=True))
    names, lengths = bars(plots.importances(model, most=4))
    assert names[-1] == "10 others"
    assert lengths.sum() == pytest.approx(100)


def test_importances_of_a_metric_with_rounds_are_its_own(waves):
    model = LearnedKernelMetric(input_metric="diagonal", n_rounds=1).fit(waves[0], waves[1])
    names, lengths = bars(plots.importances(model, most=30))
    np.testing.assert_allclose(lengths, 100 * np.sort(model.feature_importances_)[::-1])
    assert names[0] == f"x{model.feature_importances_.argmax()}"


@pytest.mark.parametrize("rows", [lambda X, row: X.iloc[[row]], lambda X, row: X.iloc[row]], ids=["table", "series"])
def test_reasons_show_contributions_and_both_values(wines, rows):
    model, X = wines
    ax = plots.reasons(model, rows(X, 0), rows(X, 60), most=13)
    names, lengths = bars(ax)
    found = model.explain(X[:1], X[60:61])
    order = np.argsort(-np.abs(found.contributions[0]))
    np.testing.assert_allclose(lengths, found.contributions[0][order])
    assert names[0] == f"{X.columns[order[0]]}\n{X.iloc[0, order[0]]:.4g} beside {X.iloc[60, order[0]]:.4g}"
    assert f"{found.squared_distances[0]:.3g}" in ax.get_title()
    # What brings rows nearer looks different without colour, too.
    assert {bar.get_hatch() for bar in ax.patches if bar.get_width() < 0} == {"////"}


def test_reasons_of_plain_rows_and_one_pair_only(plane, waves):
    X = waves[0]
    names, lengths = bars(plots.reasons(plane, X[0], X[1], most=5))
    assert names[-1] == "17 others"
    assert lengths.sum() == pytest.approx(plane.pair_distance(X[None, :2])[0] ** 2, rel=1e-3)
    with pytest.raises(ValueError, match="one pair of rows; 2 rows came"):
        plots.reasons(plane, X[:2], X[2:4])


def test_verification_draws_the_rates_of_all_thresholds():
    X, y = make_waveform(60, random_state=0)
    pairs = draw_pairs(y, "all")
    metric = LMNN().fit(X, y)
    verifier = PairVerifier(metric).calibrate(X[pairs.rows], pairs.y, strategy="far", far=0.05)
    roc, det = plots.verification({"lm_nn": verifier, "plain": None}, X[pairs.rows], pairs.y)
    distances = metric.pair_distance(X[pairs.rows])
    false, true, _ = roc_curve(pairs.y, -distances, drop_intermediate=False)
    learned, ring, plain = roc.lines[:3]
    assert learned.get_xydata() == pytest.approx(np.column_stack([false, true]))
    assert len(plain.get_xydata()) > 100
    accepted = distances <= verifier.threshold_
    place = accepted[pairs.y == -1].mean(), accepted[pairs.y == 1].mean()
    assert ring.get_xydata()[0] == pytest.approx(place)
    curve = det.lines[0].get_xydata()
    inside = (false > 0) & (true < 1)
    assert np.isnan(curve[~inside]).all()
    assert norm.cdf(curve[inside]) == pytest.approx(np.column_stack([false, 1 - true])[inside])
    assert norm.cdf(det.lines[1].get_xydata()[0]) == pytest.approx((place[0], 1 - place[1]))
    assert legend(roc)[0] == f"lm_nn: AUC {verifier.score(X[pairs.rows], pairs.y):.3f}, equal error rate " + (
        f"{verifier.equal_error_rate(X[pairs.rows], pairs.y).value:.1%}"
    )
    labels = {text.get_text(): place for text, place in zip(det.get_xticklabels(), det.get_xticks(), strict=True)}
    assert norm.cdf(labels["5"]) == pytest.approx(0.05)


def test_verification_draws_where_it_is_told_and_takes_a_metric():
    X, y = make_waveform(30, random_state=0)
    pairs = draw_pairs(y, 40, random_state=0)
    given = plots.grid(1, 2)[1][0]
    drawn = plots.verification(LMNN().fit(X, y), X[pairs.rows], pairs.y, axes=given, legend=False)
    assert drawn is given
    assert drawn[0].get_legend() is None
    assert len(drawn[0].lines) == 2  # the curve and the diagonal

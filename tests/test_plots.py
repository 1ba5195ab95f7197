"""Do pictures show what they claim?"""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricSearchCV, plots
from outmetric.datasets import make_waveform

mpl.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.mark.parametrize("model", [FixedKernelMetric, LearnedKernelMetric])
@pytest.mark.filterwarnings("ignore:n_components=3")
@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_maps_show_every_point_where_transform_puts_it(model, n_components):
    X, y = make_waveform(60, random_state=0)
    fitted = model(n_components).fit(X[:30], y[:30])
    ax = plots.output_map(fitted, X[30:], y[30:], X_train=X[:30], y_train=y[:30])
    # For each class: training points, points, target.
    drawn = np.concatenate([_first_components(points) for points in ax.collections[1::3]])
    order = np.argsort(y[30:], kind="stable")
    np.testing.assert_allclose(drawn, fitted.transform(X[30:])[order][:, 0])
    targets = np.concatenate([_first_components(points) for points in ax.collections[2::3]])
    np.testing.assert_allclose(targets, (fitted.prototypes_ @ fitted.metric_factor_.T)[:, 0])
    assert ax.name == {1: "rectilinear", 2: "rectilinear", 3: "3d"}[n_components]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "1", "2"]


def _first_components(points):
    return np.asarray(points.get_offsets())[:, 0]


def test_maps_that_cannot_be_drawn():
    X, y = make_waveform(30, random_state=0)
    with pytest.raises(ValueError, match="the model has 4"):
        plots.output_map(LearnedKernelMetric().fit(X, np.arange(30) % 5), X, y)
    with pytest.raises(ValueError, match="real targets"):
        plots.output_map(LearnedKernelMetric().fit(X, X[:, :2]), X, y)


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

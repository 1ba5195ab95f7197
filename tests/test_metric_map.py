"""Do maps tell the truth: are rows where a model that has not seen them puts them, and new rows among their like?"""

import subprocess
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_regression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outmetric
from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricClassifier, MetricMap, MetricRegressor, MetricSearchCV, plots
from outmetric.automatic import screening
from outmetric.baselines import LMNN
from outmetric.kernels import Spectrum
from outmetric.layouts.layout import quality

mpl.use("Agg")

DIGITS = LearnedKernelMetric(bandwidth="0.5*median", regression_weight=100.0)


def digits(count, seed=0):
    X, y = load_digits(return_X_y=True)
    return train_test_split(X / 16, y, train_size=count, stratify=y, random_state=seed)


def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), np.array(["setosa", "versicolor", "virginica"])[y]


def right(places, y, new, y_new):
    """The share of new rows that five neighbours name right, by brute force."""
    nearest = np.argsort(cdist(new, places), axis=1)[:, :5]
    names = np.unique(y)
    votes = (y[nearest][:, :, None] == names).sum(axis=1)
    return np.mean(names[votes.argmax(axis=1)] == y_new)


@pytest.fixture(scope="module")
def shown():
    X, X_new, y, y_new = digits(600)
    return MetricMap(DIGITS, random_state=0).fit(X, y), X, y, X_new[:600], y_new[:600]


def test_new_rows_are_among_their_like(shown):
    found, X, y, X_new, y_new = shown
    in_map = right(found.embedding_, y, found.transform(X_new), y_new)
    in_metric = right(found.model_.transform(X), y, found.model_.transform(X_new), y_new)
    assert in_map > 0.955
    assert in_map > in_metric - 0.02


def test_out_of_fold_rows_look_like_rows_that_no_model_has_seen():
    gaps = []
    for seed in range(3):
        X, X_new, y, y_new = digits(450, seed)
        found = MetricMap(DIGITS, random_state=seed).fit(X, y)
        gaps.append(right(found.embedding_, y, found.transform(X_new), y_new) - found.quality_.in_map)
    assert abs(np.mean(gaps)) < 0.02


def test_permuted_labels_show_nothing(shown):
    found, X, y, X_new, y_new = shown
    control = found.control(X, y)
    assert sorted(control.y_) == sorted(y)
    assert (control.y_ != y).mean() > 0.8
    assert control.quality_.in_map < 0.16
    assert right(control.embedding_, control.y_, control.transform(X_new), y_new) < 0.16
    # Where the model that has seen them puts them they look apart all the same.
    seen = control.model_.transform(X)
    assert right(seen, control.y_, seen, control.y_) > 0.5


def test_each_row_is_placed_by_a_model_without_it():
    X, y = iris()
    found = MetricMap(LearnedKernelMetric(), random_state=3).fit(X, y)
    seed = int(np.random.RandomState(3).randint(2**31))
    for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
        own = LearnedKernelMetric().fit(X[train], y[train])
        np.testing.assert_allclose(found.coordinates_[test], own.transform(X[test]), atol=1e-8)


def test_maps_of_folds_are_turned_to_agree():
    """The spaces of LMNN have no directions of their own; distances do not change."""
    X, y = iris()
    found = MetricMap(LMNN(n_components=3), random_state=3).fit(X, y)
    seed = int(np.random.RandomState(3).randint(2**31))
    for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
        own = LMNN(n_components=3).fit(X[train], y[train])
        expected = cdist(own.transform(X[test]), own.transform(X[test]))
        np.testing.assert_allclose(cdist(found.coordinates_[test], found.coordinates_[test]), expected, atol=1e-8)
    far = np.linalg.norm(found.coordinates_ - found.model_.transform(X), axis=1)
    assert np.median(far) < 0.2 * np.linalg.norm(np.std(found.coordinates_, axis=0))


def test_few_classes_are_shown_in_the_learned_plane():
    X, y = iris()
    found = MetricMap(LearnedKernelMetric(), random_state=0).fit(X, y)
    np.testing.assert_array_equal(found.embedding_, found.coordinates_)
    np.testing.assert_array_equal(found.transform(X), found.model_.transform(X))
    np.testing.assert_array_equal(found.fitted_embedding_, found.model_.transform(X))
    assert found.scale_ == 1
    other = MetricMap(LearnedKernelMetric(), layout="t-SNE", random_state=0).fit(X, y)
    assert other.scale_ is None
    assert not np.allclose(other.embedding_, other.coordinates_)


@pytest.mark.parametrize("kind", ["rows", "kernel", "words"])
def test_two_classes_have_a_second_axis_that_labels_have_no_part_in(kind):
    X, y = iris()
    X, y = X[50:], y[50:]
    data = {
        "rows": X,
        "kernel": X @ X.T,
        "words": np.array(["".join("ab"[int(v > 0)] for v in row) * 2 for row in X], dtype=object),
    }[kind]
    kernel = {"rows": "rbf", "kernel": "precomputed", "words": Spectrum(2)}[kind]
    found = MetricMap(LearnedKernelMetric(kernel=kernel), random_state=0).fit(data, y)
    assert found.embedding_.shape == (100, 2)
    np.testing.assert_array_equal(found.embedding_[:, 0], found.coordinates_[:, 0])
    across, up = found.fitted_embedding_.T
    assert abs(np.corrcoef(across, up)[0, 1]) < 1e-6
    assert 0 < np.std(up) < np.std(across)
    new = data[:7]
    np.testing.assert_allclose(found.transform(new), found.fitted_embedding_[:7], atol=1e-8)
    solid = MetricMap(LearnedKernelMetric(kernel=kernel), 3, random_state=0).fit(data, y)
    assert solid.embedding_.shape == (100, 3)


def test_real_targets():
    X, y = make_regression(150, 4, noise=5.0, random_state=0)
    found = MetricMap(LearnedKernelMetric(), random_state=0).fit(X, y)
    assert found.classes_ is None
    assert found.embedding_.shape == (150, 2)
    nearest = np.argsort(cdist(found.coordinates_, found.coordinates_) + 1e9 * np.eye(150), axis=1)[:, :5]
    expected = 1 - np.sum((y - y[nearest].mean(axis=1)) ** 2) / np.sum((y - y.mean()) ** 2)
    assert found.quality_.in_metric == pytest.approx(expected)
    assert found.quality_.text().startswith("R2 of neighbours, out of fold: ")
    assert found.quality_.recall == {}
    assert found.quality_.overlaps == []
    several = MetricMap(LearnedKernelMetric(), random_state=0).fit(X, np.column_stack([y, X[:, 0], X[:, 1] ** 2]))
    assert several.coordinates_.shape == (150, 3)
    assert several.embedding_.shape == (150, 2)


def test_rows_without_labels_are_placed_like_new_ones():
    X, y = iris()
    y = y.astype(object)
    y[::10] = None
    found = MetricMap(LearnedKernelMetric(), random_state=0).fit(X, y)
    gaps = np.arange(150) % 10 == 0
    np.testing.assert_array_equal(found.labelled_, ~gaps)
    np.testing.assert_allclose(found.embedding_[gaps], found.transform(X[gaps]))
    model = LearnedKernelMetric().fit(X[~gaps], y[~gaps].astype(str))
    np.testing.assert_allclose(found.model_.transform(X), model.transform(X))
    kernel = MetricMap(LearnedKernelMetric(kernel="precomputed"), random_state=0).fit(X @ X.T, y)
    linear = MetricMap(LearnedKernelMetric(kernel="linear"), random_state=0).fit(X, y)
    np.testing.assert_allclose(kernel.embedding_, linear.embedding_, atol=1e-6)
    targets = X[:, 2].copy()
    targets[3] = np.nan
    assert MetricMap(LearnedKernelMetric(), random_state=0).fit(X, targets).labelled_.sum() == 149


def test_the_only_row_of_a_class_has_no_place_out_of_fold():
    X, y = iris()
    y = y.copy()
    y[7] = "one"
    with pytest.warns(UserWarning, match="1 classes have one row only, 'one' for instance"):
        found = MetricMap(LearnedKernelMetric(), random_state=0).fit(X, y)
    assert not found.labelled_[7]
    assert len(found.classes_) == 3


def test_the_same_random_state_gives_the_same_map():
    X, _, y, _ = digits(150)
    maps = []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002
        maps.append(MetricMap(DIGITS, random_state=5).fit(X, y).embedding_)
    np.testing.assert_array_equal(*maps)
    assert not np.array_equal(maps[0], MetricMap(DIGITS, random_state=6).fit(X, y).embedding_)
    np.testing.assert_array_equal(MetricMap(DIGITS, random_state=5).fit_transform(X, y), maps[0])


def test_a_map_may_begin_with_an_earlier_one():
    X, X_new, y, y_new = digits(300)
    first = MetricMap(DIGITS, random_state=0).fit(X, y)
    turned = first.embedding_ @ np.array([[0.0, -1.0], [1.0, 0.0]])

    def centres(places, labels):
        return np.array([places[labels == name].mean(axis=0) for name in range(10)]).ravel()

    again = MetricMap(DIGITS, init=turned, random_state=1).fit(X, y)
    assert np.corrcoef(centres(turned, y), centres(again.embedding_, y))[0, 1] > 0.9
    later = MetricMap(DIGITS, init=first, random_state=1).fit(X_new[:300], y_new[:300])
    assert np.corrcoef(centres(first.embedding_, y), centres(later.embedding_, y_new[:300]))[0, 1] > 0.9


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(StandardScaler(), LearnedKernelMetric()),
        MetricSearchCV(LearnedKernelMetric(), {"bandwidth": ["median", "2*median"]}, cv=2),
        FixedKernelMetric(),
        LMNN(),
    ],
    ids=["pipeline", "search", "model 1", "LMNN"],
)
def test_any_estimator(estimator):
    X, y = iris()
    found = MetricMap(estimator, random_state=0).fit(X, y)
    assert found.quality_.in_map > 0.85
    assert found.transform(X[:3]).shape == (3, 2)


def test_sparse_rows():
    X, y = iris()
    dense, sparse = (
        MetricMap(LearnedKernelMetric(kernel="linear"), random_state=0).fit(rows, y) for rows in (X, scipy.sparse.csr_array(X))
    )
    np.testing.assert_allclose(sparse.embedding_, dense.embedding_, atol=1e-6)


@pytest.fixture
def quick(monkeypatch):
    """Automatic models that try little."""
    for name, value in {"KERNELS": ("rbf",), "FOLD_TREES": 5, "ROUNDS": 1, "FORESTS": ("random",), "FEW_SAMPLES": 0}.items():
        monkeypatch.setattr(screening, name, value)


def test_by_default_everything_is_chosen(quick):
    X, y = iris()
    table = pd.DataFrame(X, columns=list("abcd")).assign(colour=np.where(X[:, 1] > 0, "blue", None))
    found = MetricMap(random_state=0).fit(table, y)
    assert isinstance(found.model_, MetricClassifier)
    assert found.quality_.in_map > 0.9
    assert isinstance(MetricMap(random_state=0).fit(table, X[:, 3] + 0.01).model_, MetricRegressor)
    whole = MetricMap(MetricRegressor(random_state=0), random_state=0).fit(X, np.round(10 * X[:, 3]))
    assert whole.classes_ is None


@pytest.mark.parametrize(("kernels", "forests"), [(("rbf",), ()), ((), ("random",))], ids=["input metric", "forest"])
def test_what_was_chosen_is_learned_anew_in_each_fold(kernels, forests, quick, monkeypatch):
    """Many columns and random labels: what has learned from a row would know its label."""
    monkeypatch.setattr(screening, "KERNELS", kernels)
    monkeypatch.setattr(screening, "FORESTS", forests)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 30)), rng.permutation(np.arange(120) % 2)
    found = MetricMap(random_state=0).fit(X, y)
    assert abs(found.quality_.in_metric - 0.5) < 0.15
    relearned = found.model_.unlearned_map()
    half = clone(relearned).fit(X[:60], y[:60])
    assert half[-1].n_samples_fit_ == 60
    again = clone(relearned).fit(X[:60], y[:60]).transform(X[60:])
    np.testing.assert_array_equal(half.transform(X[60:]), again)


def test_quality_by_brute_force():
    rng = np.random.default_rng(0)
    plane, space = rng.normal(size=(40, 2)), rng.normal(size=(40, 5))
    codes, names = rng.integers(0, 3, 40), np.array(["a", "b", "c"])
    found = quality(plane, space, codes, names)
    confusion = np.zeros((3, 3), int)
    for row in range(40):
        others = np.argsort([np.inf if other == row else np.linalg.norm(plane[row] - plane[other]) for other in range(40)])[:5]
        confusion[codes[row], np.bincount(codes[others], minlength=3).argmax()] += 1
    np.testing.assert_array_equal(found.confusion, confusion)
    assert found.in_map == pytest.approx(np.trace(confusion) / 40)
    assert found.recall == pytest.approx({name: confusion[k, k] / confusion[k].sum() for k, name in enumerate(names)})
    worst = max((confusion[a, b] / confusion[a].sum(), names[a], names[b]) for a in range(3) for b in range(3) if a != b)
    assert found.overlaps[0] == (worst[1], worst[2], pytest.approx(worst[0]))
    assert [share for *_, share in found.overlaps] == sorted([share for *_, share in found.overlaps], reverse=True)
    assert f"{100 * found.in_map:.1f} %" in found.text()


def test_opinions_and_novelty_by_brute_force():
    X, y = iris()
    y = y.astype(object)
    y[5] = None
    for targets in (y, np.where(np.arange(150) == 5, np.nan, X[:, 2])):
        found = MetricMap(LearnedKernelMetric(), random_state=0).fit(X, targets)
        distances = cdist(found.coordinates_, found.coordinates_)
        distances[np.arange(150), np.arange(150)] = np.inf
        distances[:, 5] = np.inf
        order = np.argsort(distances, axis=1)
        if targets is y:
            expected = [[np.mean(y[row[:15]] == name) for name in found.classes_] for row in order]
        else:
            expected = targets[order[:, :5]].mean(axis=1)[:, None]
        np.testing.assert_allclose(found.opinions_, expected)
        far = np.sort(distances, axis=1)[:, :5].mean(axis=1)
        np.testing.assert_allclose(found.novelty_, [np.mean(far < one) * 150 / 149 for one in far])


def test_files_frames_and_names(shown, tmp_path):
    found, _, _, X_new, _ = shown
    outmetric.save(found, tmp_path / "map")
    again = outmetric.load(tmp_path / "map")
    np.testing.assert_array_equal(again.transform(X_new[:50]), found.transform(X_new[:50]))
    assert again.quality_.text() == found.quality_.text()
    elsewhere = f"import outmetric; print(outmetric.load({str(tmp_path / 'map')!r}).quality_.text())"
    assert subprocess.check_output([sys.executable, "-c", elsewhere], text=True).strip() == found.quality_.text()
    assert list(found.get_feature_names_out()) == ["metricmap0", "metricmap1"]
    X, y = iris()
    framed = MetricMap(LearnedKernelMetric(), random_state=0).set_output(transform="pandas").fit(X, y)
    assert list(framed.transform(X[:2]).columns) == ["metricmap0", "metricmap1"]


@pytest.mark.parametrize(
    ("settings", "y", "message"),
    [
        ({"n_components": 4}, None, "n_components must be 2 or 3, not 4"),
        ({"n_components": 1.5}, None, "n_components must be an integer"),
        ({"layout": "umap"}, None, "layout='umap' is not known; use 'auto', 't-SNE' or 'learned'"),
        ({"n_neighbors": 1}, None, "n_neighbors must be an integer >= 2"),
        ({"cv": 1}, None, "cv must be an integer >= 2"),
        ({"layout": "t-SNE", "init": np.zeros((3, 2))}, None, r"init must hold a finite place for each row, in shape \(150, 2\)"),
        ({}, np.full(150, None), "no row has a label or a target"),
        ({}, np.arange(7), "inconsistent numbers of samples"),
    ],
)
def test_wrong_parameters_are_told(settings, y, message):
    X, labels = iris()
    with pytest.raises(ValueError, match=message):
        MetricMap(LearnedKernelMetric(), **settings).fit(X, labels if y is None else y)


def test_labels_are_asked_for():
    with pytest.raises(ValueError, match="requires y to be passed"):
        MetricMap(LearnedKernelMetric()).fit(iris()[0], None)


def test_progress_is_told():
    X, y = iris()
    told = []
    MetricMap(LearnedKernelMetric(), layout="t-SNE", random_state=0, verbose=lambda *given: told.append(given)).fit(X, y)
    assert (0, 3, "learning") in told
    assert (750, 750, "laying out") in told
    assert told[-1][:2] == (3, 3)
    assert "named right" in told[-1][2]


@pytest.mark.parametrize("kind", ["rows", "words", "kernel", "gaps", "solid", "real", "several"])
def test_pictures_and_pages(kind):
    X, y = iris()
    X, y = X[::3], y[::3].astype(object)
    words = np.array(["".join("ab"[int(value > 0)] for value in row) * 2 for row in X], dtype=object)
    data = {"words": words, "kernel": X @ X.T}.get(kind, X)
    kernel = {"words": Spectrum(2), "kernel": "precomputed"}.get(kind, "rbf")
    if kind == "gaps":
        y[::5] = None
    targets = {"real": X[:, 2], "several": X[:, 1:]}.get(kind, y)
    found = MetricMap(LearnedKernelMetric(kernel=kernel), 3 if kind == "solid" else 2, random_state=0).fit(data, targets)
    ax = plots.map_picture(found, title="irises")
    drawn = " ".join(text.get_text() for text in [*ax.texts, ax.title, ax._left_title]).replace("\n", " ")
    assert "irises; " in drawn
    assert "out of fold" in drawn
    both = plots.map_picture(found, control=found)
    assert len(both) == 2
    page = plots.map_page(found, data, title="irises")
    assert "out of fold" in page.html
    plt.close("all")


@pytest.mark.parametrize(("classes", "told"), [(2, True), (3, False)])
def test_an_axis_that_was_not_learned_is_told(classes, told):
    X, y = iris()
    some = np.isin(y, np.unique(y)[:classes])
    ax = plots.map_picture(MetricMap(LearnedKernelMetric(), random_state=0).fit(X[some], y[some]))
    assert ("nothing learned" in ax.get_ylabel()) == told
    assert ("learned" in ax.get_xlabel()) == told

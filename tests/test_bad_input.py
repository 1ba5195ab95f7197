"""Does bad input get a clear error, and awkward but legal input a right answer?"""

import subprocess
import sys
import warnings

import numpy as np
import oracles
import pytest
import scipy.sparse
from problems import points
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from outmetric import FixedKernelMetric, LearnedKernelMetric, Status, kernels

MODELS = [FixedKernelMetric, LearnedKernelMetric]
IRIS, SPECIES = load_iris(return_X_y=True)
INDEFINITE = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


def with_entry(value):
    X = points(6)
    X[2, 1] = value
    return X


LABELS = np.array([0, 1, 0, 1, 2, 2])

DATA_ERRORS = {
    "NaN": (with_entry(np.nan), LABELS, {}, "NaN"),
    "infinity": (with_entry(np.inf), LABELS, {}, "infinity"),
    "strings for numbers": (np.array([["a", "b"]] * 6), LABELS, {}, "could not convert string to float"),
    "empty": (np.empty((0, 3)), np.empty(0), {}, "0 sample"),
    "no features": (np.empty((6, 0)), LABELS, {}, "0 feature"),
    "one-dimensional": (np.arange(6.0), LABELS, {}, "Expected 2D array"),
    "one sample": (points(1), [0], {}, "1 sample"),
    "one class": (points(6), np.zeros(6, dtype=int), {}, "one class only.*at least two classes"),
    "different lengths": (points(5), LABELS, {}, "inconsistent numbers of samples: \\[6, 5\\]"),
    "no y": (points(6), None, {}, "requires y to be passed"),
    "NaN in labels": (points(6), np.array([0, 1, np.nan, 1, 0, 1]), {}, "contains NaN"),
    "NaN in targets": (points(6), np.array([0.5, 1.5, np.nan, 1, 0, 1]), {}, "contains NaN"),
    "sparse y": (points(6), scipy.sparse.csr_array(np.eye(6)), {}, "sparse"),
    "mixed labels": (points(6), np.array([0, "a", None, 1, 2, 3], dtype=object), {}, "Unknown label type|neither labels"),
    "constant targets": (points(6), np.full((6, 1), 2.5), {}, "constant"),
    "no two points differ": (np.ones((6, 2)), LABELS, {}, "all training points coincide"),
    "overflow": (points(6) * 1e300, LABELS, {"bandwidth": 1.0}, "NaN or infinite"),
    "sparse X for a kernel that takes none": (scipy.sparse.csr_array(np.abs(points(6))), LABELS, {"kernel": "chi2"}, "[Ss]parse"),
    "negative X for chi2": (points(6), LABELS, {"kernel": "chi2"}, "Negative values in data"),
    "indefinite kernel": (INDEFINITE, [0, 1, 2], {"kernel": "precomputed"}, "smallest eigenvalue is -.*allowed"),
    "asymmetric kernel": (np.triu(np.ones((3, 3))), [0, 1, 2], {"kernel": "precomputed"}, "not symmetric.*differ by up to 1"),
    "indefinite by nature": (points(6), LABELS, {"kernel": "additive_chi2"}, "Negative values|semi-definite"),
    "kernel matrix not square": (np.ones((6, 3)), LABELS, {"kernel": "precomputed"}, r"square kernel matrix.*\(6, 3\)"),
    "too many components": (points(6), LABELS, {"n_components": 7}, "n_components=7 exceeds the 6 training samples"),
    "missing word": (["a", np.nan, "b"], [0, 1, 1], {"kernel": lambda s, t: 1.0}, "at 1 positions, first at 1"),
    "a table of objects": (np.array([["a", "b"]] * 3), [0, 1, 1], {"kernel": lambda s, t: 1.0}, "X has 2 columns"),
    "a mapping": ({"a": 1, "b": 2}, [0, 1], {"kernel": lambda s, t: 1.0}, "a dict came"),
    "huge targets": (points(6), points(6) * 1e160, {}, "overflow; rescale"),
    "kernel beyond double precision": (IRIS * 1e6, SPECIES, {"kernel": "linear"}, "Standardise the features"),
    "coupling beyond double precision": (IRIS, SPECIES, {"collocation_weight": 1e16}, "Standardise the features"),
    "weight beyond double precision": (points(6), LABELS, {"regression_weight": 1e200}, "Standardise the features"),
    "string as sample": ("ACGT", LABELS, {"kernel": lambda s, t: 1.0}, "a str came"),
    "missing object": ([None, "a", "b"], [0, 1, 1], {"kernel": lambda s, t: 1.0}, r"\(None or NaN\) at 1 positions, first at 0"),
    "similarity of other size": (points(6), LABELS, {"similarity": np.eye(5)}, r"\(6, 6\); its shape is \(5, 5\)"),
    "asymmetric similarity": (points(6), LABELS, {"similarity": np.triu(np.ones((6, 6)))}, "not symmetric"),
    "unknown similarity": (points(6), LABELS, {"similarity": "cosine"}, "use 'class', a matrix, or a function"),
}

PARAMETER_ERRORS = {
    "n_components": (0, "n_components must be None or an integer >= 1, not 0"),
    "n_components ": (2.5, "n_components must be None or an integer >= 1, not 2.5"),
    "kernel": ("gauss", "kernel 'gauss' is not known; use one of"),
    "bandwidth": (-1.0, "bandwidth must be a positive number, 'median' or such as '0.5.median', not -1.0"),
    "bandwidth ": ("mean", "bandwidth must be a positive number, 'median' or such as '0.5.median', not 'mean'"),
    "collocation_weight": (-1.0, "collocation_weight must be a finite number >= 0 or 'auto', not -1.0"),
    "regression_weight": (0.0, "regression_weight must be a finite number > 0, not 0.0"),
    "regression_weight ": (np.nan, "regression_weight must be a finite number > 0, not nan"),
    "prototypes": ("cube", "prototypes='cube' is not known"),
    "solver": ("newton", "solver='newton' is not known; use 'auto' or one of"),
    "max_iter": (0, "max_iter must be an integer >= 1, not 0"),
    "kernel_params": (3, "kernel_params must be None or a dict, not 3"),
    "tol": (-1.0, "tol must be a finite number >= 0, not -1.0"),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", DATA_ERRORS)
def test_bad_data(model, case):
    X, y, settings, message = DATA_ERRORS[case]
    with np.errstate(all="ignore"), pytest.raises((ValueError, TypeError), match=message):
        model(**settings).fit(X, y)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", PARAMETER_ERRORS)
def test_bad_parameters(model, case):
    value, message = PARAMETER_ERRORS[case]
    with pytest.raises(ValueError, match=message):
        model(**{case.strip(): value}).fit(points(6), LABELS)


def test_parameters_of_one_model_only():
    for settings in ({"metric_ridge": -1.0}, {"metric_penalty": 0.0}):
        (name,) = settings
        with pytest.raises(ValueError, match=f"{name} must be a finite number"):
            FixedKernelMetric(**settings).fit(points(6), LABELS)
    with pytest.raises(ValueError, match="output_penalty must be"):
        LearnedKernelMetric(output_penalty=0.0).fit(points(6), LABELS)
    for settings in ({"kernel": kernels.Separable("rbf")}, {"bandwidth": [1.0, 2.0]}):
        with pytest.raises(ValueError, match="FixedKernelMetric takes matrix-valued kernels"):
            LearnedKernelMetric(**settings).fit(points(6), LABELS)
    with pytest.raises(ValueError, match="the kernel has 3 outputs but the targets have 2 components"):
        FixedKernelMetric(2, bandwidth=[1.0, 2.0, 3.0]).fit(points(6), LABELS)
    with (
        pytest.warns(UserWarning, match="span only 2"),
        pytest.raises(ValueError, match="metric_ridge=0 needs targets that span all components"),
    ):
        FixedKernelMetric(3, metric_ridge=0).fit(points(6), LABELS)
    with pytest.raises(ValueError, match="needs a separable kernel"):
        FixedKernelMetric(bandwidth=[1.0, 2.0], solver="spectral").fit(points(6), LABELS)


@pytest.mark.parametrize("model", MODELS)
class TestAwkward:
    def test_two_samples(self, model):
        fitted = model().fit([[0.0], [1.0]], ["a", "b"])
        assert fitted.pair_distance([[[0.0], [1.0]]])[0] > 0.1

    def test_a_class_with_one_member(self, model):
        y = np.array([0, 0, 0, 1, 1, 2])
        fitted = model().fit(points(6), y)
        assert np.isfinite(fitted.transform(points(6))).all()
        assert fitted.status_ is Status.CONVERGED

    def test_constant_columns_change_nothing(self, model):
        X = points(6)
        padded = np.column_stack([X, np.full(6, 3.0)])
        np.testing.assert_allclose(model().fit(padded, LABELS).transform(padded), model().fit(X, LABELS).transform(X), atol=1e-8)

    @pytest.mark.parametrize("scale", [1e-12, 1e12])
    def test_features_of_any_scale(self, model, scale):
        expected = model().fit(IRIS, SPECIES).transform(IRIS)
        np.testing.assert_allclose(model().fit(scale * IRIS, SPECIES).transform(scale * IRIS), expected, atol=1e-4)

    def test_duplicate_points_of_one_class(self, model):
        X, y = np.repeat(points(6), 3, axis=0), np.repeat(LABELS, 3)
        coordinates = model().fit(X, y).transform(X)
        np.testing.assert_allclose(coordinates[::3], coordinates[1::3], atol=1e-9)

    def test_duplicate_points_of_different_classes(self, model):
        X = np.repeat(points(3), 2, axis=0)
        with pytest.warns(UserWarning, match="the targets tell nothing"):
            fitted = model().fit(X, [0, 1, 0, 1, 0, 1])
        assert fitted.status_ is Status.CONVERGED
        np.testing.assert_array_equal(fitted.map(X), 0)  # nothing speaks for either class

    def test_more_components_than_the_classes_span(self, model):
        X = points(6)
        with pytest.warns(UserWarning, match="n_components=5, but the targets span only 2 dimensions"):
            wide, plain = model(5).fit(X, LABELS).transform(X), model().fit(X, LABELS).transform(X)
        np.testing.assert_allclose(wide[:, :2], plain, atol=1e-4)
        np.testing.assert_allclose(wide[:, 2:], 0, atol=1e-8)

    @pytest.mark.parametrize("name", ["regression_weight", "collocation_weight"])
    @pytest.mark.parametrize("weight", [1e-12, 1e4, 1e8, 1e10])
    def test_extreme_weights_never_give_a_wrong_number_silently(self, model, name, weight):
        fitted = model(**{name: weight})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted.fit(IRIS, SPECIES)
        assert fitted.objective_ == pytest.approx(fitted.history_[-1].objective, rel=1e-9)
        F = fitted.map(IRIS)
        P = fitted.regression_weight * np.eye(150) + 2 * fitted.collocation_weight_ * oracles.delta(
            oracles.similarity_of_classes(SPECIES)
        )
        A, Y = fitted.metric_matrix_, fitted.prototypes_[SPECIES]
        left = fitted.coefficients_ + (P @ F - fitted.regression_weight * Y) @ A
        root = np.linalg.cholesky(P)
        wrong = np.linalg.norm(np.linalg.solve(root, left)) / np.linalg.norm(
            np.linalg.solve(root, fitted.regression_weight * Y @ A)
        )
        assert wrong < 1e-3 or fitted.status_ is Status.ILL_CONDITIONED

    def test_new_points_are_checked(self, model):
        fitted = model().fit(points(6), LABELS)
        with pytest.raises(ValueError, match="has 2 features"):
            fitted.transform(points(4, d=2))
        with pytest.raises(ValueError, match="NaN"):
            fitted.transform(with_entry(np.nan))
        with pytest.raises(ValueError, match=r"\(n_pairs, 2, 3\); theirs is \(6, 3\)"):
            fitted.pair_distance(points(6))
        with pytest.raises(NotFittedError):
            model().transform(points(6))
        words = model(kernel=lambda s, t: float(s == t)).fit(["a", "b", "c"], [0, 1, 1])
        with pytest.raises(ValueError, match="sequence of pairs"):
            words.pair_distance([("a", "b", "c")])
        with pytest.raises(ValueError, match="sequence of pairs"):
            words.pair_distance(["ab"])
        with pytest.raises(ValueError, match="X has 2 features; the metric was learned on 3"):
            fitted.get_metric()([0.0, 1.0], [1.0, 0.0])
        assert words.transform(["zz"]).shape == (1, 1)


def test_trouble_is_told_and_nothing_is_lost():
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        fitted = LearnedKernelMetric(max_iter=1, tol=0).fit(points(6), LABELS)
    assert fitted.status_ is Status.ITERATION_LIMIT
    assert fitted.transform(points(6)).shape == (6, 2)


def test_too_little_memory_is_an_error_that_names_the_alternative(monkeypatch):
    monkeypatch.setattr("outmetric.foundation.memory.available_memory", lambda: 2e6)
    monkeypatch.setattr("outmetric.foundation.memory.available_memory", lambda: 2e6)
    X, y = points(300), np.arange(300) % 3
    with pytest.raises(MemoryError, match=r"3 arrays of 300 x 300\) needs about 0.00216 GB, of which 0.002 GB.*solver='cg'"):
        LearnedKernelMetric(solver="spectral").fit(X, y)
    automatic = LearnedKernelMetric().fit(X, y)
    assert automatic.solver_ == "nystroem"
    assert "does not fit in memory" in automatic.solver_reason_
    lazy = LearnedKernelMetric(solver="cg", tol=1e-10).fit(X, y)
    assert lazy.status_ is Status.CONVERGED
    monkeypatch.undo()
    np.testing.assert_allclose(lazy.transform(X), LearnedKernelMetric(tol=1e-10).fit(X, y).transform(X), atol=1e-4)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="address space limits are a Linux matter")
def test_a_limit_on_the_address_space_is_seen():
    code = (
        "import resource, numpy as np; from outmetric import LearnedKernelMetric\n"
        "resource.setrlimit(resource.RLIMIT_AS, (6 * 10**9, resource.RLIM_INFINITY))\n"
        "X = np.random.default_rng(0).normal(size=(30000, 2))\n"
        "LearnedKernelMetric(bandwidth=1.0, solver='spectral').fit(X, np.arange(30000) % 2)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MemoryError: an exact fit on 30000 samples (3 arrays of 30000 x 30000) needs about 21.6 GB" in done.stderr

"""What metric estimators have in common: scikit-learn's `transform`, metric-learn's names for the metric, and kernel parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, get_args

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from outmetric.estimators.attribution import Reasons
from outmetric.estimators.checks import check_points, check_tuples, declared_kernel, is_numeric_matrix
from outmetric.estimators.metric import Metric, OutputMetric
from outmetric.estimators.summary import Described, Fact, data, listed, settings_text
from outmetric.foundation import Array, n_points, row_of_numbers, sample_of, storable
from outmetric.kernels import MatrixKernel, Separable, Takes
from outmetric.rows import is_dask, transform_lazily
from outmetric.solvers import Status


def _check_stored(found: Any, size: int) -> None:
    if not hasattr(found, "metric_"):
        return
    metric, takes = found.metric_, found._takes
    if not isinstance(metric, Metric):
        raise ValueError(f"{type(found).__name__} has a metric that is a {type(metric).__name__}")
    if not isinstance(takes, str) or takes not in get_args(Takes):
        raise ValueError(f"{type(found).__name__} takes {takes!r:.100}")
    if isinstance(metric, OutputMetric):
        if takes != metric.kernel.takes and (takes, metric.kernel.takes) != ("arrays", "objects"):
            raise ValueError(f"{type(found).__name__} takes {takes} and its kernel {metric.kernel.takes}")
        learned_on = metric.n_features if takes not in ("kernel values", "objects") else None
        learned_on = len(metric.coefficients) if takes == "kernel values" else learned_on
    else:
        learned_on = metric.metric_factor.shape[1]
    width = getattr(found, "n_features_in_", None)
    if width != learned_on:
        raise ValueError(f"{type(found).__name__} claims {width} features and was learned on {learned_on}")
    names = metric.points.dtype.names if isinstance(metric, OutputMetric) and takes == "table" else None
    if names is not None and list(getattr(found, "feature_names_in_", names)) != list(names):
        raise ValueError(f"{type(found).__name__} has other columns than the points that it was learned on")
    outputs = metric.metric_factor.shape[0]
    if getattr(found, "_n_features_out", outputs) != outputs:  # each of them would be given a name
        raise ValueError(f"{type(found).__name__} claims {found._n_features_out!r:.100} outputs and has {outputs}")


def _sample(found: Any, size: int) -> Any:
    metric = getattr(found, "metric_", None)
    if not isinstance(metric, OutputMetric):
        return row_of_numbers(found, size)
    preprocessor = getattr(found, "preprocessor", None)
    if metric.kernel.takes == "objects" and preprocessor is not None:  # objects come as row numbers
        return None if callable(preprocessor) or not len(preprocessor) else np.zeros(1, dtype=int)
    # Rows of a table come as one, and not as the records that its kernel works on.
    return None if metric.kernel.takes == "table" else sample_of(metric, size)


@storable(check=_check_stored, sample=_sample)
class MetricTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Described):
    """An estimator that learns ``metric_`` from data of the kind ``_takes``."""

    metric_: Metric
    n_samples_fit_: int
    history_: tuple[Any, ...]
    n_iter_: int
    status_: Status
    _takes: Takes

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "metric_")

    def transform(self, X: Any) -> Any:
        """Coordinates in which Euclidean distance is the learned metric, shape (n, m).

        For a Dask array or data frame a Dask array that is not computed yet.
        """
        check_is_fitted(self)
        return self._each(self.metric_.coordinates, X, len(self.metric_.metric_factor))

    def map(self, X: Any) -> Any:
        """f(x): the map before the metric is applied (the data themselves for a linear metric)."""
        check_is_fitted(self)
        return self._each(self.metric_.map, X, self.metric_.metric_factor.shape[1])

    def _each(self, function: Callable[[Any], Array], X: Any, n_columns: int) -> Any:
        """A function of checked points; lazily for Dask collections."""
        if is_dask(X):
            return transform_lazily(partial(_checked, self, function), X, n_columns)
        return _checked(self, function, X)

    def pair_distance(self, pairs: Any) -> Array:
        """The learned distance of each pair.

        Parameters
        ----------
        pairs : array of shape (n_pairs, 2, d), or sequence of pairs of objects

        Returns
        -------
        array of shape (n_pairs,)
        """
        check_is_fitted(self)
        points = check_tuples(self, self._formed(pairs, 2), 2, self._takes)
        return self.metric_.distances(points[::2], points[1::2])

    def pair_score(self, pairs: Any) -> Array:
        """Minus `pair_distance`: the larger, the more similar."""
        return -self.pair_distance(pairs)

    def explain(self, X: Any, X_other: Any) -> Reasons:
        """Why rows are near or far: the squared learned distance of row i of X and row i of X_other, attributed to the features.

        The contributions add up to the squared distance, to 1e-3 of it. They are integrated gradients along the segment between the
        two rows, and do not depend on which comes first. Kernels without gradients (forests, products of kernels, functions):
        columns are exchanged between the two rows, one after the other, in up to 24 orders over which the changes are averaged,
        about Shapley values.

        Parameters
        ----------
        X, X_other : data of the same number of rows

        Returns
        -------
        Reasons
            With ``contributions`` of shape (n, d), ``squared_distances`` and ``feature_names``.

        Raises
        ------
        ValueError
            If the data have no columns: objects, or values of a precomputed kernel.

        Warns
        -----
        UserWarning
            If contributions do not add up, since the map bends too often to be integrated.

        Examples
        --------
        >>> from outmetric import LearnedKernelMetric
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> reasons = LearnedKernelMetric().fit(X, y).explain(X[:2], X[100:102])
        >>> bool(abs(reasons.contributions.sum(axis=1) / reasons.squared_distances - 1).max() < 1e-3)
        True
        """
        check_is_fitted(self)
        one, other = (_in_double(check_new(self, rows)) for rows in (X, X_other))
        if n_points(one) != n_points(other):
            raise ValueError(f"rows are explained pair by pair, but X has {n_points(one)} of them and X_other {n_points(other)}.")
        contributions = self.metric_.contributions(one, other)
        width = contributions.shape[1]
        names = getattr(self, "feature_names_in_", [f"x{place}" for place in range(width)])
        return Reasons(tuple(str(name) for name in names), contributions, self.metric_.distances(one, other) ** 2)

    def get_metric(self) -> Metric:
        """The learned metric as a function of two points, independent of this estimator; it can be pickled if the kernel can."""
        check_is_fitted(self)
        return self.metric_

    def get_mahalanobis_matrix(self) -> Array:
        """A such that the squared distance is (f(x) - f(x'))' A (f(x) - f(x')), with f from `map`."""
        check_is_fitted(self)
        return np.asarray(self.metric_.metric_factor.T @ self.metric_.metric_factor)

    def _formed(self, given: Any, n_axes: int) -> Any:
        """What users give as points or tuples of points, with points in the place of row numbers, which have ``n_axes`` axes."""
        return given

    def _facts(self) -> list[Fact]:
        took = f" in {self.history_[-1].seconds:.2g} s" if self.history_ else ""
        features = getattr(self, "n_features_in_", None) if self._takes in ("arrays", "sparse") else None
        return [
            Fact(
                "learned from",
                data(self.n_samples_fit_, features, getattr(self, "classes_", ()), getattr(self, "target_scales_", None)),
            ),
            *self._settings(),
            *self._outcome(),
            Fact("iterations", f"{self.n_iter_}{took}", self._course()),
            Fact("status", f"{self.status_.name.lower().replace('_', ' ')}: {self.status_.value}"),
        ]

    def _settings(self) -> list[Fact]:
        """What it was learned with."""
        return [Fact("components", str(len(self.metric_.metric_factor)))]

    def _outcome(self) -> list[Fact]:
        """What was reached."""
        return []

    def _course(self) -> list[float]:
        """How far from the end each iteration was."""
        return []

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class KernelTransformer(MetricTransformer):
    """One that learns with a kernel, described by three parameters."""

    kernel: Any
    bandwidth: Any
    kernel_params: Mapping[str, Any] | None

    def _settings(self) -> list[Fact]:
        assert isinstance(self.metric_, OutputMetric)
        return [Fact("kernel", _in_words(self.metric_.kernel)), *super()._settings()]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            kernel = declared_kernel(self)
            takes, positive_only = kernel.takes, any(scalar.needs_positive for scalar in kernel.scalars)
        except (TypeError, ValueError):  # tags must not raise; fit will
            takes, positive_only = Separable().takes, False
        tags.input_tags.sparse = takes in ("sparse", "kernel values")
        tags.input_tags.pairwise = takes == "kernel values"
        tags.input_tags.positive_only = positive_only
        return tags


def check_training(estimator: MetricTransformer, X: Any, takes: Takes, *, at_least: int = 2) -> Any:
    """X checked, but not copied; decides what the points of later calls must be like.

    Parameters
    ----------
    estimator : MetricTransformer
        That is to be fitted.
    X : what users give
    takes : Takes
        What the kernel takes; of objects that are rows of numbers, arrays are made.
    at_least : int
        Points.
    """
    estimator._takes = "arrays" if takes == "objects" and is_numeric_matrix(X) else takes
    if estimator._takes == "objects":
        _forget(estimator, "n_features_in_", "feature_names_in_")
    return check_points(estimator, X, estimator._takes, fitting=True, at_least=at_least)


def check_new(estimator: MetricTransformer, X: Any) -> Any:
    """Points of the kind that the estimator was, or is being, fitted on."""
    return check_points(estimator, estimator._formed(X, 1), estimator._takes, fitting=False)


def coordinates_of_tuples(estimator: MetricTransformer, tuples: Any, size: int) -> Array:
    """The coordinates of the points of tuples of this size in the learned metric, shape (n_tuples, size, m)."""
    check_is_fitted(estimator)
    points = check_tuples(estimator, estimator._formed(tuples, 2), size, estimator._takes)
    # Place by place, so that equal points of a tuple are in equal rows, of which products of matrices round alike.
    return np.stack([estimator.metric_.coordinates(points[place::size]) for place in range(size)], axis=1)


def data_kind(estimator: MetricTransformer) -> Takes:
    """What `check_training` found the data to be."""
    return estimator._takes


def adopt_data_kind(estimator: MetricTransformer, other: MetricTransformer) -> None:
    """What the points must be like, from another estimator that has seen some of them."""
    names = ("n_features_in_", "feature_names_in_", "_takes")
    _forget(estimator, *names)
    for name in names:
        if hasattr(other, name):
            setattr(estimator, name, getattr(other, name))


def _forget(estimator: MetricTransformer, *names: str) -> None:
    """Nothing of an earlier fit may stay."""
    for name in names:
        estimator.__dict__.pop(name, None)


def own_copy(points: Any, takes: Takes) -> Any:
    """Checked points, copied.

    In double precision whatever the data: coefficients are large numbers that almost cancel. But precomputed values keep the
    dtype that tells how exact they are.
    """
    return points.copy() if takes in ("kernel values", "objects", "table") else points.astype(np.float64)


def kept_points(points: Any, takes: Takes) -> Any:
    """What the fitted metric needs: a precomputed kernel comes with its values, of its points only the number matters."""
    return np.empty((n_points(points), 0)) if takes == "kernel values" else points


def bandwidth_of(kernel: MatrixKernel) -> Any:
    """The bandwidth as used, one for each scalar kernel, or None."""
    bandwidths = [scalar.settings["bandwidth"] for scalar in kernel.scalars if scalar.has_bandwidth]
    if not bandwidths:
        return None
    return bandwidths[0] if len(bandwidths) == 1 else np.array(bandwidths)


def _in_double(points: Any) -> Any:
    """Numbers in double precision, whatever they came in: differences of near rows are small."""
    return points.astype(np.float64) if getattr(points, "dtype", None) == np.float32 else points


def _in_words(kernel: MatrixKernel) -> str:
    parts = []
    for scalar in kernel.scalars:
        given = scalar.settings
        parts.append(scalar.name + (f" ({settings_text(given)})" if given else ""))
    if kernel.is_separable:
        return parts[0]
    return f"{type(kernel).__name__} with {kernel.n_outputs} outputs" + (f": {listed(parts, 40)}" if parts else "")


def _checked(estimator: MetricTransformer, function: Callable[[Any], Array], X: Any) -> Array:
    return function(check_new(estimator, X))

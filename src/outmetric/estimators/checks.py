"""What comes from outside as X and y: checked once, with errors that say what came, what was expected and what to do."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_array, check_consistent_length, check_non_negative, column_or_1d, validate_data

from outmetric.foundation import Array, check_sample_weight, is_missing, objects, records
from outmetric.kernels import Diagonal, MatrixKernel, Scalar, ScalarKernel, Separable, Takes
from outmetric.problem import LARGEST_TARGET

# More classes than this are unusual enough to ask whether floats that happen to be whole really are labels.
MANY_CLASSES = 20
# Points that belong together, by their number.
TUPLES = {2: "pairs", 3: "triplets", 4: "quadruplets"}
# How scikit-learn says that entries are no finite numbers.
NOT_FINITE = ("contains NaN", "contains infinity", "could not convert string")


def check_points(estimator: Any, X: Any, takes: Takes, *, fitting: bool, at_least: int | None = None) -> Any:
    """X as a float32 or float64 array or CSR matrix, or as an array of objects if that is what the kernel works on."""
    at_least = (2 if fitting else 1) if at_least is None else at_least
    if takes == "objects":
        return _check_objects(X, at_least)
    if takes == "table":
        return _check_table(estimator, X, fitting, at_least)
    _refuse_dates(X)
    with located(X):
        X = validate_data(
            estimator,
            X,
            reset=fitting,
            accept_sparse="csr" if takes in ("sparse", "kernel values") else False,
            dtype=[np.float64, np.float32],
            ensure_min_samples=at_least,
        )
    if get_tags(estimator).input_tags.positive_only:
        check_non_negative(X, f"{type(estimator).__name__} with this kernel")
    if takes == "sparse" and hasattr(X, "indices") and X.indices.dtype != np.int32:
        # Some kernels know no other indices; a new matrix, since this one may be the caller's.
        X = type(X)((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    if fitting and takes == "kernel values" and X.shape[0] != X.shape[1]:
        raise ValueError(f"with kernel='precomputed' fit takes the square kernel matrix of the training points, not {X.shape}.")
    return X


def _refuse_dates(X: Any) -> None:
    """Raise ValueError for dates and spans of time, which NumPy would turn into counts of days or of nanoseconds, as it happens."""
    dtypes = list(X.dtypes) if hasattr(X, "dtypes") else [getattr(X, "dtype", None)]
    held = [str(dtype) for dtype in dtypes if getattr(dtype, "kind", "") in ("m", "M") or _is_temporal(dtype)]
    if held:
        raise ValueError(
            f"X holds dates or times ({held[0]}), and numbers were expected: put outmetric.columns.DateParts before it in a "
            "Pipeline, or take MetricClassifier."
        )


def _is_temporal(dtype: Any) -> bool:
    """Whether polars says so of one of its types."""
    return bool(hasattr(dtype, "is_temporal") and dtype.is_temporal())


@contextmanager
def located(X: Any) -> Iterator[None]:
    """Add to errors over numbers which of X is none or not finite; a table's columns must have different names."""
    names = list(getattr(X, "columns", ()))
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(f"X has several columns named {', '.join(map(repr, twice[:10]))}. Rename them.")
    try:
        yield
    except ValueError as error:
        place = _first_unusable(X) if any(text in str(error) for text in NOT_FINITE) else None
        if place is None:
            raise
        row, column = place
        where = f"column {names[column]!r}, row {row + 1} (counted from 1)" if names else f"X[{row}, {column}]"
        reason = str(error).splitlines()[0].removesuffix(".")
        raise ValueError(f"{reason}. The first such entry: {where}.") from error


def _first_unusable(X: Any) -> tuple[int, int] | None:
    """(row, column) of the first entry of a matrix that is no finite number; None if there is none, or X is no such matrix."""
    if scipy.sparse.issparse(X):
        entries: Any = scipy.sparse.coo_array(X)  # type: ignore[call-overload]
        wrong = np.flatnonzero(~np.isfinite(entries.data))
        return (int(entries.row[wrong[0]]), int(entries.col[wrong[0]])) if len(wrong) else None
    try:
        values = np.asarray(X)
    except (TypeError, ValueError):  # a ragged sequence
        return None
    if values.ndim != 2:
        return None
    if values.dtype.kind == "f":
        usable = np.isfinite(values)
    elif values.dtype.kind in "OUS":
        usable = np.array([_is_finite(value) for value in values.ravel()], dtype=bool).reshape(values.shape)
    else:
        return None
    places = np.argwhere(~usable)
    return (int(places[0, 0]), int(places[0, 1])) if len(places) else None


def _is_finite(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except (TypeError, ValueError):
        return False


def _check_objects(X: Any, at_least: int) -> Array:
    if isinstance(X, str | bytes | Mapping | Set) or not hasattr(X, "__len__"):
        raise ValueError(f"X must be a sequence of points; a {type(X).__name__} came.")
    if len(getattr(X, "shape", ())) == 2:
        if X.shape[1] != 1:
            raise ValueError(f"a kernel on objects takes one object for each sample; X has {X.shape[1]} columns: {X.shape}.")
        X = np.asarray(X)[:, 0]
    points = objects(list(X))
    missing = [index for index, point in enumerate(points) if point is None or (isinstance(point, float) and np.isnan(point))]
    if missing:
        raise ValueError(f"X has no point (None or NaN) at {len(missing)} positions, first at {missing[0]}; remove those rows.")
    if len(points) < at_least:
        raise ValueError(f"at least {at_least} points are needed; n_samples = {len(points)} came.")
    return points


def _check_table(estimator: Any, X: Any, fitting: bool, at_least: int) -> Array:
    """One record for each row; the kernel checks the columns that it looks at."""
    if scipy.sparse.issparse(X):
        raise ValueError("a kernel of columns takes tables and dense arrays, not sparse matrices: use X.toarray().")
    if not hasattr(X, "columns"):
        X = np.asarray(X, dtype=object)
    if len(X.shape) != 2 or not X.shape[1]:
        raise ValueError(f"Expected 2D array: a kernel of columns takes rows of a table; X has the shape {X.shape}.")
    with located(X):
        validate_data(estimator, X, reset=fitting, skip_check_array=True)
    if len(X) < at_least:
        raise ValueError(f"at least {at_least} rows are needed; n_samples = {len(X)} came.")
    return records(X, getattr(estimator, "feature_names_in_", None))


def is_numeric_matrix(X: Any) -> bool:
    """Whether a kernel function gets rows of numbers, to be checked as such, rather than arbitrary objects."""
    if scipy.sparse.issparse(X):
        return False
    try:
        values = np.asarray(X)
    except ValueError:  # a ragged sequence
        return False
    return values.ndim == 2 and values.dtype.kind in "fiub"


def check_tuples(estimator: Any, tuples: Any, size: int, takes: Takes) -> Any:
    """The points of all tuples, those of the first, those of the second, ..., of the kind that the estimator was fitted on."""
    if takes == "table":
        entries = np.asarray(tuples, dtype=object)
        if entries.ndim != 3 or entries.shape[1] != size:
            name, width = TUPLES[size], estimator.n_features_in_
            raise ValueError(f"{name} of rows must have the shape (n_{name}, {size}, {width}); theirs is {entries.shape}.")
        return check_points(estimator, entries.reshape(-1, entries.shape[2]), takes, fitting=False)
    return points_of_tuples(tuples, size, None if takes == "objects" else estimator.n_features_in_)


def points_of_tuples(tuples: Any, size: int, width: Any) -> Array:
    """The points of all tuples, those of the first, those of the second, ...

    ``width`` is how many numbers a point has, "d" for any number of them, or None for tuples of objects.
    """
    name = TUPLES[size]
    if width is None:
        if not all(hasattr(one, "__len__") and len(one) == size and not isinstance(one, str | bytes) for one in tuples):
            raise ValueError(f"{name} must be a sequence of {name} of points.")
        return objects([point for one in tuples for point in one])
    points = check_array(tuples, allow_nd=True, ensure_2d=False, dtype=[np.float64, np.float32], input_name=name)
    if points.ndim != 3 or points.shape[1] != size or width not in ("d", points.shape[2]):
        raise ValueError(f"{name} must have the shape (n_{name}, {size}, {width}); theirs is {points.shape}.")
    return np.asarray(points.reshape(-1, points.shape[2]))


def check_supervision(estimator: Any, y: Any, n_samples: int, *, whole: bool = True) -> tuple[Array, bool]:
    """(y, whether it holds class labels); ``whole``: these are all samples, so that many distinct labels are suspicious.

    Arrays with several columns are real targets, and so is one column of floats, even whole ones. Any other single column holds
    labels and is flattened with a warning, as everywhere in scikit-learn. For one dimension `type_of_target` decides.
    """
    name = type(estimator).__name__
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None: give class labels or real targets.")
    if scipy.sparse.issparse(y):
        raise ValueError("y is a sparse matrix; real targets are dense: use y.toarray().")
    check_consistent_length(y, np.empty(n_samples))
    values = np.asarray(y)
    _check_complete(values)
    if values.ndim == 2 and (values.shape[1] > 1 or values.dtype.kind == "f"):
        if values.shape[1] > 1 and values.dtype.kind in "biu" and np.isin(values, (0, 1)).all():
            warnings.warn(
                f"y has {values.shape[1]} columns of 0 and 1, which are taken for as many real targets, not for several labels of "
                "a sample; floats say so without this warning. For classes give one column.",
                UserWarning,
                stacklevel=3,
            )
        return check_array(values, dtype=np.float64, input_name="y"), False
    labels = column_or_1d(y, warn=True)
    with warnings.catch_warnings():
        if not whole:
            warnings.filterwarnings("ignore", message="The number of unique classes")
        kind = type_of_target(labels, input_name="y")
    if kind == "unknown":
        raise ValueError(f"Unknown label type: y is neither labels nor real targets (dtype {values.dtype}).")
    if kind == "continuous":
        return check_array(labels, ensure_2d=False, dtype=np.float64, input_name="y"), False
    if whole:
        check_classification_targets(labels)
        _check_not_real(labels)
        _warn_of_unlabelled(labels)
    return labels, True


def _warn_of_unlabelled(labels: Array) -> None:
    """Tell that -1 is a class here, where it stands beside two or more others that are not negative."""
    if labels.dtype.kind != "i" or not (labels == -1).any():
        return
    others = np.unique(labels[labels >= 0])
    if len(others) > 1:
        warnings.warn(
            f"y holds -1 in {np.sum(labels == -1)} places beside {len(others)} labels >= 0, and it is taken for one more class. "
            "If it means that there is no label, as in scikit-learn's semi-supervised estimators, leave those samples out, or let "
            "FixedKernelMetric and LearnedKernelMetric use them: unlabeled='graph'.",
            UserWarning,
            stacklevel=4,
        )


def check_labels(estimator: Any, y: Any) -> Array:
    """Class labels in one dimension, for estimators that learn classes only."""
    name = type(estimator).__name__
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    _check_complete(np.asarray(y))
    labels = np.asarray(column_or_1d(y, warn=True))
    advice = f"{name} learns classes; for real targets, take MetricRegressor."
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of unique classes")  # an error below
        if type_of_target(labels, input_name="y") == "continuous":
            raise ValueError(f"Unknown label type: continuous. y holds real targets, such as {labels[0]!s}. {advice}")
        check_classification_targets(labels)
    if mostly_alone(labels):
        distinct = len(np.unique(labels))
        raise ValueError(
            f"y holds {distinct} distinct whole numbers for {len(labels)} samples, which would be taken for {distinct} classes. "
            f"{advice} If they are classes, pass strings."
        )
    _warn_of_unlabelled(labels)
    return labels


def _check_complete(y: Array) -> None:
    """Raise ValueError if entries of y are missing or infinite."""
    if y.dtype.kind == "f":
        wrong = ~np.isfinite(y)
    elif y.dtype.kind == "O":
        gaps = [is_missing(value) or (isinstance(value, float) and abs(value) == np.inf) for value in y.ravel()]
        wrong = np.array(gaps, dtype=bool).reshape(y.shape)
    else:
        return
    if wrong.any():
        first = ", ".join(str(place) for place in np.argwhere(wrong)[0])
        raise ValueError(
            f"Input y contains NaN, None, NA or infinity in {wrong.sum()} places, which are neither labels nor real targets. The "
            f"first is y[{first}]; remove those samples."
        )


def check_real_targets(estimator: Any, y: Any) -> Array:
    """Real targets as an array of shape (n, q), for estimators that learn real targets only."""
    name = type(estimator).__name__
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    values = np.asarray(y)
    _check_complete(values)
    if values.dtype.kind not in "biuf":
        try:
            values = values.astype(np.float64)
        except (ValueError, TypeError):
            raise ValueError(
                f"{name} learns real targets, and y holds such as {str(values.ravel()[0])!r}; for classes, take MetricClassifier."
            ) from None
    values = check_targets(values, len(values))
    if not (values != values[0]).any():
        raise ValueError("y is constant: there is nothing to predict. Provide targets that vary.")
    return values


def check_targets(y: Any, n_samples: int) -> Array:
    """Real targets as an array of shape (n, q)."""
    check_consistent_length(y, np.empty(n_samples))
    values = np.asarray(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")).reshape(n_samples, -1)
    if np.abs(values).max(initial=0.0) > LARGEST_TARGET:
        raise ValueError(f"y reaches {np.abs(values).max():.3g}, whose squares overflow; rescale it.")
    return values


def _check_not_real(labels: Array) -> None:
    """Refuse what `type_of_target` calls classes but is most likely a regression target: many distinct whole numbers."""
    distinct = len(np.unique(labels))
    whole_floats = labels.dtype.kind == "f" and distinct > MANY_CLASSES
    if whole_floats or mostly_alone(labels):
        raise ValueError(
            f"y holds {distinct} distinct whole numbers for {len(labels)} samples, which would be taken for {distinct} classes. If "
            "they are real targets, pass one column of floats: y.astype(float)[:, None]. If they are classes, pass "
            f"{'integers' if whole_floats else 'strings'}."
        )


def mostly_alone(labels: Array) -> bool:
    """Whether labels are so many different numbers that they are probably no classes."""
    return labels.dtype.kind in "iuf" and len(np.unique(labels)) > max(MANY_CLASSES, len(labels) / 2)


def declared_kernel(estimator: Any) -> MatrixKernel:
    """The matrix kernel that an estimator's parameters ``kernel``, ``bandwidth`` and ``kernel_params`` describe."""
    kernel, bandwidth, params = estimator.kernel, estimator.bandwidth, estimator.kernel_params
    if isinstance(kernel, MatrixKernel):
        return kernel
    if isinstance(kernel, ScalarKernel):
        return Separable(kernel)
    if is_sequence(bandwidth):
        return Diagonal([Scalar(kernel, one, params) for one in bandwidth])
    return Separable(Scalar(kernel, bandwidth, params))


def check_kernel_parameters(estimator: Any) -> None:
    """Raise ValueError if the three parameters do not fit together."""
    if estimator.kernel_params is not None and not isinstance(estimator.kernel_params, Mapping):
        raise ValueError(f"kernel_params must be None or a dict, not {estimator.kernel_params!r}.")
    if isinstance(estimator.kernel, MatrixKernel | ScalarKernel):
        given = is_sequence(estimator.bandwidth) or estimator.bandwidth != "median" or estimator.kernel_params is not None
        if given:
            raise ValueError("bandwidth and kernel_params belong to a kernel given by name; this kernel object has its own.")


def is_sequence(bandwidth: Any) -> bool:
    """Whether a bandwidth is given for each output."""
    return isinstance(bandwidth, Sequence | np.ndarray) and not isinstance(bandwidth, str)


def gaps(y: Any) -> Array:
    """Which rows have no label or target: -1 among whole numbers, NaN among others, None or NaN among words and objects."""
    values = np.asarray(y)
    if values.dtype.kind in "iu":
        missing = values == -1
    elif values.dtype.kind == "f":
        missing = np.isnan(values)
    elif values.dtype.kind == "O":
        found = [is_missing(value) or (isinstance(value, int | np.integer) and value == -1) for value in values.ravel()]
        missing = np.array(found, dtype=bool).reshape(values.shape)
    else:
        return np.zeros(len(values), dtype=bool)
    if missing.ndim == 1:
        return np.asarray(missing)
    if values.dtype.kind in "iu":
        return np.asarray(missing.all(axis=1))
    partly = missing.any(axis=1) & ~missing.all(axis=1)
    if partly.any():
        raise ValueError(f"row {np.flatnonzero(partly)[0]} of y has some of its targets and lacks others; give all or none.")
    return np.asarray(missing.any(axis=1))


def without_gaps(y: Any, missing: Array) -> Array:
    """The labels or targets of the other rows, as numbers if they are such."""
    known = np.asarray(y)[~missing]
    if not len(known):
        raise ValueError("y holds no label at all: every entry says that there is none.")
    return np.array(known.tolist()) if known.dtype.kind == "O" else known


def left_out(y: Any, missing: Array, sample_weight: Any) -> tuple[Any, Any]:
    """Labels and weights for a fit that ignores rows without labels: their weights are 0, and their labels do not matter."""
    if not missing.any():
        return y, sample_weight
    known = without_gaps(y, missing)
    filled = np.repeat(known[:1], len(missing), axis=0)
    filled[~missing] = known
    weights = check_sample_weight(sample_weight, len(missing))
    return filled, np.where(missing, 0.0, 1.0 if weights is None else weights)

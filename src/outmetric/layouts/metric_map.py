"""Maps that tell the truth: rows are shown where a model that has not seen their labels puts them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy.linalg import orthogonal_procrustes
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone, is_regressor
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import check_is_fitted

from outmetric.automatic import MetricClassifier, MetricRegressor
from outmetric.estimators import check_real_targets, check_supervision
from outmetric.foundation import (
    Array,
    announce,
    check_integer,
    check_same_features,
    is_fitted,
    is_missing,
    n_points,
    one_blas_thread,
    sample_of,
    storable,
)
from outmetric.layouts.beside import Beside
from outmetric.layouts.fitted import Fitted
from outmetric.layouts.layout import MapQuality, lay_out, places, quality

# Neighbours whose classes are counted, and those whose targets or distances are averaged.
ASKED, AVERAGED = 15, 5


def _check_stored(found: MetricMap, size: int) -> None:
    if not is_fitted(found):
        return
    model = getattr(found, "model_", None)
    if not isinstance(model, BaseEstimator) or not is_fitted(model) or not hasattr(model, "transform"):
        raise ValueError("a map has a model that is none, or not fitted")
    check_same_features(found, model)
    coordinates, embedding = found.coordinates_, found.embedding_
    for array in (coordinates, embedding):
        if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ValueError("a map has places that are not numbers")
    together = len(embedding) == len(coordinates) == len(found.y_) == len(found.labelled_) and len(embedding) > 0
    if not together or embedding.shape[1] not in (2, 3) or found.labelled_.dtype != bool:
        raise ValueError("what a map is made of does not fit together")
    if found.labelled_.ndim != 1 or found.labelled_.sum() < 2:
        raise ValueError("a map has no rows whose labels could be asked for")
    if not isinstance(found.quality_, MapQuality) or not isinstance(found.beside_, Beside | None):
        raise ValueError("a map has a quality that is none")


def _sample(found: MetricMap, size: int) -> Any:
    return sample_of(found.model_, size) if hasattr(found, "model_") else None


@storable("MetricMap", check=_check_stored, sample=_sample, holds_models=True)
class MetricMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A map of labelled rows in the plane or in space, in which nearness means likeness for rows that no model has seen.

    A model that knows a row's label puts it where that label belongs, whatever the row is like, so that classes look apart that are
    not, even random ones. Here each row gets the learned coordinates of a model that was fitted without it (5 folds), and the map
    is a layout of these (t-SNE, by openTSNE, in which Euclidean distance is the learned metric). With as many coordinates as the
    map has, or fewer (three classes, say), it is the learned plane itself, undistorted. New rows have an explicit place: the median
    of the places of their nearest neighbours in the learned metric.

    Parameters
    ----------
    estimator : metric, Pipeline, MetricSearchCV, MetricClassifier or MetricRegressor, optional
        What learns. It is cloned. Default: `MetricClassifier`, or `MetricRegressor` for real targets, whose best map is shown.
    n_components : 2 or 3
    layout : "auto", "t-SNE" or "learned"
        "learned" shows the learned coordinates themselves, the first of them if there are more. "auto": these if there are no more
        than the map has, otherwise t-SNE.
    n_neighbors : int
        About how many neighbours of each row t-SNE keeps near (its perplexity).
    cv : int
        Folds; each row is placed by a model that was fitted without its fold.
    init : array of shape (n, n_components) or MetricMap, optional
        Where t-SNE begins: with the places of an earlier map (or by an earlier map, which places the rows), so that the new map
        resembles it.
    random_state : int, RandomState or None
        The same number gives the same map.
    n_jobs : int, optional
        For the estimator if it is the default one, and for t-SNE.
    verbose : bool or function (done, total, text)

    Attributes
    ----------
    embedding_ : array of shape (n, n_components)
        Where the training rows are, each placed by a model that has not seen it.
    coordinates_ : array of shape (n, m)
        Their coordinates in the learned metric, out of fold as well.
    fitted_embedding_ : array of shape (n, n_components)
        Where the model that has seen all of them puts them: how the map would look if it were not honest.
    quality_ : MapQuality
        How far the map may be believed: shares of rows that their neighbours name right, in the map and in the metric, recall of
        each class, classes that overlap, trustworthiness.
    model_ : fitted estimator
    classes_ : array, or None for real targets
    y_ : array
        The labels or targets of the training rows.
    labelled_ : bool array of shape (n,)
        Which rows have a label. Others (None, NaN) are placed like new rows, and so is the only row of a class.
    scale_ : float or None
        What a unit of the map is in the learned metric; None if the map does not keep distances.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outmetric import LearnedKernelMetric, MetricMap
    >>> X, y = load_iris(return_X_y=True)
    >>> shown = MetricMap(LearnedKernelMetric(), random_state=0).fit(X, y)
    >>> shown.embedding_.shape
    (150, 2)
    >>> print(shown.quality_.text())
    95.3 % of rows named right by 5 neighbours, out of fold; 95.3 % in the metric itself
    """

    def __init__(
        self,
        estimator: Any = None,
        n_components: int = 2,
        *,
        layout: str = "auto",
        n_neighbors: int = 30,
        cv: int = 5,
        init: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool | Callable[[int, int, str], object] = False,
    ) -> None:
        self.estimator = estimator
        self.n_components = n_components
        self.layout = layout
        self.n_neighbors = n_neighbors
        self.cv = cv
        self.init = init
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Learn, place each row without its label, and lay the rows out.

        Parameters
        ----------
        X : data that the estimator takes
        y : array of shape (n,), or (n, q) for several real targets
            Labels or targets; None or NaN: no label.
        """
        self._check_parameters()
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31))
        given = _with_gaps(y, n_points(X))
        self.y_ = given
        labelled = ~_gaps(given)
        if not labelled.any():
            raise ValueError("no row has a label or a target; there is nothing to learn from.")
        if self.estimator is not None and is_regressor(self.estimator):
            targets, are_classes = check_real_targets(self, given[labelled]), False
        else:
            targets, are_classes = check_supervision(self, _dense(given[labelled]), int(labelled.sum()))
        if are_classes:
            labelled, targets = _without_lonely(labelled, targets)
        self.labelled_ = labelled
        self.classes_ = np.unique(targets) if are_classes else None
        rows = np.flatnonzero(labelled)
        known = _safe_split(self._declared(are_classes, seed), X, None, rows)[0] if len(rows) < len(labelled) else X
        self._tell(0, 3, "learning")
        self.model_ = self._declared(are_classes, seed).fit(known, targets)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.model_, name):
                setattr(self, name, getattr(self.model_, name))
        self._tell(1, 3, "placing rows without their labels")
        fitted = np.asarray(self.model_.transform(X if len(rows) == len(labelled) else _between(self.model_, X, rows)))
        self.coordinates_ = fitted.copy()  # unlabelled rows are new to the model
        self.coordinates_[rows] = self._out_of_fold(known, targets, fitted[rows], are_classes, seed)
        self._tell(2, 3, "laying out")
        self._lay_out(X, rows, fitted, seed)
        codes = np.unique(targets, return_inverse=True)[1] if are_classes else np.asarray(targets).reshape(len(rows), -1)
        self.quality_ = quality(self.embedding_[rows], self.coordinates_[rows], codes, self.classes_)
        self._n_features_out = self.n_components
        self._tell(3, 3, self.quality_.text())
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Fit, and return `embedding_`: the places of the rows out of fold, which `transform` does not give."""
        return np.asarray(self.fit(X, y, **fit_params).embedding_)

    def transform(self, X: Any) -> Array:
        """Where new rows are in the map, shape (n, n_components)."""
        check_is_fitted(self, "model_")
        return self._places(X, np.asarray(self.model_.transform(X)))

    @property
    def opinions_(self) -> Array:
        """What neighbours in the learned metric say of each row, which has no say itself.

        Shares of the classes among the 15 nearest labelled rows, (n, c), or the mean of the real targets of five, (n, q).
        """
        check_is_fitted(self, "model_")
        rows = np.flatnonzero(self.labelled_)
        known = _dense(self.y_[rows])
        if self.classes_ is None:
            values = np.asarray(known, dtype=np.float64).reshape(len(rows), -1)
            return np.asarray(values[self._nearest(AVERAGED)[0]].mean(axis=1))
        return np.asarray((known[self._nearest(ASKED)[0]][:, :, None] == self.classes_).mean(axis=1))

    @property
    def novelty_(self) -> Array:
        """The share of rows that are less far from everything else, for each row: how far its nearest rows are in the metric."""
        check_is_fitted(self, "model_")
        distances = self._nearest(AVERAGED)[1].mean(axis=1)
        return np.asarray(np.searchsorted(np.sort(distances), distances) / max(1, len(distances) - 1))

    def _nearest(self, count: int) -> tuple[Array, Array]:
        """The nearest labelled rows of each row, by their numbers among these, and how far they are; none is its own neighbour."""
        rows = np.flatnonzero(self.labelled_)
        count = min(count, len(rows) - 1)
        distances, near = NearestNeighbors(n_neighbors=count + 1).fit(self.coordinates_[rows]).kneighbors(self.coordinates_)
        places = np.full(len(self.coordinates_), -1)
        places[rows] = np.arange(len(rows))
        own = near == places[:, None]
        own[~own.any(axis=1), -1] = True  # of rows that coincide, and of unlabelled ones, the last is left out
        return near[~own].reshape(-1, count), distances[~own].reshape(-1, count)

    def control(self, X: Any, y: Any) -> MetricMap:
        """The same map of the same rows with permuted labels, fitted: whatever structure it shows is none."""
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        given = _with_gaps(y, n_points(X))
        there = np.flatnonzero(~_gaps(given))
        permuted = given.copy()
        permuted[there] = given[rng.permutation(there)]
        found: MetricMap = clone(self)
        return found.fit(X, permuted)

    def _check_parameters(self) -> None:
        check_integer("n_components", self.n_components)
        if self.n_components not in (2, 3):
            raise ValueError(f"n_components must be 2 or 3, not {self.n_components!r}; a model's own `transform` gives more.")
        if self.layout not in ("auto", "t-SNE", "learned"):
            raise ValueError(f"layout={self.layout!r} is not known; use 'auto', 't-SNE' or 'learned'.")
        check_integer("n_neighbors", self.n_neighbors, least=2)
        check_integer("cv", self.cv, least=2)

    def _declared(self, are_classes: bool, seed: int) -> Any:
        if self.estimator is None:
            return (MetricClassifier if are_classes else MetricRegressor)(random_state=seed, n_jobs=self.n_jobs)
        return clone(self.estimator)

    def _out_of_fold(self, X: Any, y: Array, fitted: Array, are_classes: bool, seed: int) -> Array:
        """Coordinates of rows by models that were fitted without them, in the space of the model on all rows.

        A search chooses once, from all rows; what learns does so in each fold.
        """
        unlearned = getattr(self.model_, "unlearned_map", None)
        declared = unlearned() if unlearned is not None else clone(getattr(self.model_, "best_estimator_", self.model_))
        # Where targets have fixed places, all maps are of one space.
        fixed = Fitted.of(self.model_).targets is not None or not are_classes
        found = np.full_like(fitted, np.nan)
        with one_blas_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whoever fitted the model on all rows was told
            for train, test in _folds(y, self.cv, are_classes, seed):
                X_train, y_train = _safe_split(declared, X, y, train)
                own = clone(declared).fit(X_train, y_train)
                X_test, _ = _safe_split(declared, X, y, test, train)
                found[test] = own.transform(X_test)
                if not fixed:
                    found[test] = _turned(np.asarray(own.transform(X_train)), fitted[train], found[test])
        return found

    def _lay_out(self, X: Any, rows: Array, fitted: Array, seed: int) -> None:
        """Set the places of all rows, and what places new ones."""
        width = fitted.shape[1]
        learned = self.layout == "learned" or (self.layout == "auto" and width <= self.n_components)
        self.beside_ = Beside.learn(Fitted.of(self.model_), X, fitted, self.n_components - width, seed) if learned else None
        self.scale_ = 1.0 if learned and width >= self.n_components else None
        self.learned_ = learned
        if learned:
            self.embedding_ = self._plane(X, self.coordinates_)
        else:
            start = self.init.transform(X) if isinstance(self.init, MetricMap) else self.init
            if start is not None:
                start = _checked_start(start, (len(fitted), self.n_components))[rows]
            own = self.coordinates_[rows]
            self.embedding_ = np.empty((len(fitted), self.n_components))
            self.embedding_[rows] = lay_out(
                own,
                self.n_components,
                self.n_neighbors,
                start,
                seed,
                self.n_jobs,
                lambda done, total: self._tell(done, total, "laying out"),
            )
            others = np.setdiff1d(np.arange(len(fitted)), rows)
            self.embedding_[others] = places(fitted[others], own, self.embedding_[rows])
        self.fitted_embedding_ = self._places(X, fitted)

    def _places(self, X: Any, coordinates: Array) -> Array:
        """Where rows with these learned coordinates are in the map."""
        if self.learned_:
            return self._plane(X, coordinates)
        return places(coordinates, self.coordinates_[self.labelled_], self.embedding_[self.labelled_])

    def _plane(self, X: Any, coordinates: Array) -> Array:
        """Learned coordinates themselves, and if there are too few of them what varies most beside them."""
        shown = coordinates[:, : self.n_components]
        return shown if self.beside_ is None else np.column_stack([shown, self.beside_.of(Fitted.of(self.model_), X, coordinates)])

    def _tell(self, done: int, total: int, text: str) -> None:
        if callable(self.verbose):
            self.verbose(done, total, text)
        elif self.verbose:
            announce(type(self).__name__, text if done == total else f"{done} of {total}; now {text}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if self.estimator is not None and hasattr(self.estimator, "__sklearn_tags__"):
            inner = self.estimator.__sklearn_tags__()
            tags.input_tags = inner.input_tags
        return tags


def _with_gaps(y: Any, n_samples: int) -> Array:
    """Labels or targets as an array in which some may be missing."""
    if y is None:
        raise ValueError("MetricMap requires y to be passed, but the target y is None: a map shows what labels or targets tell.")
    values = np.asarray(y)
    if len(values) != n_samples:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[n_samples, len(values)]}")
    return values


def _gaps(y: Array) -> Array:
    """Which rows have no label or target."""
    if y.dtype.kind not in "fO":
        return np.zeros(len(y), dtype=bool)
    missing = np.array([is_missing(value) for value in y.ravel()], dtype=bool).reshape(y.shape)
    return missing if y.ndim == 1 else np.asarray(missing.any(axis=1))


def _dense(y: Array) -> Array:
    """Labels of one type, as they would be without gaps: whole floats among gaps are labels, others real targets."""
    if y.dtype.kind == "O":
        return np.array(y.tolist())
    return y


def _without_lonely(labelled: Array, labels: Array) -> tuple[Array, Array]:
    """The same without classes of one row, which no model without it knows."""
    names, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if np.sum(counts > 1) < 2:
        raise ValueError(
            f"at least two classes with at least two rows each are needed, so that each row can be placed by a model that has not "
            f"seen it; {np.sum(counts > 1)} of the {len(names)} that came have two rows."
        )
    alone = counts[codes] == 1
    if not alone.any():
        return labelled, labels
    warnings.warn(
        f"{alone.sum()} classes have one row only, {str(names[counts == 1][0])!r} for instance. These rows are placed like those "
        "without a label: no model that has not seen them knows their class.",
        UserWarning,
        stacklevel=3,
    )
    labelled = labelled.copy()
    labelled[np.flatnonzero(labelled)[alone]] = False
    return labelled, labels[~alone]


def _folds(y: Array, cv: int, are_classes: bool, seed: int) -> Any:
    if are_classes:
        smallest = int(np.unique(y, return_counts=True)[1].min())
        splitter: Any = StratifiedKFold(max(2, min(cv, smallest)), shuffle=True, random_state=seed)
    else:
        splitter = KFold(min(cv, len(y)), shuffle=True, random_state=seed)
    return splitter.split(np.empty(len(y)), y)


def _turned(mapped: Array, target: Array, new: Array) -> Array:
    """New points of a map, moved and turned as brings its others to those of another map."""
    middle, other = mapped.mean(axis=0), target.mean(axis=0)
    turn, _ = orthogonal_procrustes(mapped - middle, target - other)
    return np.asarray((new - middle) @ turn + other)


def _between(model: Any, X: Any, rows: Array) -> Any:
    """All rows as a model takes them that was fitted on some: of a precomputed kernel, the columns of these."""
    return _safe_split(model, X, None, np.arange(n_points(X)), rows)[0]


def _checked_start(start: Any, shape: tuple[int, int]) -> Array:
    values = np.asarray(start, dtype=np.float64)
    if values.shape != shape or not np.isfinite(values).all():
        raise ValueError(f"init must hold a finite place for each row, in shape {shape}; its shape is {values.shape}.")
    return values

"""ITML, linear and with kernels, as scikit-learn estimators: validate, build, project, store."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array

from outmetric.baselines.projections import Constraints, distance_percentiles, project, sample_pairs
from outmetric.baselines.spaces import (
    Baseline,
    Embedded,
    KernelSpace,
    LinearSpace,
    check_limits,
    embed_tuples,
    embed_with_classes,
    report,
    store,
)
from outmetric.estimators import Fact, exportable_metric, number
from outmetric.foundation import Array, check_integer, check_number, check_psd, generator, storable

# Pairs of each kind drawn at most by default.
MOST_PAIRS = 5000
# Kernel principal components with less variance than this, relative to the first, are round-off.
ROUND_OFF = 1e-10


class _InformationTheoretic(Baseline):
    """ITML in either space."""

    gamma: float
    n_constraints: int | None
    bounds: Any
    percentiles: Any
    random_state: Any
    pairs_: Array

    @abstractmethod
    def _prior_factor(self, points: Array, rng: np.random.Generator) -> Array:
        """L_0 for the prior A_0 = L_0'L_0."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the metric from pairs drawn at random, as many with equal labels as with different ones.

        Parameters
        ----------
        X : array of shape (n, d), or what the kernel takes
        y : array of shape (n,)
            Class labels.
        sample_weight : array of shape (n,), optional
            How likely pairs of points are drawn: with probability proportional to w_i w_j, among those with equal labels and among
            those with different ones, each pair once at most. Points of weight 0 are absent. Only ratios of weights matter, and
            a weight of 2 is not a row given twice, which could be paired with its copy: each point with a weight > 0 counts once
            for the bounds, the prior, and the bandwidth and principal components of a kernel. Where so many pairs are drawn
            that these are all, weights change nothing.

        Returns
        -------
        self
        """
        self._check_parameters()
        given = embed_with_classes(self, X, y, sample_weight)
        count = min(20 * len(self.classes_) ** 2, MOST_PAIRS) if self.n_constraints is None else self.n_constraints
        rng = generator(self.random_state)
        similar, dissimilar = sample_pairs(given.labels, count, rng, given.weights)
        signs = np.repeat([1.0, -1.0], [len(similar), len(dissimilar)])
        self._fit(given.embedded, given.embedded.points, np.concatenate([similar, dissimilar]), signs, rng)
        self.pairs_ = given.rows[self.pairs_]
        return self

    def fit_pairs(self, pairs: Any, y: Any, X: Any = None) -> Self:
        """Learn the metric from given pairs.

        Bounds and prior that come from the points count each of them once, however many pairs it is in.

        Parameters
        ----------
        pairs : array of shape (n_pairs, 2, d), sequence of pairs of objects, or, with X, array of shape (n_pairs, 2)
            Pairs of points, or of row numbers of X.
        y : array of shape (n_pairs,)
            1 for similar pairs, -1 for dissimilar ones.
        X : optional
            The points (or the kernel matrix) that the row numbers refer to; else these are made points by the ``preprocessor``.

        Returns
        -------
        self
        """
        self._check_parameters()
        embedded, numbers = embed_tuples(self, pairs, 2, X)
        y = np.asarray(y)
        if y.shape != (len(numbers),):
            raise ValueError(f"pairs must have one y each: {len(numbers)} pairs came, and y of the shape {y.shape}.")
        if not np.isin(y, [1, -1]).all():
            raise ValueError(f"y must be 1 for similar pairs and -1 for dissimilar ones; it holds {np.unique(y)[:5].tolist()}.")
        rng = generator(self.random_state)
        return self._fit(embedded, np.unique(embedded.points, axis=0), numbers, y.astype(np.float64), rng)

    def _check_parameters(self) -> None:
        check_limits(self)
        if not (isinstance(self.gamma, Real) and self.gamma == np.inf):
            check_number("gamma", self.gamma, positive=True)
        check_integer("n_constraints", self.n_constraints, optional=True)
        numbers = np.shape(self.percentiles) == (2,) and all(isinstance(value, Real) for value in self.percentiles)
        if not numbers or not 0 <= self.percentiles[0] <= self.percentiles[1] <= 100:
            raise ValueError(f"percentiles must be two ascending numbers from 0 to 100, not {self.percentiles!r}.")
        if self.bounds is not None and np.shape(self.bounds) not in ((2,), (1, 2), (2, 1)):
            raise ValueError(f"bounds must be None or two numbers, not {self.bounds!r}.")
        for bound in () if self.bounds is None else np.ravel(self.bounds):
            check_number("each of the two bounds", bound, positive=True)

    def _fit(self, embedded: Embedded, typical: Array, pairs: Array, signs: Array, rng: np.random.Generator) -> Self:
        """Learn from pairs of embedded points; bounds and prior are those of the ``typical`` points."""
        points = embedded.points
        given = self.bounds is not None
        self.bounds_ = np.array(self.bounds, dtype=float).ravel() if given else distance_percentiles(typical, self.percentiles, rng)
        differences = points[pairs[:, 0]] - points[pairs[:, 1]]
        # No metric moves points that coincide.
        apart = differences.any(axis=1)
        hopeless = int(np.sum(~apart & (signs < 0)))
        if hopeless:
            warnings.warn(f"{hopeless} dissimilar pairs are of equal points and were left out.", UserWarning, stacklevel=3)
        if not apart.any():
            raise ValueError("every pair is of two equal points; there is nothing to learn from.")
        signs = signs[apart]
        low, high = self.bounds_
        constraints = Constraints(differences[apart], signs, np.where(signs > 0, low, high))
        prior_factor = self._prior_factor(typical, rng)
        try:
            with embedded.threads():
                found = project(
                    constraints,
                    prior_factor,
                    gamma=float(self.gamma),
                    tol=self.tol,
                    max_iter=self.max_iter,
                    on_sweep=lambda now: report(
                        self,
                        f"sweep {now.iteration}: correction {now.correction:.2e}, divergence {now.divergence:.6g}, "
                        f"{now.seconds:.2f} s",
                    ),
                )
        except np.linalg.LinAlgError as error:
            raise ValueError(f"the metric could not be learned: {error}.") from error
        self.pairs_, self.pair_signs_ = pairs[apart], signs
        self.multipliers_, self.relaxed_bounds_ = found.multipliers, found.relaxed_bounds
        self.divergence_ = found.history[-1].divergence if found.history else 0.0
        store(self, embedded.measure(found.factor), found.history, found.status)
        return self

    def _settings(self) -> list[Fact]:
        similar, dissimilar = (int(np.sum(self.pair_signs_ == sign)) for sign in (1, -1))
        low, high = (number(bound) for bound in self.bounds_)
        aim = f"{similar} similar pairs within a squared distance of {low}, {dissimilar} dissimilar ones beyond {high}"
        return [*super()._settings(), Fact("aim", f"{aim}; gamma {number(self.gamma)}")]

    def _outcome(self) -> list[Fact]:
        divergence = Fact("divergence", f"{number(self.divergence_)} from the prior metric")
        if not self.history_:
            return [divergence]
        last = f"largest correction in the last sweep {self.history_[-1].correction:.1e}, relatively"
        return [divergence, Fact("certificate", last)]

    def _course(self) -> list[float]:
        return [sweep.correction for sweep in self.history_]


@storable("ITML")
@exportable_metric
class ITML(_InformationTheoretic, LinearSpace):
    """Information-theoretic metric learning (Davis et al. 2007): near to a prior metric, with similar pairs near and others apart.

    Learns A = L'L by minimising D(A, A_0) + gamma sum_c D(xi_c, b_c), with the LogDet divergence D, subject to d_A^2 <= xi_c for
    similar pairs and d_A^2 >= xi_c for dissimilar ones. The b_c are two bounds on squared distances, for similar and for
    dissimilar pairs, and the xi_c relax them. The problem is convex and solved by Bregman projections.

    Parameters
    ----------
    gamma : float
        Weight of the relaxation: the larger, the harder the bounds; infinity for no relaxation.
    n_constraints : int, optional
        Pairs drawn for `fit`, as many similar as dissimilar ones. Default: 20 classes^2 of each, 5000 at most.
    bounds : pair of float, optional
        Bounds on the *squared* distance of similar and of dissimilar pairs. Default: from ``percentiles``.
    percentiles : pair of float
        Percentiles of the squared Euclidean distances of the training points, as bounds.
    prior : "identity", "covariance", "random" or array of shape (d, d)
        A_0. "covariance": the inverse covariance of the training points. "random": positive definite, with the identity as mean. A
        singular one is a `numpy.linalg.LinAlgError`, which is a ValueError.
    max_iter : int
        At most this many sweeps over all pairs.
    tol : float
        Stop when no projection in a sweep corrects a squared distance by more, relatively.
    random_state : int, RandomState or None
        For drawing pairs, and for ``prior="random"``.
    verbose : bool
        Report every sweep on stderr.
    preprocessor : array-like of shape (n_rows, d), or function, optional
        The points that row numbers refer to, or a function that makes points of an array of row numbers (or of paths, names, ...).
        With one, methods take row numbers in the place of points.

    Attributes
    ----------
    components_ : array of shape (d, d)
        L.
    bounds_ : array of shape (2,)
    pairs_, pair_signs_ : arrays of shape (n_pairs, 2) and (n_pairs,)
        The pairs used, by row number of X (of the distinct points of the pairs, in the order in which they first appear, if they
        were given without X); 1 for similar ones. Pairs of equal points are left out.
    relaxed_bounds_ : array of shape (n_pairs,)
        xi_c, which the squared distances keep.
    multipliers_ : array of shape (n_pairs,)
    divergence_ : float
        D(A, A_0).
    history_ : tuple of Sweep
    n_iter_, n_samples_fit_ : int
        Iterations, and samples learned from.
    status_ : Status
    classes_ : array
        Of `fit`.
    metric_ : LinearMetric

    Examples
    --------
    >>> from outmetric.baselines import ITML
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> model = ITML(random_state=0).fit(StandardScaler().fit_transform(X), y)
    >>> model.get_mahalanobis_matrix().shape
    (13, 13)
    """

    def __init__(
        self,
        gamma: float = 1.0,
        *,
        n_constraints: int | None = None,
        bounds: tuple[float, float] | None = None,
        percentiles: tuple[float, float] = (5, 95),
        prior: str | ArrayLike = "identity",
        max_iter: int = 1000,
        tol: float = 1e-5,
        random_state: Any = None,
        verbose: bool = False,
        preprocessor: Any = None,
    ) -> None:
        self.gamma = gamma
        self.n_constraints = n_constraints
        self.bounds = bounds
        self.percentiles = percentiles
        self.prior = prior
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.preprocessor = preprocessor

    def _prior_factor(self, points: Array, rng: np.random.Generator) -> Array:
        d = points.shape[1]
        if isinstance(self.prior, str):
            if self.prior == "identity":
                return np.eye(d)
            if self.prior == "random":
                return np.asarray(scipy.linalg.qr(rng.standard_normal((2 * d, d)), mode="economic")[1] / np.sqrt(2 * d))
            if self.prior != "covariance":
                raise ValueError(f"prior={self.prior!r} is not known; use 'identity', 'covariance', 'random' or a matrix.")
            deviations = points.std(axis=0, ddof=1)
            constant = deviations <= len(points) * np.finfo(float).eps * np.abs(points).max(axis=0)
            scaled = (points - points.mean(axis=0)) / np.where(constant, 1, deviations)
            values, vectors = scipy.linalg.eigh(scaled.T @ scaled / (len(points) - 1))
            if constant.any() or not values[0] > 1e-10 * values[-1]:
                raise np.linalg.LinAlgError(
                    "prior='covariance' needs a regular covariance matrix, and this one is singular: remove constant or collinear "
                    "features, or use prior='identity'."
                )
            return np.asarray((vectors / np.sqrt(values)).T / deviations)
        if self.prior is None:
            raise ValueError("prior=None is not known; use 'identity', 'covariance', 'random' or a matrix.")
        matrix = check_array(self.prior, dtype=np.float64, input_name="prior")
        if matrix.shape != (d, d):
            raise ValueError(f"prior must have the shape ({d}, {d}); its shape is {matrix.shape}.")
        check_psd(matrix, "prior")
        # Judged with a diagonal of ones, so that the units of the features do not matter.
        units = np.sqrt(np.diag(matrix))
        if not units.all() or not np.linalg.eigvalsh(matrix / np.outer(units, units))[0] > d * np.finfo(float).eps:
            raise np.linalg.LinAlgError("prior must be positive definite, and this matrix is singular.")
        return np.asarray(scipy.linalg.cholesky(matrix))


@storable("KernelITML")
@exportable_metric
class KernelITML(_InformationTheoretic, KernelSpace):
    """Information-theoretic metric learning in the feature space of a kernel.

    Solves the problem of `ITML` for the metric A of the feature space, with the identity as prior. A differs from the identity only
    on the span of the training points, in whose kernel principal components z the distance is |L (z(x) - z(x'))|. What a new point
    has outside of this span is left out: it adds the same to its distance from each training point.

    Parameters
    ----------
    n_components : int or float, optional
        How many principal components; or, between 0 and 1, as many as have this share of the variance. None: all.
    kernel, bandwidth, kernel_params
        As for `outmetric.LearnedKernelMetric`: a name, a function of two points (any objects), "precomputed", or a `Scalar`.
    gamma, n_constraints, bounds, percentiles, max_iter, tol, random_state, verbose, preprocessor
        As for `ITML`; distances are those of the feature space.

    Attributes
    ----------
    components_ : array of shape (p, p)
        L, for p principal components; `map` computes these.
    bandwidth_ : float or None
    bounds_, pairs_, pair_signs_, relaxed_bounds_, multipliers_, divergence_, history_, n_iter_, status_, classes_
        As for `ITML`.
    metric_ : OutputMetric

    Examples
    --------
    >>> from outmetric.baselines import KernelITML
    >>> words, kinds = ["banana", "bandana", "cabana", "pepper", "peppers", "pepperoni"], [0, 0, 0, 1, 1, 1]
    >>> letters = lambda s, t: float(len(set(s) & set(t)))
    >>> model = KernelITML(kernel=letters, random_state=0).fit(words, kinds)
    >>> near, far = model.pair_distance([("banana", "cabana"), ("banana", "pepper")])
    >>> bool(near < far)
    True
    """

    _negligible = ROUND_OFF

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        kernel: Any = "rbf",
        bandwidth: float | str = "median",
        kernel_params: Mapping[str, Any] | None = None,
        gamma: float = 1.0,
        n_constraints: int | None = None,
        bounds: tuple[float, float] | None = None,
        percentiles: tuple[float, float] = (5, 95),
        max_iter: int = 1000,
        tol: float = 1e-5,
        random_state: Any = None,
        verbose: bool = False,
        preprocessor: Any = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.kernel_params = kernel_params
        self.gamma = gamma
        self.n_constraints = n_constraints
        self.bounds = bounds
        self.percentiles = percentiles
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.preprocessor = preprocessor

    def _prior_factor(self, points: Array, rng: np.random.Generator) -> Array:
        return np.eye(points.shape[1])

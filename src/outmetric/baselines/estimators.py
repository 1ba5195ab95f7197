"""LMNN and ITML, linear and with kernels, as scikit-learn estimators: validate, build, solve, store."""

from __future__ import annotations

import sys
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array
from threadpoolctl import threadpool_limits

from outmetric.baselines.features import check_n_components, kernel_components
from outmetric.baselines.margins import Margins, minimise, target_neighbours
from outmetric.baselines.projections import Constraints, distance_percentiles, project, sample_pairs
from outmetric.face import KernelTransformer, MetricTransformer
from outmetric.inputs import check_number, check_points, check_supervision
from outmetric.kernels import MatrixKernel, Separable
from outmetric.metric import LinearMetric, Metric, OutputMetric, objects
from outmetric.operators import Array, check_psd
from outmetric.scalar import n_points
from outmetric.solvers import Status

# Numbers in the data up to which one BLAS thread is fastest.
SMALL = 2**20
# Differences of features, at their largest, must have squares of squares in double precision.
REPRESENTABLE = 1e-70
# Pairs of each kind drawn at most by default.
MOST_PAIRS = 5000
# Kernel principal components with less variance than this, relative to the first, are round-off (for LMNN: negligible).
ROUND_OFF = 1e-10
NEGLIGIBLE = 1e-6


class _Baseline(MetricTransformer):
    """What LMNN and ITML share, in the space of the data or of a kernel."""

    max_iter: int
    tol: float
    verbose: bool
    status_: Status

    @abstractmethod
    def _training_points(self, X: Any) -> Any:
        """X checked, and copied."""

    @abstractmethod
    def _embed(self, points: Any) -> tuple[Array, Callable[[Array], Metric]]:
        """Coordinates of the training points, and the metric that a factor L for these coordinates makes."""

    def _check_limits(self) -> None:
        check_number("tol", self.tol)
        if not isinstance(self.max_iter, Integral) or self.max_iter < 1:
            raise ValueError(f"max_iter must be an integer >= 1, not {self.max_iter!r}.")

    def _check_labels(self, y: Any, n_samples: int) -> Array:
        """Class indices."""
        labels, holds_labels = check_supervision(self, y, n_samples)
        if not holds_labels:
            raise ValueError(f"Unknown label type: {type(self).__name__} needs class labels, and y holds real targets.")
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds one class only, {self.classes_[0]}; at least two classes are needed.")
        return np.asarray(codes)

    def _store(self, metric: Metric, history: tuple[Any, ...], status: Status) -> None:
        self.metric_ = metric
        self.components_ = metric.metric_factor
        self.history_ = history
        self.n_iter_ = len(history)
        self.status_ = status
        self._n_features_out = len(self.components_)
        if status is not Status.CONVERGED:
            warnings.warn(f"{type(self).__name__}: {status.value}", ConvergenceWarning, stacklevel=3)

    def _say(self, message: str) -> None:
        if self.verbose:
            print(f"[{type(self).__name__}] {message}", file=sys.stderr)


class _LinearSpace(_Baseline):
    """The metric is |L (x - x')|."""

    def _training_points(self, X: Any) -> Any:
        self._takes = "arrays"
        points = check_points(self, X, self._takes, fitting=True).astype(np.float64)
        with np.errstate(over="ignore"):
            largest = float(np.abs(points - points[0]).max())
        if largest > 0 and not REPRESENTABLE < largest < 1 / REPRESENTABLE:
            raise ValueError(f"squared distances are not representable (points are up to {largest:.3g} apart); rescale the data.")
        return points

    def _embed(self, points: Any) -> tuple[Array, Callable[[Array], Metric]]:
        return points, LinearMetric


class _KernelSpace(KernelTransformer, _Baseline):
    """The metric is |L (z(x) - z(x'))| with kernel principal components z."""

    n_components: int | float | None
    random_state: Any
    _negligible: float

    def _training_points(self, X: Any) -> Any:
        check_n_components(self.n_components)
        self._check_kernel()
        if isinstance(self.kernel, MatrixKernel) or len(self._declared_kernel().scalars) > 1:
            raise ValueError(f"{type(self).__name__} takes a scalar kernel and one bandwidth.")
        return super()._training_points(X)

    def _embed(self, points: Any) -> tuple[Array, Callable[[Array], Metric]]:
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        kernel = self._declared_kernel().resolve(points, rng)
        (scalar,) = kernel.scalars
        components = kernel_components(scalar, points, self.n_components, self._negligible)
        self.bandwidth_ = scalar.bandwidth if scalar.has_bandwidth else None
        kept = self._kept(points)

        def measure(factor: Array) -> Metric:
            return OutputMetric(Separable(scalar), kept, components.coefficients, factor, components.offset)

        return components.coordinates, measure


class _LargeMargin(_Baseline):
    """LMNN in either space."""

    n_neighbors: int
    push_weight: float

    @abstractmethod
    def _start(self, points: Array, labels: Array) -> Array:
        """The L to start from."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : array of shape (n, d), or what the kernel takes
        y : array of shape (n,)
            Class labels.

        Returns
        -------
        self
        """
        self._check_limits()
        check_number("push_weight", self.push_weight, positive=True)
        if self.push_weight >= 1:
            raise ValueError(f"push_weight must be between 0 and 1, not {self.push_weight!r}.")
        if not isinstance(self.n_neighbors, Integral) or self.n_neighbors < 1:
            raise ValueError(f"n_neighbors must be an integer >= 1, not {self.n_neighbors!r}.")
        sample = self._training_points(X)
        labels = self._check_labels(y, n_points(sample))
        points, measure = self._embed(sample)
        with threadpool_limits(limits=1 if points.size < SMALL else None, user_api="blas"):
            self.target_neighbors_ = self._target_neighbours(points, labels)
            margins = Margins(points, labels, self.target_neighbors_, float(self.push_weight))
            found = minimise(
                margins,
                self._start(points, labels),
                tol=self.tol,
                max_iter=self.max_iter,
                on_iteration=lambda now: self._say(
                    f"iteration {now.iteration}: objective {now.objective:.7g}, steepness {now.steepness:.2e}, "
                    f"{now.active} active triplets, {now.seconds:.2f} s"
                ),
            )
        self.objective_, self.dual_gap_ = found.objective, found.gap
        self._store(measure(found.factor), found.history, found.status)
        return self

    def _target_neighbours(self, points: Array, labels: Array) -> Array:
        targets = target_neighbours(points, labels, self.n_neighbors)
        if (targets < 0).all():
            raise ValueError("no class has two samples, so there are no target neighbours to pull near.")
        sizes = np.bincount(labels)
        small = np.flatnonzero(sizes <= self.n_neighbors)
        if len(small):
            warnings.warn(
                f"{len(small)} classes have n_neighbors={self.n_neighbors} samples or fewer, the smallest {sizes.min()}; "
                "their samples have as many target neighbours as there are others in the class.",
                UserWarning,
                stacklevel=3,
            )
        return targets


class LMNN(_LargeMargin, _LinearSpace):
    """Large-margin nearest neighbours (Weinberger & Saul 2009): neighbours of the same class near, other classes beyond a margin.

    Learns L by minimising, with d(x, x') = |L (x - x')|^2,

        (1 - mu) sum_ij d(x_i, x_j) + mu sum_ijl max(0, 1 + d(x_i, x_j) - d(x_i, x_l)),

    where j runs over the target neighbours of i, the nearest points of its class before learning, and l over all points of other
    classes. In L'L the problem is convex, and a duality gap bounds how far the result is from the optimum.

    Parameters
    ----------
    n_components : int, optional
        Rows of L. Default: the number of features. With fewer the problem is not convex and the gap does not close.
    n_neighbors : int
        Target neighbours of each point. Classes with fewer other members use those (with a warning).
    push_weight : float
        mu, between 0 and 1.
    init : "auto", "identity", "pca", "lda" or array of shape (n_components, d)
        L to start from, up to a factor, which is chosen. "auto": the identity for a square L, else "lda" if it has enough
        directions, else "pca". The rank of L does not grow.
    max_iter : int
        At most this many steps of L-BFGS.
    tol : float
        Stop when the duality gap is below, relative to the objective; when |gradient| |L| is and rounding the kinks less lowers the
        objective by less; or when the mean loss of a target neighbour is below this share of the margin.
    verbose : bool
        Report every step on stderr.

    Attributes
    ----------
    components_ : array of shape (n_components, d)
        L.
    objective_ : float
    dual_gap_ : float
        (objective - lower bound) / objective, where the bound holds for metrics of any rank. The result is never further from the
        optimum, relatively, and often much nearer; with a smaller tol the bound becomes tight. 1: no bound is known.
    target_neighbors_ : array of shape (n, n_neighbors)
        By index, -1 for none.
    history_ : tuple of Record
        One for each step.
    n_iter_ : int
    status_ : Status
        How the fit ended; its value is advice.
    classes_ : array
    metric_ : LinearMetric

    Notes
    -----
    The objective has kinks where the optimum lies, so they are rounded, less and less (see `outmetric.baselines.margins`). Memory
    beyond the data is bounded: up to a few hundred megabytes where nearly all pairs are within the margin, mostly far less.

    Examples
    --------
    >>> from outmetric.baselines import LMNN
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LMNN(), KNeighborsClassifier())
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    >>> model[1].dual_gap_ < 0.01
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_neighbors: int = 3,
        push_weight: float = 0.5,
        init: str | ArrayLike = "auto",
        max_iter: int = 1000,
        tol: float = 1e-2,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.push_weight = push_weight
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def _start(self, points: Array, labels: Array) -> Array:
        n, d = points.shape
        given = self.n_components
        if given is not None and (not isinstance(given, Integral) or isinstance(given, bool) or not 1 <= int(given) <= d):
            raise ValueError(f"n_components must be None or an integer from 1 to the number of features, {d}; not {given!r}.")
        m = d if given is None else int(given)
        directions = min(d, len(self.classes_) - 1)
        if not isinstance(self.init, str):
            start = check_array(self.init, dtype=np.float64, input_name="init", copy=True)
            if start.shape[1] != d or given not in (None, len(start)):
                raise ValueError(f"init must have the shape ({given or 'n_components'}, {d}); its shape is {start.shape}.")
            return np.asarray(start)
        init = self.init
        if init == "auto":
            init = "identity" if m == d else "lda" if m <= directions else "pca" if m <= min(n, d) else "identity"
        if init == "identity":
            return np.asarray(np.eye(m, d))
        if init == "pca":
            if m > min(n, d):
                raise ValueError(f"init='pca' has at most {min(n, d)} directions for {n} samples; n_components={m}.")
            return np.asarray(PCA(m, svd_solver="full").fit(points).components_)
        if init == "lda":
            if m > directions:
                raise ValueError(f"init='lda' has at most {directions} directions, n_components={m}; use init='pca'.")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # collinear features, which do no harm here
                found = LinearDiscriminantAnalysis().fit(points, labels).scalings_.T[:m]
            # Collinear features may leave fewer directions; L needs all its rows.
            return np.vstack([found, np.eye(m, d)[len(found) :]])
        raise ValueError(f"init={self.init!r} is not known; use 'auto', 'identity', 'pca', 'lda' or an array.")


class KernelLMNN(_LargeMargin, _KernelSpace):
    """Large-margin nearest neighbours in the feature space of a kernel (Chatpatanasiri et al. 2010).

    Minimises the objective of `LMNN` with d(x, x') = |L (z(x) - z(x'))|^2 for the kernel principal components z of the training
    points. New points are mapped by z(x) = V'k(x) + offset.

    Parameters
    ----------
    n_components : int or float, optional
        How many principal components; or, between 0 and 1, as many as have this share of the variance. None: all whose variance,
        relative to the first, is above 1e-6, which can fit the training points too closely.
    kernel, bandwidth, kernel_params
        As for `outmetric.LearnedKernelMetric`: a name, a function of two points (any objects), "precomputed", or a `Scalar`.
    n_neighbors, push_weight, max_iter, tol, verbose
        As for `LMNN`.
    random_state : int, RandomState or None
        Only used to draw points for the median distance of more than 2000 points.

    Attributes
    ----------
    components_ : array of shape (p, p)
        L, for p principal components; `map` computes these.
    bandwidth_ : float or None
    objective_, dual_gap_, target_neighbors_, history_, n_iter_, status_, classes_
        As for `LMNN`.
    metric_ : OutputMetric

    Examples
    --------
    >>> from outmetric.baselines import KernelLMNN
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(100, factor=0.5, noise=0.1, random_state=0)
    >>> model = KernelLMNN(n_components=10).fit(X, y)
    >>> model.transform(X).shape
    (100, 10)
    """

    _negligible = NEGLIGIBLE

    def __init__(
        self,
        n_components: int | float | None = 0.95,
        *,
        kernel: Any = "rbf",
        bandwidth: float | str = "median",
        kernel_params: Mapping[str, Any] | None = None,
        n_neighbors: int = 3,
        push_weight: float = 0.5,
        max_iter: int = 1000,
        tol: float = 1e-2,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.kernel_params = kernel_params
        self.n_neighbors = n_neighbors
        self.push_weight = push_weight
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def _start(self, points: Array, labels: Array) -> Array:
        return np.eye(points.shape[1])


class _InformationTheoretic(_Baseline):
    """ITML in either space."""

    gamma: float
    n_constraints: int | None
    bounds: Any
    percentiles: Any
    random_state: Any

    @abstractmethod
    def _prior_factor(self, points: Array) -> Array:
        """L_0 for the prior A_0 = L_0'L_0."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the metric from pairs drawn at random, as many with equal labels as with different ones.

        Parameters
        ----------
        X : array of shape (n, d), or what the kernel takes
        y : array of shape (n,)
            Class labels.

        Returns
        -------
        self
        """
        self._check_parameters()
        sample = self._training_points(X)
        labels = self._check_labels(y, n_points(sample))
        points, measure = self._embed(sample)
        count = min(20 * len(self.classes_) ** 2, MOST_PAIRS) if self.n_constraints is None else self.n_constraints
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        similar, dissimilar = sample_pairs(labels, count, rng)
        signs = np.repeat([1.0, -1.0], [len(similar), len(dissimilar)])
        return self._fit(points, measure, np.concatenate([similar, dissimilar]), signs, rng)

    def fit_pairs(self, pairs: Any, y: Any, X: Any = None) -> Self:
        """Learn the metric from given pairs.

        Parameters
        ----------
        pairs : array of shape (n_pairs, 2, d), sequence of pairs of objects, or, with X, array of shape (n_pairs, 2)
            Pairs of points, or of row numbers of X.
        y : array of shape (n_pairs,)
            1 for similar pairs, -1 for dissimilar ones.
        X : optional
            The points (or the kernel matrix) that the row numbers refer to.

        Returns
        -------
        self
        """
        self._check_parameters()
        self.__dict__.pop("classes_", None)  # of an earlier fit
        if X is None:
            X, pairs = _points_of_pairs(pairs)
        points, measure = self._embed(self._training_points(X))
        pairs, y = np.asarray(pairs), np.asarray(y)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu" or y.shape != (len(pairs),):
            raise ValueError(
                f"pairs must be (n_pairs, 2) whole row numbers with one y each; they are {pairs.dtype} of shape {pairs.shape}, "
                f"y has the shape {y.shape}."
            )
        if not len(pairs) or pairs.min() < 0 or pairs.max() >= len(points):
            raise ValueError(f"pairs must be row numbers from 0 to {len(points) - 1}, and at least one pair.")
        if not np.isin(y, [1, -1]).all():
            raise ValueError(f"y must be 1 for similar pairs and -1 for dissimilar ones; it holds {np.unique(y)[:5].tolist()}.")
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        return self._fit(points, measure, pairs, y.astype(np.float64), rng)

    def _check_parameters(self) -> None:
        self._check_limits()
        if not (isinstance(self.gamma, Real) and self.gamma == np.inf):
            check_number("gamma", self.gamma, positive=True)
        if self.n_constraints is not None and (not isinstance(self.n_constraints, Integral) or self.n_constraints < 1):
            raise ValueError(f"n_constraints must be None or an integer >= 1, not {self.n_constraints!r}.")
        numbers = np.shape(self.percentiles) == (2,) and all(isinstance(value, Real) for value in self.percentiles)
        if not numbers or not 0 <= self.percentiles[0] <= self.percentiles[1] <= 100:
            raise ValueError(f"percentiles must be two ascending numbers from 0 to 100, not {self.percentiles!r}.")
        if self.bounds is not None and np.shape(self.bounds) != (2,):
            raise ValueError(f"bounds must be None or two numbers, not {self.bounds!r}.")
        for bound in () if self.bounds is None else self.bounds:
            check_number("each of the two bounds", bound, positive=True)

    def _fit(self, points: Array, measure: Callable[[Array], Metric], pairs: Array, signs: Array, rng: np.random.Generator) -> Self:
        given = self.bounds is not None
        self.bounds_ = np.array(self.bounds, dtype=float) if given else distance_percentiles(points, self.percentiles, rng)
        differences = points[pairs[:, 0]] - points[pairs[:, 1]]
        # No metric moves points that coincide.
        apart = differences.any(axis=1)
        hopeless = int(np.sum(~apart & (signs < 0)))
        if hopeless:
            warnings.warn(f"{hopeless} dissimilar pairs are of equal points and were left out.", UserWarning, stacklevel=3)
        if not apart.any():
            raise ValueError("every pair is of two equal points; there is nothing to learn from.")
        signs = signs[apart]
        constraints = Constraints(differences[apart], signs, np.where(signs > 0, *self.bounds_))
        try:
            with threadpool_limits(limits=1 if points.size < SMALL else None, user_api="blas"):
                found = project(
                    constraints,
                    self._prior_factor(points),
                    gamma=float(self.gamma),
                    tol=self.tol,
                    max_iter=self.max_iter,
                    on_sweep=lambda now: self._say(
                        f"sweep {now.iteration}: correction {now.correction:.2e}, divergence {now.divergence:.6g}, "
                        f"{now.seconds:.2f} s"
                    ),
                )
        except np.linalg.LinAlgError as error:
            raise ValueError(f"the metric could not be learned: {error}.") from error
        self.pairs_, self.pair_signs_ = pairs[apart], signs
        self.multipliers_, self.relaxed_bounds_ = found.multipliers, found.relaxed_bounds
        self.divergence_ = found.history[-1].divergence if found.history else 0.0
        self._store(measure(found.factor), found.history, found.status)
        return self


class ITML(_InformationTheoretic, _LinearSpace):
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
    prior : "identity", "covariance" or array of shape (d, d)
        A_0. "covariance": the inverse covariance of the training points.
    max_iter : int
        At most this many sweeps over all pairs.
    tol : float
        Stop when no projection in a sweep corrects a squared distance by more, relatively.
    random_state : int, RandomState or None
        For drawing pairs.
    verbose : bool
        Report every sweep on stderr.

    Attributes
    ----------
    components_ : array of shape (d, d)
        L.
    bounds_ : array of shape (2,)
    pairs_, pair_signs_ : arrays of shape (n_pairs, 2) and (n_pairs,)
        The pairs used, by row number of X (of all points of the pairs, one after the other, if they were given without X); 1 for
        similar ones. Pairs of equal points are left out.
    relaxed_bounds_ : array of shape (n_pairs,)
        xi_c, which the squared distances keep.
    multipliers_ : array of shape (n_pairs,)
    divergence_ : float
        D(A, A_0).
    history_ : tuple of Sweep
    n_iter_ : int
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

    def _prior_factor(self, points: Array) -> Array:
        d = points.shape[1]
        if isinstance(self.prior, str):
            if self.prior == "identity":
                return np.eye(d)
            if self.prior != "covariance":
                raise ValueError(f"prior={self.prior!r} is not known; use 'identity', 'covariance' or a matrix.")
            deviations = points.std(axis=0, ddof=1)
            constant = deviations <= len(points) * np.finfo(float).eps * np.abs(points).max(axis=0)
            scaled = (points - points.mean(axis=0)) / np.where(constant, 1, deviations)
            values, vectors = scipy.linalg.eigh(scaled.T @ scaled / (len(points) - 1))
            if constant.any() or not values[0] > 1e-10 * values[-1]:
                raise ValueError(
                    "prior='covariance' needs a regular covariance matrix, and this one is singular: remove constant or collinear "
                    "features, or use prior='identity'."
                )
            return np.asarray((vectors / np.sqrt(values)).T / deviations)
        if self.prior is None:
            raise ValueError("prior=None is not known; use 'identity', 'covariance' or a matrix.")
        matrix = check_array(self.prior, dtype=np.float64, input_name="prior")
        if matrix.shape != (d, d):
            raise ValueError(f"prior must have the shape ({d}, {d}); its shape is {matrix.shape}.")
        check_psd(matrix, "prior")
        try:
            return np.asarray(scipy.linalg.cholesky(matrix))
        except np.linalg.LinAlgError as error:
            raise ValueError("prior must be positive definite, and this matrix is singular.") from error


class KernelITML(_InformationTheoretic, _KernelSpace):
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
    gamma, n_constraints, bounds, percentiles, max_iter, tol, random_state, verbose
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

    def _prior_factor(self, points: Array) -> Array:
        return np.eye(points.shape[1])


def _points_of_pairs(pairs: Any) -> tuple[Any, Array]:
    """Pairs of points as points, one after the other, and pairs of row numbers."""
    try:
        values = np.asarray(pairs)
    except ValueError:  # ragged
        values = objects(pairs)
    if values.dtype.kind in "fiub":
        values = check_array(values, allow_nd=True, ensure_2d=False, dtype=np.float64, input_name="pairs")
        if values.ndim != 3 or values.shape[1] != 2:
            raise ValueError(f"pairs must have the shape (n_pairs, 2, d); theirs is {values.shape}. Row numbers need X.")
        points: Array = values.reshape(-1, values.shape[2])
    else:
        if not all(len(pair) == 2 and not isinstance(pair, str | bytes) for pair in pairs):
            raise ValueError("pairs must be a sequence of pairs (x, x').")
        points = objects([point for pair in pairs for point in pair])
    return points, np.arange(len(points)).reshape(-1, 2)

"""LMNN, linear and with kernels, as scikit-learn estimators: validate, build, minimise, store."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils.validation import check_array

from outmetric.baselines.descent import Minimum, minimise
from outmetric.baselines.margins import Margins, target_neighbours
from outmetric.baselines.spaces import Baseline, KernelSpace, LinearSpace, check_limits, embed_with_classes, report, store
from outmetric.estimators import Fact, exportable_metric, number
from outmetric.foundation import Array, check_integer, check_number, generator, storable

# Kernel principal components with less variance than this, relative to the first, are left out.
NEGLIGIBLE = 1e-6


class _LargeMargin(Baseline):
    """LMNN in either space."""

    n_neighbors: int
    push_weight: float
    target_neighbors_: Array
    objective_: float
    dual_gap_: float

    @abstractmethod
    def _starts(self, points: Array, labels: Array) -> list[Array]:
        """The L to start from; of several, that which leads to the lowest objective is taken."""

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
        check_limits(self)
        check_number("push_weight", self.push_weight, positive=True)
        if self.push_weight >= 1:
            raise ValueError(f"push_weight must be between 0 and 1, not {self.push_weight!r}.")
        check_integer("n_neighbors", self.n_neighbors)
        embedded, labels = embed_with_classes(self, X, y)
        points = embedded.points
        with embedded.threads():
            self.target_neighbors_ = self._target_neighbours(points, labels)
            margins = Margins(points, labels, self.target_neighbors_, float(self.push_weight))
            found = min((self._minimise(margins, start) for start in self._starts(points, labels)), key=lambda end: end.objective)
        self.objective_, self.dual_gap_ = found.objective, found.gap
        store(self, embedded.measure(found.factor), found.history, found.status)
        return self

    def _minimise(self, margins: Margins, start: Array) -> Minimum:
        return minimise(
            margins,
            start,
            tol=self.tol,
            max_iter=self.max_iter,
            on_iteration=lambda now: report(
                self,
                f"iteration {now.iteration}: objective {now.objective:.7g}, steepness {now.steepness:.2e}, "
                f"{now.active} active triplets, {now.seconds:.2f} s",
            ),
        )

    def _settings(self) -> list[Fact]:
        neighbours = self.target_neighbors_.shape[1]
        return [*super()._settings(), Fact("aim", f"{neighbours} target neighbours, push weight {number(self.push_weight)}")]

    def _outcome(self) -> list[Fact]:
        bound = f"duality gap {self.dual_gap_:.1e}: the objective is not further from its minimum, relatively"
        bound = bound if self.dual_gap_ < 1 else "no lower bound of the objective is known"
        return [Fact("objective", number(self.objective_)), Fact("certificate", bound)]

    def _course(self) -> list[float]:
        return [record.objective for record in self.history_]

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


@storable("LMNN")
@exportable_metric
class LMNN(_LargeMargin, LinearSpace):
    """Large-margin nearest neighbours (Weinberger & Saul 2009): neighbours of the same class near, other classes beyond a margin.

    Learns L by minimising, with d(x, x') = |L (x - x')|^2,

        (1 - mu) sum_ij d(x_i, x_j) + mu sum_ijl max(0, 1 + d(x_i, x_j) - d(x_i, x_l)),

    where j runs over the target neighbours of i, the nearest points of its class before learning, and l over all points of other
    classes. In L'L the problem is convex, and a duality gap bounds how far the result is from the optimum.

    Parameters
    ----------
    n_components : int, optional
        Rows of L. Default: the number of features. With fewer the problem is not convex: the result is a local optimum, and the
        gap need not close.
    n_neighbors : int
        Target neighbours of each point. Classes with fewer other members use those (with a warning).
    push_weight : float
        mu, between 0 and 1.
    init : "auto", "identity", "pca", "lda", "random" or array of shape (n_components, d)
        L to start from, up to a factor, which is chosen. "auto": the identity for a square L, whose result does not depend on the
        start; else that of "lda" (if it has enough directions), "pca" and "identity" which leads to the lowest objective.
    max_iter : int
        At most this many steps of L-BFGS from each start.
    tol : float
        Stop when the duality gap is below, relative to the objective; or when the mean loss of a target neighbour is below this
        share of the margin. With few components also when |gradient| |L| is, and rounding the kinks less lowers the objective by
        less.
    random_state : int, RandomState or None
        For ``init="random"``.
    verbose : bool
        Report every step on stderr.

    Attributes
    ----------
    components_ : array of shape (n_components, d)
        L, which cannot be replaced.
    objective_ : float
    dual_gap_ : float
        (objective - lower bound) / objective, where the bound holds for metrics of any rank. The result is never further from the
        optimum, relatively, and often much nearer; with a smaller tol the bound becomes tight. 1: no bound is known. With few
        components it is what all of them could gain at most: a large gap says that few are not enough, or that the local optimum
        is poor, but not which.
    target_neighbors_ : array of shape (n, n_neighbors)
        By index, -1 for none.
    history_ : tuple of MarginRecord
        One for each step.
    n_iter_, n_samples_fit_ : int
        Iterations, and samples learned from.
    status_ : Status
        How the fit ended; its value is advice. CONVERGED: as ``tol`` asks. LOCAL_OPTIMUM: with few components.
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

    random_state: Any = None  # for pickles of version 0.1, which lack it

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_neighbors: int = 3,
        push_weight: float = 0.5,
        init: str | ArrayLike = "auto",
        max_iter: int = 1000,
        tol: float = 1e-2,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.push_weight = push_weight
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def _starts(self, points: Array, labels: Array) -> list[Array]:
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
            return [np.asarray(start)]
        if self.init == "auto":
            enough = {"lda": m < d and m <= directions, "pca": m < d and m <= n, "identity": True}
            starts = [self._start(name, points, labels, m) for name, possible in enough.items() if possible]
            # The identity may choose nothing but constant features.
            return [start for start in starts if np.ptp(points @ start.T, axis=0).any()] or starts
        if self.init == "pca" and m > min(n, d):
            raise ValueError(f"init='pca' has at most {min(n, d)} directions for {n} samples; n_components={m}.")
        if self.init == "lda" and m > directions:
            raise ValueError(f"init='lda' has at most {directions} directions, n_components={m}; use init='pca'.")
        return [self._start(self.init, points, labels, m)]

    def _start(self, name: str, points: Array, labels: Array, m: int) -> Array:
        d = points.shape[1]
        if name == "identity":
            return np.asarray(np.eye(m, d))
        if name == "pca":
            return np.asarray(PCA(m, svd_solver="full").fit(points).components_)
        if name == "random":
            return generator(self.random_state).standard_normal((m, d))
        if name == "lda":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # collinear features, which do no harm here
                found = LinearDiscriminantAnalysis().fit(points, labels).scalings_.T[:m]
            # Collinear features may leave fewer directions; L needs all its rows.
            return np.vstack([found, np.eye(m, d)[len(found) :]])
        raise ValueError(f"init={name!r} is not known; use 'auto', 'identity', 'pca', 'lda', 'random' or an array.")


@storable("KernelLMNN")
@exportable_metric
class KernelLMNN(_LargeMargin, KernelSpace):
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

    def _starts(self, points: Array, labels: Array) -> list[Array]:
        return [np.eye(points.shape[1])]

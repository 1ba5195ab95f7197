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

from outmetric.baselines.comparisons import Comparisons
from outmetric.baselines.descent import Minimum, minimise
from outmetric.baselines.hinges import HingeLoss
from outmetric.baselines.margins import Margins, target_neighbours
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
from outmetric.estimators import TUPLES, Fact, exportable_metric, number
from outmetric.foundation import Array, check_integer, check_number, generator, storable

# Kernel principal components with less variance than this, relative to the first, are left out.
NEGLIGIBLE = 1e-6


class _LargeMargin(Baseline):
    """LMNN in either space."""

    n_neighbors: int
    push_weight: float
    target_neighbors_: Array
    comparisons_: Array
    objective_: float
    dual_gap_: float

    @abstractmethod
    def _starts(self, points: Array, labels: Array | None) -> list[Array]:
        """The L to start from; of several, that which leads to the lowest objective is taken. ``labels`` is None for tuples."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : array of shape (n, d), or what the kernel takes
        y : array of shape (n,)
            Class labels.
        sample_weight : array of shape (n,), optional
            How much each point counts as the anchor i: the terms of its target neighbours and of its triplets are multiplied by it.
            Points of weight 0 are absent: they are nobody's target neighbours or impostors. A weight of 2 is not a row given twice,
            which would be its own copy's target neighbour; and each point with a weight > 0 is one impostor, and counts once for
            the bandwidth and the principal components of a kernel.

        Returns
        -------
        self
        """
        self._check_parameters()
        check_integer("n_neighbors", self.n_neighbors)
        given = embed_with_classes(self, X, y, sample_weight)
        points, labels = given.embedded.points, given.labels
        with given.embedded.threads():
            targets = self._target_neighbours(points, labels)
            margins = Margins(points, labels, targets, float(self.push_weight), given.weights)
        self.target_neighbors_ = np.full((given.n_rows, targets.shape[1]), -1)
        self.target_neighbors_[given.rows] = np.where(targets < 0, -1, given.rows[targets])
        return self._fit(given.embedded, margins, labels)

    def fit_triplets(self, triplets: Any, X: Any = None) -> Self:
        """Learn the metric from given triplets, each of which says that its first point is nearer to the second than to the third.

        Minimises (1 - mu) sum_(a,b) d(a, b) + mu sum_t max(0, 1 + d(a, b) - d(a, c)) over L, where t = (a, b, c) runs over the
        triplets, and (a, b) over their distinct near pairs: with all triplets of a labelled sample this is what `fit` minimises. A
        triplet that is given twice counts twice. Triplets may contradict each other; if they do so much that no metric is better
        than none, L is zero. Those that no metric can satisfy (c is a, or c is b) are left out, with a warning.

        Parameters
        ----------
        triplets : array of shape (n_triplets, 3, d), sequence of triplets of objects, or array of shape (n_triplets, 3)
            Triplets of points (anchor, near, far); or of row numbers, of X or for the ``preprocessor``.
        X : optional
            The points (or the kernel matrix) that the row numbers refer to. All of them span the space in which a kernel's metric
            is learned. Without X equal points are one point.

        Returns
        -------
        self
        """
        return self._fit_comparisons(triplets, 3, X)

    def fit_quadruplets(self, quadruplets: Any, X: Any = None) -> Self:
        """Learn the metric from given quadruplets, each of which says that its first two points are nearer than its last two.

        As `fit_triplets`, where a triplet (a, b, c) is the quadruplet (a, b, a, c).

        Parameters
        ----------
        quadruplets : array of shape (n_quadruplets, 4, d), sequence of quadruplets of objects, or array of shape (n_quadruplets, 4)
        X : optional

        Returns
        -------
        self
        """
        return self._fit_comparisons(quadruplets, 4, X)

    def _fit_comparisons(self, tuples: Any, size: int, X: Any) -> Self:
        self._check_parameters()
        embedded, numbers = embed_tuples(self, tuples, size, X)
        quadruplets = numbers if size == 4 else numbers[:, [0, 1, 0, 2]]
        self.comparisons_ = quadruplets[_possible(embedded.points, quadruplets, TUPLES[size])]
        with embedded.threads():
            comparisons = Comparisons(embedded.points, self.comparisons_, float(self.push_weight))
        return self._fit(embedded, comparisons, None)

    def _check_parameters(self) -> None:
        check_limits(self)
        check_number("push_weight", self.push_weight, positive=True)
        if self.push_weight >= 1:
            raise ValueError(f"push_weight must be between 0 and 1, not {self.push_weight!r}.")

    def _fit(self, embedded: Embedded, loss: HingeLoss, labels: Array | None) -> Self:
        with embedded.threads():
            starts = self._starts(embedded.points, labels)
            found = min((self._minimise(loss, start) for start in starts), key=lambda end: end.objective)
        self.objective_, self.dual_gap_ = found.objective, found.gap
        store(self, embedded.measure(found.factor), found.history, found.status)
        return self

    def _minimise(self, loss: HingeLoss, start: Array) -> Minimum:
        return minimise(
            loss,
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
        given = hasattr(self, "comparisons_")
        aim = f"{len(self.comparisons_)} comparisons" if given else f"{self.target_neighbors_.shape[1]} target neighbours"
        return [*super()._settings(), Fact("aim", f"{aim}, push weight {number(self.push_weight)}")]

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


def _possible(points: Array, quadruplets: Array, name: str) -> Array:
    """Which comparisons some metric can satisfy: not those whose far pair is of equal points, or is the near pair."""
    a, b, c, e = (points[column] for column in quadruplets.T)
    same = ((a == c) & (b == e)).all(axis=1) | ((a == e) & (b == c)).all(axis=1)
    possible = np.asarray((c != e).any(axis=1) & ~same)
    if not possible.any():
        raise ValueError(f"no metric can satisfy any of the {name}: their far pairs are of equal points, or are their near pairs.")
    if not possible.all():
        warnings.warn(
            f"{np.sum(~possible)} {name} were left out, since no metric can satisfy them: their far pair is of equal points, or is "
            "their near pair.",
            UserWarning,
            stacklevel=4,
        )
    return possible


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
    preprocessor : array-like of shape (n_rows, d), or function, optional
        The points that row numbers refer to, or a function that makes points of an array of row numbers (or of paths, names, ...).
        With one, methods take row numbers in the place of points.

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
        By index, -1 for none, as for points of weight 0; of `fit`.
    comparisons_ : array of shape (n_comparisons, 4)
        Of `fit_triplets` and `fit_quadruplets`: the pairs to be near and those to be far, by row number of X (of the distinct
        points in the order in which they first appear, if they were given without X).
    history_ : tuple of MarginRecord
        One for each step.
    n_iter_, n_samples_fit_ : int
        Iterations, and samples learned from.
    status_ : Status
        How the fit ended; its value is advice. CONVERGED: as ``tol`` asks. LOCAL_OPTIMUM: with few components.
    classes_ : array
        Of `fit`.
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
        preprocessor: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.push_weight = push_weight
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.preprocessor = preprocessor

    def _starts(self, points: Array, labels: Array | None) -> list[Array]:
        n, d = points.shape
        given = self.n_components
        if given is not None and (not isinstance(given, Integral) or isinstance(given, bool) or not 1 <= int(given) <= d):
            raise ValueError(f"n_components must be None or an integer from 1 to the number of features, {d}; not {given!r}.")
        m = d if given is None else int(given)
        directions = 0 if labels is None else min(d, len(np.unique(labels)) - 1)
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
        if self.init == "lda" and labels is None:
            raise ValueError("init='lda' needs labels, and tuples have none; use init='pca'.")
        if self.init == "lda" and m > directions:
            raise ValueError(f"init='lda' has at most {directions} directions, n_components={m}; use init='pca'.")
        return [self._start(self.init, points, labels, m)]

    def _start(self, name: str, points: Array, labels: Array | None, m: int) -> Array:
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
    n_neighbors, push_weight, max_iter, tol, verbose, preprocessor
        As for `LMNN`.
    random_state : int, RandomState or None
        Only used to draw points for the median distance of more than 2000 points.

    Attributes
    ----------
    components_ : array of shape (p, p)
        L, for p principal components; `map` computes these.
    bandwidth_ : float or None
    objective_, dual_gap_, target_neighbors_, comparisons_, history_, n_iter_, status_, classes_
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
        preprocessor: Any = None,
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
        self.preprocessor = preprocessor

    def _starts(self, points: Array, labels: Array | None) -> list[Array]:
        return [np.eye(points.shape[1])]

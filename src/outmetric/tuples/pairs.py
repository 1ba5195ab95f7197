"""ITML on pairs, as a classifier of pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from outmetric.baselines import ITML, KernelITML
from outmetric.estimators import exportable_metric
from outmetric.foundation import storable
from outmetric.tuples.classifiers import PairsClassifier, questions


@storable("PairsITML", asks=questions)
@exportable_metric
class PairsITML(PairsClassifier, ITML):
    """`outmetric.baselines.ITML` learned from pairs: ``fit(pairs, y)``, as metric-learn's ITML.

    Parameters
    ----------
    gamma, bounds, percentiles, prior, max_iter, tol, random_state, verbose
        As for `outmetric.baselines.ITML`; bounds are on *squared* distances.
    preprocessor : array-like of shape (n_rows, d), or function, optional
        The points that row numbers refer to, or a function that makes points of an array of row numbers (or of paths, names, ...).
        With one, all methods take row numbers in the place of points, and pairs of them in the place of pairs of points.

    Attributes
    ----------
    threshold_ : float
        The distance up to which `predict` calls pairs similar.
    components_, bounds_, pairs_, pair_signs_, relaxed_bounds_, multipliers_, divergence_, history_, n_iter_, status_, metric_
        As for `outmetric.baselines.ITML`.

    Examples
    --------
    >>> import numpy as np
    >>> from outmetric.tuples import PairsITML
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> X, labels = load_iris(return_X_y=True)
    >>> pairs = np.random.default_rng(0).integers(150, size=(200, 2))
    >>> alike = np.where(labels[pairs[:, 0]] == labels[pairs[:, 1]], 1, -1)
    >>> bool(cross_val_score(PairsITML(preprocessor=X), pairs, alike).mean() > 0.9)  # area under the ROC curve
    True
    """

    n_constraints = None

    def __init__(
        self,
        gamma: float = 1.0,
        *,
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
        self.bounds = bounds
        self.percentiles = percentiles
        self.prior = prior
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.preprocessor = preprocessor


@storable("PairsKernelITML", asks=questions)
@exportable_metric
class PairsKernelITML(PairsClassifier, KernelITML):
    """`outmetric.baselines.KernelITML` learned from pairs of whatever its kernel takes: ``fit(pairs, y)``.

    Parameters
    ----------
    n_components, kernel, bandwidth, kernel_params, gamma, bounds, percentiles, max_iter, tol, random_state, verbose
        As for `outmetric.baselines.KernelITML`.
    preprocessor
        As for `PairsITML`; the kernel matrix of all points for ``kernel="precomputed"``.

    Attributes
    ----------
    threshold_ : float
        The distance up to which `predict` calls pairs similar.
    components_, bandwidth_, bounds_, pairs_, pair_signs_, relaxed_bounds_, multipliers_, divergence_, history_, n_iter_
        As for `outmetric.baselines.KernelITML`, as are ``status_`` and ``metric_``.

    Examples
    --------
    >>> from outmetric.kernels import Spectrum
    >>> from outmetric.tuples import PairsKernelITML
    >>> pairs = [("banana", "bandana"), ("pepper", "peppers"), ("banana", "pepper"), ("bandana", "peppers")]
    >>> model = PairsKernelITML(kernel=Spectrum(2)).fit(pairs, [1, 1, -1, -1])
    >>> model.predict([("cabana", "banana"), ("cabana", "peppers")])
    array([ 1, -1])
    """

    n_constraints = None

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        kernel: Any = "rbf",
        bandwidth: float | str = "median",
        kernel_params: Mapping[str, Any] | None = None,
        gamma: float = 1.0,
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
        self.bounds = bounds
        self.percentiles = percentiles
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.preprocessor = preprocessor

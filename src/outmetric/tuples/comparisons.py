"""LMNN on triplets and quadruplets, as classifiers of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from outmetric.baselines import LMNN, KernelLMNN
from outmetric.estimators import exportable_metric
from outmetric.foundation import storable
from outmetric.tuples.classifiers import QuadrupletsClassifier, TripletsClassifier, questions


class _LinearComparisons(LMNN):
    """LMNN without what concerns target neighbours."""

    def __init__(
        self,
        n_components: int | None = None,
        *,
        push_weight: float = 0.5,
        init: str | ArrayLike = "auto",
        max_iter: int = 1000,
        tol: float = 1e-2,
        random_state: Any = None,
        verbose: bool = False,
        preprocessor: Any = None,
    ) -> None:
        self.n_components = n_components
        self.push_weight = push_weight
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.preprocessor = preprocessor


class _KernelComparisons(KernelLMNN):
    """KernelLMNN without what concerns target neighbours."""

    def __init__(
        self,
        n_components: int | float | None = 0.95,
        *,
        kernel: Any = "rbf",
        bandwidth: float | str = "median",
        kernel_params: Mapping[str, Any] | None = None,
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
        self.push_weight = push_weight
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.preprocessor = preprocessor


@storable("TripletsLMNN", asks=questions)
@exportable_metric
class TripletsLMNN(TripletsClassifier, _LinearComparisons):  # type: ignore[misc]  # tuples have no sample_weight
    """`outmetric.baselines.LMNN` learned from triplets (anchor, near, far): ``fit(triplets)``, as metric-learn's triplets learners.

    Parameters
    ----------
    n_components, push_weight, init, max_iter, tol, random_state, verbose
        As for `outmetric.baselines.LMNN`; triplets have no labels for ``init="lda"``.
    preprocessor : array-like of shape (n_rows, d), or function, optional
        The points that row numbers refer to, or a function that makes points of an array of row numbers (or of paths, names, ...).
        With one, all methods take row numbers in the place of points, and triplets of them in the place of triplets of points.

    Attributes
    ----------
    components_, objective_, dual_gap_, comparisons_, history_, n_iter_, status_, metric_
        As for `outmetric.baselines.LMNN`, which see for the objective of `fit_triplets`.

    Examples
    --------
    >>> import numpy as np
    >>> from outmetric.tuples import TripletsLMNN
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> X, labels = load_iris(return_X_y=True)
    >>> rows = np.random.default_rng(0).integers(150, size=(3000, 3))
    >>> a, b, c = labels[rows].T
    >>> triplets = rows[(a == b) & (a != c)]
    >>> bool(cross_val_score(TripletsLMNN(preprocessor=X), triplets).mean() > 0.9)  # share of triplets in the right order
    True
    """


@storable("TripletsKernelLMNN", asks=questions)
@exportable_metric
class TripletsKernelLMNN(TripletsClassifier, _KernelComparisons):  # type: ignore[misc]  # tuples have no sample_weight
    """`outmetric.baselines.KernelLMNN` learned from triplets of whatever its kernel takes: ``fit(triplets)``.

    Parameters
    ----------
    n_components, kernel, bandwidth, kernel_params, push_weight, max_iter, tol, random_state, verbose
        As for `outmetric.baselines.KernelLMNN`.
    preprocessor
        As for `TripletsLMNN`; the kernel matrix of all points for ``kernel="precomputed"``.

    Attributes
    ----------
    components_, bandwidth_, objective_, dual_gap_, comparisons_, history_, n_iter_, status_, metric_
        As for `outmetric.baselines.KernelLMNN`.
    """


@storable("QuadrupletsLMNN", asks=questions)
@exportable_metric
class QuadrupletsLMNN(QuadrupletsClassifier, _LinearComparisons):  # type: ignore[misc]  # tuples have no sample_weight
    """`outmetric.baselines.LMNN` learned from quadruplets: ``fit(quadruplets)``, as metric-learn's LSML, by another loss.

    The first two points of each are to be nearer than its last two.

    Parameters
    ----------
    n_components, push_weight, init, max_iter, tol, random_state, verbose, preprocessor
        As for `TripletsLMNN`.

    Attributes
    ----------
    components_, objective_, dual_gap_, comparisons_, history_, n_iter_, status_, metric_
        As for `outmetric.baselines.LMNN`, which see for the objective of `fit_quadruplets`.

    Examples
    --------
    >>> from outmetric.tuples import QuadrupletsLMNN
    >>> quadruplets = [[[0, 0], [0, 9], [0, 0], [1, 0]], [[5, 1], [5, 4], [2, 2], [4, 3]]]  # the first feature matters
    >>> model = QuadrupletsLMNN().fit(quadruplets)
    >>> model.predict([[[1, 0], [1, 20], [3, 1], [5, 2]]])
    array([1])
    """


@storable("QuadrupletsKernelLMNN", asks=questions)
@exportable_metric
class QuadrupletsKernelLMNN(QuadrupletsClassifier, _KernelComparisons):  # type: ignore[misc]  # tuples have no sample_weight
    """`outmetric.baselines.KernelLMNN` learned from quadruplets of whatever its kernel takes: ``fit(quadruplets)``.

    Parameters
    ----------
    n_components, kernel, bandwidth, kernel_params, push_weight, max_iter, tol, random_state, verbose, preprocessor
        As for `TripletsKernelLMNN`.

    Attributes
    ----------
    components_, bandwidth_, objective_, dual_gap_, comparisons_, history_, n_iter_, status_, metric_
        As for `outmetric.baselines.KernelLMNN`.
    """

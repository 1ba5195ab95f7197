"""The two models of the paper as scikit-learn estimators: validate, build, train, store. The mathematics is elsewhere."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d, validate_data

from outmetric.kernels import Diagonal, MatrixKernel, Scalar, Separable, n_points
from outmetric.memory import available_memory, require_memory
from outmetric.metric import OutputMetric, objects
from outmetric.objective import Terms, fixed_kernel_objective, learned_kernel_objective
from outmetric.operators import Array, GramOperator
from outmetric.solvers import SOLVERS, ConjugateGradient, IllConditionedError, Solver, Status, choose_solver
from outmetric.targets import (
    ClassSimilarity,
    Coupling,
    MatrixSimilarity,
    Similarity,
    Targets,
    class_targets,
    gaussian_similarity,
    matrix_similarity,
    real_targets,
)
from outmetric.training import MetricStep, OutputMatrixStep, Record, Step, Trained, alternate


class _KernelMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """What the two models share: data, kernel, supervision, training, and the fitted map and metric."""

    n_components: int | None
    kernel: Any
    bandwidth: Any
    kernel_params: Mapping[str, Any] | None
    collocation_weight: float | Literal["auto"]
    regression_weight: float
    prototypes: Any
    similarity: Any
    solver: str
    max_iter: int
    tol: float
    random_state: Any
    verbose: bool

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the map and the metric.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d), kernel matrix (n, n), or sequence of objects
            What it may be depends on the kernel.
        y : array of shape (n,) or (n, q)
            Class labels, or real targets; told apart by `sklearn.utils.multiclass.type_of_target`, except that a two-dimensional
            array always holds real targets.

        Returns
        -------
        self
        """
        self._check_parameters()
        X = self._check_points(X, y, reset=True)
        kernel_outputs = self._kernel_outputs()
        n_components = self._check_n_components(kernel_outputs, n_points(X))
        targets = self._targets(y, n_points(X), n_components)
        m = targets.values.shape[1]
        if kernel_outputs not in (None, m):
            raise ValueError(
                f"the kernel has {kernel_outputs} outputs but the targets have {m} components; give n_components={kernel_outputs}, "
                "or a kernel (or bandwidths) for each component."
            )
        similarity = self._similarity(y, targets)
        coupling = similarity.couple(self.regression_weight, self._collocation_weight(similarity))

        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        points = X if self._object_input or X.dtype == np.float64 else X.astype(np.float64)
        kernel = self._matrix_kernel(m).resolve(points, rng)
        gram = kernel.gram(points, m, lazy=self._evaluate_lazily(kernel, n_points(X), m))
        solver, reason = self._solver(gram, coupling, targets.values)
        step = self._step(solver, targets, coupling)
        try:
            trained = alternate(solver, step, tol=self.tol, max_iter=self.max_iter, on_iteration=self._tell)
        except IllConditionedError as error:
            raise ValueError(f"the model could not be fitted ({error}): {Status.ILL_CONDITIONED.value}") from error

        dtype = np.dtype(np.float64) if self._object_input else X.dtype
        self.metric_ = self._freeze(kernel, _kept_points(kernel, X), trained, targets, dtype)
        self.coefficients_ = self.metric_.coefficients
        self.metric_factor_ = trained.factors.metric_factor
        self.metric_matrix_ = self.metric_factor_.T @ self.metric_factor_
        self.prototypes_ = targets.prototypes
        self.classes_ = targets.classes
        bandwidths = [scalar.bandwidth for scalar in kernel.scalars if scalar.has_bandwidth]
        self.bandwidth_ = bandwidths[0] if len(bandwidths) == 1 else (np.array(bandwidths) if bandwidths else None)
        self.collocation_weight_ = coupling.collocation_weight
        self.objective_terms_ = self._objective(trained, gram, targets.values, coupling, step)
        self.objective_ = self.objective_terms_.total
        self.history_ = trained.history
        self.n_iter_ = len(trained.history)
        self.status_ = trained.status
        self.solver_ = solver.name
        self.solver_reason_ = reason
        self._n_features_out = m
        self._store(trained, step)
        if self.status_ is not Status.CONVERGED:
            warnings.warn(f"{type(self).__name__}: {self.status_.value}", ConvergenceWarning, stacklevel=2)
        return self

    def transform(self, X: Any) -> Array:
        """Coordinates in which Euclidean distance is the learned metric, shape (n, m)."""
        check_is_fitted(self)
        return self.metric_.coordinates(self._check_points(X, None, reset=False))

    def map(self, X: Any) -> Array:
        """f(x), shape (n, m): the learned map before the metric is applied; targets are given in these coordinates."""
        check_is_fitted(self)
        return self.metric_.map(self._check_points(X, None, reset=False))

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
        return self.metric_.distances(*(self._check_points(side, None, reset=False) for side in self._sides(pairs)))

    def pair_score(self, pairs: Any) -> Array:
        """Minus `pair_distance`: the larger, the more similar."""
        return -self.pair_distance(pairs)

    def get_metric(self) -> OutputMetric:
        """The learned metric as a function of two points, independent of this estimator; it can be pickled if the kernel can."""
        check_is_fitted(self)
        return self.metric_

    def get_mahalanobis_matrix(self) -> Array:
        """A such that the squared distance is (f(x) - f(x'))' A (f(x) - f(x')), with f from `map`."""
        check_is_fitted(self)
        return self.metric_matrix_.copy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        takes = self._takes()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = takes == "sparse"
        tags.input_tags.pairwise = takes == "kernel values"
        return tags

    # What the two models differ in.

    @abstractmethod
    def _check_parameters(self) -> None: ...

    @abstractmethod
    def _step(self, solver: Solver, targets: Targets, coupling: Coupling) -> Step: ...

    @abstractmethod
    def _freeze(self, kernel: MatrixKernel, points: Any, trained: Trained, targets: Targets, dtype: Any) -> OutputMetric: ...

    @abstractmethod
    def _objective(self, trained: Trained, gram: GramOperator, targets: Array, coupling: Coupling, step: Step) -> Terms: ...

    @abstractmethod
    def _store(self, trained: Trained, step: Step) -> None: ...

    # Parameters.

    def _check_common_parameters(self) -> None:
        _check_number("regression_weight", self.regression_weight, positive=True)
        if self.collocation_weight != "auto":
            _check_number("collocation_weight", self.collocation_weight, positive=False, word="auto")
        _check_number("tol", self.tol, positive=False)
        if not isinstance(self.max_iter, Integral) or self.max_iter < 1:
            raise ValueError(f"max_iter must be an integer >= 1, not {self.max_iter!r}.")
        if self.solver != "auto" and self.solver not in SOLVERS:
            raise ValueError(f"solver={self.solver!r} is not known; use 'auto' or one of {sorted(SOLVERS)}.")

    def _check_n_components(self, kernel_outputs: int | None, n_samples: int) -> int | None:
        given = self.n_components
        if given is None:
            return kernel_outputs
        if not isinstance(given, Integral) or isinstance(given, bool) or given < 1:
            raise ValueError(f"n_components must be None or an integer >= 1, not {given!r}.")
        if given > n_samples:
            raise ValueError(
                f"n_components={given} exceeds the {n_samples} training samples, whose images span at most {n_samples} dimensions; "
                "lower n_components (None takes classes - 1)."
            )
        return int(given)

    def _collocation_weight(self, similarity: Similarity) -> float:
        if self.collocation_weight != "auto":
            return float(self.collocation_weight)
        # The collocation term sums over pairs: dividing by the mean degree keeps its share independent of n.
        return float(self.regression_weight / max(2 * similarity.mean_degree, 1.0))

    def _solver(self, gram: GramOperator, coupling: Coupling, targets: Array) -> tuple[Solver, str]:
        kind, reason = choose_solver(gram) if self.solver == "auto" else (SOLVERS[self.solver], "asked for")
        if kind is ConjugateGradient:
            return ConjugateGradient(gram, coupling, targets, tolerance=min(1e-6, 0.01 * self.tol)), reason
        return kind(gram, coupling, targets), reason

    def _tell(self, record: Record) -> None:
        if self.verbose:
            print(
                f"[{type(self).__name__}] iteration {record.iteration}: objective {record.objective:.9g}, "
                f"optimality {record.optimality:.2e}, {record.seconds:.2f} s",
                file=sys.stderr,
            )

    # The kernel.

    def _takes(self) -> str:
        try:
            return self._matrix_kernel(1).takes if not isinstance(self.kernel, MatrixKernel) else self.kernel.takes
        except ValueError:  # tags must not raise; fit will
            return "arrays"

    def _kernel_outputs(self) -> int | None:
        """The number of outputs that the kernel prescribes."""
        if isinstance(self.kernel, MatrixKernel):
            return self.kernel.n_outputs
        return len(self.bandwidth) if self._has_bandwidths() else None

    def _has_bandwidths(self) -> bool:
        return isinstance(self.bandwidth, Sequence | np.ndarray) and not isinstance(self.bandwidth, str)

    def _matrix_kernel(self, n_outputs: int) -> MatrixKernel:
        if isinstance(self.kernel, MatrixKernel):
            return self.kernel
        if isinstance(self.kernel, Scalar):
            return Separable(self.kernel)
        if self._has_bandwidths():
            return Diagonal([Scalar(self.kernel, bandwidth, self.kernel_params) for bandwidth in self.bandwidth])
        return Separable(Scalar(self.kernel, self.bandwidth, self.kernel_params))

    def _evaluate_lazily(self, kernel: MatrixKernel, n: int, m: int) -> bool:
        """True if the Gram matrices do not fit and the solver can do without them; raises if it cannot."""
        separable = isinstance(kernel, Separable)
        matrices = 3 if separable else 2 * max(len(kernel.scalars), m) + 1 if kernel.scalars else 2 * m * m
        n_bytes = 8.0 * matrices * n * n
        available = available_memory()
        if self.solver == "cg" and kernel.scalars and available is not None and n_bytes > available:
            return True
        require_memory(
            n_bytes,
            f"an exact fit on {n} samples ({matrices} arrays of {n} x {n})",
            "solver='cg', which evaluates the kernel in row blocks (slower, little memory), or fit on fewer rows.",
        )
        return False

    # Data.

    def _check_points(self, X: Any, y: Any, *, reset: bool) -> Any:
        takes = self._takes()
        if reset:
            self._object_input = takes == "objects" and not _is_numeric_matrix(X)
        if self._object_input:
            if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
                raise ValueError(f"X must be a sequence of points; a {type(X).__name__} came.")
            if y is not None:
                check_consistent_length(X, y)
            points = objects(list(X))
            missing = [index for index, point in enumerate(points) if point is None]
            if missing:
                raise ValueError(f"X has no point (None) at {len(missing)} positions, first at {missing[0]}; remove those rows.")
            if reset and len(points) < 2:
                raise ValueError(f"at least 2 points are needed; n_samples = {len(points)} came.")
            return points
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr" if takes == "sparse" else False,
            dtype=[np.float64, np.float32],
            ensure_min_samples=2 if reset else 1,
        )
        if y is not None:
            check_consistent_length(X, y)
        if reset and takes == "kernel values" and X.shape[0] != X.shape[1]:
            raise ValueError(f"with kernel='precomputed' fit takes the square kernel matrix of the training points, not {X.shape}.")
        return X

    def _targets(self, y: Any, n_samples: int, n_components: int | None) -> Targets:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: class labels or real targets."
            )
        if _holds_labels(y):
            labels = column_or_1d(y)
            _check_not_real(labels)
            check_classification_targets(labels)
            return class_targets(labels, n_components, self.prototypes)
        values = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        return real_targets(values, n_components)

    def _similarity(self, y: Any, targets: Targets) -> Similarity:
        n_samples = len(targets.values)
        if isinstance(self.similarity, str):
            if self.similarity != "class":
                raise ValueError(
                    f"similarity={self.similarity!r} is not known; use 'class', a matrix, or a function of the targets."
                )
            if targets.labels is not None:
                return ClassSimilarity(targets.labels)
            if self.collocation_weight == 0:
                return MatrixSimilarity(scipy.sparse.eye_array(n_samples, format="csr"))
            return gaussian_similarity(targets.values)
        given = self.similarity(np.asarray(y)) if callable(self.similarity) else self.similarity
        return matrix_similarity(given, n_samples)

    def _sides(self, pairs: Any) -> tuple[Any, Any]:
        if self._object_input:
            if not all(len(pair) == 2 for pair in pairs):
                raise ValueError("pairs must be a sequence of pairs (x, x').")
            return [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        pairs = check_array(pairs, allow_nd=True, ensure_2d=False, dtype=[np.float64, np.float32], input_name="pairs")
        if pairs.ndim != 3 or pairs.shape[1] != 2:
            raise ValueError(f"pairs must have the shape (n_pairs, 2, n_features); theirs is {pairs.shape}.")
        return pairs[:, 0], pairs[:, 1]


class FixedKernelMetric(_KernelMetric):
    """Model 1 of the paper: a given matrix-valued kernel, and a Mahalanobis metric learned in the output space.

    Learns f(x) = sum_j K(x, x_j) c_j in R^m and L by minimising

        1/2 |f|^2 + gamma/2 sum_ij s_ij |L (f(x_i) - f(x_j))|^2 + lambda/2 sum_i |L (f(x_i) - y_i)|^2 + rho tr(L) + epsilon/2 |L|_F^2

    by alternating exact steps; the objective never rises. Distances are |L (f(x) - f(x'))|.

    Parameters
    ----------
    n_components : int, optional
        Dimension m of the output space, which bounds the rank of the metric. Default: classes - 1, the number of real targets, or the
        number of outputs of the kernel. Components beyond what the targets span stay zero.
    kernel : str, callable, Scalar or MatrixKernel
        A name of scikit-learn's pairwise kernels, a function of two points (any objects), "precomputed", or any kernel of
        `outmetric.kernels`.
    bandwidth : float, "median" or sequence of m of those
        For "rbf", exp(-|x-x'|_2^2 / (2 bandwidth^2)), and "laplacian", exp(-|x-x'|_1 / bandwidth). "median": the median distance
        between distinct training points. A sequence makes the paper's diagonal kernel, one spread for each component.
    kernel_params : dict, optional
        Further arguments of the kernel function.
    collocation_weight : float or "auto"
        gamma: how strongly similar points are drawn together. "auto": regression_weight / (2 * mean total similarity of a point).
    regression_weight : float
        lambda: how strongly points are drawn to their targets; reads like the inverse ridge of kernel regression.
    metric_penalty : float or "auto"
        rho: sets the size of L. "auto": L is about -I for the zero map.
    metric_ridge : float
        epsilon in units of tr(lambda Y'Y)/m. Towards 0 the metric is the paper's, whose objective has no minimum; towards infinity it
        is Euclidean. 0 runs the paper's own update and reports `Status.DIVERGED` where that diverges.
    prototypes : "simplex", "onehot" or array of shape (classes, m)
        Target of each class. "simplex": vertices of a regular simplex, or points spread on the sphere if m < classes - 1.
    similarity : "class", array or sparse matrix of shape (n, n), or callable
        s_ij. "class": 1 within a class and 0 otherwise; for real targets a Gaussian of target distance. A callable gets y and returns
        the matrix. Must be symmetric with 0 <= s_ij <= s_ii.
    solver : "auto", "spectral", "dense" or "cg"
    max_iter : int
    tol : float
        Stop when the gradient in L, relative to rho, is below.
    random_state : int, RandomState or None
        Only used to draw points for the median distance of more than 2000 points.
    verbose : bool
        Report every iteration on stderr.

    Attributes
    ----------
    coefficients_ : array of shape (n, m)
    metric_factor_, metric_matrix_ : arrays of shape (m, m)
        L, which is negative definite, and A = L'L.
    metric_penalty_, metric_ridge_, collocation_weight_ : float
        rho, epsilon and gamma as used, in absolute terms.
    prototypes_, classes_ : arrays, or None for real targets
    bandwidth_ : float, array or None
    objective_ : float
    objective_terms_ : Terms
        Its four terms.
    history_ : tuple of Record
        One record for each iteration.
    n_iter_ : int
    status_ : Status
    solver_, solver_reason_ : str
    metric_ : OutputMetric
        The fitted model without the estimator.

    Examples
    --------
    >>> from outmetric import FixedKernelMetric
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), FixedKernelMetric(bandwidth=[1.0, 3.0]), KNeighborsClassifier())
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kernel: Any = "rbf",
        bandwidth: float | str | Sequence[float | str] | ArrayLike = "median",
        kernel_params: Mapping[str, Any] | None = None,
        collocation_weight: float | Literal["auto"] = "auto",
        regression_weight: float = 10.0,
        metric_penalty: float | Literal["auto"] = "auto",
        metric_ridge: float = 1.0,
        prototypes: str | ArrayLike = "simplex",
        similarity: Any = "class",
        solver: str = "auto",
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.kernel_params = kernel_params
        self.collocation_weight = collocation_weight
        self.regression_weight = regression_weight
        self.metric_penalty = metric_penalty
        self.metric_ridge = metric_ridge
        self.prototypes = prototypes
        self.similarity = similarity
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        self._check_common_parameters()
        if self.metric_penalty != "auto":
            _check_number("metric_penalty", self.metric_penalty, positive=True, word="auto")
        _check_number("metric_ridge", self.metric_ridge, positive=False)

    def _step(self, solver: Solver, targets: Targets, coupling: Coupling) -> MetricStep:
        scatter = coupling.regression_weight * targets.values.T @ targets.values
        unit = float(np.trace(scatter)) / max(1, int(np.linalg.matrix_rank(scatter)))
        penalty = unit * (1 + self.metric_ridge) if self.metric_penalty == "auto" else float(self.metric_penalty)
        return MetricStep(penalty, self.metric_ridge * unit, scatter)

    def _freeze(self, kernel: MatrixKernel, points: Any, trained: Trained, targets: Targets, dtype: Any) -> OutputMetric:
        coefficients = trained.coefficients.astype(dtype, copy=False)
        return OutputMetric(kernel, points, coefficients, trained.factors.metric_factor, targets.offset)

    def _objective(self, trained: Trained, gram: GramOperator, targets: Array, coupling: Coupling, step: Step) -> Terms:
        assert isinstance(step, MetricStep)
        factor = trained.factors.metric_factor
        return fixed_kernel_objective(trained.coefficients, factor, gram, targets, coupling, step.metric_penalty, step.metric_ridge)

    def _store(self, trained: Trained, step: Step) -> None:
        assert isinstance(step, MetricStep)
        self.metric_penalty_ = step.metric_penalty
        self.metric_ridge_ = step.metric_ridge


class LearnedKernelMetric(_KernelMetric):
    """Model 2 of the paper: the kernel k(x, x') B with a learned matrix B, which determines the metric.

    Learns f(x) = sum_j k(x, x_j) B c_j in R^m and B by minimising

        1/2 |f|^2 + gamma/2 sum_ij s_ij |f(x_i) - f(x_j)|^2 + lambda/2 sum_i |f(x_i) - y_i|^2 + rho/2 |B|_F^2,   B >= 0.

    The problem is jointly convex in (f, B) and is solved to a certified duality gap. Distances are |f(x) - f(x')|.

    Parameters
    ----------
    n_components : int, optional
        Dimension m of the output space, which bounds the rank of the metric. Default: classes - 1, or the number of real targets.
        Components beyond what the targets span stay zero.
    kernel : str, callable or Scalar
        A name of scikit-learn's pairwise kernels, a function of two points (any objects), "precomputed", or an
        `outmetric.kernels.Scalar`.
    bandwidth : float or "median"
        For "rbf", exp(-|x-x'|_2^2 / (2 bandwidth^2)), and "laplacian", exp(-|x-x'|_1 / bandwidth). "median": the median distance
        between distinct training points.
    kernel_params : dict, optional
        Further arguments of the kernel function.
    collocation_weight : float or "auto"
        gamma: how strongly similar points are drawn together. "auto": regression_weight / (2 * mean total similarity of a point).
    regression_weight : float
        lambda: how strongly points are drawn to their targets; reads like the inverse ridge of kernel regression.
    output_penalty : float or "auto"
        rho: sets the size of B. "auto": tr(C'K C)/(2 m) for the map with B = I, so that B has about the size of the identity.
    prototypes : "simplex", "onehot" or array of shape (classes, m)
        Target of each class. "simplex": vertices of a regular simplex, or points spread on the sphere if m < classes - 1.
    similarity : "class", array or sparse matrix of shape (n, n), or callable
        s_ij. "class": 1 within a class and 0 otherwise; for real targets a Gaussian of target distance. A callable gets y and returns
        the matrix. Must be symmetric with 0 <= s_ij <= s_ii.
    solver : "auto", "spectral", "dense" or "cg"
    max_iter : int
    tol : float
        Stop when the duality gap, relative to the objective, is below.
    random_state : int, RandomState or None
        Only used to draw points for the median distance of more than 2000 points.
    verbose : bool
        Report every iteration on stderr.

    Attributes
    ----------
    coefficients_ : array of shape (n, m)
    output_matrix_ : array of shape (m, m)
        B; at the optimum B = C'K C / (2 rho).
    dual_gap_ : float
        The certificate: (objective - lower bound) / objective.
    metric_factor_, metric_matrix_ : arrays of shape (m, m)
        The identity: distances are Euclidean in `map`. (The paper's A = B^2 belongs to the coordinates C'k(x).)
    output_penalty_, collocation_weight_ : float
        rho and gamma as used.
    prototypes_, classes_ : arrays, or None for real targets
    bandwidth_ : float or None
    objective_ : float
    objective_terms_ : Terms
        Its four terms.
    history_ : tuple of Record
        One record for each iteration.
    n_iter_ : int
    status_ : Status
    solver_, solver_reason_ : str
    metric_ : OutputMetric
        The fitted model without the estimator.

    Examples
    --------
    >>> from outmetric import LearnedKernelMetric
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LearnedKernelMetric(), KNeighborsClassifier())
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    >>> model[1].dual_gap_ < 1e-6
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kernel: Any = "rbf",
        bandwidth: float | str = "median",
        kernel_params: Mapping[str, Any] | None = None,
        collocation_weight: float | Literal["auto"] = "auto",
        regression_weight: float = 10.0,
        output_penalty: float | Literal["auto"] = "auto",
        prototypes: str | ArrayLike = "simplex",
        similarity: Any = "class",
        solver: str = "auto",
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.kernel_params = kernel_params
        self.collocation_weight = collocation_weight
        self.regression_weight = regression_weight
        self.output_penalty = output_penalty
        self.prototypes = prototypes
        self.similarity = similarity
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        self._check_common_parameters()
        if self.output_penalty != "auto":
            _check_number("output_penalty", self.output_penalty, positive=True, word="auto")
        if isinstance(self.kernel, MatrixKernel) or self._has_bandwidths():
            raise ValueError(
                "LearnedKernelMetric learns the matrix of the kernel k(x, x') B itself: give a scalar kernel and one bandwidth; "
                "FixedKernelMetric takes matrix-valued kernels."
            )

    def _step(self, solver: Solver, targets: Targets, coupling: Coupling) -> OutputMatrixStep:
        m = targets.values.shape[1]
        if self.output_penalty != "auto":
            return OutputMatrixStep(float(self.output_penalty), m)
        energy = solver.solve(np.eye(m), np.eye(m)).energy
        assert energy is not None
        rank = max(1, int(np.linalg.matrix_rank(targets.values.T @ targets.values)))
        return OutputMatrixStep(float(np.trace(energy)) / (2 * rank) or 1.0, m)

    def _freeze(self, kernel: MatrixKernel, points: Any, trained: Trained, targets: Targets, dtype: Any) -> OutputMetric:
        assert isinstance(kernel, Separable)
        coefficients = trained.coefficients.astype(dtype, copy=False)
        learned = Separable(kernel.kernel, trained.factors.output_matrix)
        return OutputMetric(learned, points, coefficients, trained.factors.metric_factor, targets.offset)

    def _objective(self, trained: Trained, gram: GramOperator, targets: Array, coupling: Coupling, step: Step) -> Terms:
        assert isinstance(step, OutputMatrixStep)
        factors, output_matrix = gram.kronecker_factors(), trained.factors.output_matrix
        assert factors is not None and output_matrix is not None
        return learned_kernel_objective(trained.coefficients, output_matrix, factors[0], targets, coupling, step.output_penalty)

    def _store(self, trained: Trained, step: Step) -> None:
        assert isinstance(step, OutputMatrixStep)
        self.output_matrix_ = trained.factors.output_matrix
        self.output_penalty_ = step.output_penalty
        self.dual_gap_ = trained.history[-1].gap


def _check_number(name: str, value: Any, *, positive: bool, word: str | None = None) -> None:
    number = isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(value)
    if not number or value < 0 or (positive and value == 0):
        kind = "a finite number > 0" if positive else "a finite number >= 0"
        raise ValueError(f"{name} must be {kind}{f' or {word!r}' if word else ''}, not {value!r}.")


def _holds_labels(y: Any) -> bool:
    """Whether y are class labels; two-dimensional arrays with more than one column always are real targets."""
    kind = type_of_target(y, input_name="y")
    if kind == "unknown":
        raise ValueError(f"Unknown label type: y is neither labels nor real targets (dtype {np.asarray(y).dtype}).")
    return np.ndim(y) == 1 and kind in ("binary", "multiclass")


def _check_not_real(labels: Array) -> None:
    """Floats that happen to be whole, almost all different, are a regression target that scikit-learn would call classes."""
    distinct = len(np.unique(labels))
    if labels.dtype.kind == "f" and distinct > max(20, len(labels) / 2):
        raise ValueError(
            f"y holds {distinct} distinct numbers for {len(labels)} samples, which look like real targets but would be taken for "
            f"{distinct} classes since all are whole. Pass y as one column, y[:, None], for real targets, or as integers for classes."
        )


def _is_numeric_matrix(X: Any) -> bool:
    if scipy.sparse.issparse(X):
        return True
    try:
        values = np.asarray(X)
    except ValueError:  # ragged sequences
        return False
    return values.ndim == 2 and values.dtype.kind in "fiub"


def _kept_points(kernel: MatrixKernel, X: Any) -> Any:
    """The training points the map needs; a precomputed kernel comes with its values, so only their number matters."""
    return np.empty((n_points(X), 0)) if kernel.takes == "kernel values" else X

"""The two models of the paper as scikit-learn estimators: validate, build, train, store. The mathematics is elsewhere."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from outmetric.face import KernelTransformer, is_sequence
from outmetric.inputs import check_number, check_supervision
from outmetric.kernels import MatrixKernel, Separable
from outmetric.memory import available_memory, require_memory
from outmetric.metric import OutputMetric
from outmetric.operators import Array, GramOperator
from outmetric.scalar import n_points
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
    target_rank,
)
from outmetric.training import MetricStep, OutputMatrixStep, Record, Step, Trained, alternate


@dataclass(frozen=True, eq=False)
class Problem:
    """Checked data with all that is derived from them: training points, resolved kernel, targets, similarity."""

    points: Any
    kernel: MatrixKernel
    targets: Targets
    similarity: Similarity


class _KernelMetric(KernelTransformer, ABC):
    """What the two models share: data, kernel, supervision, training, and the fitted map and metric."""

    n_components: int | None
    collocation_weight: float | Literal["auto"]
    regression_weight: float
    prototypes: Any
    similarity: Any
    solver: str
    max_iter: int
    tol: float
    random_state: Any
    verbose: bool

    @abstractmethod
    def _step(self, solver: Solver, targets: Array, coupling: Coupling) -> Step:
        """The second half of an iteration, with the penalties in absolute terms."""

    @abstractmethod
    def _residual_tolerance(self) -> float:
        """How exact the coefficient step must be for ``tol`` to be reached."""

    def _store(self, trained: Trained) -> None:
        """Keep what only this model learns."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the map and the metric.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d), kernel matrix (n, n), or sequence of objects
            What it may be depends on the kernel.
        y : array of shape (n,) or (n, q)
            Class labels, or real targets. Several columns, or one column of floats, are real targets; one dimension is told
            apart by `sklearn.utils.multiclass.type_of_target`, for which whole numbers are labels: pass those as
            ``y.astype(float)[:, None]`` if they are real targets.

        Returns
        -------
        self
        """
        problem = self._problem(X, y)
        points, kernel, targets, similarity = problem.points, problem.kernel, problem.targets, problem.similarity
        n, m = targets.values.shape
        coupling = similarity.couple(self.regression_weight, self._collocation_weight(similarity))
        gram = kernel.gram(points, m, lazy=self._evaluates_lazily(kernel, similarity, n, m))
        try:
            solver, reason = self._prepare(gram, coupling, targets.values)
            step = self._step(solver, targets.values, coupling)
            trained = alternate(solver, step, tol=self.tol, max_iter=self.max_iter, on_iteration=self._tell)
        except np.linalg.LinAlgError as error:
            raise ValueError(f"the model could not be fitted ({error}): {Status.ILL_CONDITIONED.value}") from error

        if trained.factors.output_matrix is not None:
            (scalar,) = kernel.scalars
            kernel = Separable(scalar, trained.factors.output_matrix)
        self.metric_ = OutputMetric(kernel, self._kept(points), trained.coefficients, trained.factors.metric_factor, targets.offset)
        self.coefficients_ = trained.coefficients.copy()
        self.metric_factor_ = trained.factors.metric_factor.copy()
        self.metric_matrix_ = self.metric_factor_.T @ self.metric_factor_
        self.prototypes_ = targets.prototypes
        self.classes_ = targets.classes
        self.bandwidth_ = _bandwidth(kernel)
        self.collocation_weight_ = coupling.collocation_weight
        self.objective_terms_ = step.terms(trained.coefficients, trained.factors, gram, targets.values, coupling)
        self.objective_ = self.objective_terms_.total
        self.history_ = trained.history
        self.n_iter_ = len(trained.history)
        self.status_ = trained.status
        self.solver_ = solver.name
        self.solver_reason_ = reason
        self._n_features_out = m
        self._store(trained)
        if self.status_ is not Status.CONVERGED:
            warnings.warn(f"{type(self).__name__}: {self.status_.value}", ConvergenceWarning, stacklevel=2)
        return self

    def _problem(self, X: Any, y: Any) -> Problem:
        """Everything that fitting needs and the weights do not enter."""
        self._check_parameters()
        points = self._training_points(X)
        targets, similarity = self._supervision(y, n_points(points))
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        return Problem(points, self._kernel_for(targets.values.shape[1]).resolve(points, rng), targets, similarity)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _check_parameters(self) -> None:
        check_number("regression_weight", self.regression_weight, positive=True)
        check_number("collocation_weight", self.collocation_weight, word="auto")
        check_number("tol", self.tol)
        if not isinstance(self.max_iter, Integral) or self.max_iter < 1:
            raise ValueError(f"max_iter must be an integer >= 1, not {self.max_iter!r}.")
        self._check_kernel()
        if self.solver != "auto" and self.solver not in SOLVERS:
            raise ValueError(f"solver={self.solver!r} is not known; use 'auto' or one of {sorted(SOLVERS)}.")

    def _supervision(self, y: Any, n_samples: int) -> tuple[Targets, Similarity]:
        y, holds_labels = check_supervision(self, y, n_samples)
        targets = self._class_targets(y) if holds_labels else real_targets(y, self._n_components(n_samples))
        spanned, m = target_rank(targets.values), targets.values.shape[1]
        if self.n_components is not None and isinstance(self.prototypes, str) and spanned < m:
            warnings.warn(
                f"n_components={m}, but the targets span only {spanned} dimensions: the others stay zero.",
                UserWarning,
                stacklevel=4,
            )
        if callable(self.similarity):
            return targets, matrix_similarity(self.similarity(y), n_samples)
        if not isinstance(self.similarity, str):
            return targets, matrix_similarity(self.similarity, n_samples)
        if self.similarity != "class":
            raise ValueError(f"similarity={self.similarity!r} is not known; use 'class', a matrix, or a function of the targets.")
        if targets.labels is not None:
            return targets, ClassSimilarity(targets.labels)
        if self.collocation_weight == 0:
            return targets, MatrixSimilarity(scipy.sparse.eye_array(n_samples, format="csr"))
        return targets, gaussian_similarity(targets.values)

    def _class_targets(self, labels: Array) -> Targets:
        return class_targets(labels, self._n_components(len(labels)), self.prototypes)

    def _n_components(self, n_samples: int) -> int | None:
        if self.n_components is None:
            return self._declared_kernel().n_outputs
        if not isinstance(self.n_components, Integral) or isinstance(self.n_components, bool) or self.n_components < 1:
            raise ValueError(f"n_components must be None or an integer >= 1, not {self.n_components!r}.")
        if self.n_components > n_samples:
            raise ValueError(
                f"n_components={self.n_components} exceeds the {n_samples} training samples, whose images span at most "
                f"{n_samples} dimensions; lower n_components (None takes classes - 1)."
            )
        return int(self.n_components)

    def _collocation_weight(self, similarity: Similarity) -> float:
        if self.collocation_weight != "auto":
            return float(self.collocation_weight)
        # The collocation term sums over pairs: dividing by the mean degree keeps its share independent of n and of the unit of S.
        degree = similarity.mean_degree
        return float(self.regression_weight / (2 * degree)) if degree > 0 else 0.0

    def _kernel_for(self, n_outputs: int) -> MatrixKernel:
        kernel = self._declared_kernel()
        if kernel.n_outputs not in (None, n_outputs):
            raise ValueError(
                f"the kernel has {kernel.n_outputs} outputs but the targets have {n_outputs} components; give "
                f"n_components={kernel.n_outputs}, or a kernel (or bandwidths) for each component."
            )
        return kernel

    def _evaluates_lazily(self, kernel: MatrixKernel, similarity: Similarity, n: int, m: int) -> bool:
        """True if the Gram matrices do not fit and the solver can do without them; raises if it cannot."""
        matrices = 2 * kernel.held_arrays(m) + 1 + similarity.held_arrays  # kernel matrices and their reduced forms
        n_bytes = 8.0 * matrices * n * n
        available = available_memory()
        if self.solver == "cg" and kernel.can_be_lazy and available is not None and n_bytes > available:
            return True
        require_memory(
            n_bytes,
            f"an exact fit on {n} samples ({matrices} arrays of {n} x {n})",
            "solver='cg', which evaluates the kernel in row blocks (slower, little memory), or fit on fewer rows.",
        )
        return False

    def _prepare(self, gram: GramOperator, coupling: Coupling, targets: Array) -> tuple[Solver, str]:
        kind, reason = choose_solver(gram) if self.solver == "auto" else (SOLVERS[self.solver], "asked for")
        if kind is ConjugateGradient:
            return ConjugateGradient(gram, coupling, targets, tolerance=max(1e-14, self._residual_tolerance())), reason
        return kind(gram, coupling, targets), reason

    def _tell(self, record: Record) -> None:
        if self.verbose:
            print(
                f"[{type(self).__name__}] iteration {record.iteration}: objective {record.objective:.9g}, "
                f"optimality {record.optimality:.2e}, {record.seconds:.2f} s",
                file=sys.stderr,
            )


class FixedKernelMetric(_KernelMetric):
    """Model 1 of the paper: a given matrix-valued kernel, and a Mahalanobis metric learned in the output space.

    Learns f(x) = sum_j K(x, x_j) c_j in R^m and L by minimising

        1/2 |f|^2 + gamma/2 sum_ij s_ij |L (f(x_i) - f(x_j))|^2 + lambda/2 sum_i |L (f(x_i) - y_i)|^2
                  + rho tr(L) + epsilon/2 |L|_F^2

    by alternating exact steps; the objective never rises. Distances are |L (f(x) - f(x'))|.

    Parameters
    ----------
    n_components : int, optional
        Dimension m of the output space, which bounds the rank of the metric. Default: classes - 1, the number of real targets,
        or the number of outputs of the kernel. Components beyond what the targets span stay zero.
    kernel : str, callable, Scalar or MatrixKernel
        "additive" (a Gaussian in each feature, averaged), a name of scikit-learn's pairwise kernels, a function of two points (any
        objects), "precomputed", or any kernel of `outmetric.kernels`.
    bandwidth : float, "median" or sequence of m of those
        For "rbf", exp(-|x-x'|_2^2 / (2 bandwidth^2)), and "laplacian", exp(-|x-x'|_1 / bandwidth). "median": the median distance
        between distinct training points, of which "0.5*median" is a multiple. A sequence makes the paper's diagonal kernel, one
        spread for each component.
    kernel_params : dict, optional
        Further arguments of the kernel function; a ``gamma`` here takes the place of the bandwidth.
    collocation_weight : float or "auto"
        gamma: how strongly similar points are drawn together. "auto": regression_weight / (2 * mean total similarity of a point).
    regression_weight : float
        lambda: how strongly points are drawn to their targets; reads like the inverse ridge of kernel regression.
    metric_penalty : float or "auto"
        rho: sets the size of L. "auto": L is about -I for the zero map.
    metric_ridge : float
        epsilon in units of tr(lambda Y'Y)/m. Towards 0 the metric is the paper's, whose objective has no minimum; towards
        infinity it is Euclidean. 0 runs the paper's own update and reports `Status.DIVERGED` where that diverges.
    prototypes : "simplex", "onehot" or array of shape (classes, m)
        Target of each class. "simplex": vertices of a regular simplex, or points spread on the sphere if m < classes - 1; in the
        latter case it matters which class gets which point, and they are given in the order of the labels.
    similarity : "class", array or sparse matrix of shape (n, n), or callable
        s_ij. "class": 1 within a class and 0 otherwise; for real targets a Gaussian of target distance. A callable gets y and
        returns the matrix. Must be symmetric with 0 <= s_ij <= s_ii.
    solver : "auto", "spectral", "dense" or "cg"
        How the map for a given metric is computed. "spectral": one reduction of the kernel matrix for all iterations, separable
        kernels only. "dense": a Cholesky factorisation in each iteration, any kernel, few samples. "cg": conjugate gradients, any
        kernel; if the kernel matrix does not fit in memory it is evaluated in row blocks. "auto": the first of these that suits.
    max_iter : int
        At most this many alternations.
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
        How the fit ended; its value is advice.
    solver_, solver_reason_ : str
        The solver used, and why.
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
        regression_weight: float = 3.0,
        metric_penalty: float | Literal["auto"] = "auto",
        metric_ridge: float = 3.0,
        prototypes: str | ArrayLike = "simplex",
        similarity: Any = "class",
        solver: str = "auto",
        max_iter: int = 1000,
        tol: float = 1e-8,
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
        super()._check_parameters()
        check_number("metric_penalty", self.metric_penalty, positive=True, word="auto")
        check_number("metric_ridge", self.metric_ridge)

    def _step(self, solver: Solver, targets: Array, coupling: Coupling) -> MetricStep:
        scatter = coupling.regression_weight * targets.T @ targets
        unit = float(np.trace(scatter)) / target_rank(targets)
        self.metric_ridge_ = self.metric_ridge * unit
        self.metric_penalty_ = unit + self.metric_ridge_ if self.metric_penalty == "auto" else float(self.metric_penalty)
        return MetricStep(self.metric_penalty_, self.metric_ridge_, scatter)

    def _residual_tolerance(self) -> float:
        return 0.01 * self.tol


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
        "additive" (a Gaussian in each feature, averaged), a name of scikit-learn's pairwise kernels, a function of two points (any
        objects), "precomputed", or an `outmetric.kernels.Scalar`.
    bandwidth : float or "median"
        For "rbf", exp(-|x-x'|_2^2 / (2 bandwidth^2)), and "laplacian", exp(-|x-x'|_1 / bandwidth). "median": the median distance
        between distinct training points, of which "0.5*median" is a multiple.
    kernel_params : dict, optional
        Further arguments of the kernel function; a ``gamma`` here takes the place of the bandwidth.
    collocation_weight : float or "auto"
        gamma: how strongly similar points are drawn together. "auto": regression_weight / (2 * mean total similarity of a point).
    regression_weight : float
        lambda: how strongly points are drawn to their targets; reads like the inverse ridge of kernel regression.
    output_penalty : float or "auto"
        rho: sets the size of B. "auto": tr(C'K C)/(2 m) for the map with B = I, so that B has about the size of the identity.
    prototypes : "simplex", "onehot" or array of shape (classes, m)
        Target of each class. "simplex": vertices of a regular simplex, or points spread on the sphere if m < classes - 1; in the
        latter case it matters which class gets which point, and they are given in the order of the labels.
    similarity : "class", array or sparse matrix of shape (n, n), or callable
        s_ij. "class": 1 within a class and 0 otherwise; for real targets a Gaussian of target distance. A callable gets y and
        returns the matrix. Must be symmetric with 0 <= s_ij <= s_ii.
    solver : "auto", "spectral", "dense" or "cg"
        How the map for a given metric is computed. "spectral": one reduction of the kernel matrix for all iterations, separable
        kernels only. "dense": a Cholesky factorisation in each iteration, any kernel, few samples. "cg": conjugate gradients, any
        kernel; if the kernel matrix does not fit in memory it is evaluated in row blocks. "auto": the first of these that suits.
    max_iter : int
        At most this many alternations.
    tol : float
        Stop when the duality gap, relative to the objective, is below. The map is then exact to about its square root.
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
        How the fit ended; its value is advice.
    solver_, solver_reason_ : str
        The solver used, and why.
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
    >>> model[1].dual_gap_ < 1e-10
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
        regression_weight: float = 3.0,
        output_penalty: float | Literal["auto"] = "auto",
        prototypes: str | ArrayLike = "simplex",
        similarity: Any = "class",
        solver: str = "auto",
        max_iter: int = 1000,
        tol: float = 1e-12,
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
        super()._check_parameters()
        check_number("output_penalty", self.output_penalty, positive=True, word="auto")
        if isinstance(self.kernel, MatrixKernel) or is_sequence(self.bandwidth):
            raise ValueError(
                "LearnedKernelMetric learns the matrix of the kernel k(x, x') B itself: give a scalar kernel and one bandwidth; "
                "FixedKernelMetric takes matrix-valued kernels."
            )

    def _step(self, solver: Solver, targets: Array, coupling: Coupling) -> OutputMatrixStep:
        m = targets.shape[1]
        if self.output_penalty != "auto":
            self.output_penalty_ = float(self.output_penalty)
        else:
            energy = solver.solve(np.eye(m), np.eye(m)).energy
            assert energy is not None  # the kernel is separable
            self.output_penalty_ = float(np.trace(energy)) / (2 * target_rank(targets))
            if not self.output_penalty_ > 0:
                raise IllConditionedError(f"the energy of the map is {np.trace(energy):.3g}, which should be positive")
        return OutputMatrixStep(self.output_penalty_, m)

    def _residual_tolerance(self) -> float:
        return float(0.1 * np.sqrt(self.tol))  # the gap is quadratic in the residual

    def _store(self, trained: Trained) -> None:
        self.output_matrix_ = trained.factors.output_matrix
        self.dual_gap_ = trained.history[-1].gap


def _bandwidth(kernel: MatrixKernel) -> Any:
    bandwidths = [scalar.bandwidth for scalar in kernel.scalars if scalar.has_bandwidth]
    if not bandwidths:
        return None
    return bandwidths[0] if len(bandwidths) == 1 else np.array(bandwidths)

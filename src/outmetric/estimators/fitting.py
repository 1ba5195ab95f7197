"""How both models are fitted: validate, build, train, store; exactly, or in the space of landmark features."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from outmetric.estimators.base import KernelTransformer
from outmetric.estimators.checks import check_points, check_supervision
from outmetric.estimators.metric import OutputMetric
from outmetric.estimators.row_checks import Blocks
from outmetric.estimators.summary import Fact, number
from outmetric.foundation import Array, available_memory, check_number, n_points, require_memory, storable
from outmetric.kernels import BlockDiagonal, Diagonal, Features, GramOperator, Landmarks, MatrixKernel, Separable
from outmetric.problem import (
    ClassSimilarity,
    ClassSummary,
    Coupling,
    MatrixSimilarity,
    Similarity,
    Summary,
    Targets,
    class_targets,
    gaussian_similarity,
    matrix_similarity,
    real_summary,
    real_targets,
    target_rank,
)
from outmetric.rows import CANDIDATES, CHOICES, Chunks, Statistics, Stream, blocks_of, choose, gather, is_dask, similarity_laplacian
from outmetric.solvers import (
    SOLVERS,
    SPECTRAL_SAMPLES,
    ConjugateGradient,
    Factors,
    Record,
    ReducedDense,
    ReducedSolver,
    ReducedSpectral,
    Solver,
    Status,
    Step,
    Trained,
    alternate,
    choose_solver,
)

# More samples than this are fitted with landmarks unless an exact solver is asked for, by default with this many.
EXACT_SAMPLES = 10_000
LANDMARKS = 1000
# Conjugate gradients with more samples than this are preconditioned, and started, by landmarks, whose features may take this much.
SMALL = 1000
# Rows for each landmark from which on single precision may do for single precision data.
MANY = 20
PRECONDITIONER_BYTES = 2**29


@dataclass(frozen=True, eq=False)
class Problem:
    """Checked data with all that is derived from them: training points, resolved kernel, targets, similarity."""

    points: Any
    kernel: MatrixKernel
    targets: Targets
    similarity: Similarity


@storable(transient=["_stream"])
class KernelMetric(KernelTransformer, ABC):
    """What the two models share: data, kernel, supervision, training, and the fitted map and metric."""

    n_components: int | None
    collocation_weight: float | Literal["auto"]
    regression_weight: float
    prototypes: Any
    similarity: Any
    solver: str
    n_landmarks: int | None
    landmarks: Any
    max_iter: int
    tol: float
    random_state: Any
    verbose: bool

    @abstractmethod
    def _step(self, solver: Solver, squares: Array) -> Step:
        """The second half of an iteration, with the penalties in absolute terms; ``squares`` is Y'Y."""

    @abstractmethod
    def _residual_tolerance(self) -> float:
        """How exact the coefficient step must be for ``tol`` to be reached."""

    def _store(self, trained: Trained) -> None:
        """Keep what only this model learns."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the map and the metric.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d), kernel matrix (n, n), or sequence of objects
            What it may be depends on the kernel. With landmarks also: a Dask array or DataFrame; an iterator of blocks (X, y); or a
            function that returns such an iterator, which is then read twice, so that landmarks are drawn from all rows and not from
            the first blocks only. No more than a few blocks are held.
        y : array of shape (n,) or (n, q)
            Class labels, or real targets. Several columns, or one column of floats, are real targets; one dimension is told
            apart by `sklearn.utils.multiclass.type_of_target`, for which whole numbers are labels: pass those as
            ``y.astype(float)[:, None]`` if they are real targets. None for blocks, which bring their own.

        Returns
        -------
        self
        """
        self._check_parameters()
        self._forget()
        if y is None and (callable(X) or hasattr(X, "__next__")):
            return self._fit_stream(X)
        if is_dask(X):
            return self._fit_chunks(X, y)
        points = self._checked_points(X)
        reason = self._landmarks_reason(n_points(points))
        if reason is not None:
            return self._fit_landmarks(points, y, reason)
        return self._fit_exactly(self._problem(points, y))

    def _forget(self) -> None:
        """Drop what only some fits have."""
        for name in ("_stream", "landmarks_", "landmark_indices_", "n_landmarks_", "landmark_rank_"):
            self.__dict__.pop(name, None)

    def _fit_exactly(self, problem: Problem) -> Self:
        points, kernel, targets, similarity = problem.points, problem.kernel, problem.targets, problem.similarity
        n, m = targets.values.shape
        self.n_samples_fit_ = n
        coupling = similarity.couple(self.regression_weight, self._collocation_weight(similarity.mean_degree))
        gram = kernel.gram(points, m, lazy=self._evaluates_lazily(kernel, similarity, n, m))
        squares = targets.values.T @ targets.values

        def prepare() -> tuple[Solver, str, Factors | None]:
            kind, reason = choose_solver(gram) if self.solver == "auto" else (SOLVERS[self.solver], "asked for")
            if kind is not ConjugateGradient:
                return kind(gram, coupling, targets.values), reason, None
            tolerance = max(1e-14, self._residual_tolerance())
            if not isinstance(kernel, Separable | Diagonal) or n <= SMALL:
                return ConjugateGradient(gram, coupling, targets.values, tolerance=tolerance), reason, None
            near, phi = self._near_solver(problem, gram, coupling, squares)
            start = alternate(near, self._step(near, squares), tol=max(self.tol, 1e-8), max_iter=self.max_iter).factors

            def guess(metric_factor: Array, output_matrix: Array | None) -> Array:
                return np.concatenate(phi, axis=1) @ near.parameters(near.solve(metric_factor, output_matrix), output_matrix)

            solver = ConjugateGradient(gram, coupling, targets.values, features=phi, guess=guess, tolerance=tolerance)
            return solver, reason, start

        return self._train(prepare, kernel, self._kept(points), targets, squares, coupling.collocation_weight)

    def _near_solver(
        self, problem: Problem, gram: GramOperator, coupling: Coupling, squares: Array
    ) -> tuple[ReducedSolver, list[Array]]:
        """The approximation by landmarks of an exact problem, and the features of its points for each scalar kernel."""
        n, scalars = n_points(problem.points), problem.kernel.scalars
        count = min(n, max(100, min(LANDMARKS, int(PRECONDITIONER_BYTES / (8 * n))) // len(scalars)))
        rows = np.sort(np.random.default_rng(0).choice(n, count, replace=False))
        held = gram.sample_grams if isinstance(gram, BlockDiagonal) else (gram.kronecker_factors() or ((),))[:1]
        parts, phi = [], []
        for scalar, matrix in zip(scalars, held, strict=True):
            cross = matrix[:, rows] if isinstance(matrix, np.ndarray) else scalar.cross(problem.points, problem.points[rows])
            parts.append(Landmarks.make(scalar, rows, cross[rows], single=False))
            phi.append(np.asarray(cross @ parts[-1].whitening))
        together = np.concatenate(phi, axis=1)
        spread = together.T @ coupling.laplacian(together)
        cross = together.T @ problem.targets.values
        summary = Summary(together.T @ together, (spread + spread.T) / 2, cross, squares, 0.0)
        return self._reduced_solver(problem.kernel, Features(tuple(parts)), summary, coupling.collocation_weight), phi

    def _reduced_solver(self, kernel: MatrixKernel, features: Features, summary: Summary, gamma: float) -> ReducedSolver:
        if isinstance(kernel, Separable):
            outputs = np.eye(len(summary.squares)) if kernel.output_matrix is None else kernel.output_matrix
            return ReducedSpectral(features, summary, self.regression_weight, gamma, outputs)
        return ReducedDense(features, summary, self.regression_weight, gamma)

    def _train(
        self,
        prepare: Callable[[], tuple[Solver, str, Factors | None]],
        kernel: MatrixKernel,
        points: Any,
        targets: Targets,
        squares: Array,
        collocation_weight: float,
        place: Callable[[Array], Array] = np.copy,
    ) -> Self:
        """Alternate, and store what was learned; ``place`` puts coefficients where the points are."""
        try:
            solver, reason, start = prepare()
            step = self._step(solver, squares)
            trained = alternate(solver, step, tol=self.tol, max_iter=self.max_iter, on_iteration=self._tell, start=start)
        except np.linalg.LinAlgError as error:
            raise ValueError(f"the model could not be fitted ({error}): {Status.ILL_CONDITIONED.value}") from error
        factors = trained.factors
        if factors.output_matrix is not None:
            (scalar,) = kernel.scalars
            kernel = Separable(scalar, factors.output_matrix)
        self.coefficients_ = place(trained.coefficients)
        self.metric_ = OutputMetric(kernel, points, self.coefficients_.copy(), factors.metric_factor, targets.offset)
        self.metric_factor_ = factors.metric_factor.copy()
        self.metric_matrix_ = self.metric_factor_.T @ self.metric_factor_
        self.prototypes_ = targets.prototypes
        self.classes_ = targets.classes
        self.bandwidth_ = _bandwidth(kernel)
        self.collocation_weight_ = collocation_weight
        self.objective_terms_ = solver.terms(trained.evaluated, factors.output_matrix, step.penalty(factors))
        self.objective_ = self.objective_terms_.total
        self.history_ = trained.history
        self.n_iter_ = len(trained.history)
        self.status_ = trained.status
        self.solver_ = solver.name
        self.solver_reason_ = reason
        self._n_features_out = len(squares)
        self._store(trained)
        if self.status_ is not Status.CONVERGED:
            warnings.warn(f"{type(self).__name__}: {self.status_.value}", ConvergenceWarning, stacklevel=4)
        return self

    def _landmarks_reason(self, n_samples: int) -> str | None:
        """Why landmarks are used, or None if they are not."""
        if self.solver == "nystroem":
            return "asked for"
        if self.solver != "auto":
            return None
        if self.n_landmarks is not None or not isinstance(self.landmarks, str):
            return "landmarks are asked for"
        if not isinstance(self._declared_kernel(), Separable | Diagonal) or not isinstance(self.similarity, str):
            return None
        if n_samples > EXACT_SAMPLES:
            return f"{n_samples} samples are more than {EXACT_SAMPLES}"
        available = available_memory()
        if available is not None and 24.0 * n_samples**2 > available:
            return f"an exact fit on {n_samples} samples does not fit in memory"
        return None

    def _fit_landmarks(self, points: Any, y: Any, reason: str) -> Self:
        """Fit data that can be indexed in the space of landmark features."""
        self.n_samples_fit_ = n_points(points)
        targets, similarity = self._supervision(y, self.n_samples_fit_)
        kernel, features, landmarks, place = self._landmark_features(points, labelled=targets.labels is not None)
        self._kernel_for(targets.values.shape[1])  # raises if outputs and components do not match
        summary = self._summary(features, points, targets, similarity)
        return self._solve(kernel, features, summary, targets, reason, landmarks, place)

    def _landmark_features(
        self, points: Any, *, labelled: bool = True
    ) -> tuple[MatrixKernel, Features, Any, Callable[[Array], Array]]:
        """Kernel and features for data that can be indexed; the points of the map, and how coefficients belong to them."""
        n = n_points(points)
        rng = self._generator()
        wanted = self._n_candidates()
        rows = np.arange(n) if wanted >= n else np.sort(rng.choice(n, wanted, replace=False))
        precomputed = self._takes == "kernel values"
        candidates = points[np.ix_(rows, rows)] if precomputed else points[rows]
        kernel, features, chosen = self._features(candidates, rng, many=labelled and n >= MANY * self._n_landmarks())
        landmarks = features.parts[0].points
        place: Callable[[Array], Array] = np.copy
        if precomputed:
            features = Features(tuple(replace(part, points=rows[chosen]) for part in features.parts))
            landmarks, place = self._kept(points), partial(_scatter, rows[chosen], n)
        self.landmark_indices_ = None if chosen is None else rows[chosen]
        return kernel, features, landmarks, place

    def _summary(self, features: Features, points: Any, targets: Targets, similarity: Similarity) -> Summary:
        """One pass over the data."""
        weigh = isinstance(similarity, MatrixSimilarity) and self.collocation_weight != 0
        if targets.labels is not None and targets.prototypes is not None:
            cells = gather(features, blocks_of(points, targets.labels))
            summary = ClassSummary.make(np.stack([cells[k] for k in range(len(cells))]), features).towards(targets.prototypes)
        else:
            codes = np.zeros(len(targets.values), dtype=np.intp)
            (moments,) = gather(features, blocks_of(points, codes, targets.values), targets.values.shape[1]).values()
            summary = real_summary(moments, features)
        if not weigh:
            return summary
        assert isinstance(similarity, MatrixSimilarity)
        laplacian = similarity_laplacian(features, points, similarity.matrix)
        return replace(summary, laplacian=laplacian, mean_degree=similarity.mean_degree)

    def _solve(
        self,
        kernel: MatrixKernel,
        features: Features,
        summary: Summary,
        targets: Targets,
        reason: str,
        landmarks: Any,
        place: Callable[[Array], Array] = np.copy,
    ) -> Self:
        """Fit what the pass has gathered."""
        gamma = self._collocation_weight(summary.mean_degree)
        dropped = max(part.dropped for part in features.parts)
        reason += f"; {len(features.parts[0].basis)} landmarks" + (
            f", {dropped} directions of them lost in round-off" if dropped else ""
        )

        self.landmarks_ = features.parts[0].points
        self.n_landmarks_ = len(features.parts[0].basis)
        self.landmark_rank_ = max(part.rank for part in features.parts)
        solver = self._reduced_solver(kernel, features, summary, gamma)
        return self._train(lambda: (solver, reason, None), kernel, landmarks, targets, summary.squares, gamma, place)

    def _fit_stream(self, blocks: Any) -> Self:
        self._require_streamable()
        source = Blocks(clone(self))
        stream = Stream(blocks, source.check)
        stream.begin()
        source.hand_over(self)
        rng = self._generator()
        given = not isinstance(self.landmarks, str)
        sample = self.landmarks if given else stream.sample(self._n_candidates(), rng)
        kernel, features, _ = self._features(sample, rng, many=source.labelled)
        return self._fit_statistics(kernel, Statistics.gather(features, stream, labelled=source.labelled), "rows came in blocks")

    def _fit_chunks(self, X: Any, y: Any) -> Self:
        """Fit a Dask array or data frame."""
        self._require_streamable()
        source = Blocks(clone(self))  # travels to the workers without what was learned before
        chunks = Chunks(X, y, source.check)
        X_first, y_first = chunks.first()
        _, checked = source.check(X_first, y_first)
        source.hand_over(self)
        rng = self._generator()
        many = source.labelled and chunks.n >= MANY * self._n_landmarks()
        kernel, features, _ = self._features(chunks.sample(self._n_candidates(), rng), rng, many=many)
        shift = None if source.labelled else checked.mean(axis=0)
        statistics = chunks.gather(features, labelled=source.labelled, shift=shift)
        return self._fit_statistics(kernel, statistics, "rows came in chunks")

    @available_if(lambda self: self._require_streamable() or True)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn from more rows.

        The first call chooses the landmarks (and a bandwidth given in medians) from its rows, unless ``landmarks`` are given; then
        any number of calls gives the same result as one `fit` on all rows. Every call solves anew, which for many landmarks takes
        longer than a small block: make blocks large, or hand an iterator of them to `fit`, which solves once. There is no model
        until two classes have come, and all of those that ``prototypes`` are given for.

        Parameters
        ----------
        X, y : as for `fit`
        classes : array, optional
            Not needed, since classes that come later are welcome; those given here are not checked.

        Returns
        -------
        self
        """
        self._check_parameters()
        earlier: _Stream | None = getattr(self, "_stream", None)
        if earlier is None:
            source = Blocks(clone(self))
            X, y = source.check(X, y)
            rng = self._generator()
            rows = np.sort(rng.permutation(n_points(X))[: self._n_candidates()])
            source.hand_over(self)
            kernel, features, _ = self._features(X[rows], rng, many=source.labelled)
            statistics = Statistics.gather(features, [(X, y)], labelled=source.labelled)
        else:
            source, kernel = earlier.source, earlier.kernel
            source.require_unchanged(self)
            X, y = source.check(X, y)
            before = earlier.statistics
            more = Statistics.gather(before.features, [(X, y)], labelled=source.labelled, shift=before.shift)
            statistics = before + more
        known = len(statistics.classes) if statistics.classes is not None else np.inf
        wanted = 2 if isinstance(self.prototypes, str) else len(self.prototypes)
        if known >= wanted:
            self._fit_statistics(kernel, statistics, "rows came in blocks")
        self._stream = _Stream(source, kernel, statistics)  # only after all went well: a call may be repeated
        return self

    def _fit_statistics(
        self,
        kernel: MatrixKernel,
        statistics: Statistics,
        reason: str,
        landmarks: Any = None,
        place: Callable[[Array], Array] = np.copy,
    ) -> Self:
        features = statistics.features
        self.n_samples_fit_ = statistics.n_rows
        if statistics.classes is not None:
            targets = self._class_targets(statistics.classes, statistics.n_rows)
            assert targets.prototypes is not None
            summary = statistics.towards(targets.prototypes)
        else:
            summary, offset = statistics.towards_targets(self._n_components(statistics.n_rows))
            targets = Targets(np.empty((0, len(offset))), offset)
        self._kernel_for(len(summary.squares))  # raises if outputs and components do not match
        if landmarks is None:
            landmarks, self.landmark_indices_ = features.parts[0].points, None
        return self._solve(kernel, features, summary, targets, reason, landmarks, place)

    def _require_streamable(self) -> None:
        if self.solver not in ("auto", "nystroem"):
            raise ValueError(f"rows in blocks need solver='auto' or 'nystroem', not {self.solver!r}.")
        if not isinstance(self.similarity, str):
            raise ValueError(
                "rows in blocks need similarity='class': a matrix or function of all targets cannot be given in parts."
            )
        if self._declared_kernel().takes in ("kernel values", "row numbers"):
            raise ValueError("a precomputed kernel cannot come in blocks; give fit the whole matrix.")

    def _features(self, candidates: Any, rng: np.random.Generator, *, many: bool) -> tuple[MatrixKernel, Features, Array | None]:
        """The kernel with its bandwidth fixed, the features, and which candidates became landmarks (None: they were given)."""
        kernel = self._declared_kernel()
        if not isinstance(kernel, Separable | Diagonal):
            raise ValueError(
                "landmarks serve kernels k(x, x') B and diag(k_1, ..., k_m); for other matrix kernels use solver='dense' or 'cg'."
            )
        precomputed = self._takes == "kernel values"
        chosen = None
        if not isinstance(self.landmarks, str):
            if precomputed:
                raise ValueError("with a precomputed kernel landmarks are chosen by name, 'uniform' for instance.")
            candidates = check_points(self, self.landmarks, self._takes, fitting=False)
        dtype = getattr(candidates, "dtype", np.dtype(np.float64))
        points = candidates if self._takes == "objects" or precomputed else candidates.astype(np.float64)
        kernel = kernel.resolve(points, rng)
        if isinstance(self.landmarks, str):
            chosen = choose(kernel.scalars[0], points, self._n_landmarks(), self.landmarks, rng)
            points = points[np.ix_(chosen, chosen)] if precomputed else points[chosen]
        single = many and dtype == np.float32
        parts = [Landmarks.make(scalar, points, scalar.gram(points), single=single) for scalar in kernel.scalars]
        return kernel, Features(tuple(parts)), chosen

    def _n_landmarks(self) -> int:
        if self.n_landmarks is not None:
            return int(self.n_landmarks)
        return max(100, LANDMARKS // len(self._declared_kernel().scalars))

    def _n_candidates(self) -> int:
        """How many rows landmarks are chosen from."""
        uniform = isinstance(self.landmarks, str) and self.landmarks == "uniform"
        return self._n_landmarks() if uniform else CANDIDATES * self._n_landmarks()

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31))

    def _problem(self, points: Any, y: Any) -> Problem:
        """Everything that an exact fit needs and the weights do not enter, from checked points."""
        points = self._own(points)
        targets, similarity = self._supervision(y, n_points(points))
        kernel = self._kernel_for(targets.values.shape[1]).resolve(points, self._generator())
        return Problem(points, kernel, targets, similarity)

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
        if isinstance(self.similarity, str) and self.similarity != "class":
            raise ValueError(f"similarity={self.similarity!r} is not known; use 'class', a matrix, or a function of the targets.")
        self._check_kernel()
        known = [*sorted(SOLVERS), ReducedSolver.name]
        if self.solver != "auto" and self.solver not in known:
            raise ValueError(f"solver={self.solver!r} is not known; use 'auto' or one of {known}.")
        if self.n_landmarks is not None and (
            not isinstance(self.n_landmarks, Integral) or isinstance(self.n_landmarks, bool) or self.n_landmarks < 1
        ):
            raise ValueError(f"n_landmarks must be None or an integer >= 1, not {self.n_landmarks!r}.")
        if isinstance(self.landmarks, str) and self.landmarks not in CHOICES:
            raise ValueError(f"landmarks={self.landmarks!r} is not known; use one of {list(CHOICES)}, or an array of points.")

    def _supervision(self, y: Any, n_samples: int) -> tuple[Targets, Similarity]:
        y, holds_labels = check_supervision(self, y, n_samples)
        targets = self._class_targets(y) if holds_labels else real_targets(y, self._n_components(n_samples))
        spanned, m = target_rank(targets.values.T @ targets.values), targets.values.shape[1]
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
        if targets.labels is not None:
            return targets, ClassSimilarity(targets.labels)
        if self.collocation_weight == 0:
            return targets, MatrixSimilarity(scipy.sparse.eye_array(n_samples, format="csr"))
        return targets, gaussian_similarity(targets.values)

    def _class_targets(self, labels: Array, n_samples: int | None = None) -> Targets:
        """The targets of these labels, or of the classes of ``n_samples`` labels."""
        return class_targets(labels, self._n_components(n_samples or len(labels)), self.prototypes)

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

    def _collocation_weight(self, degree: float) -> float:
        if self.collocation_weight != "auto":
            return float(self.collocation_weight)
        # The collocation term sums over pairs; divided by the mean degree of similarity it depends on neither n nor the unit of S.
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
        separable = isinstance(kernel, Separable)
        iterative = self.solver == "cg" or (self.solver == "auto" and separable and n > SPECTRAL_SAMPLES)
        preconditioned = iterative and n > SMALL and isinstance(kernel, Separable | Diagonal)
        # Kernel matrices, and unless landmarks precondition them their reduced forms.
        matrices = kernel.held_arrays(m) * (1 if preconditioned else 2) + 1 + similarity.held_arrays
        n_bytes = 8.0 * matrices * n * n
        available = available_memory()
        if iterative and kernel.can_be_lazy and available is not None and n_bytes > available:
            return True
        require_memory(
            n_bytes,
            f"an exact fit on {n} samples ({matrices} arrays of {n} x {n})",
            "solver='nystroem' (approximate, fast), solver='cg', which evaluates the kernel in row blocks, or fit on fewer rows.",
        )
        return False

    def _settings(self) -> list[Fact]:
        weights = ", ".join([f"regression {number(self.regression_weight)}", *self._weights()])
        return [*super()._settings(), Fact("weights", weights), Fact("solver", f"{self.solver_} ({self.solver_reason_})")]

    def _weights(self) -> list[str]:
        """The weights as used, beside the first."""
        return [as_used("collocation", self.collocation_weight, self.collocation_weight_)]

    def _outcome(self) -> list[Fact]:
        terms = " + ".join(f"{name} {number(value)}" for name, value in vars(self.objective_terms_).items())
        return [Fact("objective", f"{number(self.objective_)} = {terms}"), Fact("certificate", self._certificate())]

    @abstractmethod
    def _certificate(self) -> str:
        """How far from an optimum the result is."""

    def _course(self) -> list[float]:
        return [record.optimality for record in self.history_]

    def _tell(self, record: Record) -> None:
        if self.verbose:
            print(
                f"[{type(self).__name__}] iteration {record.iteration}: objective {record.objective:.9g}, "
                f"optimality {record.optimality:.2e}, {record.seconds:.2f} s",
                file=sys.stderr,
            )


@dataclass(frozen=True, eq=False)
class _Stream:
    """What `partial_fit` has seen so far."""

    source: Blocks
    kernel: MatrixKernel
    statistics: Statistics


@dataclass(frozen=True, eq=False)
class Gathered:
    """All that a pass found, for a fit with any weights without another pass."""

    metric: KernelMetric
    kernel: MatrixKernel
    statistics: Statistics
    landmarks: Any
    place: Callable[[Array], Array]

    def fit(self, params: dict[str, Any]) -> KernelMetric:
        self.metric.set_params(**params)
        self.metric._check_parameters()
        reason = self.metric._landmarks_reason(self.statistics.n_rows) or ""
        return self.metric._fit_statistics(self.kernel, self.statistics, reason, self.landmarks, self.place)


def as_used(name: str, given: Any, used: float) -> str:
    """A weight, and whether it was chosen automatically."""
    return f"{name} {number(used)}" + (" (auto)" if isinstance(given, str) else "")


def _bandwidth(kernel: MatrixKernel) -> Any:
    bandwidths = [scalar.bandwidth for scalar in kernel.scalars if scalar.has_bandwidth]
    if not bandwidths:
        return None
    return bandwidths[0] if len(bandwidths) == 1 else np.array(bandwidths)


def _scatter(rows: Array, n: int, coefficients: Array) -> Array:
    """Coefficients of some rows as coefficients of all: the others have none."""
    everywhere = np.zeros((n, coefficients.shape[1]))
    everywhere[rows] = coefficients
    return everywhere

"""A fit as a sequence of functions, each with one result: targets and coupling, kernel resolved, Gram operator or statistics of
landmarks, trained, fitted metric. Estimators store what comes of it, and searches call the same functions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outmetric.estimators.base import kept_points, own_copy
from outmetric.estimators.metric import OutputMetric
from outmetric.estimators.settings import Settings
from outmetric.foundation import Array, class_weights, fits_in_memory, n_points
from outmetric.kernels import BlockDiagonal, Features, GramOperator, Landmarks, MatrixKernel, ScalarKernel, Separable, Takes
from outmetric.problem import (
    MatrixSimilarity,
    Model,
    Similarity,
    Summary,
    Targets,
    Terms,
    target_rank,
)
from outmetric.rows import (
    LandmarkMap,
    NeighbourGraph,
    ReducedStatistics,
    Statistics,
    choose,
    class_summary,
    similarity_laplacian,
    target_summary,
)
from outmetric.solvers import (
    SMALL_SAMPLES,
    SOLVERS,
    Columns,
    ConjugateGradient,
    DenseNystroem,
    DiagonalKrylov,
    IllConditionedError,
    NystroemSolver,
    Record,
    SeparableKrylov,
    Solver,
    SpectralNystroem,
    Status,
    Trained,
    TridiagonalSolver,
    alternate,
    choose_solver,
    evaluates_lazily,
    zero_map,
)

# What residuals of conjugate gradients may be beside the square root of tol.
RESIDUAL = 0.1
# A reduction to tridiagonal form takes as long as about one product with the kernel matrix for so many samples.
GIVE_UP, MOST_PRODUCTS = 15, 2000
# Rows for each landmark from which on single precision may do for single precision data.
MANY = 20

OnIteration = Callable[[Record], None]


@dataclass(frozen=True, eq=False)
class Problem:
    """All that an exact fit needs and the weights of its terms do not enter.

    Attributes
    ----------
    points, takes : the training points, and what they are
    kernel : MatrixKernel
        Resolved.
    targets : Targets
    similarity : Similarity
    weights : array of shape (n,) or None
        Of the points.
    """

    points: Any
    takes: Takes
    kernel: MatrixKernel
    targets: Targets
    similarity: Similarity
    weights: Array | None = None

    @property
    def roots(self) -> Array | None:
        """What the solvers' data are scaled by; see `outmetric.problem.coupling`."""
        return None if self.weights is None else np.sqrt(self.weights)

    @property
    def sample(self) -> Any:
        """What kernels are resolved on."""
        return self.points

    @property
    def learned(self) -> Any:
        """The points that have targets: all."""
        return self.points

    def with_kernel(self, kernel: MatrixKernel) -> Problem:
        """The same problem with another kernel, resolved."""
        return replace(self, kernel=kernel)


@dataclass(frozen=True, eq=False)
class Fit:
    """What a fit found.

    Attributes
    ----------
    metric : OutputMetric
    model : Model
        With its penalties in absolute terms.
    trained : Trained
    terms : Terms
    targets : Targets
    collocation_weight : float
    solver, reason : str
        Which, and why.
    n_samples : int
    landmarks : LandmarkMap or None
    rounds : tuple of Round
        The fits on the way to an input metric, this one last; none without.
    transform : Transform or None
        What the input metric is made of.
    """

    metric: OutputMetric
    model: Model
    trained: Trained
    terms: Terms
    targets: Targets
    collocation_weight: float
    solver: str
    reason: str
    n_samples: int
    landmarks: LandmarkMap | None = None
    rounds: tuple[Any, ...] = ()
    transform: Any = None


@dataclass(frozen=True, eq=False)
class LandmarkProblem:
    """All that a fit with landmarks needs and the weights of its terms do not enter; see `Problem`.

    With a neighbour ``graph`` of all points, targets, similarity and weights are those of some ``rows`` of them.
    """

    points: Any
    landmarks: LandmarkMap
    targets: Targets
    similarity: Similarity
    weights: Array | None = None
    rows: Array | None = None
    graph: NeighbourGraph | None = None

    @property
    def learned(self) -> Any:
        """The points that have targets."""
        return self.points if self.rows is None else self.points[self.rows]

    @property
    def sample(self) -> Any:
        """What kernels are resolved on."""
        return self.landmarks.sample

    def with_kernel(self, kernel: MatrixKernel) -> LandmarkProblem:
        """The same problem with another kernel, resolved."""
        return replace(self, landmarks=self.landmarks.with_kernel(kernel))


def exact_problem(settings: Settings, points: Any, takes: Takes, y: Array, labelled: bool, weights: Array | None = None) -> Problem:
    """From checked points, targets and weights."""
    points = own_copy(points, takes)
    targets, similarity = settings.supervise(y, labelled, weights)
    kernel = settings.kernel_for(targets.values.shape[1]).resolve(points, settings.generator(), y)
    return Problem(points, takes, kernel, targets, similarity, weights)


def fit_exactly(settings: Settings, problem: Problem, on_iteration: OnIteration) -> Fit:
    """Fit a problem with all training points."""
    targets, similarity = problem.targets, problem.similarity
    coupling = similarity.couple(settings.regression_weight, settings.gamma(similarity.mean_degree))
    n, m = targets.values.shape
    lazy = evaluates_lazily(settings.solver, problem.kernel, problem.points, similarity.held_arrays, m)
    gram = problem.kernel.gram(problem.points, m, lazy=lazy)
    roots, values = problem.roots, targets.values
    if roots is not None:
        gram, values = gram.weighted(roots), roots[:, None] * values

    auto = settings.solver == "auto"
    kind, reason = choose_solver(gram) if auto else (SOLVERS[settings.solver], "asked for")
    columns = _columns(problem, gram) if kind is ConjugateGradient and n > SMALL_SAMPLES else []
    tolerance = max(1e-14, settings.model.residual_tolerance(settings.tol))

    def prepare() -> tuple[Solver, str]:
        if columns:
            krylov = DiagonalKrylov if isinstance(gram, BlockDiagonal) else SeparableKrylov
            most = n // GIVE_UP if auto else MOST_PRODUCTS
            # Energies and scatters are as exact as the square of the residual.
            residual = max(1e-14, RESIDUAL * np.sqrt(settings.tol))
            return krylov(gram, coupling, values, columns, tolerance=residual, max_products=most, spare_memory=auto), reason
        more = {"tolerance": tolerance} if kind is ConjugateGradient else {}
        return kind(gram, coupling, values, **more), reason

    def reduce() -> tuple[Solver, str]:
        # The matrix is reduced after all, as for few samples: the system is too uneven for anything cheaper.
        told = f"{reason}, but products with its matrix do not close the gap"
        if auto and gram.kronecker_factors() is not None:
            return TridiagonalSolver(gram, coupling, values), told
        return ConjugateGradient(gram, coupling, values, tolerance=tolerance), told

    can_be_reduced = len(columns) > 0 and not lazy and fits_in_memory(8.0 * len(columns) * n * n)

    def place(coefficients: Array) -> Array:
        return coefficients.copy() if roots is None else roots[:, None] * coefficients

    points = kept_points(problem.points, problem.takes)
    attempts = [prepare, reduce] if can_be_reduced else [prepare]
    return _train(settings, attempts, problem.kernel, points, place, targets, coupling.collocation_weight, n, on_iteration)


def _columns(problem: Problem, gram: GramOperator) -> list[Columns]:
    """The columns of each kernel matrix; none if they can not be had."""
    factors = gram.kronecker_factors()
    matrices = gram.sample_grams if isinstance(gram, BlockDiagonal) else () if factors is None else (factors[0],)
    if all(isinstance(matrix, np.ndarray) for matrix in matrices):
        return [Columns(np.asarray(matrix).__getitem__, np.asarray(matrix).diagonal()) for matrix in matrices]
    if not problem.kernel.has_features:
        return []
    points, roots = problem.points, np.ones(gram.shape[0]) if problem.roots is None else problem.roots

    def evaluated(scalar: ScalarKernel) -> Columns:
        columns = scalar.columns(points)
        return Columns(lambda rows: (roots[:, None] * columns(rows) * roots[rows]).T, roots**2 * scalar.diagonal(points))

    return [evaluated(scalar) for scalar in problem.kernel.scalars]


def _nystroem_solver(
    settings: Settings, kernel: MatrixKernel, features: Features, summary: Summary, gamma: float
) -> NystroemSolver:
    if isinstance(kernel, Separable):
        outputs = kernel.output_matrix_of(len(summary.squares))
        return SpectralNystroem(features, summary, settings.regression_weight, gamma, outputs)
    return DenseNystroem(features, summary, settings.regression_weight, gamma)


def landmark_features(
    settings: Settings,
    candidates: Any,
    takes: Takes,
    rng: np.random.Generator,
    *,
    many: bool,
    training: tuple[Any, Array] | None = None,
) -> LandmarkMap:
    """The resolved kernel and the features; ``indices`` tell which candidates became landmarks, unless they were given.

    ``many``: there are enough rows for single precision to pay. ``training``: all points and their targets, for kernels that learn
    from these; others are resolved on the candidates.
    """
    if not settings.kernel.has_features:
        raise ValueError(
            "landmarks serve kernels k(x, x') B and diag(k_1, ..., k_m); for other matrix kernels use solver='dense' or 'cg'."
        )
    precomputed = takes == "kernel values"
    candidates = settings.landmarks if settings.has_given_landmarks else candidates
    dtype = getattr(candidates, "dtype", np.dtype(np.float64))
    points = candidates if takes in ("objects", "table") or precomputed else candidates.astype(np.float64)
    kernel = settings.kernel.resolve(points, rng) if training is None else settings.kernel.resolve(training[0], rng, training[1])
    chosen = None
    if not settings.has_given_landmarks:
        chosen = choose(kernel.scalars[0], points, settings.landmark_count, settings.landmarks, rng)
        points = points[np.ix_(chosen, chosen)] if precomputed else points[chosen]
    single = many and dtype == np.float32
    parts = [Landmarks.make(scalar, points, scalar.gram(points), single=single) for scalar in kernel.scalars]
    return LandmarkMap(kernel, Features(tuple(parts)), points, chosen, sample=candidates, single=single)


def landmark_map(settings: Settings, points: Any, takes: Takes, y: Any = None, *, labelled: bool = True) -> LandmarkMap:
    """Kernel and features for checked data that can be indexed; ``y`` for kernels that learn from targets."""
    n = n_points(points)
    rng = settings.generator()
    wanted = settings.candidate_count
    rows = np.arange(n) if wanted >= n else np.sort(rng.choice(n, wanted, replace=False))
    precomputed = takes == "kernel values"
    candidates = points[np.ix_(rows, rows)] if precomputed else points[rows]
    many = labelled and n >= MANY * settings.landmark_count
    training = (own_copy(points, takes), y) if settings.kernel.supervised else None
    found = landmark_features(settings, candidates, takes, rng, many=many, training=training)
    indices = None if found.indices is None else rows[found.indices]
    if not precomputed:
        return replace(found, indices=indices)
    columns = Features(tuple(replace(part, points=indices) for part in found.features.parts))
    return LandmarkMap(found.kernel, columns, kept_points(points, takes), indices, n)


def landmark_problem(
    settings: Settings, points: Any, takes: Takes, y: Array, labelled: bool, weights: Array | None = None
) -> LandmarkProblem:
    """From checked points that can be indexed, targets and weights."""
    targets, similarity = settings.supervise(y, labelled, weights)
    found = landmark_map(settings, points, takes, y, labelled=labelled)
    settings.kernel_for(targets.values.shape[1])  # raises if outputs and components do not match
    return LandmarkProblem(points, found, targets, similarity, weights)


def fit_landmarks(settings: Settings, problem: LandmarkProblem, reason: str, on_iteration: OnIteration) -> Fit:
    """Fit a problem in the space of landmark features, after one pass over its rows."""
    summary = _summarise(settings, problem)
    n_samples = n_points(problem.points) if problem.rows is None else len(problem.rows)
    return _fit_summary(settings, problem.landmarks, summary, problem.targets, n_samples, reason, on_iteration)


def _summarise(settings: Settings, problem: LandmarkProblem) -> Summary:
    """One pass over the data."""
    points, features, targets, similarity = problem.learned, problem.landmarks.features, problem.targets, problem.similarity
    labels, prototypes = targets.labels, targets.prototypes
    if labels is not None and prototypes is not None and settings.collocation_weight != 0:
        summary = class_summary(features, points, labels, len(prototypes), problem.weights).with_prototypes(prototypes)
    else:
        summary = target_summary(features, points, targets.values, problem.weights)
    if problem.graph is not None:
        graph = similarity_laplacian(features, problem.points, problem.graph.matrix)
        summary = replace(summary, graph=settings.graph_weight * graph)
    if not isinstance(similarity, MatrixSimilarity) or settings.collocation_weight == 0:
        return summary
    laplacian = similarity_laplacian(features, points, similarity.repeated)
    return replace(summary, laplacian=laplacian, mean_degree=similarity.mean_degree)


def fit_statistics(
    settings: Settings, found: LandmarkMap, statistics: Statistics | ReducedStatistics, reason: str, on_iteration: OnIteration
) -> Fit:
    """Fit what passes over blocks of rows have gathered."""
    if isinstance(statistics, ReducedStatistics) or statistics.classes is not None:
        assert statistics.classes is not None
        of_classes = class_weights(settings.class_weight, statistics.classes, statistics.counts)
        targets = settings.class_targets(statistics.classes, statistics.n_rows)
        statistics = statistics if of_classes is None else statistics.with_class_weights(of_classes)
        assert targets.prototypes is not None
        summary = statistics.with_prototypes(targets.prototypes)
    else:
        summary, offset, scales = statistics.with_targets(settings.components(statistics.n_rows))
        targets = Targets(np.empty((0, len(offset))), offset, scales)
    settings.kernel_for(len(summary.squares))  # raises if outputs and components do not match
    return _fit_summary(settings, found, summary, targets, statistics.n_rows, reason, on_iteration)


def _fit_summary(
    settings: Settings,
    found: LandmarkMap,
    summary: Summary,
    targets: Targets,
    n_samples: int,
    reason: str,
    on_iteration: OnIteration,
) -> Fit:
    features = found.features
    gamma = settings.gamma(summary.mean_degree)
    dropped = max(part.dropped for part in features.parts)
    lost = f", {dropped} directions of them lost in round-off" if dropped else ""
    reason += f"; {len(features.parts[0].basis)} landmarks{lost}"
    solver = _nystroem_solver(settings, found.kernel, features, summary, gamma)
    prepared = solver, reason
    fit = _train(settings, [lambda: prepared], found.kernel, found.points, found.place, targets, gamma, n_samples, on_iteration)
    return replace(fit, landmarks=found)


def scaled_model(settings: Settings, solver: Solver) -> Model:
    """The model with its penalties in absolute terms."""
    squares = solver.squares

    def identity_energy() -> float:
        if solver.is_blind:
            return 2.0 * target_rank(squares)  # B is zero whatever its penalty, which becomes 1
        energy = solver.identity_energy(len(squares))
        assert energy is not None  # the kernel is separable
        trace = float(np.trace(energy))
        if not trace > 0:
            raise IllConditionedError(f"the energy of the map is {trace:.3g}, which should be positive")
        return trace

    return settings.model.scaled(settings.penalties, settings.regression_weight, squares, identity_energy)


def _train(
    settings: Settings,
    attempts: Sequence[Callable[[], tuple[Solver, str]]],
    kernel: MatrixKernel,
    points: Any,
    place: Callable[[Array], Array],
    targets: Targets,
    collocation_weight: float,
    n_samples: int,
    on_iteration: OnIteration,
) -> Fit:
    """Alternate; of several ``attempts`` at a solver, the first that round-off does not spoil; ``place`` puts coefficients where
    points are.
    """
    *others, last = attempts
    for prepare in others:
        try:
            solver, reason, model, trained = _alternate(settings, prepare, on_iteration)
        except np.linalg.LinAlgError:
            continue
        if trained.status not in (Status.STALLED, Status.ILL_CONDITIONED):
            break
    else:
        try:
            solver, reason, model, trained = _alternate(settings, last, on_iteration)
        except np.linalg.LinAlgError as error:
            raise ValueError(f"the model could not be fitted ({error}): {Status.ILL_CONDITIONED.value}") from error
    factors = trained.factors
    if factors.output_matrix is not None:
        (scalar,) = kernel.scalars
        kernel = Separable(scalar, factors.output_matrix)
    metric = OutputMetric(kernel, points, place(trained.coefficients), factors.metric_factor, targets.offset)
    terms = solver.terms(trained.evaluated, factors.output_matrix, float(model.penalty(trained.learned)))
    return Fit(metric, model, trained, terms, targets, collocation_weight, solver.name, reason, n_samples)


def _alternate(
    settings: Settings, prepare: Callable[[], tuple[Solver, str]], on_iteration: OnIteration
) -> tuple[Solver, str, Model, Trained]:
    solver, reason = prepare()
    model = scaled_model(settings, solver)
    if not solver.is_blind:
        trained = alternate(solver, model, tol=settings.tol, max_iter=settings.max_iter, on_iteration=on_iteration)
        return solver, reason, model, trained
    warnings.warn(
        "the targets tell nothing: points that the kernel cannot tell apart have targets that cancel, so that the best map "
        "takes all points to one place. Are there contradictory labels for the same points, is the feature missing that "
        "decides, or is the bandwidth far too large?",
        UserWarning,
        stacklevel=6,
    )
    return solver, reason, model, zero_map(solver, model)

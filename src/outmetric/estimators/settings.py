"""What the parameters of an estimator ask for: checked, and with all that follows from them without data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, get_args

import numpy as np
import scipy.sparse

from outmetric.estimators.checks import check_kernel_parameters, declared_kernel, is_sequence
from outmetric.foundation import Array, check_integer, check_number, combined_weights, fits_in_memory, generator
from outmetric.kernels import InputMetricKind, MatrixKernel
from outmetric.problem import (
    ClassSimilarity,
    MatrixSimilarity,
    Model,
    Similarity,
    Targets,
    class_targets,
    gaussian_similarity,
    matrix_similarity,
    real_targets,
    target_rank,
)
from outmetric.rows import CANDIDATES, CHOICES, EXACT_SAMPLES, LANDMARKS
from outmetric.solvers import SOLVERS, NystroemSolver

# Rounds of an input metric; further ones hardly change it, or concentrate it too much.
MOST_ROUNDS = 5


@dataclass(frozen=True, eq=False)
class Settings:
    """The settings of a fit.

    Attributes
    ----------
    kernel : MatrixKernel
        As declared: not resolved.
    model : subclass of Model
    penalties : mapping
        Of the model, as given.
    landmarks : str or points
        How they are chosen, or which they are.

    All others are the estimator's parameters.
    """

    kernel: MatrixKernel
    model: type[Model]
    penalties: Mapping[str, Any]
    n_components: int | None
    prototypes: Any
    similarity: Any
    regression_weight: float
    collocation_weight: float | str
    class_weight: Any
    unlabeled: str | None
    graph_weight: float
    graph_neighbors: int
    input_metric: str | None
    n_rounds: int
    solver: str
    n_landmarks: int | None
    landmarks: Any
    max_iter: int
    tol: float
    random_state: Any

    def generator(self) -> np.random.Generator:
        """What a fit draws from."""
        return generator(self.random_state)

    def gamma(self, degree: float) -> float:
        """The collocation weight as used; ``degree`` is the mean total similarity of a sample to the others."""
        if not isinstance(self.collocation_weight, str):
            return float(self.collocation_weight)
        # The collocation term sums over pairs; divided by the mean degree of similarity it depends on neither n nor the unit of S.
        return float(self.regression_weight / (2 * degree)) if degree > 0 else 0.0

    def components(self, n_samples: int) -> int | None:
        """How many components the targets are to have; None: as many as they have themselves."""
        if self.n_components is None:
            return self.kernel.n_outputs
        check_integer("n_components", self.n_components, optional=True)
        if self.n_components > n_samples:
            raise ValueError(
                f"n_components={self.n_components} exceeds the {n_samples} training samples, whose images span at most "
                f"{n_samples} dimensions; lower n_components (None takes classes - 1)."
            )
        return int(self.n_components)

    def class_targets(self, labels: Array, n_samples: int | None = None) -> Targets:
        """The targets of these labels, or of the classes of ``n_samples`` labels."""
        return class_targets(labels, self.components(n_samples or len(labels)), self.prototypes)

    def supervise(self, y: Array, labelled: bool, weights: Array | None = None) -> tuple[Targets, Similarity]:
        """Targets and similarity of checked labels or real targets, and of the rows' weights."""
        n_samples = len(y)
        targets = self.class_targets(y) if labelled else real_targets(y, self.components(n_samples), weights)
        spanned, m = target_rank(targets.values.T @ targets.values), targets.values.shape[1]
        if self.n_components is not None and isinstance(self.prototypes, str) and spanned < m:
            warnings.warn(
                f"n_components={m}, but the targets span only {spanned} dimensions: the others stay zero.",
                UserWarning,
                stacklevel=5,
            )
        if not isinstance(self.similarity, str):
            given = self.similarity(y) if callable(self.similarity) else self.similarity
            return targets, replace(matrix_similarity(given, n_samples), weights=weights)
        if targets.labels is not None:
            return targets, ClassSimilarity(targets.labels, weights)
        if self.collocation_weight == 0:
            return targets, MatrixSimilarity(scipy.sparse.eye_array(n_samples, format="csr"), weights)
        return targets, gaussian_similarity(targets.values, weights)

    def row_weights(self, given: Array | None, y: Array, labelled: bool) -> Array | None:
        """The weights of rows with these labels or targets, those of their classes included."""
        if self.class_weight is not None and not labelled:
            raise ValueError("class_weight belongs to classes, and y holds real targets; give sample_weight, or class_weight=None.")
        weights = combined_weights(given, self.class_weight, y)
        if weights is not None and self.kernel.supervised:
            warnings.warn(
                "the kernel learns from targets, as a forest does, and takes all rows for equal there: weights enter the map "
                "alone. For a forest that knows them give one that is fitted, kernels.Forest(forest.fit(X, y, sample_weight)).",
                UserWarning,
                stacklevel=5,
            )
        return weights

    def of_rows(self, rows: Array) -> Settings:
        """For some of the rows: a similarity that is a matrix is that of these."""
        if isinstance(self.similarity, str) or callable(self.similarity):
            return self
        matrix: Any = self.similarity
        matrix = matrix.tocsr() if hasattr(matrix, "tocsr") else np.asarray(matrix)
        if matrix.ndim != 2 or min(matrix.shape) <= rows[-1]:
            return self  # an error will tell
        return replace(self, similarity=matrix[rows][:, rows])

    def kernel_for(self, n_outputs: int) -> MatrixKernel:
        """The declared kernel, if it has, or can have, this many outputs."""
        if self.kernel.n_outputs not in (None, n_outputs):
            raise ValueError(
                f"the kernel has {self.kernel.n_outputs} outputs but the targets have {n_outputs} components; give "
                f"n_components={self.kernel.n_outputs}, or a kernel (or bandwidths) for each component."
            )
        return self.kernel

    @property
    def has_given_landmarks(self) -> bool:
        """Whether landmarks are points, and not to be chosen."""
        return not isinstance(self.landmarks, str)

    def landmarks_reason(self, n_samples: int) -> str | None:
        """Why landmarks are used, or None if they are not."""
        if self.solver == NystroemSolver.name:
            return "asked for"
        if self.solver != "auto":
            return None
        if self.n_landmarks is not None or self.has_given_landmarks:
            return "landmarks are asked for"
        if not self.kernel.has_features or not isinstance(self.similarity, str):
            return None
        if n_samples > EXACT_SAMPLES:
            return f"{n_samples} samples are more than {EXACT_SAMPLES}"
        if not fits_in_memory(24.0 * n_samples**2):
            return f"an exact fit on {n_samples} samples does not fit in memory"
        return None

    @property
    def landmark_count(self) -> int:
        """How many landmarks are to be chosen."""
        if self.n_landmarks is not None:
            return int(self.n_landmarks)
        return max(100, LANDMARKS // len(self.kernel.scalars))

    @property
    def candidate_count(self) -> int:
        """How many rows landmarks are chosen from."""
        uniform = isinstance(self.landmarks, str) and self.landmarks == "uniform"
        return self.landmark_count if uniform else CANDIDATES * self.landmark_count

    def with_weights(self, given: Mapping[str, Any]) -> Settings:
        """With other weights, penalties, components or prototypes; raises ValueError for weights that are none."""
        penalties = {name: given.get(name, value) for name, value in self.penalties.items()}
        self.model.check(penalties)
        check_rounds(given.get("n_rounds", 0))
        check_weights(given.get("regression_weight", 1.0), given.get("collocation_weight", 0.0))
        check_unlabelled(None, given.get("graph_weight", 0.0))
        return replace(self, penalties=penalties, **{name: value for name, value in given.items() if name not in penalties})

    @property
    def rounds(self) -> int:
        """How many times the learned metric is pulled back."""
        return 0 if self.input_metric is None else self.n_rounds

    def require_streamable(self) -> None:
        """Raise ValueError if rows that come in blocks cannot be learned from."""
        if self.solver not in ("auto", NystroemSolver.name):
            raise ValueError(f"rows in blocks need solver='auto' or 'nystroem', not {self.solver!r}.")
        if not isinstance(self.similarity, str):
            raise ValueError(
                "rows in blocks need similarity='class': a matrix or function of all targets cannot be given in parts."
            )
        if self.kernel.takes in ("kernel values", "row numbers"):
            raise ValueError("a precomputed kernel cannot come in blocks; give fit the whole matrix.")
        if self.kernel.takes == "table":
            raise ValueError("a kernel of columns cannot be learned from rows in blocks; give fit the whole table.")
        if self.kernel.supervised:
            raise ValueError(
                "a kernel that learns from targets needs all rows at once, and these come in blocks: give fit X and y, or learn "
                "the forest from some rows before, and give it as kernels.Forest(forest)."
            )


def check_weights(regression_weight: Any, collocation_weight: Any) -> None:
    """Raise ValueError for weights that are none."""
    check_number("regression_weight", regression_weight, positive=True)
    check_number("collocation_weight", collocation_weight, word="auto")


def check_rounds(n_rounds: Any) -> None:
    """Raise ValueError for a number of rounds that is none."""
    check_integer("n_rounds", n_rounds, least=0)
    if n_rounds > MOST_ROUNDS:
        raise ValueError(f"n_rounds must be at most {MOST_ROUNDS}, not {n_rounds}: a metric that is pulled back often degenerates.")


def _check_input_metric(input_metric: Any, kernel: MatrixKernel) -> None:
    if input_metric is None:
        return
    kinds = get_args(InputMetricKind)
    if input_metric not in kinds:
        raise ValueError(f"input_metric={input_metric!r} is not known; use None or one of {list(kinds)}.")
    if not kernel.has_terms:
        raise ValueError("an input metric needs scalar kernels with gradients, which this matrix kernel is not made of.")
    for scalar in kernel.scalars:
        if scalar.takes == "table":
            raise ValueError(
                "an input metric is one of rows of numbers, and a kernel of columns compares tables: give the numbers alone, as an "
                "array, to a kernel with gradients such as 'rbf', or set input_metric=None."
            )
        if not scalar.input_metrics:
            raise ValueError(
                f"{scalar.title} has no gradients, from which an input metric could be learned (a sum or product has them if all "
                "its parts have); set input_metric=None."
            )
        if input_metric not in scalar.input_metrics:
            raise ValueError(
                f"{scalar.title} measures each feature by itself, so that only weights of the features can be learned: "
                f"input_metric must be one of {list(scalar.input_metrics)}, not {input_metric!r}."
            )


def check_unlabelled(unlabeled: Any, graph_weight: Any) -> None:
    """Raise ValueError unless these say how rows without labels are used."""
    if unlabeled not in (None, "graph", "ignore"):
        raise ValueError(f"unlabeled={unlabeled!r} is not known; use None, 'graph' or 'ignore'.")
    check_number("graph_weight", graph_weight)


def settings_of(estimator: Any) -> Settings:
    """The settings of `FixedKernelMetric` or `LearnedKernelMetric`; raises ValueError for parameters that are none."""
    check_weights(estimator.regression_weight, estimator.collocation_weight)
    check_number("tol", estimator.tol)
    check_integer("max_iter", estimator.max_iter)
    similarity = estimator.similarity
    if isinstance(similarity, str) and similarity != "class":
        raise ValueError(f"similarity={similarity!r} is not known; use 'class', a matrix, or a function of the targets.")
    check_kernel_parameters(estimator)
    solvers = [*sorted(SOLVERS), NystroemSolver.name]
    if estimator.solver != "auto" and estimator.solver not in solvers:
        raise ValueError(f"solver={estimator.solver!r} is not known; use 'auto' or one of {solvers}.")
    check_integer("n_landmarks", estimator.n_landmarks, optional=True)
    if isinstance(estimator.landmarks, Integral):
        raise ValueError(
            f"landmarks={estimator.landmarks!r} is a number, and one of {list(CHOICES)} or an array of points was expected; for "
            f"{estimator.landmarks} landmarks give n_landmarks={estimator.landmarks}."
        )
    if isinstance(estimator.landmarks, str) and estimator.landmarks not in CHOICES:
        raise ValueError(f"landmarks={estimator.landmarks!r} is not known; use one of {list(CHOICES)}, or an array of points.")
    penalties = {name: getattr(estimator, name) for name in estimator.model.weights}
    estimator.model.check(penalties)
    if estimator.model.learns_output_matrix and (isinstance(estimator.kernel, MatrixKernel) or is_sequence(estimator.bandwidth)):
        raise ValueError(
            f"{type(estimator).__name__} learns the matrix of the kernel k(x, x') B itself: give a scalar kernel and one "
            "bandwidth; FixedKernelMetric takes matrix-valued kernels."
        )
    check_unlabelled(estimator.unlabeled, estimator.graph_weight)
    check_integer("graph_neighbors", estimator.graph_neighbors)
    check_rounds(estimator.n_rounds)
    kernel = declared_kernel(estimator)
    _check_input_metric(estimator.input_metric, kernel)
    return Settings(
        kernel=kernel,
        model=estimator.model,
        penalties=penalties,
        n_components=estimator.n_components,
        prototypes=estimator.prototypes,
        similarity=similarity,
        regression_weight=estimator.regression_weight,
        collocation_weight=estimator.collocation_weight,
        class_weight=estimator.class_weight,
        unlabeled=estimator.unlabeled,
        graph_weight=estimator.graph_weight,
        graph_neighbors=estimator.graph_neighbors,
        input_metric=estimator.input_metric,
        n_rounds=estimator.n_rounds,
        solver=estimator.solver,
        n_landmarks=estimator.n_landmarks,
        landmarks=estimator.landmarks,
        max_iter=estimator.max_iter,
        tol=estimator.tol,
        random_state=estimator.random_state,
    )

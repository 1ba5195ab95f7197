"""Many weights at once: both models for a whole batch of (lambda, rho, epsilon) on one eigendecomposition.

With P = lambda P_1, the whitened kernel matrix is lambda times one fixed matrix W_1 = R_1' K R_1 = V diag(w) V'. For each
candidate, in the eigenbasis U of the symmetric matrix A that weighs the outputs (A = L'L for model 1, A = B for model 2), the
whitened residual D of the exact coefficient step is an elementwise division:

    V' D U = sqrt(lambda) V' R_1^-1 Y U / (1 + lambda w a'),       F = K G,  G = R D A.

All candidates of a batch take their steps together; the map of each is that of a single fit, to the tolerance. Only kernels
k(x, x') I are served.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from outmetric.foundation import Array, check_psd, psd_tolerance
from outmetric.problem import ClassSummary, Similarity, duality_gap, metric_gradient
from outmetric.solvers.alternation import metric_minimiser, output_minimiser

# The largest share of 1 that round-off may have in 1 + lambda w a.
SOUND = 0.1


@dataclass(frozen=True, eq=False)
class Maps:
    """The coordinates of training and new points for each candidate of a batch: (candidates, points, m).

    ``sound`` is False for candidates whose weights blow the kernel's round-off up; a single fit would refuse them.
    """

    train: Array
    new: Array
    converged: Array
    sound: Array


class Decomposition:
    """What all candidates with one kernel and one gamma/lambda share.

    Parameters
    ----------
    sample_gram : array of shape (n, n)
        The kernel matrix of the training points.
    cross_gram : array of shape (n_new, n)
        Kernel values between new points and training points.
    similarity : Similarity
    weight_ratio : float
        gamma / lambda.
    """

    def __init__(self, sample_gram: Array, cross_gram: Array, similarity: Similarity, weight_ratio: float) -> None:
        self.coupling = similarity.couple(1.0, weight_ratio)
        tolerance = psd_tolerance(sample_gram.dtype)
        # NumPy's eigh, not SciPy's: the products around it use NumPy's BLAS, and two pools of threads get in each other's way.
        self.spectrum, self.basis = np.linalg.eigh(self.coupling.sandwich(np.asarray(sample_gram, dtype=np.float64)))
        if self.spectrum[0] < -tolerance * abs(self.spectrum[-1]):
            check_psd(sample_gram, "the kernel matrix", tolerance=tolerance)
        # What is cut here is round-off; how much a candidate's weights would have made of it tells whether its map is sound.
        self.round_off = max(0.0, -float(self.spectrum[0]))
        self.spectrum = self.spectrum.clip(min=0)
        # F at the training points is K R D A = R'^-1 V diag(w) V'D A, and at new points K_new R D A.
        self.to_train = self.coupling.solve_factor(self.basis * self.spectrum, transpose=True)
        self.to_new = self.coupling.factor(cross_gram.T, transpose=True).T @ self.basis

    def squares(self, targets: Array) -> Array:
        """Y'Y."""
        return targets.T @ targets

    def whiten(self, targets: Array) -> tuple[Array, Array]:
        """V'R_1^-1 Y, and the residual scatter at lambda = 1 that no map can avoid."""
        whitened = self.coupling.solve_factor(targets)
        pull = self.coupling.solve_factor(self.coupling.laplacian(targets))
        floor = 2 * self.coupling.collocation_weight * whitened.T @ pull
        return self.basis.T @ whitened, (floor + floor.T) / 2

    def identity_energy(self, targets: Array, regression_weights: Array) -> Array:
        """tr(C'K C) of the maps with B = I, from which the automatic penalty of model 2 follows."""
        batch = _Batch.make(self, targets, regression_weights)
        identity = np.tile(np.eye(targets.shape[1]), (len(regression_weights), 1, 1))
        return np.asarray(np.trace(batch.energy(batch.solve(identity)), axis1=1, axis2=2))

    def maps(self, targets: Array, regression_weights: Array, step: BatchStep, *, tol: float, max_iter: int) -> Maps:
        """Train all candidates, which differ in lambda and in what ``step`` holds."""
        batch = _Batch.make(self, targets, regression_weights)
        learned = step.start(batch)
        extrapolation = _Extrapolation(learned, step)
        converged = np.zeros(len(regression_weights), dtype=bool)
        active = np.arange(len(regression_weights))
        for iteration in range(1, max_iter + 1):
            part, now = batch.take(active), step.take(active)
            residual = part.solve(now.weigh(learned[active]))
            optimality, objective, plain = now.advance(learned[active], part, residual)
            done = optimality <= tol
            converged[active[done]] = True
            active = active[~done]
            if not len(active) or iteration == max_iter:
                break
            learned[active] = extrapolation.propose(active, learned[active], plain[~done], objective[~done])
        strength = regression_weights * np.linalg.eigvalsh(step.weigh(learned))[:, -1]
        return Maps(*self._coordinates(batch, step, learned), converged, self.round_off * strength < SOUND)

    def _coordinates(self, batch: _Batch, step: BatchStep, learned: Array) -> tuple[Array, Array]:
        gain = self._gain(batch, step, learned)
        return self.to_train @ gain, self.to_new @ gain

    def _gain(self, batch: _Batch, step: BatchStep, learned: Array) -> Array:
        """V'R_1^-1 G with G = R D A and R = sqrt(lambda) R_1, times L' for model 1: its coordinates are F L'."""
        weights = step.weigh(learned)
        residual = batch.solve(weights)
        scale = np.sqrt(batch.regression_weights)[:, None, None]
        return np.asarray(scale * (residual.coordinates @ (residual.basis.transpose(0, 2, 1) @ weights @ step.metric(learned))))


class ReducedDecomposition(Decomposition):
    """The same in the features' space, where W_1 has the eigenvalues of T_1 = Phi'P_1 Phi; targets are those of the classes.

    Parameters
    ----------
    summary : ClassSummary
    train, new : arrays of shape (n, r) and (n_new, r)
        Features of the points whose maps are wanted.
    weight_ratio : float
        gamma / lambda.
    """

    def __init__(self, summary: ClassSummary, train: Array, new: Array, weight_ratio: float) -> None:
        self.summary = summary
        spectrum, basis = np.linalg.eigh(summary.gram + 2 * weight_ratio * summary.laplacian)
        kept = spectrum > len(spectrum) * np.finfo(np.float64).eps * spectrum[-1]
        self.round_off = max(0.0, -float(spectrum[0]))
        self.spectrum, self.basis = spectrum[kept], basis[:, kept]
        self.roots = np.sqrt(self.spectrum)
        self.to_train, self.to_new = train, new

    def _coordinates(self, batch: _Batch, step: BatchStep, learned: Array) -> tuple[Array, Array]:
        # F = Phi Theta, Theta = Gamma A and Gamma = V diag(w)^(1/2) V'D.
        parameters = (self.basis * self.roots) @ self._gain(batch, step, learned)
        return self.to_train @ parameters, self.to_new @ parameters

    def squares(self, targets: Array) -> Array:
        return (self.summary.counts[:, None] * targets).T @ targets

    def whiten(self, targets: Array) -> tuple[Array, Array]:
        whitened = (self.basis / self.roots).T @ (self.summary.sums.T @ targets)
        return whitened, self.squares(targets) - whitened.T @ whitened


@dataclass(frozen=True, eq=False)
class Residual:
    """The whitened residuals D of a batch, as V' D U (candidates, n, m), and the bases U (candidates, m, m)."""

    coordinates: Array
    basis: Array


@dataclass(frozen=True, eq=False)
class _Batch:
    spectrum: Array
    targets: Array
    squared_targets: Array
    floor: Array
    regression_weights: Array

    @classmethod
    def make(cls, shared: Decomposition, targets: Array, regression_weights: Array) -> _Batch:
        whitened, floor = shared.whiten(targets)
        return cls(shared.spectrum, whitened, shared.squares(targets), floor, regression_weights)

    def take(self, active: Array) -> _Batch:
        return _Batch(self.spectrum, self.targets, self.squared_targets, self.floor, self.regression_weights[active])

    def solve(self, weights: Array) -> Residual:
        values, basis = np.linalg.eigh(weights)
        scaled = np.sqrt(self.regression_weights)[:, None, None] * (self.targets @ basis)
        shrink = 1 + (self.regression_weights[:, None] * self.spectrum)[:, :, None] * values.clip(min=0)[:, None, :]
        return Residual(scaled / shrink, basis)

    def scatter(self, residual: Residual) -> Array:
        """M, the residual scatter."""
        inner = residual.coordinates.transpose(0, 2, 1) @ residual.coordinates
        return np.asarray(_turn(inner, residual.basis) + self.regression_weights[:, None, None] * self.floor)

    def energy(self, residual: Residual) -> Array:
        """D' W D, which is C'K C for model 2."""
        weighted = self.spectrum[:, None] * residual.coordinates
        inner = residual.coordinates.transpose(0, 2, 1) @ weighted
        return self.regression_weights[:, None, None] * _turn(inner, residual.basis)


def _turn(matrices: Array, basis: Array) -> Array:
    return np.asarray(basis @ matrices @ basis.transpose(0, 2, 1))


class _Extrapolation:
    """Anderson acceleration of each candidate by itself, like `training.Extrapolation`.

    A step that did not lower the candidate's objective is taken back: the plain step from where it started, which does, is made
    instead, and what was remembered is forgotten.
    """

    depth = 4

    def __init__(self, learned: Array, step: BatchStep) -> None:
        count = len(learned)
        self.step = step
        self.points = np.zeros((self.depth, count, learned[0].size))
        self.images = np.zeros_like(self.points)
        self.known = np.zeros(count, dtype=int)
        self.last_objective = np.full(count, np.inf)

    def propose(self, active: Array, points: Array, images: Array, objective: Array) -> Array:
        worse = (objective > self.last_objective[active]) & (self.known[active] > 1)
        back = self.images[-1][active].reshape(images.shape)
        self.last_objective[active] = np.where(worse, np.inf, objective)
        self.known[active] = np.where(worse, 0, np.minimum(self.known[active] + 1, self.depth))
        for memory, newest in ((self.points, points), (self.images, images)):
            memory[:-1, active] = memory[1:, active]
            memory[-1, active] = newest.reshape(len(active), -1)
        residuals = (self.images - self.points)[:, active].transpose(1, 0, 2)
        remembered = np.arange(1, self.depth) > self.depth - self.known[active][:, None]
        changes = np.diff(residuals, axis=1) * remembered[:, :, None]
        normal = changes @ changes.transpose(0, 2, 1)
        size = np.trace(normal, axis1=1, axis2=2)[:, None, None]
        normal = normal + (1e-14 * size + (size == 0)) * np.eye(self.depth - 1)
        weights = np.linalg.solve(normal, changes @ residuals[:, -1, :, None])
        moves = np.diff(self.images[:, active].transpose(1, 0, 2), axis=1) * remembered[:, :, None]
        guesses = (self.images[-1][active] - np.sum(weights * moves, axis=1)).reshape(images.shape)
        guesses = (guesses + guesses.transpose(0, 2, 1)) / 2
        plain = np.where(worse[:, None, None], back, images)
        return np.where((self.step.admits(guesses) & ~worse)[:, None, None], guesses, plain)


@dataclass(frozen=True, eq=False)
class BatchStep(ABC):
    """The second half of an iteration, for a batch; penalties have one entry for each candidate."""

    penalties: Array

    @abstractmethod
    def take(self, active: Array) -> BatchStep:
        """The steps of some of the candidates."""

    @abstractmethod
    def start(self, batch: _Batch) -> Array:
        """L or B to begin with, (candidates, m, m)."""

    @abstractmethod
    def weigh(self, learned: Array) -> Array:
        """A from L or B."""

    @abstractmethod
    def metric(self, learned: Array) -> Array:
        """The factor of the distances."""

    @abstractmethod
    def admits(self, learned: Array) -> Array:
        """Which of these L or B have the definiteness that every minimiser has."""

    @abstractmethod
    def advance(self, learned: Array, batch: _Batch, residual: Residual) -> tuple[Array, Array, Array]:
        """(optimality, objective, next L or B)."""


@dataclass(frozen=True, eq=False)
class FixedBatch(BatchStep):
    """Model 1: `training.MetricStep` for a batch."""

    ridges: Array

    def take(self, active: Array) -> FixedBatch:
        return FixedBatch(self.penalties[active], self.ridges[active])

    def start(self, batch: _Batch) -> Array:
        scatter = batch.regression_weights[:, None, None] * batch.squared_targets
        return metric_minimiser(scatter, self.penalties[:, None], self.ridges[:, None])

    def weigh(self, learned: Array) -> Array:
        return np.asarray(learned @ learned)

    def metric(self, learned: Array) -> Array:
        return learned

    def admits(self, learned: Array) -> Array:
        return np.asarray(np.linalg.eigvalsh(learned)[:, -1] < 0)

    def advance(self, learned: Array, batch: _Batch, residual: Residual) -> tuple[Array, Array, Array]:
        scatter = batch.scatter(residual)
        gradient = metric_gradient(learned, scatter, self.penalties[:, None, None], self.ridges[:, None, None])
        optimality = np.linalg.norm(gradient, axis=(1, 2)) / (self.penalties * np.sqrt(scatter.shape[-1]))
        weights = self.weigh(learned)
        roughness = np.sum((weights @ weights) * batch.energy(residual), axis=(1, 2))
        fit = np.sum(weights * scatter, axis=(1, 2))
        penalty = self.penalties * np.trace(learned, axis1=1, axis2=2) + 0.5 * self.ridges * np.sum(learned**2, axis=(1, 2))
        following = metric_minimiser(scatter, self.penalties[:, None], self.ridges[:, None])
        return optimality, 0.5 * (roughness + fit) + penalty, following


@dataclass(frozen=True, eq=False)
class LearnedBatch(BatchStep):
    """Model 2: `training.OutputMatrixStep` for a batch."""

    def take(self, active: Array) -> LearnedBatch:
        return LearnedBatch(self.penalties[active])

    def start(self, batch: _Batch) -> Array:
        return np.tile(np.eye(batch.targets.shape[1]), (len(self.penalties), 1, 1))

    def weigh(self, learned: Array) -> Array:
        return learned

    def metric(self, learned: Array) -> Array:
        return np.eye(learned.shape[-1])

    def admits(self, learned: Array) -> Array:
        return np.asarray(np.linalg.eigvalsh(learned)[:, 0] >= 0)

    def advance(self, learned: Array, batch: _Batch, residual: Residual) -> tuple[Array, Array, Array]:
        energy = batch.energy(residual)
        gap = duality_gap(learned, energy, self.penalties[:, None, None])
        roughness = np.sum(learned * energy, axis=(1, 2))
        fit = np.trace(batch.scatter(residual), axis1=1, axis2=2)
        objective = 0.5 * (roughness + fit + self.penalties * np.sum(learned**2, axis=(1, 2)))
        return gap / objective, objective, output_minimiser(learned, energy, self.penalties[:, None])

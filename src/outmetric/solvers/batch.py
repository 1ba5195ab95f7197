"""Many weights at once: both models for a whole batch of (lambda, rho, epsilon) on one eigendecomposition.

With P = lambda P_1, the whitened kernel matrix is lambda times one fixed matrix W_1 = R_1' K R_1 = V diag(w) V'. For each
candidate, in the eigenbasis U of the symmetric matrix A that weighs the outputs (A = L'L for model 1, A = B for model 2), the
whitened residual D of the exact coefficient step is an elementwise division:

    V' D U = sqrt(lambda) V' R_1^-1 Y U / (1 + lambda w a'),       F = K G,  G = R D A.

All candidates of a batch take their steps together; the map of each is that of a single fit, to the tolerance. Only kernels
k(x, x') I are served.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from outmetric.foundation import Array, check_psd, psd_tolerance
from outmetric.problem import ClassSummary, Model, Similarity
from outmetric.solvers.acceleration import Anderson
from outmetric.solvers.direct import Eigensystem
from outmetric.solvers.solution import BLIND

# The largest share that round-off may have: of 1 in 1 + lambda w a, and of D'W D.
SOUND = 0.1
# Iterations that the acceleration remembers.
DEPTH = 4


@dataclass(frozen=True, eq=False)
class Maps:
    """The coordinates of training and new points for each candidate of a batch: (candidates, points, m).

    ``coefficients``, if asked for, are those of the kernel functions at the training points (candidates, n, m), or of the features
    (candidates, r, m), that the coordinates are sums of. ``sound`` is False for candidates whose weights blow the kernel's
    round-off up; a single fit would refuse them.
    """

    train: Array
    new: Array
    converged: Array
    sound: Array
    coefficients: Array | None = None


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
    roots : array of shape (n,) or None
        Of the weights of the training points, by which their kernel values were multiplied (see `outmetric.problem.coupling`).
    """

    def __init__(
        self, sample_gram: Array, cross_gram: Array, similarity: Similarity, weight_ratio: float, roots: Array | None = None
    ) -> None:
        self.sample_gram, self.roots = sample_gram, roots
        self.coupling = similarity.couple(1.0, weight_ratio)
        tolerance = psd_tolerance(sample_gram.dtype)
        self.system = Eigensystem.of(self.coupling.sandwich(np.asarray(sample_gram, dtype=np.float64)))
        self.spectrum = self.system.spectrum
        if self.spectrum[0] < -tolerance * abs(self.spectrum[-1]):
            check_psd(sample_gram, "the kernel matrix", tolerance=tolerance)
        self.round_off = round_off(self.spectrum)
        self.spectrum = self.spectrum.clip(min=0)
        self.cross_gram = cross_gram

    def visibility(self, targets: Array) -> float:
        """<Y, K Y> relative to tr(K) |Y|^2; see `outmetric.solvers.Solver`."""
        return float(np.vdot(targets, self.sample_gram @ targets) / (np.trace(self.sample_gram) * np.sum(targets**2)))

    def squares(self, targets: Array) -> Array:
        """Y'Y."""
        return targets.T @ targets

    def whiten(self, targets: Array) -> tuple[Array, Array]:
        """V'R_1^-1 Y, and the residual scatter at lambda = 1 that no map can avoid."""
        whitened = self.coupling.solve_factor(targets)
        return self.system.rotate(whitened), self.coupling.scatter_floor(targets, whitened)

    def identity_energy(self, targets: Array, regression_weights: Array) -> Array:
        """tr(C'K C) of the maps with B = I, from which the automatic penalty of model 2 follows."""
        batch = _Batch.make(self, targets, regression_weights)
        identity = np.tile(np.eye(targets.shape[1]), (len(regression_weights), 1, 1))
        return np.asarray(np.trace(batch.energy(batch.solve(identity)), axis1=1, axis2=2))

    def maps(
        self, targets: Array, regression_weights: Array, model: Model, *, tol: float, max_iter: int, coefficients: bool = False
    ) -> Maps:
        """Train all candidates, which differ in lambda and in the penalties of the model."""
        batch = _Batch.make(self, targets, regression_weights)
        if self.visibility(targets) <= BLIND:
            return self._zero_maps(len(regression_weights), targets.shape[1])
        learned = model.start(batch.initial_scatter)
        acceleration = Anderson(len(learned), learned.shape[-1], DEPTH)
        last_objective = np.full(len(learned), np.inf)
        converged = np.zeros(len(learned), dtype=bool)
        active = np.arange(len(learned))
        for iteration in range(1, max_iter + 1):
            now, points = model.take(active), learned[active]
            step = batch.take(active).step(now, points)
            objective = now.objective(points, step)
            done = now.optimality(points, step, objective) <= tol
            converged[active[done]] = True
            if done.all() or iteration == max_iter:
                break
            images = now.minimiser(points, step)[~done]
            active, points, objective = active[~done], points[~done], objective[~done]
            # A step that did not lower the objective is taken back: the plain step from where it started, which does, is made.
            worse = (objective > last_objective[active]) & (acceleration.known[active] > 1)
            plain = np.where(worse[:, None, None], acceleration.latest(active, images.shape), images)
            guesses = acceleration.propose(active, points, images)
            acceleration.forget(active[worse])
            last_objective[active] = np.where(worse, np.inf, objective)
            accepted = model.take(active).admits(guesses) & ~worse
            learned[active] = np.where(accepted[:, None, None], guesses, plain)
        gain = self._gain(batch, model, learned)
        found = self._coefficients(gain) if coefficients else None
        return Maps(*self._coordinates(gain), converged, self._are_sound(batch, model, learned), found)

    def _are_sound(self, batch: _Batch, model: Model, learned: Array) -> Array:
        weights = model.output_weights(learned)
        sound = batch.regression_weights * self.round_off * np.linalg.eigvalsh(weights)[:, -1] < SOUND
        if model.learns_output_matrix:
            # B is made of D'W D, in which residuals that the kernel cannot see must not speak by round-off.
            residual = batch.solve(weights)
            noise = batch.regression_weights * self.round_off * np.sum(residual.coordinates**2, axis=(-2, -1))
            sound &= noise < SOUND * np.trace(batch.energy(residual), axis1=-2, axis2=-1)
        return np.asarray(sound)

    def _zero_maps(self, candidates: int, outputs: int) -> Maps:
        none = np.zeros((candidates, outputs, len(self.spectrum)))
        certain = np.ones(candidates, dtype=bool)
        return Maps(*self._coordinates(none), certain, certain, self._coefficients(none))

    def _coordinates(self, gain: Array) -> tuple[Array, Array]:
        # F = K R D A at the training points, and K_new R D A at new ones.
        weights = self._kernel_weights(gain)
        outputs = self.sample_gram @ weights
        if self.roots is not None:
            outputs /= self.roots[:, None]
        return _apart(outputs, gain), _apart(self.cross_gram @ weights, gain)

    def _coefficients(self, gain: Array) -> Array:
        found = self._kernel_weights(gain)
        return _apart(found if self.roots is None else self.roots[:, None] * found, gain)

    def _kernel_weights(self, gain: Array) -> Array:
        """R_1 V gain' of all candidates side by side."""
        return self.coupling.factor(self.system.rotate(_rows(gain).T, back=True))

    def _gain(self, batch: _Batch, model: Model, learned: Array) -> Array:
        """The transposes of V'R_1^-1 G L' with G = R D A and R = sqrt(lambda) R_1, (candidates, m, n): coordinates are F L'."""
        weights, factor = model.output_weights(learned), model.factors(learned).metric_factor
        residual = batch.solve(weights)
        scale = np.sqrt(batch.regression_weights)[:, None, None]
        return np.asarray((scale * factor @ weights @ residual.basis) @ residual.coordinates)


class FeatureDecomposition(Decomposition):
    """The same in the features' space, where W_1 has the eigenvalues of T_1 = Phi'P_1 Phi; targets are those of the classes.

    Parameters
    ----------
    summary : ClassSummary
    whitening : array of shape (p, r)
        Q of the features phi(x) = Q'k_z(x).
    train, new : arrays of shape (n, p) and (n_new, p)
        k_z(x), the kernel values at the landmarks, of the points whose maps are wanted.
    weight_ratio : float
        gamma / lambda.
    """

    def __init__(self, summary: ClassSummary, whitening: Array, train: Array, new: Array, weight_ratio: float) -> None:
        self.summary = summary
        coupled = summary.gram + 2 * weight_ratio * summary.laplacian
        whole = Eigensystem.of(coupled if summary.graph is None else coupled + summary.graph)
        self.round_off = round_off(whole.spectrum)
        self.system = whole.among(whole.spectrum > len(coupled) * np.finfo(np.float64).eps * whole.spectrum[-1])
        self.spectrum = self.system.spectrum
        self.whitening, self.train, self.new = whitening, train, new

    def _coordinates(self, gain: Array) -> tuple[Array, Array]:
        coefficients = self.whitening @ self._parameters(gain)  # fewer columns than features would have
        return _apart(self.train @ coefficients, gain), _apart(self.new @ coefficients, gain)

    def _coefficients(self, gain: Array) -> Array:
        return _apart(self._parameters(gain), gain)

    def _parameters(self, gain: Array) -> Array:
        """Theta of all candidates side by side: F = Phi Theta, Theta = Gamma A and Gamma = V diag(w)^(1/2) V'D."""
        return self.system.rotate((np.sqrt(self.spectrum) * _rows(gain)).T, back=True)

    def visibility(self, targets: Array) -> float:
        return self.summary.with_prototypes(targets).visibility

    def squares(self, targets: Array) -> Array:
        return (self.summary.counts[:, None] * targets).T @ targets

    def whiten(self, targets: Array) -> tuple[Array, Array]:
        whitened = self.system.rotate(self.summary.sums.T @ targets) / np.sqrt(self.spectrum)[:, None]
        return whitened, self.squares(targets) - whitened.T @ whitened


@dataclass(frozen=True, eq=False)
class Residual:
    """The whitened residuals D of a batch, as U' D' V (candidates, m, n), and the eigenvectors U and eigenvalues of A.

    Long rows, since NumPy's loops over a few outputs each would take several times as long.
    """

    coordinates: Array
    basis: Array
    values: Array


@dataclass(frozen=True, eq=False)
class BatchStep:
    """What an exact coefficient step of each candidate gives; see `outmetric.solvers.Solution`."""

    scatter: Array
    squared_norm: Array
    energy: Array
    coupled_norm: Array
    residual: float = 0.0
    relative_residual: float = 0.0


@dataclass(frozen=True, eq=False)
class _Batch:
    """Candidates on one decomposition; ``targets`` is (V'R_1^-1 Y)', (m, n)."""

    spectrum: Array
    targets: Array
    squared_targets: Array
    floor: Array
    regression_weights: Array

    @classmethod
    def make(cls, shared: Decomposition, targets: Array, regression_weights: Array) -> _Batch:
        whitened, floor = shared.whiten(targets)
        return cls(shared.spectrum, np.ascontiguousarray(whitened.T), shared.squares(targets), floor, regression_weights)

    def take(self, active: Array) -> _Batch:
        return replace(self, regression_weights=self.regression_weights[active])

    @property
    def initial_scatter(self) -> Array:
        """The residual scatter of the zero maps, lambda Y'Y."""
        return np.asarray(self.regression_weights[:, None, None] * self.squared_targets)

    def step(self, model: Model, learned: Array) -> BatchStep:
        """The coefficient step of all candidates."""
        residual = self.solve(model.output_weights(learned))
        factors = model.factors(learned)
        # C = R D L'L, so C'K C = L'L D'W D L'L.
        metric = np.swapaxes(factors.metric_factor, -1, -2) @ factors.metric_factor
        weighted = self.spectrum * residual.coordinates
        energy = metric @ self._energy(residual, weighted) @ metric
        outputs = np.eye(energy.shape[-1]) if factors.output_matrix is None else factors.output_matrix
        # <F, P F> = |W D A|^2.
        squares = np.einsum("cmn,cmn->cm", weighted, weighted)
        coupled_norm = self.regression_weights**2 * np.sum(residual.values**2 * squares, axis=1)
        return BatchStep(self._scatter(residual), np.sum(outputs * energy, axis=(-2, -1)), energy, coupled_norm)

    def solve(self, weights: Array) -> Residual:
        values, basis = np.linalg.eigh(weights)
        values = values.clip(min=0)
        roots = np.sqrt(self.regression_weights)[:, None, None]
        coordinates = (roots * basis.transpose(0, 2, 1)).reshape(-1, len(self.targets)) @ self.targets
        shrink = np.multiply.outer(self.regression_weights[:, None] * values, self.spectrum)
        shrink += 1
        coordinates = coordinates.reshape(shrink.shape)
        coordinates /= shrink
        return Residual(coordinates, basis, values)

    def _scatter(self, residual: Residual) -> Array:
        """M, the residual scatter."""
        inner = residual.coordinates @ residual.coordinates.transpose(0, 2, 1)
        return np.asarray(_turn(inner, residual.basis) + self.regression_weights[:, None, None] * self.floor)

    def energy(self, residual: Residual) -> Array:
        """D'W D."""
        return self._energy(residual, self.spectrum * residual.coordinates)

    def _energy(self, residual: Residual, weighted: Array) -> Array:
        """The same from D'W in the bases of ``residual``."""
        inner = weighted @ residual.coordinates.transpose(0, 2, 1)
        return self.regression_weights[:, None, None] * _turn(inner, residual.basis)


def _rows(gain: Array) -> Array:
    """All outputs of all candidates, one below the other, so that one product serves them."""
    return gain.reshape(-1, gain.shape[-1])


def _apart(outputs: Array, gain: Array) -> Array:
    """What was computed of `_rows`, one beside the other, as (candidates, n, m)."""
    return np.moveaxis(outputs.reshape(-1, *gain.shape[:2]), 0, 1)


def round_off(spectrum: Array) -> float:
    """Of a semi-definite W; what weights make of it, beside the 1 of 1 + lambda w a, tells whether a candidate's map is sound."""
    return max(-float(spectrum[0]), float(np.finfo(np.float64).eps * spectrum[-1]))


def _turn(matrices: Array, basis: Array) -> Array:
    return np.asarray(basis @ matrices @ basis.transpose(0, 2, 1))

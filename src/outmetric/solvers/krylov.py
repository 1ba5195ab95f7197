"""Many samples: conjugate gradients that forget nothing from one coefficient step to the next; separable and diagonal kernels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import scipy.linalg

from outmetric.foundation import Array, fits_in_memory, own_threads, psd_tolerance
from outmetric.kernels import BlockDiagonal, GramOperator, SampleGram, symmetric_product
from outmetric.problem import Coupling
from outmetric.solvers.preconditioner import Columns, PartialCholesky, WholeCholesky
from outmetric.solvers.solution import IllConditionedError, MultiplyingSolver, Solution

# The space has at most one dimension for so many samples, and so many at most.
DIMENSION_SHARE, DIMENSIONS = 25, 400
# A residual that has not fallen by a tenth after so many products will not fall any more.
PATIENCE = 50
# A new direction that lies in the space but for this share of it is round-off.
DEPENDENT = 1e-10
# Columns of the residual that are this much smaller than the largest can wait.
SMALL_COLUMN = 0.1
# After so many products of a step the pace of the residual tells how many are left.
PACED = 6
# A factorisation of the whole matrix takes about as long as one product with m vectors for each 75 + 15 m samples: products read
# half of the matrix, and then multiply. It serves while b changes by no more than a factor. Fewer samples take little time anyway,
# and the same steps whether their matrix is held or not.
READING, MULTIPLYING, KEPT_FACTOR, FACTORISED_SAMPLES = 75, 15, 4.0, 1500


class Space:
    """A space V that grows, with W V and V'W V for some symmetric matrices W = R' K R.

    Parameters
    ----------
    matrices : sequence of K
    coupling : Coupling
        P = R R'.
    largest : float
        A bound for the eigenvalues of each W.
    capacity : int
        Dimensions at most.
    """

    def __init__(self, matrices: Sequence[SampleGram], coupling: Coupling, largest: float, capacity: int) -> None:
        n = matrices[0].shape[0]
        self.matrices = matrices
        self.coupling = coupling
        self.largest = largest
        self.products = 0
        self.size = 0
        self._solved = np.zeros((0, 0))  # the last solution, for the next
        self._basis = np.empty((capacity, n))
        self._images = np.empty((len(matrices), capacity, n))
        self._compressed = np.zeros((len(matrices), capacity, capacity))

    @property
    def basis(self) -> Array:
        """V', orthonormal rows."""
        return self._basis[: self.size]

    @property
    def compressed(self) -> Array:
        """V'W V for each W."""
        return self._compressed[:, : self.size, : self.size]

    def outputs(self, coordinates: Array) -> Array:
        """W V X for the one W, or with W_k for column k."""
        images = self._images[:, : self.size]
        if len(images) == 1:
            return np.asarray(images[0].T @ coordinates)
        return np.stack([own.T @ column for own, column in zip(images, coordinates.T, strict=True)], axis=1)

    def extend(self, directions: Array, solved: Array) -> None:
        """Add directions of shape (n, k) to the space; ``solved`` are coordinates in it of what must stay if it is full."""
        lengths = np.linalg.norm(directions, axis=0)
        directions = (directions[:, lengths > 0] / lengths[lengths > 0]).T
        if self.size + len(directions) > len(self._basis):
            solved = self._forget(solved)
        self._solved = solved
        for _ in range(2):  # twice is enough
            directions = directions - (directions @ self.basis.T) @ self.basis
            unit, triangle = np.linalg.qr(directions.T)
            directions = unit[:, abs(triangle.diagonal()) > DEPENDENT].T
        directions = directions[: len(self._basis) - self.size]
        if not len(directions):
            raise IllConditionedError("conjugate gradients find no new direction")
        scaled = self.coupling.factor(directions.T)
        old, new = slice(0, self.size), slice(self.size, self.size + len(directions))
        for matrix, images, compressed in zip(self.matrices, self._images, self._compressed, strict=True):
            images[new] = self.coupling.factor(symmetric_product(matrix, scaled), transpose=True).T
            mixed, own = images[new] @ self.basis.T, images[new] @ directions.T
            compressed[new, old], compressed[old, new] = mixed, mixed.T
            compressed[new, new] = (own + own.T) / 2
        self._basis[new] = directions
        self.size = new.stop
        self.products += 1
        self._decompose()

    def _forget(self, solved: Array) -> Array:
        """Keep the last two solutions, which are all that conjugate gradients ever remember, and the latest directions.

        Returns the solution in its new coordinates.
        """
        before = np.zeros((self.size, self._solved.shape[1]))
        before[: len(self._solved)] = self._solved
        remembered = np.concatenate([solved, before], axis=1)
        latest = np.eye(self.size)[:, -max(1, len(self._basis) // 2 - remembered.shape[1]) :]
        kept = np.linalg.qr(np.concatenate([remembered, latest], axis=1))[0]
        old, self.size = slice(0, self.size), kept.shape[1]
        new = slice(0, self.size)
        self._basis[new] = kept.T @ self._basis[old]
        for images, compressed in zip(self._images, self._compressed, strict=True):
            images[new] = kept.T @ images[old]
            compressed[new, new] = kept.T @ compressed[old, old] @ kept
        return np.asarray(kept.T @ solved)

    def _decompose(self) -> None:
        """V'W V = Q diag(spectrum) Q' for each W."""
        spectra, self.rotations = np.linalg.eigh(self.compressed)
        self.spectra = spectra.clip(min=0)  # this cuts round-off only
        smallest = float(spectra[:, 0].min())
        if smallest < -psd_tolerance(np.dtype(np.float64)) * self.largest:
            raise ValueError(
                f"the kernel is not positive semi-definite: a quadratic form of its Gram operator is {smallest:.3g}. Use a "
                "positive semi-definite kernel."
            )


class KrylovSolver(MultiplyingSolver):
    """From products with kernel matrices alone, in a space V that grows with each of them.

    Each coefficient step is solved exactly within V. If the residual is too large, what a preconditioner makes of it is added to V,
    at the price of one product with each kernel matrix for all outputs together. The space serves every L and B: later steps begin
    where earlier ones ended, and most need no product at all.

    Energies and scatters are more exact than the map, about as the square of its error, since residuals are orthogonal to V.

    Parameters
    ----------
    gram : GramOperator
    coupling : Coupling
    targets : array of shape (n, m)
    columns : sequence of Columns
        Of each kernel matrix.
    tolerance : float
        Of the residual, relative to the map.
    max_products : int
        With each kernel matrix, for all coefficient steps together.
    spare_memory : bool
        Whether nothing of the size of a kernel matrix is held beside it as long as so many products may do without.
    """

    name = "cg"

    def __init__(
        self,
        gram: GramOperator,
        coupling: Coupling,
        targets: Array,
        columns: Sequence[Columns],
        *,
        tolerance: float = 1e-12,
        max_products: int = 2000,
        spare_memory: bool = False,
    ) -> None:
        super().__init__(gram, coupling, targets)
        self.spare_memory = spare_memory
        n, m = targets.shape
        self.tolerance = tolerance
        self.max_products = max_products
        self.preconditioners = [PartialCholesky(own, coupling) for own in columns]
        capacity = min(n, max(min(n // DIMENSION_SHARE, DIMENSIONS), 6 * m))
        largest = max(own.mean_coupling * own.trace for own in self.preconditioners)
        self.space = Space(self._matrices(), coupling, largest, capacity)
        # The targets themselves are the first directions: <Y, gram(Y)> comes with the product for these.
        self.space.extend(self.whitened_targets, np.empty((0, m)))
        size = sum(own.trace for own in self.preconditioners) * self._trace_factor * float(np.sum(targets**2))
        self._visibility = self._pulled() / coupling.regression_weight**2 / size if size > 0 else size

    @property
    def visibility(self) -> float:
        return self._visibility

    # How often the traces of the kernel matrices are counted.
    _trace_factor = 1.0

    @abstractmethod
    def _matrices(self) -> Sequence[SampleGram]:
        """The kernel matrices."""

    @abstractmethod
    def _pulled(self) -> float:
        """<T, W T>, for whitened targets T that are in the space."""

    def _iterate(
        self,
        metric_factor: Array,
        mix: Array | None,
        within: Callable[[], Array],
        directions: Callable[[Array, float], Array],
        tolerance: float,
        *,
        certified: bool,
    ) -> Solution:
        """Solve X A^-1 + W X B = T: ``within`` the space, and by new ``directions`` for a residual and the products that are left.

        ``mix`` is B; ``certified``: a duality gap will be made of the solution.
        """
        inverse_factor = np.linalg.inv(metric_factor)
        inverse_metric = inverse_factor @ inverse_factor.T
        squared_targets = float(np.sum(self.whitened_targets**2))
        least, since, before = np.inf, 0, self.space.products
        first = np.inf
        while True:
            solved = within()
            unknowns, image = self.space.basis.T @ solved, self.space.outputs(solved)
            outputs = image if mix is None else image @ mix
            residual = self.whitened_targets - unknowns @ inverse_metric - outputs
            norm = float(np.linalg.norm(residual))
            wanted = self.allowed_residual(unknowns, outputs, tolerance, certified=certified)
            if norm <= wanted:
                break
            made = self.space.products - before
            first = norm if made == 0 else first
            left = made * np.log(norm / wanted) / max(np.log(first / norm), 1e-3) if made >= PACED else 0.0
            least, since = (norm, 0) if norm < 0.9 * least else (least, since + 1)
            if since > PATIENCE or self.space.products >= self.max_products:
                raise IllConditionedError(
                    f"after {self.space.products} products the residual is {norm / np.sqrt(squared_targets):.2g} of the targets"
                )
            self.space.extend(directions(residual, left), solved)
        return self.solution(metric_factor, unknowns, image, mix, norm, self.space.products - before)

    def coefficients(self, solution: Solution) -> Array:
        return self.coupling.factor(solution.coordinates)


class SeparableKrylov(KrylovSolver):
    """Separable kernels, by products with their one matrix.

    With W = R' K R and L B L' = U diag(b) U', column k of Z U solves (I + b_k W) z = (lambda R^-1 Y L' U)_k, as in the spectral
    solver; within the space z = V (I + b_k V'W V)^-1 V' t. Where the spectrum falls so slowly that many products would be needed, W
    is factorised.
    """

    _whole: WholeCholesky | None = None

    def _matrices(self) -> Sequence[SampleGram]:
        factors = self.gram.kronecker_factors()
        assert factors is not None
        matrix, self.output_matrix = factors
        self._trace_factor = float(np.trace(self.output_matrix))
        return (matrix,)

    def _pulled(self) -> float:
        projected = self.space.basis @ self.whitened_targets
        return float(np.vdot(projected.T @ self.space.compressed[0] @ projected, self.output_matrix))

    def identity_energy(self, n_outputs: int) -> Array | None:
        # A penalty is made of it: two ways to compute it must agree more closely than their maps.
        return self._solve(np.eye(n_outputs), np.eye(n_outputs), 1e-2 * self.tolerance, certified=True).energy

    def solve(self, metric_factor: Array, output_matrix: Array | None = None, start: Solution | None = None) -> Solution:
        if output_matrix is None:
            return self._solve(metric_factor, self.output_matrix, self.tolerance, certified=False)
        return self._solve(metric_factor, output_matrix, self.tolerance, certified=True)

    def _solve(self, metric_factor: Array, output_matrix: Array, tolerance: float, *, certified: bool) -> Solution:
        values, turn = np.linalg.eigh(metric_factor @ output_matrix @ metric_factor.T)
        values = values.clip(min=0)  # L B L' is semi-definite by construction; this cuts round-off only
        turned = metric_factor.T @ turn
        (preconditioner,) = self.preconditioners

        def within() -> Array:
            spectrum, rotation = self.space.spectra[0], self.space.rotations[0]
            rotated = rotation.T @ (self.space.basis @ self.whitened_targets) @ turned
            shrunk = rotated / (1 + np.multiply.outer(spectrum, values))
            return np.asarray(rotation @ shrunk @ turned.T)

        def directions(residual: Array, left: float) -> Array:
            columns = residual @ turned
            lengths = np.linalg.norm(columns, axis=0)
            large = lengths > SMALL_COLUMN * lengths.max()
            whole = self._factorised(float(np.mean(values)), left)
            if whole is not None:
                return whole.solve(columns[:, large])
            preconditioner.suit(float(values[-1]))
            return preconditioner.solve_shifted(columns[:, large], np.ones(large.sum()), values[large])

        with own_threads():  # all that is small beside products with the matrix is faster without
            return self._iterate(metric_factor, output_matrix, within, directions, tolerance, certified=certified)

    def _factorised(self, factor: float, left: float) -> WholeCholesky | None:
        """I + factor W, or with another factor that is near, if it is worth it for so many products that are left."""
        (matrix,) = self.space.matrices
        n, m = self.whitened_targets.shape
        known = self._whole
        if known is not None and 1 / KEPT_FACTOR <= factor / known.factor <= KEPT_FACTOR:
            return known
        affordable = self.max_products - self.space.products if self.spare_memory else n / (READING + MULTIPLYING * m)
        worth = known is not None or (left > affordable and n >= FACTORISED_SAMPLES)
        if worth and factor > 0 and isinstance(matrix, np.ndarray) and fits_in_memory(8.0 * n * n):
            try:
                self._whole = WholeCholesky(matrix, self.coupling, factor, self.space.largest)
            except np.linalg.LinAlgError:  # round-off
                return None
            return self._whole
        return None


class DiagonalKrylov(KrylovSolver):
    """Diagonal kernels, by products with the matrix of each output.

    With X = V Y, column k of the equation within the space is (Y A^-1)_k + V'W_k V y_k = V' t_k, for all outputs together.
    """

    def _matrices(self) -> Sequence[SampleGram]:
        assert isinstance(self.gram, BlockDiagonal)
        return self.gram.sample_grams

    def _pulled(self) -> float:
        projected = self.space.basis @ self.whitened_targets
        return float(np.einsum("ik,kij,jk->", projected, self.space.compressed, projected))

    def solve(self, metric_factor: Array, output_matrix: Array | None = None, start: Solution | None = None) -> Solution:
        if output_matrix is not None:
            raise TypeError("only a separable kernel k(x, x') B has an output matrix to replace.")
        inverse_factor = np.linalg.inv(metric_factor)
        inverse_metric = inverse_factor @ inverse_factor.T
        shifts = np.diag(inverse_metric)
        m = len(shifts)

        def within() -> Array:
            size = self.space.size
            system = np.kron(inverse_metric, np.eye(size)).reshape(m, size, m, size)
            system[np.arange(m), :, np.arange(m), :] += self.space.compressed
            wanted = (self.space.basis @ self.whitened_targets).T.ravel()
            try:
                factor = scipy.linalg.cho_factor(system.reshape(m * size, m * size), lower=True, overwrite_a=True)
            except np.linalg.LinAlgError as error:
                raise IllConditionedError(str(error)) from error
            return np.asarray(scipy.linalg.cho_solve(factor, wanted).reshape(m, size).T)

        def directions(residual: Array, left: float) -> Array:
            found = []
            for k, preconditioner in enumerate(self.preconditioners):
                preconditioner.suit(float(1 / shifts[k]))
                found.append(preconditioner.solve_shifted(residual[:, k : k + 1], shifts[k : k + 1], np.ones(1)))
            return np.concatenate(found, axis=1)

        with own_threads():
            return self._iterate(metric_factor, None, within, directions, self.tolerance, certified=False)

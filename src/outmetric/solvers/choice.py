"""Which solver suits a Gram operator, and whether its matrices are held."""

from __future__ import annotations

from typing import Any

from scipy.sparse.linalg import LinearOperator

from outmetric.foundation import fits_in_memory, n_points, require_memory
from outmetric.kernels import GramOperator, MatrixKernel
from outmetric.solvers.conjugate_gradients import ConjugateGradient
from outmetric.solvers.direct import CholeskySolver, TridiagonalSolver
from outmetric.solvers.solution import SampleSolver

# Up to this many unknowns (samples x outputs) one Cholesky factorisation per iteration is cheaper than anything clever.
DENSE_UNKNOWNS = 1500
# From this many samples on, a few products with the kernel matrix are cheaper than its reduction.
SPECTRAL_SAMPLES = 1500
# Up to this many samples conjugate gradients need no preconditioner.
SMALL_SAMPLES = 1000


def choose_solver(gram: GramOperator) -> tuple[type[SampleSolver], str]:
    """The solver for this operator and the reason in a few words."""
    factors = gram.kronecker_factors()
    n, _, m = gram.shape
    if factors is not None and not isinstance(factors[0], LinearOperator):
        if n > SPECTRAL_SAMPLES:
            return ConjugateGradient, f"{n} samples are more than {SPECTRAL_SAMPLES}, and the kernel is separable"
        return TridiagonalSolver, "the kernel is separable"
    if factors is None and n * m <= DENSE_UNKNOWNS:
        return CholeskySolver, f"the kernel is not separable and the system is small ({n * m} unknowns)"
    if factors is not None:
        return ConjugateGradient, "the kernel matrix is not held in memory"
    return ConjugateGradient, f"the kernel is not separable and the system is large ({n * m} unknowns)"


SOLVERS: dict[str, type[SampleSolver]] = {solver.name: solver for solver in (TridiagonalSolver, CholeskySolver, ConjugateGradient)}


def evaluates_lazily(solver: str, kernel: MatrixKernel, points: Any, held_arrays: int, m: int) -> bool:
    """True if the solver does without Gram matrices: they do not fit, or products are faster without; raises if it cannot.

    ``held_arrays`` is how many (n, n) arrays the similarity and its coupling hold.
    """
    n = n_points(points)
    iterative = solver == ConjugateGradient.name or (solver == "auto" and kernel.is_separable and n > SPECTRAL_SAMPLES)
    if solver == ConjugateGradient.name and kernel.is_separable and m * kernel.scalars[0].product_width(points) <= n:
        return True
    preconditioned = iterative and n > SMALL_SAMPLES and kernel.has_features
    # Kernel matrices, and unless landmarks precondition them their reduced forms.
    matrices = kernel.held_arrays(m) * (1 if preconditioned else 2) + 1 + held_arrays
    n_bytes = 8.0 * matrices * n * n
    if iterative and kernel.can_be_lazy and not fits_in_memory(n_bytes):
        return True
    require_memory(
        n_bytes,
        f"an exact fit on {n} samples ({matrices} arrays of {n} x {n})",
        "solver='nystroem' (approximate, fast), solver='cg', which evaluates the kernel in row blocks, or fit on fewer rows.",
    )
    return False

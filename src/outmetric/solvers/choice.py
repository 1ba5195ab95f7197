"""Which solver suits a Gram operator."""

from __future__ import annotations

from scipy.sparse.linalg import LinearOperator

from outmetric.kernels import GramOperator
from outmetric.solvers.conjugate_gradients import ConjugateGradient
from outmetric.solvers.direct import CholeskySolver, TridiagonalSolver
from outmetric.solvers.solution import SampleSolver

# Up to this many unknowns (samples x outputs) one Cholesky factorisation per iteration is cheaper than anything clever.
DENSE_UNKNOWNS = 1500
# From this many samples on, conjugate gradients that start from a good approximation overtake the reduction of a whole matrix.
SPECTRAL_SAMPLES = 4000


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

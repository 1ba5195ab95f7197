"""How it is minimised: solvers of the coefficient step, the alternation, and a batch of settings on one decomposition."""

from outmetric.solvers.alternation import Record, Trained, alternate, zero_map
from outmetric.solvers.batch import Decomposition, FeatureDecomposition, Maps
from outmetric.solvers.choice import SMALL_SAMPLES, SOLVERS, SPECTRAL_SAMPLES, choose_solver, evaluates_lazily
from outmetric.solvers.conjugate_gradients import ConjugateGradient
from outmetric.solvers.direct import CholeskySolver, TridiagonalSolver
from outmetric.solvers.krylov import DiagonalKrylov, SeparableKrylov
from outmetric.solvers.nystroem import DenseNystroem, NystroemSolver, SpectralNystroem
from outmetric.solvers.preconditioner import Columns
from outmetric.solvers.solution import IllConditionedError, SampleSolver, Solution, Solver, Status

__all__ = [
    "SMALL_SAMPLES",
    "SOLVERS",
    "SPECTRAL_SAMPLES",
    "CholeskySolver",
    "Columns",
    "ConjugateGradient",
    "Decomposition",
    "DenseNystroem",
    "DiagonalKrylov",
    "FeatureDecomposition",
    "IllConditionedError",
    "Maps",
    "NystroemSolver",
    "Record",
    "SampleSolver",
    "SeparableKrylov",
    "Solution",
    "Solver",
    "SpectralNystroem",
    "Status",
    "Trained",
    "TridiagonalSolver",
    "alternate",
    "choose_solver",
    "evaluates_lazily",
    "zero_map",
]

"""How it is minimised: solvers of the coefficient step, the alternation, and a batch of settings on one decomposition."""

from outmetric.solvers.alternation import Factors, MetricStep, OutputMatrixStep, Record, Step, Trained, alternate
from outmetric.solvers.batch import BatchStep, Decomposition, FixedBatch, LearnedBatch, Maps, ReducedDecomposition
from outmetric.solvers.choice import SOLVERS, SPECTRAL_SAMPLES, choose_solver
from outmetric.solvers.conjugate_gradients import ConjugateGradient
from outmetric.solvers.nystroem import ReducedDense, ReducedSolver, ReducedSpectral
from outmetric.solvers.solution import IllConditionedError, Solver, Status

__all__ = [
    "SOLVERS",
    "SPECTRAL_SAMPLES",
    "BatchStep",
    "ConjugateGradient",
    "Decomposition",
    "Factors",
    "FixedBatch",
    "IllConditionedError",
    "LearnedBatch",
    "Maps",
    "MetricStep",
    "OutputMatrixStep",
    "Record",
    "ReducedDecomposition",
    "ReducedDense",
    "ReducedSolver",
    "ReducedSpectral",
    "Solver",
    "Status",
    "Step",
    "Trained",
    "alternate",
    "choose_solver",
]

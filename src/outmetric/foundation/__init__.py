"""What every room may use and no user sees: arrays and their checks, threads, memory, whole files, registries, progress."""

from outmetric.foundation.arrays import Array, n_points, objects, stack, to_array
from outmetric.foundation.files import obstacle, whole, write_whole
from outmetric.foundation.matrices import check_finite, check_psd, check_symmetric, psd_tolerance, require_psd
from outmetric.foundation.memory import available_memory, require_memory
from outmetric.foundation.parameters import check_integer, check_number, generator
from outmetric.foundation.progress import Tell, announce
from outmetric.foundation.registry import Registry
from outmetric.foundation.threads import in_threads, one_blas_thread

__all__ = [
    "Array",
    "Registry",
    "Tell",
    "announce",
    "available_memory",
    "check_finite",
    "check_integer",
    "check_number",
    "check_psd",
    "check_symmetric",
    "generator",
    "in_threads",
    "n_points",
    "objects",
    "obstacle",
    "one_blas_thread",
    "psd_tolerance",
    "require_memory",
    "require_psd",
    "stack",
    "to_array",
    "whole",
    "write_whole",
]

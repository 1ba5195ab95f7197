"""What every room may use and no user sees: arrays and their checks, threads, memory, whole files, registries, progress."""

from outmetric.foundation.arrays import (
    Array,
    check_finite,
    check_psd,
    check_symmetric,
    is_missing,
    n_points,
    objects,
    psd_tolerance,
    require_psd,
    stack,
    to_array,
)
from outmetric.foundation.exportable import EXPORTED, ExportedTransformer, ExportedVotes, exportable, exportable_votes
from outmetric.foundation.files import obstacle, whole, write_whole
from outmetric.foundation.memory import available_memory, fits_in_memory, require_memory
from outmetric.foundation.parameters import check_integer, check_number, described, generator
from outmetric.foundation.progress import Tell, announce, printable
from outmetric.foundation.registry import Registry
from outmetric.foundation.storable import (
    GENEROSITY,
    STORABLE,
    Charge,
    Storing,
    check_same_features,
    how_stored,
    is_fitted,
    row_of_numbers,
    sample_of,
    storable,
    tried_for,
    try_out,
)
from outmetric.foundation.threads import in_threads, one_blas_thread

__all__ = [
    "EXPORTED",
    "GENEROSITY",
    "STORABLE",
    "Array",
    "Charge",
    "ExportedTransformer",
    "ExportedVotes",
    "Registry",
    "Storing",
    "Tell",
    "announce",
    "available_memory",
    "check_finite",
    "check_integer",
    "check_number",
    "check_psd",
    "check_same_features",
    "check_symmetric",
    "described",
    "exportable",
    "exportable_votes",
    "fits_in_memory",
    "generator",
    "how_stored",
    "in_threads",
    "is_fitted",
    "is_missing",
    "n_points",
    "objects",
    "obstacle",
    "one_blas_thread",
    "printable",
    "psd_tolerance",
    "require_memory",
    "require_psd",
    "row_of_numbers",
    "sample_of",
    "stack",
    "storable",
    "to_array",
    "tried_for",
    "try_out",
    "whole",
    "write_whole",
]

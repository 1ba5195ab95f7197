"""What every room may use and no user sees: arrays and their checks, threads, memory, whole files, registries, progress."""

from outmetric.foundation.arrays import (
    Array,
    as_records,
    check_finite,
    check_psd,
    check_symmetric,
    is_missing,
    n_points,
    objects,
    psd_tolerance,
    records,
    require_psd,
    stack,
    to_array,
)
from outmetric.foundation.exportable import EXPORTED, ExportedTransformer, ExportedVotes, exportable, exportable_votes
from outmetric.foundation.files import obstacle, whole, write_whole
from outmetric.foundation.memory import available_memory, fits_in_memory, require_memory
from outmetric.foundation.parameters import check_integer, check_number, generator
from outmetric.foundation.progress import Tell, announce, printable
from outmetric.foundation.registry import Registry
from outmetric.foundation.storable import GENEROSITY, STORABLE, Charge, Storing, check_by_transforming, how_stored, storable
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
    "as_records",
    "available_memory",
    "check_by_transforming",
    "check_finite",
    "check_integer",
    "check_number",
    "check_psd",
    "check_symmetric",
    "exportable",
    "exportable_votes",
    "fits_in_memory",
    "generator",
    "how_stored",
    "in_threads",
    "is_missing",
    "n_points",
    "objects",
    "obstacle",
    "one_blas_thread",
    "printable",
    "psd_tolerance",
    "records",
    "require_memory",
    "require_psd",
    "stack",
    "storable",
    "to_array",
    "whole",
    "write_whole",
]

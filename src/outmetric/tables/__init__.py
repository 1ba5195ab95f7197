"""People's own tables in files: read, written, and models of them."""

from outmetric.columns import Columns, Remedy, TableError, align, check_columns

# Formats enter themselves into the registry.
from outmetric.tables import arff as arff
from outmetric.tables import binary as binary
from outmetric.tables import text as text
from outmetric.tables.blocks import TableFile, lazy_table
from outmetric.tables.fitting import Outcome, fit_table
from outmetric.tables.formats import ReadOptions, TableFormat, register
from outmetric.tables.models import TableModel
from outmetric.tables.reading import read_table
from outmetric.tables.writing import check_output, write_blocks, write_table

__all__ = [
    "Columns",
    "Outcome",
    "ReadOptions",
    "Remedy",
    "TableError",
    "TableFile",
    "TableFormat",
    "TableModel",
    "align",
    "check_columns",
    "check_output",
    "fit_table",
    "lazy_table",
    "read_table",
    "register",
    "write_blocks",
    "write_table",
]

"""People's own tables in files: read, written, and models of them."""

from outmetric.columns import Columns, TableError, align, check_columns
from outmetric.tables.blocks import TableFile
from outmetric.tables.models import Outcome, TableModel, fit_table
from outmetric.tables.reading import read_table
from outmetric.tables.writing import check_output, write_blocks, write_table

__all__ = [
    "Columns",
    "Outcome",
    "TableError",
    "TableFile",
    "TableModel",
    "align",
    "check_columns",
    "check_output",
    "fit_table",
    "read_table",
    "write_blocks",
    "write_table",
]

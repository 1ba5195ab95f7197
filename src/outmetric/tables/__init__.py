"""People's own tables in files: read whole (`reading`) or in blocks (`blocks`), checked (`columns`) and written (`writing`)."""

from outmetric.tables.blocks import TableFile
from outmetric.tables.columns import Columns, align, check_columns
from outmetric.tables.reading import read_table
from outmetric.tables.sources import TableError
from outmetric.tables.writing import check_output, write_blocks, write_table

__all__ = [
    "Columns",
    "TableError",
    "TableFile",
    "align",
    "check_columns",
    "check_output",
    "read_table",
    "write_blocks",
    "write_table",
]

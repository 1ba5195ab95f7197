"""What the columns of a table are, numbers, categories or dates, and how they become numbers."""

from outmetric.columns.contents import content
from outmetric.columns.dates import are_dates, read_dates
from outmetric.columns.encoding import as_learned, check_frame, doubts, held, table_encoder, without_na
from outmetric.columns.errors import Remedy, TableError, shown
from outmetric.columns.kinds import Columns, align, check_columns
from outmetric.columns.origins import column_origins
from outmetric.columns.parts import DateParts
from outmetric.columns.weights import FeatureWeights, weights_of

__all__ = [
    "Columns",
    "DateParts",
    "FeatureWeights",
    "Remedy",
    "TableError",
    "align",
    "are_dates",
    "as_learned",
    "check_columns",
    "check_frame",
    "column_origins",
    "content",
    "doubts",
    "held",
    "read_dates",
    "shown",
    "table_encoder",
    "weights_of",
    "without_na",
]

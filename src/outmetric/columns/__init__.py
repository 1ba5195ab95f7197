"""What the columns of a table are, numbers or categories, and how they become numbers."""

from outmetric.columns.contents import content
from outmetric.columns.encoding import check_frame, table_encoder, without_na
from outmetric.columns.errors import Remedy, TableError, shown
from outmetric.columns.kinds import Columns, align, check_columns
from outmetric.columns.weights import FeatureWeights

__all__ = [
    "Columns",
    "FeatureWeights",
    "Remedy",
    "TableError",
    "align",
    "check_columns",
    "check_frame",
    "content",
    "shown",
    "table_encoder",
    "without_na",
]

"""What the columns of a table are, numbers or categories, and how they become numbers."""

from outmetric.columns.encoding import table_encoder, without_na
from outmetric.columns.errors import TableError, shown
from outmetric.columns.kinds import Columns, align, check_columns
from outmetric.columns.weights import FeatureWeights

__all__ = [
    "Columns",
    "FeatureWeights",
    "TableError",
    "align",
    "check_columns",
    "shown",
    "table_encoder",
    "without_na",
]

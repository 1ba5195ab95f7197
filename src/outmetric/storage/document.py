"""What writer and reader agree on: the values that a document may hold, and the attributes that an object may have."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from outmetric.foundation import Storing

Node = Any  # what JSON can hold
# Parameters that belong to a machine rather than to a model; a file that has them could start processes and write to folders.
LOCAL = frozenset({"n_jobs", "memory"})
ATTRIBUTE = re.compile(r"_?[a-zA-Z][a-zA-Z0-9_]*")
DTYPES = frozenset("?bhilqBHILQefd")
KNOWN_DTYPES = {np.dtype(code).str: np.dtype(code) for code in sorted(DTYPES)}
KNOWN_DTYPES["|O"] = np.dtype(object)
LARGEST_INTEGER = 2**63
# Models may be within models so deep: scikit-learn asks the first and the last step of a pipeline for their tags, and so do these.
DEPTH = 9
# Longer lists of integers and arrays of words are kept as arrays, which are shared.
SHORT = 32


def n_numbers(value: Any) -> int:
    """How many numbers an array or a sparse matrix holds; none if it is neither."""
    return int(getattr(value, "nnz", getattr(value, "size", 0)))


def is_attribute(name: str, kind: type, storing: Storing) -> bool:
    """Whether objects of a class may have a fitted attribute of this name, which hides nothing of the class."""
    return ATTRIBUTE.fullmatch(name) is not None and not hasattr(kind, name) and name not in storing.transient

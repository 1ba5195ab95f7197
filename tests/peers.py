"""What searches of scikit-learn need to be comparable peers of ours in little time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import joblib


class FitsOnce:
    """The memory of a pipeline, in this process: steps that are fitted again to the same rows, with the same settings, are not.

    `GridSearchCV` fits the metric anew for each number of neighbours that vote in it. What it scores is the same with this.
    """

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def __deepcopy__(self, memo: Any) -> FitsOnce:
        return self  # clones of a pipeline share it

    def cache(self, function: Any, ignore: Sequence[str] = ()) -> Any:
        def known(*args: Any, **kwargs: Any) -> Any:
            key = joblib.hash((args, {name: value for name, value in kwargs.items() if name not in ignore}))
            if key not in self.known:
                self.known[key] = function(*args, **kwargs)
            return self.known[key]

        return known

"""What of a table is learned from: its features, each a number, a category or a date, and its target; in later tables, the same."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from outmetric.columns.contents import FEW, content
from outmetric.columns.dates import are_dates, read_dates
from outmetric.columns.errors import Remedy, TableError, shown
from outmetric.foundation import Array, storable

Kind = Literal["number", "category", "date"]
# pandas' words for what a column of objects holds.
TEXT = ("string", "mixed-integer")
NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")
# Which is the day and which the month, nobody can tell.
OTHER_DATES = r"\d{1,2}[./]\d{1,2}[./]\d{2,4}(?: .*)?"
DECIMAL_COMMAS = r"[+-]?[\d.]*,\d+"
# Fewer whole numbers may be consecutive by chance, or count something.
NUMBERED = 20


def identifier_trouble(texts: Sequence[str]) -> str | None:
    """What is wrong with a column of these texts (without its gaps) if most of them, and more than a few, are different."""
    distinct = len(set(texts))
    if distinct <= max(FEW, len(texts) / 2):
        return None
    examples = shown(texts[:2])
    return f"has {distinct} different texts in {len(texts)} rows, such as {examples}, and is probably an identifier or free text"


def numbering_trouble(values: Array) -> str | None:
    """What is wrong with a column of whole numbers if these are consecutive, each there once, in any order."""
    n = len(values)
    if values.dtype.kind not in "iu" or n < NUMBERED:
        return None
    first, last = int(values.min()), int(values.max())
    if last - first + 1 != n or len(np.unique(values)) < n:
        return None
    return f"holds every whole number from {first} to {last} once, and probably numbers the rows"


def text_of(value: Any) -> str:
    """A category as text; whole numbers without decimals, since gaps among them make floats of them."""
    return f"{value:.0f}" if isinstance(value, float | np.floating) and float(value).is_integer() else str(value)


class _Trouble(NamedTuple):
    """What is wrong with a column, and what may mend it beside leaving it out."""

    text: str
    remedies: tuple[Remedy, ...] = ()


def _check_stored(found: Columns, size: int) -> None:
    if type(found.features) is not tuple or type(found.kinds) is not tuple or type(found.classes) is not bool:
        raise ValueError("features, kinds and classes of columns are not what they should be")
    texts = [*found.features, *(name for name in (found.target, found.identifier) if name is not None)]
    if not all(isinstance(name, str) for name in texts) or len(set(texts)) < len(texts):
        raise ValueError("the names of columns are not all text, or not all different")
    if len(found.kinds) != len(found.features) or not set(map(str, found.kinds)) <= set(get_args(Kind)):
        raise ValueError("the kinds of columns are not what they should be")


@storable("Columns", check=_check_stored)
@dataclass(frozen=True)
class Columns:
    """Which columns of a table are used, and as what.

    Attributes
    ----------
    features : tuple of str
        In the order in which they are learned from.
    kinds : tuple of "number", "category" or "date"
        Of the features.
    target : str or None
    classes : bool
        Whether the target holds classes, not real numbers.
    identifier : str or None
        A column that names the rows; it is not learned from.
    """

    features: tuple[str, ...]
    kinds: tuple[Kind, ...]
    target: str | None = None
    classes: bool = True
    identifier: str | None = None

    @property
    def kinds_by_name(self) -> dict[str, Kind]:
        return dict(zip(self.features, self.kinds, strict=True))

    def unused(self, frame: Any) -> list[str]:
        """The columns of a table that have no part in this."""
        used = {*self.features, self.target, self.identifier}
        return [name for name in frame.columns if name not in used]

    def targets(self, frame: Any) -> Array:
        """The target as an array: of text, whole numbers or truth values for classes, of floats for real numbers."""
        column = frame[self.target]
        if not self.classes:
            return np.asarray(column, dtype=np.float64)
        values = np.asarray(column)
        return values if content(values) in ("number", "truth") else np.asarray(_text(column), dtype=str)


def check_columns(
    frame: Any,
    target: str | None,
    *,
    leave_out: Sequence[str] = (),
    identifier: str | None = None,
    source: str = "the table",
) -> Columns:
    """Decide how each column of a table is used, or say of all that cannot be used why.

    Numbers are numbers; dates, also texts such as 2024-02-29 12:30, are dates; other text, truth values and categories are
    categories. Refused are complex numbers, bytes and nested values, times of day and spans of time, infinite numbers, text
    that is mostly numbers or dates (more than 10 different ones), and text of which most values, and more than 10, are different,
    which is probably an identifier or free text. The target holds classes unless it has numbers with decimals.

    Parameters
    ----------
    frame : DataFrame
    target : str or None
        The column to be learned. None: there is none.
    leave_out : names of columns
        Not used.
    identifier : str, optional
        A column that names the rows; not used as a feature.
    source : str
        What messages call the table.

    Raises
    ------
    TableError

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [1.5, 2.5, None], "colour": ["red", "blue", "red"], "kind": [0, 1, 1]})
    >>> check_columns(frame, "kind").kinds
    ('number', 'category')
    """
    named = [name for name in (target, identifier) if name is not None]
    _check_present(frame, [*named, *leave_out], source)
    apart = {*named, *leave_out}
    if len(apart) < len(named) + len(set(leave_out)):
        raise TableError(f"one column cannot be target, identifier or left out at once: {shown([*named, *leave_out])}.")
    if len(frame) < 2:
        raise TableError(f"{source} has {len(frame)} {'row' if len(frame) == 1 else 'rows'}; to learn, at least 2 are needed.")
    features = [name for name in frame.columns if name not in apart]
    if not features:
        raise TableError(f"{source} has no columns to learn from beside {shown([*named, *leave_out])}.")
    plain = _plain_numbers(frame, features)  # one by one would take its time with many columns
    found = {name: ("number", None) if name in plain else _kind(frame[name]) for name in features}
    _check_usable({name: trouble for name, (_, trouble) in found.items()}, source)
    kinds = tuple(kind for kind, _ in found.values())
    classes = target is None or _holds_classes(frame[target], source)
    return Columns(tuple(features), kinds, target, classes, identifier)


def align(frame: Any, columns: Columns, *, source: str = "the table") -> Any:
    """The features of a table for a model: by name, in the model's order, as the model knows them.

    Numbers become float64 and categories text, with NaN where there is no value; dates stay as they are. Further columns are
    left out (`Columns.unused` names them).

    Raises
    ------
    TableError
        If columns are missing, or one should hold numbers or dates and does not, or there are no rows.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"kind": [1, 2], "more": [0, 0], "age": [3, 4]})
    >>> align(frame, Columns(("age", "kind"), ("number", "category"))).values.tolist()
    [[3.0, '1'], [4.0, '2']]
    """
    import pandas as pd

    _check_present(frame, columns.features, source)
    if not len(frame):
        raise TableError(f"{source} has no rows.")
    kinds = columns.kinds_by_name
    plain = _plain_numbers(frame, [name for name, kind in kinds.items() if kind == "number"])
    rest = {name: kind for name, kind in kinds.items() if name not in plain}
    found = {name: _READERS[kind](frame[name]) for name, kind in rest.items()}
    _check_usable({name: trouble for name, (_, trouble) in found.items()}, source, learned_from=kinds)
    others = pd.DataFrame({name: values for name, (values, _) in found.items()}, index=frame.index)
    return pd.concat([plain, others], axis=1)[list(columns.features)]


def _plain_numbers(frame: Any, names: Sequence[str]) -> Any:
    """Those of some columns that hold finite numbers and gaps only, as a table of float64."""
    import pandas as pd

    held = [name for name, dtype in frame[list(names)].dtypes.items() if content(dtype) == "number"]
    values = frame[held].to_numpy(dtype=np.float64, na_value=np.nan)
    finite = ~np.isinf(values).any(axis=0)
    return pd.DataFrame(
        values[:, finite], columns=[name for name, good in zip(held, finite, strict=True) if good], index=frame.index
    )


def _check_present(frame: Any, names: Collection[str], source: str) -> None:
    missing = [name for name in names if name not in frame.columns]
    if not missing:
        return
    own = [str(name) for name in frame.columns]
    close = difflib.get_close_matches(missing[0], own, n=3) or [name for name in own if name.lower() == missing[0].lower()]
    advice = f"Perhaps {shown(close)}?" if close else f"It has {shown(own)}."
    raise TableError(f"{source} has no column{'s' if len(missing) > 1 else ''} {shown(missing)}. {advice}")


def _check_usable(troubles: dict[str, _Trouble | None], source: str, *, learned_from: dict[str, Kind] | None = None) -> None:
    """Raise TableError that names all troubles; what a model has learned from cannot be left out."""
    wrong = {name: trouble for name, trouble in troubles.items() if trouble}
    if not wrong:
        return
    some = "; ".join(f"{shown([name])} {trouble.text}" for name, trouble in list(wrong.items())[:FEW])
    more = f"; and {len(wrong) - FEW} more" if len(wrong) > FEW else ""
    if learned_from is not None:
        expected = " and ".join(sorted({f"{learned_from[name]}s" for name in wrong}))
        raise TableError(f"{source}: {some}{more}. The model was learned from {expected} there.")
    others = dict.fromkeys(remedy for trouble in wrong.values() for remedy in trouble.remedies)
    raise TableError(f"{source}: {some}{more}. Mend this, or leave it out.", Remedy("leave_out", tuple(wrong)), *others)


def _kind(column: Any) -> tuple[Kind, _Trouble | None]:
    """Number, category or date, and what is wrong with the column, if anything is."""
    from pandas.api import types

    if are_dates(column):
        return "date", _dates(column)[1]
    if content(column) == "number":
        return "number", _numbers(column)[1]
    if isinstance(column.dtype, types.CategoricalDtype):
        return "category", _foreign(types.infer_dtype(column.cat.categories))
    held = types.infer_dtype(column, skipna=True)
    return _kind_of_text(column) if held in TEXT else ("number" if held in NUMBERS else "category", _foreign(held))


def _foreign(held: str) -> _Trouble | None:
    """What is wrong with such values, by pandas' names for them."""
    if held in (*TEXT, *NUMBERS, "boolean", "empty"):
        return None
    if held.startswith("date"):
        return _Trouble("holds dates")
    if held.startswith(("time", "period")):
        return _Trouble("holds times of day or spans of time; turn them into numbers, such as seconds")
    return _Trouble(f"holds {'complex numbers' if held == 'complex' else 'bytes' if held == 'bytes' else 'nested or mixed values'}")


def _kind_of_text(column: Any) -> tuple[Kind, _Trouble | None]:
    import pandas as pd

    texts = pd.Series(_text(column), dtype=object)
    given = texts.dropna()
    numbers = pd.to_numeric(given, errors="coerce")
    apart = identifier_trouble(given.tolist())
    if numbers.notna().mean() > 0.5 and (numbers.nunique() > FEW or apart):
        return "number", _numbers(texts)[1]
    if given.str.fullmatch(OTHER_DATES).all():
        return "category", _Trouble(f"holds dates, such as {shown(given.tolist()[:1])}; write them as 2024-02-29, year first")
    if apart is None:
        return "category", None
    if given.str.fullmatch(DECIMAL_COMMAS).mean() > 0.5:
        held = f"seems to hold numbers with commas, such as {shown(given.tolist()[:1])}"
        advice = "say which is the decimal mark, and leave out marks of thousands"
        return "category", _Trouble(f"{held}; {advice}", (Remedy("decimal"),))
    return "category", _Trouble(apart)


def _numbers(column: Any) -> tuple[Array, _Trouble | None]:
    """The column as floats, and what is wrong with it, if anything is."""
    import pandas as pd
    from pandas.api import types

    if content(column) in ("number", "truth"):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        if trouble := _foreign(types.infer_dtype(column, skipna=True)):
            return np.empty(0), trouble
        values = pd.to_numeric(column.astype(object), errors="coerce").to_numpy(dtype=np.float64)
        wrong = np.flatnonzero(np.isnan(values) & column.notna().to_numpy())
        if len(wrong):
            others = f", and {len(wrong) - 1} more such rows" if len(wrong) > 1 else ""
            first = shown([column.iloc[wrong[0]]])
            return values, _Trouble(f"should hold numbers, but has {first} in row {wrong[0] + 1}{others}")
    infinite = np.isinf(values)
    return values, _Trouble(f"has an infinite number in row {infinite.argmax() + 1}") if infinite.any() else None


def _dates(column: Any) -> tuple[Any, _Trouble | None]:
    """The column as it is, and what is wrong with it, if not all of it are dates."""
    try:
        read_dates(column)
    except ValueError as error:
        return column, _Trouble(str(error))
    return column, None


def _text(column: Any) -> Any:
    """The column as text, NaN where there is no value."""
    import pandas as pd

    cells = zip(column.astype(object), column.isna(), strict=True)
    return pd.Series([np.nan if missing else text_of(value) for value, missing in cells], index=column.index, dtype=object)


def _holds_classes(column: Any, source: str) -> bool:
    """Whether the target holds classes; otherwise it is real."""
    name = shown([column.name])
    missing = int(column.isna().sum())
    if missing:
        first = int(column.isna().to_numpy().argmax()) + 1
        raise TableError(
            f"{source}: {missing} of {len(column)} values of the target {name} are missing, the first in row {first}. Remove those "
            "rows; if a word such as NA is a class, put it in quotes."
        )
    kind, trouble = _kind(column)
    trouble = _Trouble("holds dates, which are learned from, but not predicted") if kind == "date" else trouble
    if trouble:
        raise TableError(f"{source}: the target {name} {trouble.text}.", *trouble.remedies)
    if column.nunique() < 2:
        raise TableError(f"{source}: the target {name} has one value only, {shown([column.iloc[0]])}; there is nothing to learn.")
    return kind == "category" or bool((np.rint(values := _numbers(column)[0]) == values).all())


# How columns are read that a model knows as one of these.
_READERS: dict[Kind, Any] = {"number": _numbers, "category": lambda column: (_text(column), None), "date": _dates}

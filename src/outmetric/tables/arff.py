"""Tables in ARFF, the format of Weka and OpenML: numbers, categories, strings, gaps, rows in full or sparse.

SciPy's reader knows neither strings nor sparse rows, and the one that scikit-learn keeps for OpenML is private.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from outmetric.columns import TableError, shown
from outmetric.foundation import Array
from outmetric.tables.formats import ReadOptions, TableFormat, register
from outmetric.tables.sources import arrow_package, check_names, check_room
from outmetric.tables.text import lines

QUOTED = r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\""""
VALUE = rf"""(?:(?:{QUOTED})\s*|([^\s,'"{{}}][^,\t{{}}]*)?)(?:([,\t])|$)"""
CELL = re.compile(rf"\s*{VALUE}")
ENTRY = re.compile(rf"\s*(\d{{1,9}})\s+{VALUE}")
ATTRIBUTE = re.compile(rf"""@attribute\s+(?:{QUOTED}|([^\s'"{{][^\s{{]*))\s*(.*)$""", re.IGNORECASE)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
NUMBERS = ("numeric", "real", "integer")
TEXTS = ("string", "date")
# Cells that are read at once, and the bytes that one takes in the end.
BLOCK = 2**20
CELL_SIZE = 16


@dataclass(frozen=True)
class Attribute:
    """A column as the header declares it: numbers, or text, perhaps of some values only."""

    name: str
    number: bool
    values: tuple[str, ...] | None = None

    @property
    def unsaid(self) -> str:
        """What a sparse row means where it says nothing: zero, or the first category."""
        return self.values[0] if self.values else "0"


def _is_arff(text: str) -> bool:
    """Whether the first line that is no comment declares a relation."""
    return next((line for _, line in _lines(text)), "").lower().startswith("@relation")


def _read_arff(text: str, name: str, options: ReadOptions) -> Any:
    """A DataFrame from ARFF; a question mark without quotes is a missing value."""
    arrow_package()
    import pandas as pd

    numbered = _lines(text)
    attributes, last = _header(numbered, name)
    check_names([attribute.name for attribute in attributes], name)
    # Sparse rows can be short in the file, and are long here.
    check_room(float(CELL_SIZE) * len(attributes) * sum(1 for number, _ in _lines(text) if number > last), name)
    height = max(1, BLOCK // len(attributes))
    blocks: list[list[Array]] = []
    while block := list(islice(numbered, height)):
        blocks.append(_columns(block, attributes, name))
    empty = [_columns([], attributes, name)]
    columns: dict[str, Any] = {}
    for attribute, *parts in zip(attributes, *(blocks or empty), strict=True):
        whole = np.concatenate(parts)
        values = attribute.values
        columns[attribute.name] = whole if values is None else pd.Categorical(whole, categories=list(dict.fromkeys(values)))
    return pd.DataFrame(columns)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines with their numbers, without blank ones and comments."""
    for number, line in enumerate(lines(text), start=1):
        line = line.strip()
        if line and not line.startswith("%"):
            yield number, line


def _header(numbered: Iterator[tuple[int, str]], name: str) -> tuple[list[Attribute], int]:
    """The columns, and the number of the header's last line."""
    attributes: list[Attribute] = []
    for number, line in numbered:
        word = line.split(maxsplit=1)[0].lower()
        if word == "@data":
            if not attributes:
                raise TableError(f"{name} declares no attributes before line {number}, @data.")
            return attributes, number
        if word == "@attribute":
            attributes.append(_attribute(line, f"{name}, line {number}"))
        elif word != "@relation":
            raise TableError(f"{name}, line {number}: @attribute or @data must come here, not {shown([line])}.")
    raise TableError(f"{name} has no line @data; it is not ARFF, or not all of it.")


def _attribute(line: str, where: str) -> Attribute:
    match = ATTRIBUTE.match(line)
    if match is None:
        raise TableError(f"{where}: {shown([line])} should be: @attribute name type.")
    name, kind = _text(match) or "", match[4].strip()
    if kind.startswith("{") and kind.endswith("}"):
        values = [value for value in _cells(kind[1:-1], where) if value is not None]
        return Attribute(name, False, tuple(values))
    word = kind.split(maxsplit=1)[0].lower() if kind else ""
    if word not in (*NUMBERS, *TEXTS):
        raise TableError(
            f"{where}: {shown([kind])} is none of the types known here: {', '.join((*NUMBERS, *TEXTS))}, {{a, b, ...}}."
        )
    return Attribute(name, word in NUMBERS)


def _row(line: str, attributes: list[Attribute], where: str) -> list[str | None]:
    if line.startswith("{") and line.endswith("}"):
        cells: list[str | None] = [attribute.unsaid for attribute in attributes]
        for place, value in _entries(line[1:-1].strip(), where).items():
            if place >= len(cells):
                raise TableError(f"{where}: there is no attribute {place}; they are counted from 0, and there are {len(cells)}.")
            cells[place] = value
        return cells
    cells = _cells(line, where)
    if len(cells) != len(attributes):
        raise TableError(f"{where}: {len(cells)} values for {len(attributes)} attributes. Text with commas or blanks needs quotes.")
    return cells


def _cells(line: str, where: str) -> list[str | None]:
    """The values between commas or tabs; None for missing ones."""
    if not any(mark in line for mark in "'\"{}\t"):
        return [None if cell == "?" else cell for cell in map(str.strip, line.split(","))]
    cells, place, more = [], 0, True
    while more:
        match = CELL.match(line, place)
        if match is None:
            raise TableError(f"{where}: {shown([line[place:]])} cannot be cut into values; is a quote not closed?")
        cells.append(_text(match))
        place, more = match.end(), match[4] is not None
    return cells


def _entries(line: str, where: str) -> dict[int, str | None]:
    """The values of a sparse row by the number of their attribute."""
    entries: dict[int, str | None] = {}
    place, more = 0, bool(line)
    while more:
        match = ENTRY.match(line, place)
        if match is None or int(match[1]) in entries:
            raise TableError(f"{where}: {shown([line[place:]])} should be: {{number value, number value, ...}}, each number once.")
        entries[int(match[1])] = _text(match, after=1)
        place, more = match.end(), match[5] is not None
    return entries


def _text(match: re.Match[str], after: int = 0) -> str | None:
    """The value in single quotes, in double ones, or bare, of which "?" is a missing one."""
    single, double, bare = match.groups()[after : after + 3]
    quoted = single if single is not None else double
    if quoted is not None:
        return re.sub(r"\\(.)", lambda escape: ESCAPES.get(escape[1], escape[1]), quoted)
    bare = (bare or "").strip()
    return None if bare == "?" else bare


def _columns(numbered: list[tuple[int, str]], attributes: list[Attribute], name: str) -> list[Array]:
    """Some rows, each column as an array of numbers or of texts."""
    places = [f"{name}, line {number}" for number, _ in numbered]
    rows = [_row(line, attributes, place) for place, (_, line) in zip(places, numbered, strict=True)]
    return [_column([row[k] for row in rows], attribute, places) for k, attribute in enumerate(attributes)]


def _column(cells: list[str | None], attribute: Attribute, places: list[str]) -> Array:
    if attribute.number:
        numbers = np.full(len(cells), np.nan)
        for row, cell in enumerate(cells):
            if cell is not None:
                try:
                    numbers[row] = float(cell.replace("_", "?"))  # Python's own 1_000 is no number here
                except ValueError:
                    raise TableError(f"{places[row]}: {shown([cell])} in {shown([attribute.name])} is not a number.") from None
        return numbers
    if attribute.values is not None:
        allowed = {None, *attribute.values}
        wrong = next((row for row, cell in enumerate(cells) if cell not in allowed), None)
        if wrong is not None:
            raise TableError(f"{places[wrong]}: {shown([cells[wrong]])} is no declared value of {shown([attribute.name])}.")
    return np.array(cells, dtype=object)


register(TableFormat("arff", (".arff",), _read_arff, is_text=True, is_content=_is_arff))

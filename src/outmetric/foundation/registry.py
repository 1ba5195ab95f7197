"""Registries. They stand at the bottom, so that a class can enter itself, and nothing below has to know it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

Entry = TypeVar("Entry")


class Registry(Mapping[str, Entry], Generic[Entry]):
    """Names and what they stand for, in the order in which they came; a name is given once.

    Parameters
    ----------
    what : str
        What the entries are, in messages.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._entries: dict[str, Entry] = {}

    def add(self, name: str, entry: Entry, *, replace: bool = False) -> None:
        """Enter something; the same once more is no error, and another of the name only with ``replace``."""
        if not isinstance(name, str) or not name:
            raise ValueError(f"the name of a {self.what} must be a text, not {name!r}.")
        if not replace and self._entries.get(name, entry) is not entry:
            raise ValueError(f"there is another {self.what} of the name {name!r}; choose another name.")
        self._entries[name] = entry

    def __getitem__(self, name: str) -> Entry:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

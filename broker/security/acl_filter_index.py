"""Finds the first filter that matches an access control entry (decision).

A request may hold very many filters, and a pattern very many entries. Filters are therefore found
by their values: each field is either the entry's or left open, so 16 look-ups find every filter
that matches an entry.
"""

from __future__ import annotations

from itertools import product
from typing import Final

from kafkawire.acl import AclEntry, AclFilter, Operation, Permission

_Key = tuple[str | None, str | None, Operation, Permission]

_OPEN: Final = (None, None, Operation.ANY, Permission.ANY)


class AclFilterIndex:
    """Filters of one pattern, by the entries that they match."""

    def __init__(self) -> None:
        self._first: dict[_Key, int] = {}

    def __bool__(self) -> bool:
        """Whether there is a filter."""
        return bool(self._first)

    def add(self, place: int, wanted: AclFilter) -> None:
        """Add the filter at `place`; places only grow."""
        key = (wanted.principal, wanted.host, wanted.operation, wanted.permission)
        self._first.setdefault(key, place)

    def first_match(self, entry: AclEntry) -> int | None:
        """Return the smallest place of a filter that matches `entry`; None if none does."""
        values = (entry.principal, entry.host, entry.operation, entry.permission)
        keys = product(*zip(values, _OPEN, strict=True))
        return min((self._first[key] for key in keys if key in self._first), default=None)

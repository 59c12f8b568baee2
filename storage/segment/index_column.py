"""The columns of a read-only index file (edge over its file).

A separate module, because `bisect` does not accept a sequence type that was compiled together with
it (docs/adr/0043-hot-modules-are-compiled.md).
"""

from struct import Struct
from typing import Final, Protocol

PAGE_ENTRIES: Final = 512
"""Entries per read of a closed index: the last nine steps of a lookup then need no system call
(benchmarks/micro/test_log_read.py)."""


class Pages(Protocol):
    """A file of entries, read page by page."""

    def page(self, number: int) -> bytes:
        """Return the bytes of `PAGE_ENTRIES` entries, or of fewer at the end of the file."""


class Column(Protocol):
    """A sorted sequence of numbers, as `bisect` needs it."""

    def __len__(self) -> int: ...

    def __getitem__(self, slot: int, /) -> int: ...


class FileColumn:
    """One column of an index file, read page by page; `bisect` ends within one page."""

    __slots__ = ("_count", "_entry_bytes", "_file", "_number", "_offset")

    def __init__(
        self, file: Pages, number: Struct, offset: int, entry_bytes: int, count: int
    ) -> None:
        self._file = file
        self._number = number
        self._offset = offset
        self._entry_bytes = entry_bytes
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, slot: int, /) -> int:
        if slot < 0:
            slot += self._count
        if not 0 <= slot < self._count:
            raise IndexError(slot)
        page, slot_in_page = divmod(slot, PAGE_ENTRIES)
        data = self._file.page(page)
        number: int = self._number.unpack_from(
            data, slot_in_page * self._entry_bytes + self._offset
        )[0]
        return number

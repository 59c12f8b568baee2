"""Where the checks get a segment's bytes from. Decision: an interface, and bytes in memory."""

from typing import Protocol


class ByteSource(Protocol):
    """A file of a known size that can be read at any position."""

    @property
    def size_bytes(self) -> int:
        """Size when it was opened, or at the last `has_grown_to`."""

    def read(self, position: int, size_bytes: int) -> memoryview:
        """Return the bytes from `position`, fewer than asked for at the end only."""

    def has_grown_to(self, size_bytes: int) -> bool:
        """Whether a live writer has made the file at least this large meanwhile."""


class BytesSource:
    """A source over bytes that never grow."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data = memoryview(data)

    @property
    def size_bytes(self) -> int:
        """How many bytes there are."""
        return len(self._data)

    def read(self, position: int, size_bytes: int) -> memoryview:
        """Return a view of up to `size_bytes` from `position`; fewer at the end only."""
        return self._data[position : position + size_bytes]

    def has_grown_to(self, size_bytes: int) -> bool:
        """Whether there are so many bytes; there will not be more."""
        return len(self._data) >= size_bytes

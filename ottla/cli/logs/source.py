"""Sources of a segment's bytes. Decision: an interface, and bytes in memory."""

from typing import Protocol


class ByteSource(Protocol):
    """A file of a known size that can be read at any position."""

    @property
    def size_bytes(self) -> int:
        """Size when the file was opened, or at the last `has_grown_to`."""

    def read(self, position: int, size_bytes: int) -> memoryview:
        """Return `size_bytes` bytes from `position`, fewer only at the end."""

    def has_grown_to(self, size_bytes: int) -> bool:
        """Whether the file has at least this size by now, since a live broker may append."""


class BytesSource:
    """A source over bytes that never grow."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data = memoryview(data)

    @property
    def size_bytes(self) -> int:
        """Number of bytes."""
        return len(self._data)

    def read(self, position: int, size_bytes: int) -> memoryview:
        """Return a view of `size_bytes` bytes from `position`, shorter only at the end."""
        return self._data[position : position + size_bytes]

    def has_grown_to(self, size_bytes: int) -> bool:
        """Whether the bytes have at least this size, which never changes."""
        return len(self._data) >= size_bytes

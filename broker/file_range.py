"""The rest of a file region on its way to a client (edge).

Keeps the file open until the last byte has left, and never gives more than was promised, nor
less: a file that ends before the region does is an error.
"""

from __future__ import annotations

import os
from typing import Protocol


class OpenFile(Protocol):
    """A file that can be read as long as it is referenced, also when it is deleted meanwhile."""

    def fileno(self) -> int:
        """Its descriptor."""


class Region(Protocol):
    """A range of a file that is part of a response."""

    @property
    def file(self) -> OpenFile:
        """Where the bytes are."""

    @property
    def position(self) -> int:
        """First byte."""

    @property
    def size_bytes(self) -> int:
        """Number of bytes, as promised to the client."""


class TruncatedRegionError(Exception):
    """The file ends before the region does: what was promised cannot be sent."""


class FileRange:
    """What is left of one region."""

    __slots__ = ("_file", "_position", "bytes_left", "size_bytes")

    def __init__(self, region: Region) -> None:
        self._file = region.file
        self._position = region.position
        self.size_bytes = region.size_bytes
        self.bytes_left = region.size_bytes

    def read(self, limit_bytes: int) -> bytes:
        """Return the next bytes, at most `limit_bytes`; at the end, none.

        Raises:
            TruncatedRegionError: the file is too short.
            OSError: the file cannot be read.
        """
        wanted = min(limit_bytes, self.bytes_left)
        data = os.pread(self._file.fileno(), wanted, self._position) if wanted else b""
        self._advance(len(data), wanted)
        return data

    def send(self, socket_descriptor: int, limit_bytes: int) -> int:
        """Send the next bytes without a copy and return how many the socket took.

        Raises:
            TruncatedRegionError: the file is too short.
            BlockingIOError: the socket takes none now.
            OSError: the connection is lost, or the file cannot be read.
        """
        wanted = min(limit_bytes, self.bytes_left)
        count = os.sendfile(socket_descriptor, self._file.fileno(), self._position, wanted)
        self._advance(count, wanted)
        return count

    def _advance(self, count: int, wanted: int) -> None:
        if wanted and not count:
            raise TruncatedRegionError(
                f"the file ends at {self._position}, {self.bytes_left} of "
                f"{self.size_bytes} bytes that were promised are missing"
            )
        self._position += count
        self.bytes_left -= count

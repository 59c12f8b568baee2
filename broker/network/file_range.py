"""The unsent part of a file region (edge).

It keeps the file open until the last byte is sent, and yields exactly the promised bytes: a file
that ends before the region does is an error. It also reports whether the next bytes are in memory,
because a read from the disk would block the whole loop.
"""

from __future__ import annotations

import os
from typing import Final

from broker.network.response import Region
from kafkawire.units import KIB, MIB

# Size of the window that is probed, and read ahead if it is not in memory.
WINDOW_BYTES: Final = 2 * MIB
WARM_UP_READ_BYTES: Final = 256 * KIB
# The system's minimum read-ahead: if the first byte is in memory, the following ones are too.
ONE_PROBE_BYTES: Final = 64 * KIB

# Linux answers such a probe without waiting. Elsewhere all bytes count as in memory.
_NO_WAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)


class TruncatedRegionError(Exception):
    """The file ends before the region does: the promised bytes cannot be sent."""


class FileRange:
    """The unsent part of one region."""

    __slots__ = ("_end", "_file", "_position", "_warm_end", "size_bytes")

    def __init__(self, region: Region) -> None:
        # Each once, because the attributes of a region are slow to read.
        position, size_bytes = region.position, region.size_bytes
        self._file = region.file
        self.size_bytes = size_bytes
        self._position = position
        self._end = position + size_bytes
        # Bytes below this position need no further probe.
        self._warm_end = position

    @property
    def bytes_left(self) -> int:
        """Number of bytes not yet sent or read."""
        return self._end - self._position

    def is_cold(self) -> bool:
        """Whether the next bytes are probably not in memory.

        This probes the first and the last byte of each window; a missing page between them costs
        one blocking read.
        """
        if self._position < self._warm_end or not self.bytes_left:
            return False
        window_end = self._window_end
        if self._is_missing(self._position):
            return True
        is_long = window_end - self._position > ONE_PROBE_BYTES
        if is_long and self._is_missing(window_end - 1):
            return True
        self._warm_end = window_end
        return False

    def warm_up(self) -> None:
        """Read the next window into the page cache. This blocks: never call it in the loop."""
        position, self._warm_end = self._position, self._window_end
        while position < self._warm_end:
            count = min(WARM_UP_READ_BYTES, self._warm_end - position)
            os.pread(self._file.fileno(), count, position)
            position += count

    def read(self, limit_bytes: int) -> bytes:
        """Return the next bytes, at most `limit_bytes`; none at the end.

        Raises:
            TruncatedRegionError: the file is too short.
            OSError: the file cannot be read.
        """
        wanted = min(limit_bytes, self._known_end - self._position)
        data = os.pread(self._file.fileno(), wanted, self._position) if wanted else b""
        self._advance(len(data), wanted)
        return data

    def send(self, socket_descriptor: int, limit_bytes: int) -> int:
        """Send the next bytes without a copy, at most `limit_bytes`; return the number sent.

        The system accepts only some hundred KiB per call, so this repeats the call until the
        socket is full or the next bytes may have to be read from the disk.

        Raises:
            TruncatedRegionError: the file is too short.
            BlockingIOError: the socket is full.
            OSError: the connection is lost, or the file cannot be read.
        """
        sent_bytes, file_descriptor = 0, self._file.fileno()
        end = min(self._position + limit_bytes, self._known_end)
        while self._position < end:
            wanted = end - self._position
            try:
                count = os.sendfile(socket_descriptor, file_descriptor, self._position, wanted)
            except BlockingIOError:
                if sent_bytes:
                    break
                raise
            self._advance(count, wanted)
            sent_bytes += count
        return sent_bytes

    @property
    def _known_end(self) -> int:
        """End of the bytes that may be sent without a further probe."""
        return self._warm_end if self._position < self._warm_end else self._end

    @property
    def _window_end(self) -> int:
        return min(self._end, self._position + WINDOW_BYTES)

    def _is_missing(self, position: int) -> bool:
        if not _NO_WAIT:
            return False
        try:
            os.preadv(self._file.fileno(), [bytearray(1)], position, _NO_WAIT)
        except BlockingIOError:
            return True
        except OSError:
            # The file system does not support the probe, or the read itself will fail as well.
            return False
        return False

    def _advance(self, count: int, wanted: int) -> None:
        if wanted and not count:
            raise TruncatedRegionError(
                f"the file ends at {self._position}, {self.bytes_left} of "
                f"{self.size_bytes} promised bytes are missing"
            )
        self._position += count

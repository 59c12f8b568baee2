"""A minimal server in Python that stores records (edge).

`python -m benchmarks.loads.bare_store PORT FILE ANSWER_BYTES`. Blocking calls over one epoll:
receive, check a CRC-32C, write to a file, respond. It parses only the size of a frame, and does not
validate, index or distribute anything. The difference to a broker is the cost of the broker; the
difference to a plain stream is the cost of the operating system, which no server can avoid.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import crc32c

from benchmarks.loads.frame_loop import serve_frames


class _Store:
    """A store of all frames of all clients in a single file."""

    def __init__(self, file_descriptor: int, answer_bytes: int) -> None:
        self._file_descriptor = file_descriptor
        self._answer = bytes(answer_bytes)
        self._position = 0

    def keep(self, frame: memoryview) -> bytes:
        """Write a frame, and return its response."""
        crc32c.crc32c(frame)
        self._position += os.pwrite(self._file_descriptor, frame, self._position)
        return self._answer


def main(arguments: list[str]) -> None:
    """Serve until killed."""
    port, path, answer_bytes = int(arguments[0]), Path(arguments[1]), int(arguments[2])
    with path.open("wb", buffering=0) as file:
        serve_frames(port, _Store(file.fileno(), answer_bytes).keep)


if __name__ == "__main__":
    main(sys.argv[1:])

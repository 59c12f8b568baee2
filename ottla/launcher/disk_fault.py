"""The disk of one process: full on request, and without syncs (edge).

The calls through which logs and checkpoints allocate space then fail with ENOSPC, and the file
system reports no free space, as on a full disk. Reads, deletions and truncations work, and so does
output to streams. The cost is one function call per write.

Tests kill processes and not machines, and the system's page cache survives a killed process. Syncs
would only take time, most of all on a busy disk.
"""

import errno
import os
from collections.abc import Callable
from typing import Any, Final

ALLOCATING: Final = ("pwrite", "posix_fallocate")
SYNCS: Final = ("fsync", "fdatasync")
FREE_FIELDS: Final = (3, 4)
"""Places of f_bfree and f_bavail in a `statvfs_result`."""


class DiskFault:
    """Full while the first byte of `full` is not zero."""

    def __init__(self, full: Any) -> None:
        self._full = full

    def install(self) -> None:
        """Replace the functions of `os` in this process, which must still be about to start."""
        for name in ALLOCATING:
            setattr(os, name, self._failing(getattr(os, name)))
        os.statvfs = self._without_space(os.statvfs)

    def _failing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        full = self._full

        def checked(*arguments: Any) -> Any:
            if full[0]:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return call(*arguments)

        return checked

    def _without_space(self, call: Callable[..., Any]) -> Callable[..., Any]:
        full = self._full

        def measured(path: Any) -> Any:
            found = call(path)
            if not full[0]:
                return found
            fields = [0 if place in FREE_FIELDS else value for place, value in enumerate(found)]
            return os.statvfs_result(fields)

        return measured


def skip_syncs() -> None:
    """Let syncs of files return at once in this process, which must still be about to start."""
    for name in SYNCS:
        setattr(os, name, lambda _file: None)

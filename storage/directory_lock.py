"""`.lock`: one process per log dir (edge)."""

import fcntl
import os
from pathlib import Path

from storage.errors import LogDirLockedError


class DirectoryLock:
    """The lock on the file at `path`, held until `release` or the end of the process.

    Raises:
        LogDirLockedError: another one holds it.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # Both kinds: this one also sees a second lock of our own process, ...
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # ... and this one is what Kafka itself takes.
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            self.release()
            raise LogDirLockedError(
                f"{path.parent} is in use by another broker: stop it, or use another log dir"
            ) from error

    def release(self) -> None:
        """Give the directory free."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

"""`.lock`: one process per log dir (edge).

Holding it is the evidence that no other process uses the log dir, in whatever container or on
whatever machine that process may run.
"""

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

from storage.checkpoint import sync_directory
from storage.errors import LogDirLockedError, StorageError
from storage.layout import LOCK


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


def lock_directory(path: Path) -> DirectoryLock:
    """Make the log dir at `path`, unless it is there, and lock it.

    Raises:
        LogDirLockedError: another process holds the lock.
        OSError: it cannot be made or locked.
    """
    if not path.is_dir():
        path.mkdir(parents=True)
        sync_directory(path.parent)
    return DirectoryLock(path / LOCK)


def lock_usable(paths: Iterable[Path]) -> dict[Path, DirectoryLock]:
    """Lock those of the log dirs at `paths` that can be used; one that is named twice once.

    Raises:
        LogDirLockedError: another process holds one; none is locked then.
        StorageError: none can be used.
    """
    locks: dict[Path, DirectoryLock] = {}
    failures: list[str] = []
    try:
        for path in {path.resolve(): path for path in paths}.values():
            try:
                locks[path] = lock_directory(path)
            except OSError as error:
                failures.append(str(error))
    except LogDirLockedError:
        for lock in locks.values():
            lock.release()
        raise
    if not locks:
        raise StorageError(f"no log dir can be used: {'; '.join(failures)}")
    return locks

"""`.lock`: one process per log dir (edge).

The holder knows that no other process uses the log dir, even from another container or machine.
"""

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

from storage.disk.checkpoint import sync_directory
from storage.disk.layout import LOCK
from storage.errors import LogDirLockedError, StorageError


class DirectoryLock:
    """The lock on the file at `path`, held until `release` or the end of the process.

    Raises:
        LogDirLockedError: another process holds it.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # Two kinds: `flock` also detects a second lock of the same process, ...
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # ... and `lockf` is the lock that Kafka takes.
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            self.release()
            raise LogDirLockedError(
                f"{path.parent} is in use by another broker: stop it, or use another log dir"
            ) from error

    def release(self) -> None:
        """Release the lock."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def lock_directory(path: Path) -> DirectoryLock:
    """Create the log dir at `path` if it is missing, and lock it.

    Raises:
        LogDirLockedError: another process holds the lock.
        OSError: the log dir cannot be created or locked.
    """
    if not path.is_dir():
        path.mkdir(parents=True)
        sync_directory(path.parent)
    return DirectoryLock(path / LOCK)


def lock_usable(paths: Iterable[Path]) -> dict[Path, DirectoryLock]:
    """Lock all usable log dirs at `paths`; a duplicate path is locked once.

    Raises:
        LogDirLockedError: another process holds one of the locks. None is held on return.
        StorageError: no log dir is usable.
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

"""Data directory of a coordinator (edge): its lock, its identity, and the names of its files.

lock                    held (flock) while a coordinator or a repair runs
store                   msgpack [store id, secret], 0600; the secret keys session passwords;
                        locked (flock) while a snapshot is made, and while a repair truncates
wal-<first zxid>.log    see `wal`
snap-<zxid>.msgpack     see `snapshot`
"""

import fcntl
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from coordination.errors import DataError, DirectoryLockedError
from coordination.server.disk.wal import STORE_ID_BYTES, pack, unpack

SECRET_BYTES: Final = 32
KEPT_SNAPSHOTS: Final = 2


class Identity(NamedTuple):
    """Identity of this store."""

    store_id: bytes
    secret: bytes


class DataDir:
    """Open and locked data directory."""

    def __init__(self, path: Path) -> None:
        """Create the directory if needed, and lock it.

        Raises:
            DirectoryLockedError: another process holds the lock.
            DataError: the directory cannot be used.
        """
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DataError(f"cannot use {path} as data directory: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise DirectoryLockedError(
                f"another coordinator uses {path}: stop it, or choose another directory"
            ) from None
        try:
            for unfinished in path.glob("*.tmp"):
                unfinished.unlink(missing_ok=True)
            self.identity = self._load_identity()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the lock."""
        os.close(self._lock)

    def _load_identity(self) -> Identity:
        path = self.path / "store"
        if not path.exists():
            if segments_of(self.path) or snapshots_of(self.path):
                raise DataError(f"{path} is missing, but data exists: restore it from a backup")
            _write_private(path, pack([os.urandom(STORE_ID_BYTES), os.urandom(SECRET_BYTES)]))
        return read_identity(self.path)


def read_identity(directory: Path) -> Identity:
    """Return the identity of the store in `directory`.

    Raises:
        DataError: its file is damaged.
    """
    path = directory / "store"
    try:
        store_id, secret = unpack(path.read_bytes())
    except (ValueError, TypeError) as error:
        raise DataError(f"{path} is damaged: restore it from a backup") from error
    return Identity(store_id, secret)


@contextmanager
def making_snapshot(directory: Path) -> Iterator[None]:
    """Keep the log from being truncated while a process makes a snapshot of it.

    The lock of the directory cannot do this, because the process may outlive its coordinator.

    Raises:
        DirectoryLockedError: the log is being truncated.
    """
    with _store_locked(directory, fcntl.LOCK_SH, f"the log in {directory} is being truncated"):
        yield


@contextmanager
def no_snapshot(directory: Path) -> Iterator[None]:
    """Keep snapshots from being made.

    Raises:
        DirectoryLockedError: one is being made.
    """
    reason = f"a snapshot of an earlier coordinator is being made in {directory}: try again later"
    with _store_locked(directory, fcntl.LOCK_EX, reason):
        yield


@contextmanager
def _store_locked(directory: Path, kind: int, reason: str) -> Iterator[None]:
    descriptor = os.open(directory / "store", os.O_RDWR | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DirectoryLockedError(reason) from None
        yield
    finally:
        os.close(descriptor)


def create_private(path: Path) -> BinaryIO:
    """Create or overwrite a file that only its owner may read: it holds digests of passwords."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "wb")


def _write_private(path: Path, data: bytes) -> None:
    temporary = path.with_suffix(".tmp")
    with create_private(temporary) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make creations, renames and deletions in `directory` durable."""
    with opened_directory(directory) as descriptor:
        os.fsync(descriptor)


@contextmanager
def opened_directory(directory: Path) -> Iterator[int]:
    """Yield a descriptor of `directory`, for syncs."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def segment_path(directory: Path, first_zxid: int) -> Path:
    """Return the path of the segment that begins with `first_zxid`."""
    return directory / f"wal-{first_zxid:016x}.log"


def snapshot_path(directory: Path, zxid: int) -> Path:
    """Return the path of the snapshot after `zxid`."""
    return directory / f"snap-{zxid:016x}.msgpack"


def segments_of(directory: Path) -> list[tuple[int, Path]]:
    """Return (first zxid, path) of every segment, oldest first."""
    return sorted((_number(path), path) for path in directory.glob("wal-????????????????.log"))


def snapshots_of(directory: Path) -> list[tuple[int, Path]]:
    """Return (zxid, path) of every snapshot, newest first."""
    found = directory.glob("snap-????????????????.msgpack")
    return sorted(((_number(path), path) for path in found), reverse=True)


def _number(path: Path) -> int:
    return int(path.stem.partition("-")[2], 16)


def spent_files(directory: Path) -> list[Path]:
    """Return the files to delete: old snapshots, and segments covered by the oldest kept one."""
    snapshots = snapshots_of(directory)
    if len(snapshots) < KEPT_SNAPSHOTS:
        return []
    covered_zxid = snapshots[KEPT_SNAPSHOTS - 1][0]
    segments = segments_of(directory)
    spent = [path for _, path in snapshots[KEPT_SNAPSHOTS:]]
    for (_, path), (next_first, _) in itertools.pairwise(segments):
        if next_first <= covered_zxid + 1:
            spent.append(path)
    return spent

"""Opening log dirs, and the logs in them, side by side (edge: threads)."""

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from storage.config import LogConfig
from storage.errors import LogDirFullError, LogDirOfflineError, OutOfFilesError, StorageError
from storage.log import Log
from storage.log_directory import LogDirectory


def open_directories(
    paths: Sequence[Path],
    on_offline: Callable[[Path], None],
    reserve_bytes: int,
    locked: Collection[Path] = (),
) -> tuple[list[LogDirectory], list[Path]]:
    """Lock the log dirs that can be used, unless they are among `locked`; return also the others.

    Raises:
        StorageError: one is locked, or says that it is something else; none is locked then.
    """
    directories: list[LogDirectory] = []
    offline: list[Path] = []
    try:
        for path in paths:
            try:
                directories.append(
                    LogDirectory(path, on_offline, reserve_bytes, is_locked=path in locked)
                )
            except (LogDirOfflineError, LogDirFullError):
                offline.append(path)
    except StorageError:
        for directory in directories:
            directory.unlock()
        raise
    return directories, offline


def load_directories(
    directories: Sequence[LogDirectory],
    config_of: Callable[[str], LogConfig],
    now_ms: int,
    recovery_threads: int,
) -> Iterator[tuple[LogDirectory, list[Log]]]:
    """Open the logs in all directories, each with so many threads; none of those that fail."""

    def load(directory: LogDirectory) -> list[Log]:
        try:
            return directory.load_logs(
                lambda partition: config_of(partition.topic), now_ms, recovery_threads
            )
        except LogDirOfflineError:
            # Reported where it happened; the other log dirs go on.
            return []
        except (LogDirFullError, OutOfFilesError) as error:
            # What was not loaded cannot be served, also when there is space again.
            directory.health.give_up(str(error))
            return []

    with ThreadPoolExecutor(max(1, len(directories)), "log-loading-") as threads:
        yield from zip(directories, threads.map(load, directories), strict=True)

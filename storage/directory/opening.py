"""Parallel opening of log dirs and their logs (edge)."""

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from storage.config.log_config import LogConfig
from storage.directory.log_directory import LogDirectory
from storage.errors import LogDirFullError, LogDirOfflineError, OutOfFilesError, StorageError
from storage.log.log import Log


def open_directories(
    paths: Sequence[Path],
    on_offline: Callable[[Path], None],
    reserve_bytes: int,
    locked: Collection[Path] = (),
    boot_id: str | None = None,
) -> tuple[list[LogDirectory], list[Path]]:
    """Lock the usable log dirs that are not in `locked`; return them and the unusable paths.

    Raises:
        StorageError: another process holds a lock, or the metadata of a log dir is inconsistent.
            No lock is held on return.
    """
    directories: list[LogDirectory] = []
    offline: list[Path] = []
    try:
        for path in paths:
            try:
                directories.append(
                    LogDirectory(
                        path,
                        on_offline,
                        reserve_bytes,
                        is_locked=path in locked,
                        boot_id=boot_id,
                    )
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
    """Open the logs in all directories, each with `recovery_threads` threads.

    A log dir that fails yields no logs.
    """

    def load(directory: LogDirectory) -> list[Log]:
        try:
            return directory.load_logs(
                lambda partition: config_of(partition.topic), now_ms, recovery_threads
            )
        except LogDirOfflineError:
            # The failure has been reported already; the other log dirs continue.
            return []
        except (LogDirFullError, OutOfFilesError) as error:
            # A log that was not loaded cannot be served, even when there is space again.
            directory.health.give_up(str(error))
            return []

    with ThreadPoolExecutor(max(1, len(directories)), "log-loading-") as threads:
        yield from zip(directories, threads.map(load, directories), strict=True)

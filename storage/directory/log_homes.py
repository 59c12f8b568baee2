"""Choice of a log dir for a new log, and moves between log dirs (edge over `future_logs`).

This module creates the copy of a log that moves, drops it, or swaps it with the original.
`log_copying` fills it.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import structlog

from kafkawire.ids import TopicId, TopicPartition
from storage.directory.cleaning import Cleaning, NoCleaning
from storage.directory.log_checkpoints import LogCheckpoints
from storage.directory.log_directory import LogDirectory
from storage.disk.layout import DirectoryState
from storage.errors import LogDirOfflineError, StorageError
from storage.log.log import Log

MAX_WANTED_HOMES: Final = 10_000

log = structlog.get_logger()


class LogHomes(LogCheckpoints):
    """The current and the requested log dirs of the logs in the table."""

    def __init__(self, directories: Sequence[LogDirectory], offline: Iterable[Path] = ()) -> None:
        super().__init__(directories, offline)
        self.cleaning: Cleaning = NoCleaning()
        """The compaction, which must be paused while segments of a log are cut or moved."""
        self._wanted_home: dict[TopicPartition, LogDirectory] = {}

    def _resume_moves(self) -> None:
        """Adopt the incomplete copies of an earlier process, and drop the useless ones."""
        for directory in self.online_directories:
            for copy in directory.loaded_futures:
                home = self._home.get(copy.topic_partition)
                self.futures.drop(copy.topic_partition)
                self.futures.add(copy, directory)
                if home is directory or (home is None and not self.offline_paths):
                    self.futures.drop(copy.topic_partition)
        for partition, directory in self._home.items():
            if directory.has_moved_here(partition):
                directory.forget_move(partition)

    def want_home(self, partition: TopicPartition, directory: LogDirectory) -> None:
        """Request that a future log of `partition` be created in `directory`.

        Only the last `MAX_WANTED_HOMES` requests are kept.
        """
        self._wanted_home.pop(partition, None)
        self._wanted_home[partition] = directory
        if len(self._wanted_home) > MAX_WANTED_HOMES:
            del self._wanted_home[next(iter(self._wanted_home))]

    def _choose_directory(
        self, partition: TopicPartition, topic_id: TopicId | None
    ) -> LogDirectory:
        for directory in self.online_directories:
            if directory.holds(partition):
                # That log dir handles its leftover. A partition must never lie in two log dirs.
                return directory
        for directory in self.online_directories:
            if directory.stray_of(partition, topic_id) is not None:
                return directory
        wanted = self._wanted_home.pop(partition, None)
        if wanted is not None and wanted.health.refusal is None:
            return wanted
        with_space = [each for each in self.online_directories if not each.health.is_full]
        return min(with_space or self.online_directories, key=self._count)

    def begin_move(self, partition: TopicPartition, directory: LogDirectory, now_ms: int) -> bool:
        """Start a copy of a log in `directory`; return False if it is there or moving there.

        A move to another log dir is cancelled.

        Raises:
            LogDirOfflineError: a log dir is offline, and may hold an earlier copy.
            LogDirFullError: there is no space.
        """
        if self.futures.directory_of(partition) is directory:
            return False
        self.futures.drop(partition)
        if self._home[partition] is directory:
            return False
        if self.offline_paths:
            raise LogDirOfflineError(self.offline_paths[0], f"it may hold a copy of {partition}")
        self.futures.create(self._logs[partition], directory, now_ms)
        return True

    def end_move(self, partition: TopicPartition, now_ms: int) -> Log:
        """Replace a log by its copy, which has caught up; return the copy.

        Raises:
            StorageError: the copy's disk failed. The copy is dropped, the log stays in use.
        """
        original, old_home = self._logs[partition], self._home[partition]
        # Abort a cleaning of the original: its result would arrive too late.
        self.cleaning.pause(partition)
        self.cleaning.resume(partition)
        moved, home = self.futures.promote(original, now_ms)
        self._logs[partition], self._home[partition] = moved, home
        if (mark := old_home.high_watermarks.pop(partition, None)) is not None:
            home.high_watermarks[partition] = mark
        log.info("move.ended", partition=str(partition), path=str(home.path))
        # From here on appends go to the copy, even if a later step fails.
        try:
            self._write_checkpoints(home)
            self._write_checkpoints(old_home)
            # The copy counts as never cleaned: it may hold records that a cleaning has dropped.
            if old_home.cleaner_offsets.pop(partition, None) is not None:
                self._write_cleaner_offsets(old_home)
            old_home.remove_later(original.upkeep.set_aside(DirectoryState.DELETED))
            old_home.sync()
            home.forget_move(partition)
        except StorageError as error:
            # `moved-here` lets the next start detect the stale directory.
            log.error("log.not_deleted", path=str(original.directory), error=str(error))
        return moved

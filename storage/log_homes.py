"""In which log dir a log is made, and how it gets to another one (edge over `future_logs`).

The copy of a log that moves is filled by others (`log_copying`); here it is begun, given up, and
put in the place of the original.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import structlog

from kafkawire.ids import TopicId, TopicPartition
from storage.cleaning import Cleaning, NoCleaning
from storage.errors import LogDirOfflineError, StorageError
from storage.layout import DirectoryState
from storage.log import Log
from storage.log_checkpoints import LogCheckpoints
from storage.log_directory import LogDirectory

MAX_WANTED_HOMES: Final = 10_000

log = structlog.get_logger()


class LogHomes(LogCheckpoints):
    """Where the logs of the table lie, and are to lie."""

    def __init__(self, directories: Sequence[LogDirectory], offline: Iterable[Path] = ()) -> None:
        super().__init__(directories, offline)
        self.cleaning: Cleaning = NoCleaning()
        """Who must not clean a log while its segments are cut or moved."""
        self._wanted_home: dict[TopicPartition, LogDirectory] = {}

    def _resume_moves(self) -> None:
        """Take in the copies of logs that were under way, and drop those that are of no use."""
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
        """Have the log of `partition` made in `directory`, when it is made.

        Of more than `MAX_WANTED_HOMES` such wishes the oldest are forgotten.
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
                # It decides what becomes of that; in two log dirs the partition must never lie.
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
        """Begin a copy of a log in `directory`; False if it lies there, or is on its way there.

        A move to another log dir is given up.

        Raises:
            LogDirOfflineError: a log dir is offline, and may hold a copy that was begun before.
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
        """Let the copy, which holds all that the log holds, take its place; return it.

        Raises:
            StorageError: the copy's disk failed; the copy is given up, the log goes on as it was.
        """
        original, old_home = self._logs[partition], self._home[partition]
        # What is being cleaned of the original comes too late.
        self.cleaning.pause(partition)
        self.cleaning.resume(partition)
        moved, home = self.futures.promote(original, now_ms)
        self._logs[partition], self._home[partition] = moved, home
        if (mark := old_home.high_watermarks.pop(partition, None)) is not None:
            home.high_watermarks[partition] = mark
        log.info("move.ended", partition=str(partition), path=str(home.path))
        # From here on the records go to the copy, whatever else fails.
        try:
            self._write_checkpoints(home)
            self._write_checkpoints(old_home)
            # The copy counts as never cleaned: parts may be older than what was cleaned since.
            if old_home.cleaner_offsets.pop(partition, None) is not None:
                self._write_cleaner_offsets(old_home)
            old_home.remove_later(original.set_aside(DirectoryState.DELETED))
            old_home.sync()
            home.forget_move(partition)
        except StorageError as error:
            # `moved-here` tells the next start what is out of date.
            log.error("log.not_deleted", path=str(original.directory), error=str(error))
        return moved

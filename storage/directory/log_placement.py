"""Choice of a log dir for a new log, and moves between log dirs (edge over `future_logs`).

This module creates the copy of a log that moves, drops it, or swaps it with the original.
`log_copying` fills it.
"""

from typing import Final

import structlog

from kafkawire.ids import TopicId, TopicPartition
from storage.directory.future_logs import FutureLogs
from storage.directory.log_checkpoints import LogCheckpoints, or_later
from storage.directory.log_directory import LogDirectory
from storage.directory.log_table import LogTable
from storage.disk.layout import DirectoryState
from storage.errors import LogDirOfflineError, StorageError
from storage.log.log import Log
from storage.log.log_copying import align, may_continue

MAX_WANTED_HOMES: Final = 10_000

log = structlog.get_logger(__name__)


class LogPlacement:
    """The log dirs of the logs in `table`: the requested ones, and the moves to them."""

    def __init__(self, table: LogTable, futures: FutureLogs, checkpoints: LogCheckpoints) -> None:
        self._table = table
        self._futures = futures
        self._checkpoints = checkpoints
        self._wanted_home: dict[TopicPartition, LogDirectory] = {}

    def resume_moves(self, now_ms: int) -> None:
        """Adopt the incomplete copies of an earlier process, and drop the useless ones.

        A move whose log was cleaned while its copy was offline begins again.
        """
        found = [
            (copy, directory)
            for directory in self._table.online_directories
            for copy in directory.loaded_futures
        ]
        # The useful ones first: a move that another one has replaced must not begin again.
        for copy, directory in sorted(found, key=lambda each: not self._is_useful(*each)):
            try:
                self._resume_move(copy, directory, now_ms)
            except StorageError as error:
                name = str(copy.topic_partition)
                log.error("move.not_resumed", partition=name, error=str(error))
        if self._table.offline_paths:
            # They may hold stale logs, which the next start knows by the marks of the newer ones.
            return
        try:
            self._forget_moves()
        except StorageError as error:
            # The next start does so.
            log.error("moves.not_forgotten", error=str(error))

    def _forget_moves(self) -> None:
        """Remove the marks of the logs that have replaced stale ones, which were set aside."""
        moved = [
            (partition, directory)
            for partition, directory in self._table.homes.items()
            if directory.partitions.has_moved_here(partition)
        ]
        if moved:
            # First, because a loss of power could bring back the name of a stale log.
            self._table.for_each_directory(lambda each: each.partitions.sync())
        for partition, directory in moved:
            directory.partitions.forget_move(partition)

    def _is_useful(self, copy: Log, directory: LogDirectory) -> bool:
        """Whether the copy of an earlier process may replace its original."""
        partition = copy.topic_partition
        original = self._table.logs.get(partition)
        if original is None:
            # A log dir that is offline may hold the original.
            return bool(self._table.offline_paths)
        return self._table.homes[partition] is not directory and may_continue(copy, original)

    def _resume_move(self, copy: Log, directory: LogDirectory, now_ms: int) -> None:
        partition = copy.topic_partition
        if self._is_useful(copy, directory):
            self._futures.drop(partition)
            self._futures.add(copy, directory)
            return
        # Never a future log: if this fails, it must not replace the original.
        directory.partitions.remove_later(copy.upkeep.set_aside(DirectoryState.DELETED))
        log.info("move.dropped", partition=str(partition), path=str(directory.path))
        original = self._table.logs.get(partition)
        has_other = self._futures.get(partition) is not None
        # The copy of another topic of this name is of a log that was deleted meanwhile.
        if original is not None and original.topic_id == copy.topic_id and not has_other:
            self.begin_move(partition, directory, now_ms)

    def want_home(self, partition: TopicPartition, directory: LogDirectory) -> None:
        """Request that a future log of `partition` be created in `directory`.

        Only the last `MAX_WANTED_HOMES` requests are kept.
        """
        self._wanted_home.pop(partition, None)
        self._wanted_home[partition] = directory
        if len(self._wanted_home) > MAX_WANTED_HOMES:
            del self._wanted_home[next(iter(self._wanted_home))]

    def choose_directory(self, partition: TopicPartition, topic_id: TopicId | None) -> LogDirectory:
        """Return the log dir for a new log: with its leftover, or requested, or the emptiest."""
        for directory in self._table.online_directories:
            if directory.partitions.holds(partition):
                # That log dir handles its leftover. A partition must never lie in two log dirs.
                return directory
        for directory in self._table.online_directories:
            if directory.partitions.stray_of(partition, topic_id) is not None:
                return directory
        wanted = self._wanted_home.pop(partition, None)
        if wanted is not None and wanted.health.refusal is None:
            return wanted
        with_space = [each for each in self._table.online_directories if not each.health.is_full]
        return min(with_space or self._table.online_directories, key=self._count)

    def _count(self, directory: LogDirectory) -> int:
        return sum(1 for home in self._table.homes.values() if home is directory)

    def begin_move(self, partition: TopicPartition, directory: LogDirectory, now_ms: int) -> bool:
        """Start a copy of a log in `directory`; return False if it is there or moving there.

        A move to another log dir is cancelled.

        Raises:
            LogDirOfflineError: a log dir is offline, and may hold an earlier copy.
            LogDirFullError: there is no space.
        """
        if self._futures.directory_of(partition) is directory:
            return False
        self._futures.drop(partition)
        if self._table.homes[partition] is directory:
            return False
        if self._table.offline_paths:
            raise LogDirOfflineError(
                self._table.offline_paths[0], f"it may hold a copy of {partition}"
            )
        self._checkpoints.forget_gone(directory, partition)
        self._futures.create(self._table.logs[partition], directory, now_ms)
        return True

    def align_copy(self, partition: TopicPartition) -> None:
        """Truncate batches of the copy that its original lacks; see `log_copying.align`.

        The checkpoints of the copy are lowered on disk before the next append to it.
        """
        copy, directory = self._futures.get(partition), self._futures.directory_of(partition)
        assert copy is not None, "the log is moving"
        assert directory is not None, "the copy has a log dir"
        end_offset = copy.log_end_offset
        align(copy, self._table.logs[partition])
        if copy.log_end_offset < end_offset:
            self._checkpoints.write_bounds_in(directory)
            copy.note_lowered()

    def end_move(self, partition: TopicPartition, now_ms: int) -> Log:
        """Replace a log by its copy, which has caught up; return the copy.

        Raises:
            StorageError: the copy's disk failed. The copy is dropped, the log stays in use.
        """
        original, old_home = self._table.logs[partition], self._table.homes[partition]
        moved, home = self._futures.promote(original, now_ms)
        self._table.put(moved, home)
        if (mark := old_home.checkpoints.high_watermarks.pop(partition, None)) is not None:
            home.checkpoints.high_watermarks[partition] = mark
        log.info("move.ended", partition=str(partition), path=str(home.path))
        # From here on appends go to the copy, even if a later step fails.
        try:
            with or_later(home):
                self._checkpoints.write_bounds_in(home)
            # The copy counts as never cleaned: it may hold records that a cleaning has dropped.
            was_cleaned = old_home.checkpoints.cleaner_offsets.pop(partition, None) is not None
            with or_later(old_home):
                self._checkpoints.write_bounds_in(old_home)
                if was_cleaned:
                    self._checkpoints.write_cleaner_offsets_in(old_home)
            old_home.partitions.remove_later(original.upkeep.set_aside(DirectoryState.DELETED))
            with or_later(old_home):
                old_home.partitions.sync()
                home.partitions.forget_move(partition)
        except StorageError as error:
            # `moved-here` lets the next start detect the stale directory.
            log.error("log.not_deleted", path=str(original.directory), error=str(error))
        return moved

"""The checkpoints of all log dirs of a broker (edge over `log_directory`).

The entries of a log lie in the log dir that holds the log, and each file is replaced atomically. An
operation on all log dirs continues with the others when one of them fails, and raises the failure
at the end.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import structlog

from kafkawire.ids import Offset, TopicPartition
from storage.directory.future_logs import FutureLogs
from storage.directory.log_directory import LogDirectory
from storage.directory.log_table import LogTable
from storage.disk.directory_health import for_each
from storage.errors import LogDirFullError, OutOfFilesError
from storage.log.log import Log

log = structlog.get_logger(__name__)


@contextmanager
def or_later(home: LogDirectory) -> Iterator[None]:
    """Continue without the body's writes if there is no space or no descriptor for them.

    The deletion of a log must not wait for the space that it frees. Later checkpoints, which sync
    the log dir too, replace these writes.
    """
    try:
        yield
    except (LogDirFullError, OutOfFilesError) as error:
        log.warning("checkpoint.delayed", path=str(home.path), error=str(error))


class LogCheckpoints:
    """The checkpoints of the logs in `table` and of their copies in `futures`."""

    def __init__(self, table: LogTable, futures: FutureLogs) -> None:
        self.leaving: set[TopicPartition] = set()
        """Partitions that are being set aside: still served, but no longer in a checkpoint."""
        self._table = table
        self._futures = futures
        for directory in table.directories:
            directory.write_bounds = partial(self.write_bounds_in, directory)

    def cleaner_offset(self, partition: TopicPartition) -> Offset | None:
        """Return the end of a log's clean part (exclusive); None if it was never cleaned."""
        return self._table.homes[partition].checkpoints.cleaner_offsets.get(partition)

    def note_cleaner_offset(self, partition: TopicPartition, offset: Offset) -> None:
        """Set the end of a log's clean part; `write_cleaner_offsets` makes it durable."""
        self._table.homes[partition].checkpoints.cleaner_offsets[partition] = offset

    def high_watermark(self, partition: TopicPartition) -> Offset:
        """Return the high watermark stored before the start, clamped to the log's bounds."""
        local, directory = self._table.logs[partition], self._table.homes[partition]
        stored = directory.checkpoints.high_watermarks.get(partition, Offset(0))
        return max(local.log_start_offset, min(stored, local.log_end_offset))

    def write_cleaner_offsets(self) -> None:
        """Write the cleaner offsets of all logs; any thread may call this."""
        self._table.for_each_directory(self.write_cleaner_offsets_in)

    def write_cleaner_offsets_in(self, directory: LogDirectory) -> None:
        """Write the cleaner offsets of the logs in one log dir."""
        directory.checkpoints.write_cleaner_offsets(
            each.topic_partition for each in self.logs_in(directory)
        )

    def write_high_watermarks(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Write the high watermarks of all logs, each to its log dir; any thread may call this.

        A log without a role is not in `offsets` and keeps the value that was stored last.
        """
        self._table.for_each_directory(
            lambda directory: self.write_high_watermarks_in(directory, offsets)
        )

    def write_high_watermarks_in(
        self, directory: LogDirectory, offsets: Mapping[TopicPartition, Offset]
    ) -> None:
        """Write the high watermarks of the logs in one log dir.

        None is beyond the end of its log. The log may have been created after `offsets` were taken
        from another one of that name.
        """
        known = {**directory.checkpoints.high_watermarks, **offsets}
        directory.checkpoints.write_high_watermarks(
            (partition, min(offset, local.log_end_offset))
            for partition, offset in known.items()
            if self._table.homes.get(partition) is directory
            and partition not in self.leaving
            and (local := self._table.logs.get(partition)) is not None
        )

    def write_bounds(self) -> None:
        """Write recovery points and log start offsets; any thread may call this."""
        self.write_recovery_points()
        self.write_log_starts()

    def write_recovery_points(self) -> None:
        """Sync closed segments and write the recovery points; any thread may call this."""

        def write(directory: LogDirectory) -> None:
            try:
                for_each(self.logs_in(directory), lambda each: each.upkeep.flush_closed())
            finally:
                directory.checkpoints.write_recovery_points(self.logs_in(directory))

        self._table.for_each_directory(write)

    def write_log_starts(self) -> None:
        """Write the log start offsets; any thread may call this."""
        self._table.for_each_directory(
            lambda directory: directory.checkpoints.write_log_starts(self.logs_in(directory))
        )

    def write_bounds_in(self, directory: LogDirectory) -> None:
        """Write the recovery points and log start offsets of one log dir.

        After a truncation this comes before the next append: other records may take the offsets.
        """
        directory.checkpoints.write_recovery_points(self.logs_in(directory))
        directory.checkpoints.write_log_starts(self.logs_in(directory))

    def forget_gone(self, directory: LogDirectory, partition: TopicPartition) -> None:
        """Remove a log that is gone from the checkpoints of a log dir, if they may name it.

        This comes before the creation of a log there, which would get the values of its namesake at
        the next start.
        """
        stored = directory.checkpoints
        stored.cleaner_offsets.pop(partition, None)
        stored.high_watermarks.pop(partition, None)
        if stored.may_name(partition):
            self.write_bounds_in(directory)
            self.write_high_watermarks_in(directory, {})
            self.write_cleaner_offsets_in(directory)

    def logs_in(self, directory: LogDirectory) -> Iterator[Log]:
        """Iterate over the logs and the future logs in `directory`.

        A checkpoint draws from this iterator under its lock. A list made earlier could bring back a
        log that has left the checkpoint since.
        """
        for each in self._table:
            partition = each.topic_partition
            if self._table.homes.get(partition) is directory and partition not in self.leaving:
                yield each
        for each in self._futures:
            if each.directory.parent == directory.path:
                yield each

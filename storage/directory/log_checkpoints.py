"""The checkpoints of all log dirs of a broker (edge over `log_directory`).

The entries of a log lie in the log dir that holds the log, and each file is replaced atomically. An
operation on all log dirs continues with the others when one of them fails, and raises the failure
at the end.
"""

from collections.abc import Mapping

from kafkawire.ids import Offset, TopicPartition
from storage.directory.log_directory import LogDirectory
from storage.directory.log_table import LogTable
from storage.disk.directory_health import for_each


class LogCheckpoints(LogTable):
    """The checkpoints of the logs in the table."""

    def cleaner_offset(self, partition: TopicPartition) -> Offset | None:
        """Return the end of a log's clean part (exclusive); None if it was never cleaned."""
        return self._home[partition].cleaner_offsets.get(partition)

    def note_cleaner_offset(self, partition: TopicPartition, offset: Offset) -> None:
        """Set the end of a log's clean part; `write_cleaner_offsets` makes it durable."""
        self._home[partition].cleaner_offsets[partition] = offset

    def high_watermark(self, partition: TopicPartition) -> Offset:
        """Return the high watermark stored before the start, clamped to the log's bounds."""
        local, directory = self._logs[partition], self._home[partition]
        stored = directory.high_watermarks.get(partition, Offset(0))
        return max(local.log_start_offset, min(stored, local.log_end_offset))

    def write_cleaner_offsets(self) -> None:
        """Write the cleaner offsets of all logs; any thread may call this."""
        self._for_each_directory(self._write_cleaner_offsets)

    def _write_cleaner_offsets(self, directory: LogDirectory) -> None:
        directory.write_cleaner_offsets(each.topic_partition for each in self._logs_in(directory))

    def write_high_watermarks(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Write the high watermarks of all logs, each to its log dir; any thread may call this.

        A log without a role is not in `offsets` and keeps the value that was stored last.
        """

        def write(directory: LogDirectory) -> None:
            known = {**directory.high_watermarks, **offsets}
            directory.write_high_watermarks(
                {
                    partition: offset
                    for partition, offset in known.items()
                    if self._home.get(partition) is directory and partition not in self._leaving
                }
            )

        self._for_each_directory(write)

    def write_checkpoints(self) -> None:
        """Write recovery points and log start offsets; any thread may call this."""
        self.write_recovery_points()
        self.write_log_starts()

    def write_recovery_points(self) -> None:
        """Sync closed segments and write the recovery points; any thread may call this."""

        def write(directory: LogDirectory) -> None:
            try:
                for_each(self._logs_in(directory), lambda each: each.upkeep.flush_closed())
            finally:
                directory.write_recovery_points(self._logs_in(directory))

        self._for_each_directory(write)

    def write_log_starts(self) -> None:
        """Write the log start offsets; any thread may call this."""
        self._for_each_directory(
            lambda directory: directory.write_log_starts(self._logs_in(directory))
        )

    def _write_checkpoints(self, directory: LogDirectory) -> None:
        directory.write_recovery_points(self._logs_in(directory))
        directory.write_log_starts(self._logs_in(directory))

"""What the log dirs of a broker remember of its logs across restarts (edge over `log_directory`).

A log's entries lie in the log dir that holds the log. Each file is written as a whole.
"""

from collections.abc import Mapping

from kafkawire.ids import Offset, TopicPartition
from storage.log_directory import LogDirectory
from storage.log_table import LogTable


class LogCheckpoints(LogTable):
    """The checkpoints of the logs in the table."""

    def cleaner_offset(self, partition: TopicPartition) -> Offset | None:
        """Return up to where a log is clean; None if it never was cleaned."""
        return self._home[partition].cleaner_offsets.get(partition)

    def note_cleaner_offset(self, partition: TopicPartition, offset: Offset) -> None:
        """Note up to where a log is clean; `write_cleaner_offsets` makes it durable."""
        self._home[partition].cleaner_offsets[partition] = offset

    def high_watermark(self, partition: TopicPartition) -> Offset:
        """Return the high watermark that was stored before the start, within the log's bounds."""
        local, directory = self._logs[partition], self._home[partition]
        stored = directory.high_watermarks.get(partition, Offset(0))
        return max(local.log_start_offset, min(stored, local.log_end_offset))

    def write_cleaner_offsets(self) -> None:
        """Write up to where logs are clean; any thread may call this."""
        for directory in self.online_directories:
            self._write_cleaner_offsets(directory)

    def _write_cleaner_offsets(self, directory: LogDirectory) -> None:
        directory.write_cleaner_offsets(each.topic_partition for each in self._logs_in(directory))

    def write_high_watermarks(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Write the high watermarks of all logs, each to its log dir; any thread may call this."""
        for directory in self.online_directories:
            here = {
                partition: offset
                for partition, offset in offsets.items()
                if self._home.get(partition) is directory
            }
            directory.write_high_watermarks(here)

    def write_checkpoints(self) -> None:
        """Write recovery points and log starts; any thread may call this."""
        self.write_recovery_points()
        self.write_log_starts()

    def write_recovery_points(self) -> None:
        """Bring closed segments to disk, and note how far each log is; any thread may call this."""
        for directory in self.online_directories:
            logs = self._logs_in(directory)
            for each in logs:
                each.flush_closed()
            directory.write_recovery_points(logs)

    def write_log_starts(self) -> None:
        """Note where logs start; any thread may call this."""
        for directory in self.online_directories:
            directory.write_log_starts(self._logs_in(directory))

    def _write_checkpoints(self, directory: LogDirectory) -> None:
        logs = self._logs_in(directory)
        directory.write_recovery_points(logs)
        directory.write_log_starts(logs)

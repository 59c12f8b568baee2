"""The four offset checkpoints of one log dir (edge).

Bytes on disk: `recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`,
`replication-offset-checkpoint` (high watermarks) and `cleaner-offset-checkpoint`, each replaced
atomically (`checkpoint`). An OSError takes the log dir offline.
"""

from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from threading import Lock

from kafkawire.ids import Offset, TopicPartition
from storage.disk.checkpoint import read_offsets_or_none, write_offsets
from storage.disk.directory_health import DirectoryHealth, offline_on_failure
from storage.disk.layout import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from storage.log.log import Log


class DirectoryCheckpoints:
    """The checkpoints of the log dir at `path`."""

    def __init__(self, path: Path, health: DirectoryHealth) -> None:
        self._path = path
        self._health = health
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        """The last stored values; the only known ones for logs without a role."""
        self.cleaner_offsets: dict[TopicPartition, Offset] = {}
        """End of the clean part of each compacted log (exclusive); only the owner changes it."""
        self.recovery_points: dict[TopicPartition, Offset] = {}
        """The values of the previous process."""
        self.log_starts: dict[TopicPartition, Offset] = {}
        """The values of the previous process."""
        # Whether the file on disk may count records as clean that were appended after a loss.
        self._is_cleaner_file_high = False
        # The logs that each file may name.
        self._named: dict[str, Set[TopicPartition]] = {}
        # The owner writes checkpoints, and so does a thread that runs periodically.
        self._lock = Lock()

    def read(self) -> None:
        """Load the checkpoints of the previous process; an unreadable one counts as absent."""
        self.recovery_points = read_offsets_or_none(self._path / RECOVERY_POINT_CHECKPOINT)
        self.log_starts = read_offsets_or_none(self._path / LOG_START_CHECKPOINT)
        self.high_watermarks = read_offsets_or_none(self._path / HIGH_WATERMARK_CHECKPOINT)
        self.cleaner_offsets = read_offsets_or_none(self._path / CLEANER_CHECKPOINT)
        self._named = {
            RECOVERY_POINT_CHECKPOINT: frozenset(self.recovery_points),
            LOG_START_CHECKPOINT: frozenset(self.log_starts),
            HIGH_WATERMARK_CHECKPOINT: frozenset(self.high_watermarks),
            CLEANER_CHECKPOINT: frozenset(self.cleaner_offsets),
        }

    def may_name(self, partition: TopicPartition) -> bool:
        """Whether a file on disk may hold a value of a log of `partition`."""
        return any(partition in named for named in self._named.values())

    def is_uncleaned(self, partition: TopicPartition) -> bool:
        """Whether a log was never cleaned; false if the previous process's checkpoints are lost."""
        return bool(self.recovery_points) and partition not in self.cleaner_offsets

    def limit_cleaner_offset(self, log: Log) -> None:
        """Lower the cleaner offset of a log that was opened to its end; the next append stores it.

        A recovery, or an operator, may have shortened the log. Records that are appended later must
        not count as clean. Source: LogCleanerManager.cleanableOffsets of Kafka 3.9.
        """
        partition, end_offset = log.topic_partition, log.log_end_offset
        if self.cleaner_offsets.get(partition, Offset(0)) > end_offset:
            self.cleaner_offsets[partition] = end_offset
            self._is_cleaner_file_high = True
            log.note_shortened()

    def write_recovery_points(self, logs: Iterable[Log]) -> None:
        """Write the recovery point of each log."""
        with offline_on_failure(self._health), self._lock:
            # Read under the lock: a truncation lowers the point before it calls this method.
            points = {each.topic_partition: each.recovery_point for each in logs}
            self._write(RECOVERY_POINT_CHECKPOINT, points)

    def write_log_starts(self, logs: Iterable[Log]) -> None:
        """Write the log start offsets that differ from the first segment's base offset.

        Cleaner offsets are written with them if their file may name a log that is gone, because its
        removal could not be written, or has the offset of a log that was longer.
        """
        with offline_on_failure(self._health), self._lock:
            held = list(logs)
            starts = {
                each.topic_partition: each.log_start_offset
                for each in held
                if each.log_start_offset > each.segments[0].base_offset
            }
            self._write(LOG_START_CHECKPOINT, starts)
        is_named = self._named.get(CLEANER_CHECKPOINT, frozenset()) <= self.cleaner_offsets.keys()
        if self._is_cleaner_file_high or not is_named:
            self.write_cleaner_offsets(each.topic_partition for each in held)

    def write_high_watermarks(self, offsets: Iterable[tuple[TopicPartition, Offset]]) -> None:
        """Write the high watermarks of the logs in this directory."""
        with offline_on_failure(self._health), self._lock:
            high_watermarks = dict(offsets)
            self._write(HIGH_WATERMARK_CHECKPOINT, high_watermarks)
            self.high_watermarks = high_watermarks

    def write_cleaner_offsets(self, partitions: Iterable[TopicPartition]) -> None:
        """Write the cleaner offsets of `partitions` only; any thread may call this."""
        held = set(partitions)
        with offline_on_failure(self._health), self._lock:
            offsets = {
                partition: offset
                for partition, offset in self.cleaner_offsets.copy().items()
                if partition in held
            }
            self._write(CLEANER_CHECKPOINT, offsets)
            self._is_cleaner_file_high = False

    def _write(self, name: str, offsets: Mapping[TopicPartition, Offset]) -> None:
        # A failed write leaves either content.
        self._named[name] = {*self._named.get(name, ()), *offsets}
        write_offsets(self._path / name, offsets)
        self._named[name] = frozenset(offsets)

"""Errors of a log (decision).

StorageError
  OffsetOutOfRangeError       an offset outside log start..log end; the client resets its offset
  OffsetOverflowError         too far from a segment's base offset; the log rolls and retries
  UnexpectedOffsetError       a replicated batch does not continue the follower's log
  BatchTooLargeError          a batch larger than any segment; the producer must send less
  TruncatedRegionError        a region whose bytes were lost to a concurrent truncation
  CorruptLogError             no valid batch at a position of a log where one must start
  CorruptCheckpointError      an unreadable checkpoint file; callers treat it as absent
  CorruptSnapshotError        an unreadable producer snapshot; an older one is used instead
  OutOfOrderSequenceError     a batch of an idempotent producer, with missing batches before it
  InvalidProducerEpochError   a batch of an idempotent producer with an old producer epoch
  InvalidTransactionStateError  a batch outside of its producer's open transaction
  CoordinatorFencedError      a transaction marker of a coordinator that has been replaced
  InconsistentTopicIdError    a directory that belongs to another topic of the same name
  InconsistentMetadataError   a log dir that belongs to another broker or cluster
  LogDirLockedError           another process uses the log dir
  LogDirOfflineError          the log dir failed; its partitions are offline until a restart
  LogDirFullError             no space in the log dir; appends are refused until there is some
  OutOfFilesError             this process cannot open more files; retry
"""

from pathlib import Path

from kafkawire.ids import Offset, TopicPartition

__all__ = [
    "BatchTooLargeError",
    "CoordinatorFencedError",
    "CorruptCheckpointError",
    "CorruptLogError",
    "CorruptSnapshotError",
    "InconsistentMetadataError",
    "InconsistentTopicIdError",
    "InvalidProducerEpochError",
    "InvalidTransactionStateError",
    "LogDirFullError",
    "LogDirLockedError",
    "LogDirOfflineError",
    "OffsetOutOfRangeError",
    "OffsetOverflowError",
    "OutOfFilesError",
    "OutOfOrderSequenceError",
    "StorageError",
    "TruncatedRegionError",
    "UnexpectedOffsetError",
]


class StorageError(Exception):
    """The root: a failure of the environment, which the handler translates to a wire code."""


class OffsetOutOfRangeError(StorageError):
    """The offset lies outside `log_start_offset`..`log_end_offset` (both inclusive)."""

    def __init__(
        self, partition: TopicPartition, offset: int, log_start_offset: int, log_end_offset: int
    ) -> None:
        super().__init__(
            f"offset {offset} of {partition} is outside {log_start_offset}..{log_end_offset}"
        )
        self.offset = Offset(offset)
        self.log_start_offset = Offset(log_start_offset)
        self.log_end_offset = Offset(log_end_offset)


class OffsetOverflowError(StorageError):
    """The offset is more than 2^31-1 above the segment's base offset."""


class UnexpectedOffsetError(StorageError):
    """A replicated batch overlaps the follower's log, or the batch before it.

    If the log ends inside the batch, the logs differ from `diverging_offset` on, the batch's base
    offset: the fetcher must truncate there. Otherwise it is None.
    """

    def __init__(self, reason: str, diverging_offset: Offset | None = None) -> None:
        super().__init__(reason)
        self.diverging_offset = diverging_offset


class BatchTooLargeError(StorageError):
    """A produced batch is larger than `segment.bytes`."""


class TruncatedRegionError(StorageError):
    """The file ends inside the region; a response that contains the region must not be sent."""


class CorruptLogError(StorageError):
    """No valid batch at `position` of `path`; recovery at the next start truncates there."""

    def __init__(self, path: Path, position: int, reason: str) -> None:
        super().__init__(f"{path} at byte {position}: {reason}")
        self.path = path
        self.position = position


class CorruptCheckpointError(StorageError):
    """A checkpoint file does not follow its format."""


class CorruptSnapshotError(StorageError):
    """A producer snapshot does not follow its format, or its checksum is wrong."""


class OutOfOrderSequenceError(StorageError):
    """Records of the producer are missing before the batch; the producer must begin a new epoch."""


class InvalidProducerEpochError(StorageError):
    """The batch carries an older producer epoch than the log holds; the sender is a zombie."""


class InvalidTransactionStateError(StorageError):
    """The producer has a transaction open, and the batch does not belong to it."""


class CoordinatorFencedError(StorageError):
    """The marker carries an older coordinator epoch than the log holds for its producer."""


class InconsistentTopicIdError(StorageError):
    """`partition.metadata` names another topic id than the caller."""


class InconsistentMetadataError(StorageError):
    """`meta.properties` names another broker id or cluster id than the caller."""


class LogDirLockedError(StorageError):
    """Another process holds the `.lock` of the log dir; stop that broker first."""


class LogDirOfflineError(StorageError):
    """The log dir at `path` has failed."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(f"log dir {path} is offline: {cause}")
        self.path = path


class LogDirFullError(StorageError):
    """The log dir at `path` has no space: nothing was appended, reads still work."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(f"log dir {path} is full: {cause}")
        self.path = path


class OutOfFilesError(StorageError):
    """This process has reached its limit of open files; nothing was done."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(f"too many open files, raise the limit (LimitNOFILE): {cause} in {path}")
        self.path = path

"""What can go wrong in a log (decision module: types only).

StorageError
  OffsetOutOfRangeError       an offset outside log start..log end; the client resets or is told
  OffsetOverflowError         too far from a segment's base offset; the log rolls and retries
  UnexpectedOffsetError       a follower was handed a batch that does not continue its log
  BatchTooLargeError          a batch that no segment may hold; the producer must send less
  TruncatedRegionError        a region whose bytes a truncation has taken meanwhile
  CorruptLogError             bytes in a log that are no batch where one must start
  CorruptCheckpointError      a checkpoint file that cannot be read; callers treat it as absent
  CorruptSnapshotError        a producer snapshot that cannot be read; an older one will do
  OutOfOrderSequenceError     an idempotent producer's batch, where others are missing before it
  InvalidProducerEpochError   a batch of an idempotent producer that a newer one has replaced
  InvalidTransactionStateError  a batch outside of the transaction that its producer has open
  InconsistentTopicIdError    a directory that belongs to another topic of the same name
  InconsistentMetadataError   a log dir that belongs to another broker or cluster
  LogDirLockedError           another process uses the log dir
  LogDirOfflineError          the log dir failed; its partitions are gone until a restart
  LogDirFullError             no space in the log dir; appends are refused until there is
  OutOfFilesError             this process may not open more files; try again
"""

from pathlib import Path

from kafkawire.ids import Offset, TopicPartition

__all__ = [
    "BatchTooLargeError",
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
    """The root: a failure of the environment, translated to a wire code by the handler."""


class OffsetOutOfRangeError(StorageError):
    """The offset lies outside `log_start_offset`..`log_end_offset` (both allowed)."""

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
    """A replicated batch overlaps what the log already holds; the fetcher must truncate first."""


class BatchTooLargeError(StorageError):
    """A produced batch is larger than `segment.bytes`."""


class TruncatedRegionError(StorageError):
    """The file ends inside the region; the response it was meant for must not be sent."""


class CorruptLogError(StorageError):
    """There is no valid batch at `position` of `path`; recovery at the next start cuts there."""

    def __init__(self, path: Path, position: int, reason: str) -> None:
        super().__init__(f"{path} at byte {position}: {reason}")
        self.path = path
        self.position = position


class CorruptCheckpointError(StorageError):
    """A checkpoint file does not follow its format."""


class CorruptSnapshotError(StorageError):
    """A producer snapshot does not follow its format, or its checksum is wrong."""


class OutOfOrderSequenceError(StorageError):
    """Records of the producer are missing before the batch; it must begin a new epoch."""


class InvalidProducerEpochError(StorageError):
    """The batch carries an older producer epoch than the log has seen; its sender is a zombie."""


class InvalidTransactionStateError(StorageError):
    """The producer has a transaction open, and the batch does not belong to it."""


class InconsistentTopicIdError(StorageError):
    """`partition.metadata` names another topic id than the caller."""


class InconsistentMetadataError(StorageError):
    """`meta.properties` names another broker id or cluster id than the caller."""


class LogDirLockedError(StorageError):
    """`.lock` of the log dir is held by another process; stop that broker first."""


class LogDirOfflineError(StorageError):
    """The log dir has failed; `path` says which."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(f"log dir {path} is offline: {cause}")
        self.path = path


class LogDirFullError(StorageError):
    """The log dir at `path` has no space: nothing was appended, reads go on."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(f"log dir {path} is full: {cause}")
        self.path = path


class OutOfFilesError(StorageError):
    """This process has as many files open as it may: nothing was done."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(f"too many open files, raise the limit (LimitNOFILE): {cause} in {path}")
        self.path = path

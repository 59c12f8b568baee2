"""Read access to a partition's log: its bounds, batches and timestamps (edge: reads).

This is the lowest of three layers of one object: `log_upkeep` adds maintenance, `log` adds the
operations of leaders and followers. This layer also holds the shared state, and takes the log dir
offline when its disk fails. Invariant: `log_start_offset <= log_end_offset`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafkawire.ids import LeaderEpoch, Offset, TopicId, TopicPartition
from storage.config.log_config import LogConfig
from storage.disk.directory_health import DirectoryHealth, offline_on_failure
from storage.errors import CorruptLogError, OffsetOutOfRangeError
from storage.log import time_search
from storage.log.epoch_checkpoint import EpochCheckpoint
from storage.log.leader_epochs import UNDEFINED_EPOCH
from storage.log.loading import LoadedLog
from storage.log.local_log import LocalLog
from storage.log.time_search import TimestampOffset
from storage.segment.segment import FileRegion, Segment
from storage.segment.transaction_index import AbortedTransaction


class LogReader:
    """The log of `topic_partition`, for reads."""

    def __init__(
        self,
        local: LocalLog,
        loaded: LoadedLog,
        *,
        topic_partition: TopicPartition,
        topic_id: TopicId | None,
        health: DirectoryHealth,
        now_ms: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.health = health
        self.log_start_offset = loaded.log_start_offset
        self.leader_epochs = loaded.epochs
        """History of leader epochs; only methods of the log may change it."""
        self.producers = loaded.producers
        """State of the producers; only methods of the log may change it."""
        self.is_closed = False
        self._last_flush_ms = now_ms
        self._local = local
        self._epoch_checkpoint = EpochCheckpoint(loaded.stored_epochs)
        # The newest epoch that was stored when it began; every append compares with it.
        self._noted_epoch = UNDEFINED_EPOCH

    @property
    def config(self) -> LogConfig:
        """Layout and retention of the log."""
        return self._local.config

    @property
    def directory(self) -> Path:
        """Directory of the files."""
        return self._local.directory

    @property
    def log_end_offset(self) -> Offset:
        """Offset of the next record."""
        return self._local.log_end_offset

    @property
    def recovery_point(self) -> Offset:
        """Offset below which everything is on disk."""
        return self._local.recovery_point

    @property
    def size_bytes(self) -> int:
        """Size of all batches on disk."""
        return self._local.size_bytes

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments, oldest first; the last one is appended to."""
        return tuple(self._local.segments)

    def read(
        self, offset: Offset, max_bytes: int, *, end_offset: Offset, min_one_batch: bool
    ) -> FileRegion:
        """Return complete batches from the one that holds `offset` on, all below `end_offset`.

        The region has at most `max_bytes`, except that `min_one_batch` allows a larger first batch.
        It is empty if no batch may be read yet, and never extends over two segments.

        Raises:
            OffsetOutOfRangeError: `offset` is below the log start or above the log end.
            CorruptLogError: the log is damaged there.
            LogDirOfflineError: the disk failed, now or before.
        """
        self.health.check()
        self._check_range(offset, self.log_start_offset)
        try:
            return self._local.read(offset, max_bytes, end_offset, min_one_batch=min_one_batch)
        except OSError as error:
            raise self.health.fail(error) from error
        except CorruptLogError as error:
            self.health.note_damage(error)
            raise

    def aborted_in(
        self, region: FileRegion, offset: Offset, end_offset: Offset
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions that may have records in the last region from `read`.

        Raises:
            CorruptLogError: a transaction index is damaged.
            LogDirOfflineError: the disk failed.
        """
        if not self._local.has_aborted:
            return []
        with self._io():
            return self._local.aborted_in(region, offset, end_offset)

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Return the last stable offset for this high watermark (see `ProducerState`)."""
        stable = self.producers.last_stable_offset(high_watermark)
        if stable == high_watermark:
            return stable
        # The first records of an open transaction may have been deleted.
        return min(high_watermark, max(stable, self.log_start_offset))

    def offset_for_timestamp(self, timestamp_ms: int, end_offset: Offset) -> TimestampOffset | None:
        """Return the first record below `end_offset` with at least `timestamp_ms`."""
        start = self.log_start_offset
        with self._io():
            segments = self._local.segments.from_offset(start)
            return time_search.first_from(segments, timestamp_ms, start, end_offset)

    def max_timestamp(self) -> TimestampOffset | None:
        """Return the first record with the largest timestamp, or None if the log has none."""
        with self._io():
            return time_search.latest(self._local.segments)

    def end_offset_for(self, leader_epoch: int) -> tuple[LeaderEpoch, Offset]:
        """Return the largest known epoch up to `leader_epoch` and its end (see `LeaderEpochs`)."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def _check_range(self, offset: Offset, lowest: Offset) -> None:
        if not lowest <= offset <= self._local.log_end_offset:
            raise OffsetOutOfRangeError(
                self.topic_partition, offset, self.log_start_offset, self.log_end_offset
            )

    @contextmanager
    def _io(self) -> Iterator[None]:
        with offline_on_failure(self.health):
            try:
                yield
            except FileNotFoundError:
                if not self.is_closed:
                    raise
            except CorruptLogError as error:
                self.health.note_damage(error)
                raise

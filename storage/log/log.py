"""One partition's log: the interface for the rest of the broker (edge over `local_log`).

It adds to the segments: leader epochs, the log start offset, the topic id, and taking the log dir
offline when its disk fails. Maintenance is in its part `upkeep`.
Invariant: `log_start_offset <= log_end_offset`.

One thread owns a log. Other threads may call `upkeep.flush`, and read the regions that `read`
returned.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from kafkawire.ids import LeaderEpoch, Offset, TopicId, TopicPartition
from kafkawire.records import BatchHeader, TimestampType, assign_offsets, set_log_append_time
from storage.config.log_config import LogConfig
from storage.disk.directory_health import DirectoryHealth, offline_on_failure
from storage.disk.layout import PARTITION_METADATA
from storage.errors import (
    BatchTooLargeError,
    CorruptLogError,
    InconsistentTopicIdError,
    OffsetOutOfRangeError,
    StorageError,
)
from storage.log import partition_metadata, time_search
from storage.log.epoch_checkpoint import StoredEpochs
from storage.log.follower_append_check import check_replicated
from storage.log.loading import LoadedLog, load_log
from storage.log.local_log import LocalLog
from storage.log.log_upkeep import LogUpkeep
from storage.log.marker_batches import build_marker_batches
from storage.log.time_search import TimestampOffset
from storage.producers.producer_entry import WrittenBatch
from storage.producers.producer_state import NewMarker
from storage.segment.segment import FileRegion, Segment
from storage.segment.transaction_index import AbortedTransaction

__all__ = ["AppendInfo", "FileRegion", "Log", "TimestampOffset"]

log = structlog.get_logger(__name__)

NO_APPEND_TIME: Final = -1
# Looked up once: access to an enum member runs Python code.
_LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME


class AppendInfo(NamedTuple):
    """Offsets of appended batches; `log_append_time_ms` is -1 if records keep their own time."""

    base_offset: Offset
    last_offset: Offset
    log_append_time_ms: int
    log_start_offset: Offset


class Log:
    """The log of a partition, created by `open` and owned by one thread."""

    @classmethod
    def open(
        cls,
        directory: Path,
        config: LogConfig,
        *,
        topic_partition: TopicPartition,
        recovery_point: Offset,
        log_start_offset: Offset,
        high_watermark: Offset | None = None,
        is_gapless: bool = False,
        was_clean: bool,
        now_ms: int,
        health: DirectoryHealth | None = None,
    ) -> "Log":
        """Open the log in `directory`, or create one if the directory is empty.

        `high_watermark` is the stored one, if any. `is_gapless`: see `load_log`.

        Raises:
            LogDirOfflineError: the disk failed.
            CorruptCheckpointError: `partition.metadata` is damaged, so the topic is unknown.
        """
        health = health or DirectoryHealth(directory.parent)
        with offline_on_failure(health):
            topic_id = partition_metadata.read_topic_id(directory / PARTITION_METADATA)
            loaded = load_log(
                directory,
                config,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                high_watermark=high_watermark,
                is_gapless=is_gapless,
                was_clean=was_clean,
                now_ms=now_ms,
            )
        for each in loaded.damage:
            health.note_damage(each)
        if not was_clean:
            log.info(
                "log.recovered",
                partition=str(topic_partition),
                segment_count=len(loaded.segments),
                log_start_offset=loaded.log_start_offset,
                log_end_offset=loaded.log_end_offset,
            )
        local = LocalLog(directory, config, loaded, now_ms)
        opened = cls(
            local,
            loaded,
            topic_partition=topic_partition,
            topic_id=topic_id,
            health=health,
        )
        opened._drop_stored_epochs()
        return opened

    def __init__(
        self,
        local: LocalLog,
        loaded: LoadedLog,
        *,
        topic_partition: TopicPartition,
        topic_id: TopicId | None,
        health: DirectoryHealth,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.health = health
        self.log_start_offset = loaded.log_start_offset
        self.leader_epochs = loaded.epochs
        """History of leader epochs; only the owner of the log may change it."""
        self.gap_offset = loaded.gap_offset
        """Where a loss of power may have dropped records, if anywhere; see `LoadedLog`."""
        self.producers = loaded.producers
        """State of the producers; only the owner of the log may change it."""
        self.lower_checkpoints: Callable[[], None] = lambda: None
        """Lowers the checkpoints on disk to the bounds of this log; its log dir sets it."""
        self._local = local
        self._epochs = StoredEpochs(loaded.epochs, loaded.stored_epochs, is_durable=loaded.is_clean)
        self.upkeep = LogUpkeep(local, self._epochs, topic_partition, health)
        """Flushing, rolling, swapping, closing."""
        self.lowest_end_offset = local.log_end_offset
        """The lowest end since a copy of this log was aligned with it; see `log_copying.align`."""

    @property
    def is_closed(self) -> bool:
        """Whether the log is no longer served."""
        return self.upkeep.is_closed

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

    def update_config(self, config: LogConfig) -> None:
        """Adopt `config`; settings of the indexes take effect with the next segment."""
        self._local.config = config

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """Store the id of the topic that the log belongs to; it is durable on return.

        Raises:
            InconsistentTopicIdError: the log belongs to another topic.
        """
        if self.topic_id == topic_id:
            return
        if self.topic_id is not None:
            raise InconsistentTopicIdError(
                f"{self.topic_partition} is of topic {self.topic_id}, not of {topic_id}"
            )
        with self.upkeep.io():
            partition_metadata.write_topic_id(self.directory / PARTITION_METADATA, topic_id)
        self.topic_id = topic_id

    def append_as_leader(
        self,
        batch: memoryview,
        header: BatchHeader,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        *,
        has_sequence: bool = True,
    ) -> AppendInfo:
        """Append one validated batch, after writing offsets, epoch and time into `batch` in place.

        A duplicate of a producer's batch is not appended again; the result then holds the offsets
        of the first copy, which are below `log_end_offset`. Without `has_sequence` the batch is
        written by a coordinator for a producer, and no batch is a duplicate.

        Raises:
            OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTransactionStateError: the
                producer may not write this batch now; nothing was appended.
            BatchTooLargeError: the batch is larger than a segment; nothing was appended.
            LogDirOfflineError, LogDirFullError, OutOfFilesError: the disk failed, now or before, or
                has no space, or no file can be opened. Nothing was appended, unless
                `log_end_offset` has changed: then the flush due by `flush.messages` failed.
        """
        local = self._local
        config = local.config
        if self.health.refusal is not None:
            self.health.check_writable()
        if len(batch) > config.segment_bytes:
            raise BatchTooLargeError(
                f"a batch of {len(batch)} bytes for segments of {config.segment_bytes}"
            )
        if local.is_unsettled:
            self._settle()
        producer_id = header.producer_id
        if producer_id >= 0:
            if not has_sequence:
                self.producers.check_unsequenced(header)
            elif (duplicate := self.producers.find_duplicate(header)) is not None:
                return self._repeated(duplicate)
        base_offset = local.log_end_offset
        last_offset = Offset(base_offset + header.last_offset_delta)
        timestamp_ms, append_time_ms = header.max_timestamp_ms, NO_APPEND_TIME
        assign_offsets(batch, base_offset, leader_epoch)
        if config.message_timestamp_type is _LOG_APPEND_TIME:
            set_log_append_time(batch, now_ms)
            timestamp_ms = append_time_ms = now_ms
        # Without `upkeep.io`, which costs as much as the whole append
        # (benchmarks/micro/test_log_append.py).
        try:
            if leader_epoch != self._epochs.begun:
                self._epochs.begin(local.directory, leader_epoch, base_offset)
            local.append(batch, base_offset, last_offset, timestamp_ms, now_ms)
        except OSError as error:
            raise self.health.fail(error) from error
        if producer_id >= 0:
            self.producers.on_append(header, last_offset, timestamp_ms)
        if local.log_end_offset - local.recovery_point >= config.flush_messages:
            self.upkeep.flush()
        # The constructor AppendInfo(...) is a Python function around this call.
        return tuple.__new__(
            AppendInfo, (base_offset, last_offset, append_time_ms, self.log_start_offset)
        )

    def _repeated(self, batch: WrittenBatch) -> AppendInfo:
        # The producer may repeat it because the flush after the append has failed.
        self.upkeep.flush_appended()
        last_offset, time_ms = Offset(batch.last_offset), batch.timestamp_ms
        return AppendInfo(batch.base_offset, last_offset, time_ms, self.log_start_offset)

    def append_markers(
        self, markers: Sequence[NewMarker], leader_epoch: LeaderEpoch, now_ms: int
    ) -> list[Offset | StorageError]:
        """Append a control batch for each of `markers`, with a single write if possible.

        Returns the offset of each marker; a marker that its producer's state forbids gets an
        InvalidProducerEpochError or a CoordinatorFencedError instead, and is not appended.

        Raises:
            LogDirOfflineError: the disk failed, now or before; nothing was appended.
            LogDirFullError: there is no space; markers may have been appended, see
                `log_end_offset`.
        """
        self.health.check_writable()
        local = self._local
        config = local.config
        if local.is_unsettled:
            self._settle()
        base_offset = local.log_end_offset
        built = build_marker_batches(
            markers,
            self.producers,
            base_offset,
            leader_epoch,
            config.message_timestamp_type,
            now_ms,
        )
        if not built.headers:
            return built.results
        try:
            if leader_epoch != self._epochs.begun:
                self._epochs.begin(local.directory, leader_epoch, base_offset)
            local.append_all(memoryview(built.data), built.headers, now_ms)
        except OSError as error:
            raise self.health.fail(error) from error
        self.upkeep.flush_appended()
        return built.results

    def append_as_follower(self, data: memoryview, now_ms: int) -> AppendInfo | None:
        """Append the complete batches in `data` as the leader wrote them; None if there is none.

        Limits on the size of a batch do not apply, because the leader has accepted it.

        Raises:
            CorruptBatchError: a batch is damaged; none was appended.
            UnexpectedOffsetError: a batch overlaps the log; none was appended.
            LogDirOfflineError: the disk failed; a prefix may have been appended.
            LogDirFullError, OutOfFilesError: there is no space, or no file can be opened; a prefix
                may have been appended. If it was all, see `LogUpkeep.is_flush_late`.
        """
        self.health.check_writable()
        headers = check_replicated(
            data, log_start_offset=self.log_start_offset, log_end_offset=self.log_end_offset
        )
        if not headers:
            return None
        base_offset, last_offset = headers[0].base_offset, headers[-1].last_offset
        if self._local.is_unsettled:
            self._settle()
        with self.upkeep.io():
            if base_offset < self.log_end_offset:
                # The log is empty, and its start offset lies inside this batch.
                self._local.restart_at(Offset(base_offset))
                self.leader_epochs.clear()
                self._drop_stored_epochs()
            for header in headers:
                if header.leader_epoch > self.leader_epochs.latest:
                    epoch = LeaderEpoch(header.leader_epoch)
                    self.leader_epochs.assign(epoch, Offset(header.base_offset))
            if self._epochs.begun != self.leader_epochs.latest:
                self._epochs.store_begun(self.directory)
            size = sum(header.size_bytes for header in headers)
            try:
                self._local.append_all(data[:size], headers, now_ms)
            except OSError:
                self._epochs.forget_beyond(self.log_end_offset)
                raise
        self.upkeep.flush_appended()
        return AppendInfo(
            Offset(base_offset), Offset(last_offset), NO_APPEND_TIME, self.log_start_offset
        )

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
            StorageError: the log was set aside, and its files have other names.
        """
        self.health.check()
        self._check_range(offset, self.log_start_offset)
        try:
            return self._local.read(offset, max_bytes, end_offset, min_one_batch=min_one_batch)
        except OSError as error:
            if self.is_closed and isinstance(error, FileNotFoundError):
                raise StorageError(f"{self.topic_partition} is no longer served here") from error
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
        with self.upkeep.io():
            return self._local.aborted_in(region, offset, end_offset)

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Return the last stable offset for this high watermark (see `ProducerState`)."""
        stable = self.producers.last_stable_offset(high_watermark)
        if stable == high_watermark:
            return stable
        # The first records of an open transaction may have been deleted.
        return min(high_watermark, max(stable, self.log_start_offset))

    def count_segments(self, max_count: int) -> bool:
        """Prepare a search by time in up to `max_count` segments; return whether some are left."""
        with self.upkeep.io():
            return time_search.count(self._local.segments, max_count)

    def offset_for_timestamp(self, timestamp_ms: int, end_offset: Offset) -> TimestampOffset | None:
        """Return the first record below `end_offset` with at least `timestamp_ms`."""
        start = self.log_start_offset
        with self.upkeep.io():
            segments = self._local.segments.from_offset(start)
            return time_search.first_from(segments, timestamp_ms, start, end_offset)

    def max_timestamp(self) -> TimestampOffset | None:
        """Return the first record with the largest timestamp, or None if the log has none."""
        with self.upkeep.io():
            return time_search.latest(self._local.segments)

    def end_offset_for(self, leader_epoch: int) -> tuple[LeaderEpoch, Offset]:
        """Return the largest known epoch up to `leader_epoch` and its end (see `LeaderEpochs`)."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def _check_range(self, offset: Offset, lowest: Offset) -> None:
        if not lowest <= offset <= self._local.log_end_offset:
            raise OffsetOutOfRangeError(
                self.topic_partition, offset, self.log_start_offset, self.log_end_offset
            )

    def truncate_to(self, offset: Offset) -> bool:
        """Drop all batches that hold `offset` or a later one; return whether there were any.

        The checkpoints on disk must be lowered before the next append: otherwise a crash could
        leave damage below the recovery point, or a log that ends below its start. After
        `Logs.truncate_to` has done so, it calls `note_lowered`. If it has failed, the next append
        lowers them, or is refused.
        """
        has_effect = offset < self.log_end_offset
        try:
            if has_effect:
                with self.upkeep.io():
                    self.upkeep.disown_copy()
                    self._local.truncate_to(offset)
                log.info("log.truncated", partition=str(self.topic_partition), offset=offset)
                if self.gap_offset is not None and offset <= self.gap_offset:
                    self.gap_offset = None
        finally:
            # Unconditionally: a leadership may have begun at the log end without writing a batch.
            self._fit_to_segments()
        self._drop_stored_epochs()
        return has_effect

    def note_lowered(self) -> None:
        """Note that the checkpoints on disk have been lowered after a truncation."""
        self._local.is_unsettled = self._local.has_dropped_producers

    def note_shortened(self) -> None:
        """Have the next append lower the checkpoints on disk first, as after a truncation."""
        self._local.is_unsettled = True

    def _settle(self) -> None:
        """Finish a truncation, of this process or of an earlier one, before the next append.

        Raises:
            StorageError: nothing may be appended.
        """
        if self._local.has_dropped_producers:
            with self.upkeep.io():
                self._local.reload_producers()
        self.lower_checkpoints()
        self._local.is_unsettled = False

    def _fit_to_segments(self) -> None:
        """Adopt the offsets that a truncation has left, even if it failed half-way."""
        first_offset = self._local.segments.first.base_offset
        self.log_start_offset = min(max(self.log_start_offset, first_offset), self.log_end_offset)
        self._epochs.forget_beyond(self.log_end_offset)
        self.lowest_end_offset = min(self.lowest_end_offset, self.log_end_offset)

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Drop everything; the next batch begins at `offset` or above."""
        try:
            with self.upkeep.io():
                self.upkeep.disown_copy()
                self._local.restart_at(offset)
        except StorageError:
            self._fit_to_segments()
            raise
        self.log_start_offset = offset
        self.gap_offset = None
        self.lowest_end_offset = min(self.lowest_end_offset, offset)
        self.leader_epochs.clear()
        self._drop_stored_epochs()
        log.info("log.restarted", partition=str(self.topic_partition), offset=offset)

    def advance_log_start(self, offset: Offset) -> bool:
        """Raise the log start offset to `offset`; return whether it moved.

        Segments that lie entirely below it are deleted.

        Raises:
            OffsetOutOfRangeError: the log ends below `offset`.
        """
        self._check_range(offset, Offset(0))
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        with self.upkeep.io():
            self._local.delete_below(offset)
        log.info("log_start.advanced", partition=str(self.topic_partition), offset=offset)
        return True

    def delete_oldest(self, segment_count: int, now_ms: int) -> None:
        """Delete the oldest segments, which must be committed, and raise the log start offset.

        They may include the active segment, unless it is empty. A new one then replaces it.
        """
        with self.upkeep.io():
            end_offset = self._local.delete_oldest(segment_count, now_ms)
        if end_offset > self.log_start_offset:
            self.log_start_offset = end_offset
            self.leader_epochs.truncate_from_start(end_offset)

    def _drop_stored_epochs(self) -> None:
        """Remove epochs from the file that are no longer in the log, before the next append.

        The next batch may belong to an older leadership. After a crash, the stale entries would
        hide that.
        """
        if self._epochs.note_dropped():
            with self.upkeep.io():
                self._epochs.store(self.directory)

    def take_over_from(self, source: "Log") -> None:
        """Take over the state of `source`, the original of this copy, that no file contains.

        This is: leaderships without a batch, transactions whose end may not be committed, and the
        older batches of producers that a retry may repeat.
        """
        self.producers.recall_from(source.producers)
        self.producers.add_ended(source.producers.ended_below(self.log_end_offset))
        for entry in source.leader_epochs.entries:
            self.leader_epochs.assign(*entry)

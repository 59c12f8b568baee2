"""One partition's log: the interface for the rest of the broker (edge over `local_log`).

It adds to the segments: leader epochs, the log start offset, the topic id, and taking the log dir
offline when its disk fails. Invariant: `log_start_offset <= log_end_offset`.

One thread owns a log. Other threads may call `flush`, and read the regions that `read` returned.
"""

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
    InconsistentTopicIdError,
    StorageError,
)
from storage.log import partition_metadata
from storage.log.leader_epochs import UNDEFINED_EPOCH
from storage.log.loading import load_log
from storage.log.local_log import LocalLog
from storage.log.log_upkeep import LogUpkeep
from storage.log.replicated import check_replicated
from storage.log.time_search import TimestampOffset
from storage.producers.producer_entry import WrittenBatch
from storage.segment.segment import FileRegion

__all__ = ["AppendInfo", "FileRegion", "Log", "TimestampOffset"]

log = structlog.get_logger()

NO_APPEND_TIME: Final = -1
# Looked up once: access to an enum member runs Python code.
_LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME


class AppendInfo(NamedTuple):
    """Offsets of appended batches; `log_append_time_ms` is -1 if records keep their own time."""

    base_offset: Offset
    last_offset: Offset
    log_append_time_ms: int
    log_start_offset: Offset


class Log(LogUpkeep):
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
        was_clean: bool,
        now_ms: int,
        health: DirectoryHealth | None = None,
    ) -> "Log":
        """Open the log in `directory`, or create one if the directory is empty.

        `high_watermark` is the stored one, if any.

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
            now_ms=now_ms,
        )
        opened._drop_stored_epochs()
        return opened

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
        with self._io():
            partition_metadata.write_topic_id(self.directory / PARTITION_METADATA, topic_id)
        self.topic_id = topic_id

    def append_as_leader(
        self, batch: memoryview, header: BatchHeader, leader_epoch: LeaderEpoch, now_ms: int
    ) -> AppendInfo:
        """Append one validated batch, after writing offsets, epoch and time into `batch` in place.

        A duplicate of a producer's batch is not appended again; the result then holds the offsets
        of the first copy, which are below `log_end_offset`. A control batch is always appended.

        Raises:
            OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTransactionStateError: the
                producer may not write this batch now; nothing was appended.
            BatchTooLargeError: the batch is larger than a segment; nothing was appended.
            LogDirOfflineError: the disk failed, now or before; nothing was appended.
            LogDirFullError: there is no space; nothing except perhaps a control batch was appended.
        """
        local = self._local
        config = local.config
        if self.health.refusal is not None:
            self.health.check_writable()
        if len(batch) > config.segment_bytes:
            raise BatchTooLargeError(
                f"a batch of {len(batch)} bytes for segments of {config.segment_bytes}"
            )
        producer_id = header.producer_id
        is_control = producer_id >= 0 and header.is_control
        if (
            producer_id >= 0
            and not is_control
            and (duplicate := self.producers.find_duplicate(header)) is not None
        ):
            return self._repeated(duplicate)
        base_offset = local.log_end_offset
        last_offset = Offset(base_offset + header.last_offset_delta)
        timestamp_ms, append_time_ms = header.max_timestamp_ms, NO_APPEND_TIME
        assign_offsets(batch, base_offset, leader_epoch)
        if config.message_timestamp_type is _LOG_APPEND_TIME:
            set_log_append_time(batch, now_ms)
            timestamp_ms = append_time_ms = now_ms
        # Without `_io`, which costs as much as the whole append
        # (benchmarks/micro/test_log_append.py).
        try:
            if leader_epoch != self._noted_epoch:
                self.leader_epochs.assign(leader_epoch, base_offset)
                self._store_new_epoch()
            local.append(batch, base_offset, last_offset, timestamp_ms, now_ms)
            if is_control:
                local.note_marker(batch, header._replace(base_offset=base_offset))
        except OSError as error:
            raise self.health.fail(error) from error
        if producer_id >= 0 and not is_control:
            self.producers.on_append(header, last_offset, timestamp_ms)
        if local.log_end_offset - local.recovery_point >= config.flush_messages:
            self.flush()
        # The constructor AppendInfo(...) is a Python function around this call.
        return tuple.__new__(
            AppendInfo, (base_offset, last_offset, append_time_ms, self.log_start_offset)
        )

    def _repeated(self, batch: WrittenBatch) -> AppendInfo:
        last_offset, time_ms = Offset(batch.last_offset), batch.timestamp_ms
        return AppendInfo(batch.base_offset, last_offset, time_ms, self.log_start_offset)

    def append_as_follower(self, data: memoryview, now_ms: int) -> AppendInfo | None:
        """Append the complete batches in `data` as the leader wrote them; None if there is none.

        Limits on the size of a batch do not apply, because the leader has accepted it.

        Raises:
            CorruptBatchError: a batch is damaged; none was appended.
            UnexpectedOffsetError: a batch overlaps the log; none was appended.
            LogDirOfflineError: the disk failed; a prefix may have been appended.
            LogDirFullError: there is no space; a prefix may have been appended.
        """
        self.health.check_writable()
        headers = check_replicated(
            data, log_start_offset=self.log_start_offset, log_end_offset=self.log_end_offset
        )
        if not headers:
            return None
        base_offset, last_offset = headers[0].base_offset, headers[-1].last_offset
        with self._io():
            if base_offset < self.log_end_offset:
                # The log is empty, and its start offset lies inside this batch.
                self._local.restart_at(Offset(base_offset))
                self.leader_epochs.clear()
                self._drop_stored_epochs()
            for header in headers:
                if header.leader_epoch > self.leader_epochs.latest:
                    epoch = LeaderEpoch(header.leader_epoch)
                    self.leader_epochs.assign(epoch, Offset(header.base_offset))
            if self._noted_epoch != self.leader_epochs.latest:
                self._store_new_epoch()
            size = sum(header.size_bytes for header in headers)
            try:
                self._local.append_all(data[:size], headers, now_ms)
            except OSError:
                self._forget_epochs_beyond_end()
                raise
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()
        return AppendInfo(
            Offset(base_offset), Offset(last_offset), NO_APPEND_TIME, self.log_start_offset
        )

    def truncate_to(self, offset: Offset) -> bool:
        """Drop all batches that hold `offset` or a later one; return whether there were any.

        The recovery point on disk must be lowered before the next append, as `Logs.truncate_to`
        does: otherwise a crash could leave damage below it.
        """
        has_effect = offset < self.log_end_offset
        try:
            if has_effect:
                with self._io():
                    self._local.truncate_to(offset)
                log.info("log.truncated", partition=str(self.topic_partition), offset=offset)
        finally:
            # Even a failed truncation may have dropped segments.
            self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
            # Unconditionally: a leadership may have begun at the log end without writing a batch.
            self._forget_epochs_beyond_end()
        self._drop_stored_epochs()
        return has_effect

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Drop everything; the next batch begins at `offset` or above."""
        try:
            with self._io():
                self._local.restart_at(offset)
        except StorageError:
            self._forget_epochs_beyond_end()
            raise
        self.log_start_offset = offset
        self.leader_epochs.clear()
        self._drop_stored_epochs()
        log.info("log.restarted", partition=str(self.topic_partition), offset=offset)

    def _forget_epochs_beyond_end(self) -> None:
        self.leader_epochs.truncate_from_end(self.log_end_offset)
        # The next append writes the file, or is refused.
        self._noted_epoch = UNDEFINED_EPOCH

    def take_over_from(self, source: "Log") -> None:
        """Take over the state of `source`, the original of this copy, that no file contains.

        This is: leaderships without a batch, and transactions whose end may not be committed.
        """
        self.producers.add_ended(source.producers.ended_below(self.log_end_offset))
        for entry in source.leader_epochs.entries:
            self.leader_epochs.assign(*entry)

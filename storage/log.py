"""One partition's log: what the rest of the broker may do with it (edge over `local_log`).

Adds to the segments: who leads (epochs), where the log starts, whose topic it is, and that a
failing disk takes the log dir offline. Invariant: `log_start_offset <= log_end_offset`.

One thread owns a log. Another one may call `flush`, and read the regions that `read` returned.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from kafkawire.ids import LeaderEpoch, Offset, TopicId, TopicPartition
from kafkawire.records import BatchHeader, TimestampType, assign_offsets, set_log_append_time
from storage import partition_metadata, time_search
from storage.checkpoint import sync_directory
from storage.config import LogConfig
from storage.directory_health import DirectoryHealth, offline_on_failure
from storage.epoch_checkpoint import EpochCheckpoint
from storage.errors import (
    BatchTooLargeError,
    CorruptLogError,
    InconsistentTopicIdError,
    OffsetOutOfRangeError,
)
from storage.layout import PARTITION_METADATA, DirectoryState, set_aside_directory
from storage.loading import LoadedLog, load_log
from storage.local_log import LocalLog
from storage.producer_entry import WrittenBatch
from storage.replicated import check_replicated
from storage.segment import FileRegion, Segment
from storage.time_search import TimestampOffset

__all__ = ["AppendInfo", "FileRegion", "Log", "TimestampOffset"]

log = structlog.get_logger()

NO_APPEND_TIME: Final = -1
# Found once: an enum looks its members up by Python code.
_LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME


class AppendInfo(NamedTuple):
    """Where batches came to lie; `log_append_time_ms` is -1 where records keep their own time."""

    base_offset: Offset
    last_offset: Offset
    log_append_time_ms: int
    log_start_offset: Offset


class Log:
    """The log of `topic_partition`."""

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
        """To be changed by the log's own methods only."""
        self.producers = loaded.producers
        """Who wrote what; likewise."""
        self.is_closed = False
        self._last_flush_ms = now_ms
        self._local = local
        self._epoch_checkpoint = EpochCheckpoint(loaded.stored_epochs)

    @classmethod
    def open(
        cls,
        directory: Path,
        config: LogConfig,
        *,
        topic_partition: TopicPartition,
        recovery_point: Offset,
        log_start_offset: Offset,
        was_clean: bool,
        now_ms: int,
        health: DirectoryHealth | None = None,
    ) -> "Log":
        """Open the log in `directory`, or begin one if the directory is empty.

        Raises:
            LogDirOfflineError: the disk failed.
            CorruptCheckpointError: `partition.metadata` does not say whose log this is.
        """
        health = health or DirectoryHealth(directory.parent)
        with offline_on_failure(health):
            topic_id = partition_metadata.read_topic_id(directory / PARTITION_METADATA)
            loaded = load_log(
                directory,
                config,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
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
        return cls(
            local,
            loaded,
            topic_partition=topic_partition,
            topic_id=topic_id,
            health=health,
            now_ms=now_ms,
        )

    @property
    def config(self) -> LogConfig:
        """How the log is laid out and kept."""
        return self._local.config

    @property
    def directory(self) -> Path:
        """Where the files lie."""
        return self._local.directory

    @property
    def log_end_offset(self) -> Offset:
        """The offset that the next record gets."""
        return self._local.log_end_offset

    @property
    def recovery_point(self) -> Offset:
        """Everything below is on disk."""
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
        """Use `config` from now on; what shapes the indexes counts from the next segment on."""
        self._local.config = config

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """Say which topic the log belongs to; durable when this returns.

        Raises:
            InconsistentTopicIdError: it belongs to another one already.
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
        """Append one validated batch: offsets, epoch and time are written into `batch` in place.

        A batch that its producer has written already is not appended again; the answer tells where
        it stands, which is below `log_end_offset`.

        Raises:
            OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTransactionStateError: the
                producer may not write this batch now; nothing was appended.
            BatchTooLargeError: the batch is larger than a segment; nothing was appended.
            LogDirOfflineError: the disk failed, now or before; nothing was appended.
            LogDirFullError: there is no space; nothing was appended.
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
        if producer_id >= 0 and (duplicate := self.producers.find_duplicate(header)) is not None:
            return self._repeated(duplicate)
        base_offset = local.log_end_offset
        last_offset = Offset(base_offset + header.last_offset_delta)
        timestamp_ms, append_time_ms = header.max_timestamp_ms, NO_APPEND_TIME
        assign_offsets(batch, base_offset, leader_epoch)
        if config.message_timestamp_type is _LOG_APPEND_TIME:
            set_log_append_time(batch, now_ms)
            timestamp_ms = append_time_ms = now_ms
        # Not `_io`, which costs as much as all of this (benchmarks/micro/test_log_append.py).
        try:
            if leader_epoch != self.leader_epochs.latest:
                self.leader_epochs.assign(leader_epoch, base_offset)
            local.append(batch, base_offset, last_offset, timestamp_ms, now_ms)
        except OSError as error:
            raise self.health.fail(error) from error
        if producer_id >= 0:
            self.producers.on_append(header, last_offset, timestamp_ms)
        if local.log_end_offset - local.recovery_point >= config.flush_messages:
            self.flush()
        return AppendInfo(base_offset, last_offset, append_time_ms, self.log_start_offset)

    def _repeated(self, batch: WrittenBatch) -> AppendInfo:
        last_offset, time_ms = Offset(batch.last_offset), batch.timestamp_ms
        return AppendInfo(batch.base_offset, last_offset, time_ms, self.log_start_offset)

    def append_as_follower(self, data: memoryview, now_ms: int) -> AppendInfo | None:
        """Append the whole batches in `data` as the leader wrote them; None if there is none.

        Limits on the size of a batch do not count here: the leader has accepted it.

        Raises:
            CorruptBatchError: a batch is damaged; none was appended.
            UnexpectedOffsetError: a batch overlaps what the log holds; none was appended.
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
                # The log is empty, and begins within this batch.
                self._local.restart_at(Offset(base_offset))
                self.leader_epochs.clear()
            for header in headers:
                if header.leader_epoch > self.leader_epochs.latest:
                    epoch = LeaderEpoch(header.leader_epoch)
                    self.leader_epochs.assign(epoch, Offset(header.base_offset))
            size = sum(header.size_bytes for header in headers)
            self._local.append_all(data[:size], headers, now_ms)
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()
        return AppendInfo(
            Offset(base_offset), Offset(last_offset), NO_APPEND_TIME, self.log_start_offset
        )

    def read(
        self, offset: Offset, max_bytes: int, *, end_offset: Offset, min_one_batch: bool
    ) -> FileRegion:
        """Return whole batches from the one that holds `offset` on, all below `end_offset`.

        The region has at most `max_bytes`, except that with `min_one_batch` a larger first batch
        comes whole. It is empty where nothing may be read yet. It ends with a segment.

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

    def offset_for_timestamp(self, timestamp_ms: int, end_offset: Offset) -> TimestampOffset | None:
        """Return the first record below `end_offset` that is not older than `timestamp_ms`."""
        start = self.log_start_offset
        with self._io():
            segments = self._local.segments.from_offset(start)
            return time_search.first_from(segments, timestamp_ms, start, end_offset)

    def max_timestamp(self) -> TimestampOffset | None:
        """Return the first of the records with the largest timestamp, or None without any."""
        with self._io():
            return time_search.latest(self._local.segments)

    def assign_epoch(self, leader_epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Note that a leadership begins at `start_offset`, even if it writes nothing; durable."""
        if self.leader_epochs.assign(leader_epoch, start_offset):
            with self._io():
                self._store_epochs()

    def _store_epochs(self) -> None:
        """Write down what batches below the recovery point tell, before it is raised.

        Those above tell it again after a crash, so no append waits for this.
        """
        self._epoch_checkpoint.store(self.directory, self.leader_epochs)

    def _unstore_epochs(self) -> None:
        """Take back what a truncation has made untrue, before anything else is appended.

        What comes next may be of an older leadership, which would not show after a crash.
        """
        if self._epoch_checkpoint.holds_more_than(self.leader_epochs):
            with self._io():
                self._store_epochs()

    def end_offset_for(self, leader_epoch: int) -> tuple[LeaderEpoch, Offset]:
        """Return the largest known epoch up to `leader_epoch` and its end (see `LeaderEpochs`)."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def truncate_to(self, offset: Offset) -> bool:
        """Drop all batches that hold `offset` or a later one; return whether there were any.

        The recovery point on disk must be lowered before the next append, as `Logs.truncate_to`
        does: otherwise a crash could leave damage below it.
        """
        has_effect = offset < self.log_end_offset
        if has_effect:
            with self._io():
                self._local.truncate_to(offset)
            self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
            log.info("log.truncated", partition=str(self.topic_partition), offset=offset)
        # In any case: a leadership may have begun at the end without writing anything.
        self.leader_epochs.truncate_from_end(self.log_end_offset)
        self._unstore_epochs()
        return has_effect

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Drop everything; the next batch begins at `offset` or above."""
        with self._io():
            self._local.restart_at(offset)
        self.log_start_offset = offset
        self.leader_epochs.clear()
        self._unstore_epochs()
        log.info("log.restarted", partition=str(self.topic_partition), offset=offset)

    def advance_log_start(self, offset: Offset) -> bool:
        """Make `offset` the first one there is; return whether that was news.

        Segments that lie below it as a whole are deleted.

        Raises:
            OffsetOutOfRangeError: the log ends below `offset`.
        """
        self._check_range(offset, Offset(0))
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        with self._io():
            self._local.delete_below(offset)
        log.info("log_start.advanced", partition=str(self.topic_partition), offset=offset)
        return True

    def delete_oldest(self, segment_count: int, now_ms: int) -> None:
        """Delete the oldest segments, which must be committed; the log starts behind them then.

        The active one may be among them, unless it is empty: a new one takes its place.
        """
        with self._io():
            end_offset = self._local.delete_oldest(segment_count, now_ms)
        if end_offset > self.log_start_offset:
            self.log_start_offset = end_offset
            self.leader_epochs.truncate_from_start(end_offset)

    def release_closed(self) -> None:
        """Close the files of all but the active segment, until somebody reads there."""
        self._local.release_closed()

    def _check_range(self, offset: Offset, lowest: Offset) -> None:
        if not lowest <= offset <= self._local.log_end_offset:
            raise OffsetOutOfRangeError(
                self.topic_partition, offset, self.log_start_offset, self.log_end_offset
            )

    def roll(self, now_ms: int) -> None:
        """Close the active segment and begin a new one, unless it is empty."""
        if self._local.segments.last.size_bytes:
            with self._io():
                self._local.roll(self.log_end_offset, now_ms)

    def flush(self) -> None:
        """Bring everything that has been appended to disk; any thread may call this.

        Raises:
            LogDirOfflineError: the disk failed; nothing is known about what is on it.
        """
        with self._io():
            self._store_epochs()
            self._local.sync()

    def flush_if_due(self, now_ms: int) -> None:
        """Flush if `flush.ms` have passed since the last flush; any thread may call this."""
        if self.log_end_offset > self.recovery_point:
            if now_ms - self._last_flush_ms < self.config.flush_ms:
                return
            self.flush()
        self._last_flush_ms = now_ms

    def flush_closed(self) -> None:
        """Bring the segments that are closed to disk; any thread may call this.

        It bounds how much a start after a crash has to recover.
        """
        if self._local.has_closed_since_sync:
            with self._io():
                self._store_epochs()
                self._local.sync(closed_only=True)

    def begin_swap(self, base_offsets: Sequence[int], size_bytes: int) -> bool:
        """Announce that a cleaned segment takes the place of those that begin at these offsets.

        Returns False, and does nothing, if the log is not what was cleaned. If it becomes so
        later, the swap is given up. `sync_names` must return before `finish_swap` is called.
        """
        with self._io():
            return not self.is_closed and self._local.begin_swap(base_offsets, size_bytes)

    def finish_swap(self, now_ms: int) -> bool:
        """Put the cleaned segment in place; False if that was given up meanwhile.

        Readers that hold a region of a replaced segment finish.
        """
        with self._io():
            return self._local.finish_swap(now_ms)

    def cancel_swap(self) -> None:
        """Give up a swap that has begun, if there is one."""
        with self._io():
            self._local.cancel_swap()

    def sync_names(self) -> None:
        """Make the names of the files durable; any thread may call this."""
        with self._io():
            sync_directory(self.directory)

    def take_over_from(self, source: "Log") -> None:
        """Know the leaderships of `source`, whose copy this is, also those without a batch."""
        for entry in source.leader_epochs.entries:
            self.leader_epochs.assign(*entry)

    def close(self) -> None:
        """Flush, and leave the files as a start without recovery needs them."""
        if self.is_closed:
            return
        with self._io():
            self._local.close()
            self._epoch_checkpoint.store(self.directory, self.leader_epochs)
        self.is_closed = True

    def set_aside(self, state: DirectoryState) -> Path:
        """Stop serving the log and rename its directory; return the new path.

        Readers that hold a region finish. Durable when the log dir has been synced.
        """
        with self._io():
            self._local.cancel_swap()
            # First, as a flush in another thread may find the directory gone from here on.
            self.is_closed = True
            name = set_aside_directory(self.topic_partition, state)
            self._local.directory = self.directory.rename(self.directory.with_name(name))
        return self.directory

    def remove_deleted_files(self, now_ms: int) -> None:
        """Remove files that have been out of use for `file.delete.delay.ms`, or at once if full."""
        delay_ms = 0 if self.health.is_full else self.config.file_delete_delay_ms
        with self._io():
            self._local.deleted_files.remove_due(now_ms, delay_ms)

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

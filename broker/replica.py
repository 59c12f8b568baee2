"""One partition that this broker leads: its log and its replication state (edge).

Every method runs to its end in the loop's thread and awaits nothing, so that no other request can
come between a check and the write that it guards. Invariant: `replication.log_end_offset` is the
log's end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from broker.recompression import recompress, target_codec
from broker.replication import Replication
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafkawire.records import HAS_COMPILED_SCANNER, BatchHeader, validate_produced
from storage.config import LogConfig
from storage.config_key import LONG_MAX
from storage.log import AppendInfo, Log
from storage.segment import FileRegion

NO_EPOCH: Final = -1
ACKS_ALL: Final = -1


class ReadResult(NamedTuple):
    """What one read of a partition found; all numbers were taken at the same moment."""

    records: FileRegion | None
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset
    diverging_epoch: LeaderEpoch | None = None
    diverging_end_offset: Offset | None = None


class Replica:
    """A partition of which this broker is the leader."""

    __slots__ = (
        "_codec",
        "_validate",
        "leader_epoch",
        "log",
        "replication",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        log: Log,
        *,
        broker_id: BrokerId,
        leader_epoch: LeaderEpoch,
        high_watermark: Offset,
    ) -> None:
        """Lead `log` from now on, as the only replica."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = leader_epoch
        self.replication = Replication(
            broker_id,
            replicas=frozenset({broker_id}),
            isr=frozenset({broker_id}),
            log_end_offset=log.log_end_offset,
            high_watermark=high_watermark,
            min_insync_replicas=log.config.min_insync_replicas,
        )
        self._adopt(log.config)

    @property
    def high_watermark(self) -> Offset:
        """Consumers see what lies below."""
        return self.replication.high_watermark

    @property
    def last_stable_offset(self) -> Offset:
        """Everything below belongs to decided transactions; there are none to wait for yet."""
        return self.replication.high_watermark

    def update_config(self, config: LogConfig) -> None:
        """Apply a changed topic config, from the next append on."""
        self.log.update_config(config)
        self.replication.on_config_change(config.min_insync_replicas)
        self._adopt(config)

    def append(self, batch: memoryview, acks: int, now_ms: int) -> AppendInfo:
        """Check `batch` and write it; it is committed when the high watermark passes it.

        `batch` must be writable: its offsets are assigned in place.

        Raises:
            ApiError: too few replicas are in sync for `acks`, or the batch is not acceptable.
            StorageError, OSError: nothing was written.
        """
        replication = self.replication
        if acks == ACKS_ALL and not replication.has_min_isr:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(replication.isr)} of {replication.effective_min_isr} replicas are in sync",
            )
        header = self._validate(batch, now_ms=now_ms)
        if header.is_transactional:
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "transactions are not served yet")
        codec = self._codec
        if codec is not None and header.codec is not codec:
            batch, header = recompress(batch, codec, self.log.config)
        info = self.log.append_as_leader(batch, header, self.leader_epoch, now_ms)
        # Not so if the producer repeats a batch: that stands where it stood.
        if info.last_offset >= replication.log_end_offset:
            replication.on_append(Offset(info.last_offset + 1))
        return info

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        last_fetched_epoch: int = NO_EPOCH,
        only_committed: bool = True,
        min_one_batch: bool,
    ) -> ReadResult:
        """Return records from `offset` on, at most about `max_bytes`.

        With `only_committed` they end at the high watermark, else at the log's end. A reader
        whose `last_fetched_epoch` contradicts this log gets no records, but where they diverge.

        Raises:
            OffsetOutOfRangeError: `offset` is outside the log.
        """
        # Once, into locals: an answer must not show records above the watermark that it names.
        high_watermark, log_end_offset = self.high_watermark, self.log.log_end_offset
        log_start_offset = self.log.log_start_offset
        if last_fetched_epoch >= 0:
            diverging = self._diverging(last_fetched_epoch, offset)
            if diverging is not None:
                epoch, end_offset = diverging
                return ReadResult(
                    None, high_watermark, high_watermark, log_start_offset, epoch, end_offset
                )
        records = self.log.read(
            Offset(offset),
            max_bytes,
            end_offset=high_watermark if only_committed else log_end_offset,
            min_one_batch=min_one_batch,
        )
        return ReadResult(records, high_watermark, high_watermark, log_start_offset)

    def check_leader_epoch(self, epoch: int) -> None:
        """Refuse a client that believes in another leadership; NO_EPOCH believes in any.

        Raises:
            ApiError: the client's epoch is over, or has not begun here yet.
        """
        if epoch == self.leader_epoch or epoch == NO_EPOCH:
            return
        code = (
            ErrorCode.FENCED_LEADER_EPOCH
            if epoch < self.leader_epoch
            else ErrorCode.UNKNOWN_LEADER_EPOCH
        )
        raise ApiError(code, f"leader epoch {epoch}, current is {self.leader_epoch}")

    def end_offset_for_epoch(self, epoch: int) -> tuple[LeaderEpoch, Offset]:
        """Return the largest epoch up to `epoch` and its end offset; (-1, -1) if unknown."""
        return self.log.leader_epochs.end_offset_for(epoch, self.log.log_end_offset)

    def delete_records(self, offset: int) -> Offset:
        """Let the log start at `offset` (-1: the high watermark) and return where it starts.

        Raises:
            ApiError: the topic is compacted, or `offset` is above the high watermark.
        """
        if "delete" not in self.log.config.cleanup_policy:
            text = "records of a topic without cleanup.policy=delete cannot be deleted"
            raise ApiError(ErrorCode.POLICY_VIOLATION, text)
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            text = f"offset {target} is outside 0..{self.high_watermark}"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        if target > self.log.log_start_offset:
            self.log.advance_log_start(Offset(target))
        return self.log.log_start_offset

    def _diverging(self, epoch: int, offset: int) -> tuple[LeaderEpoch, Offset] | None:
        """Return where a reader that has `epoch` up to `offset` departs from this log."""
        known_epoch, end_offset = self.end_offset_for_epoch(epoch)
        if known_epoch < 0 or end_offset < 0 or offset < self.log.log_start_offset:
            text = f"epoch {epoch} or offset {offset} is not in this log"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        if known_epoch < epoch or end_offset < offset:
            return known_epoch, end_offset
        return None

    def _adopt(self, config: LogConfig) -> None:
        limits_timestamps = (
            min(config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms)
            < LONG_MAX
        )
        self._codec = target_codec(config)
        self._validate: Callable[..., BatchHeader] = partial(
            validate_produced,
            compacted=config.is_compacted,
            max_batch_bytes=config.max_message_bytes,
            timestamp_type=config.message_timestamp_type,
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
            # Kafka looks at each record always; without the compiled scanner that costs too much.
            per_record=HAS_COMPILED_SCANNER or config.is_compacted or limits_timestamps,
        )

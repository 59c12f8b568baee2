"""One partition on this broker: its log and its role as leader, follower or neither (edge).

Every method runs to its end in the event loop's thread without awaiting, so no other request can
come between a check and the write that it guards. Invariants: a leadership's `log_end_offset` is
the log's end; the high watermark never lies above it, and moves back only when the log is
truncated. On the leader, `leadership` advances it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from broker.replication.batch_rules import BatchRules
from broker.replication.divergence import Divergence, divergence
from broker.replication.leadership import Leadership
from broker.replication.topic_traffic import TopicTraffic
from broker.replication.transaction_guards import TransactionalAppend, TransactionGuards
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafkawire.records import BatchHeader, Budget
from kafkawire.records_header import TRANSACTIONAL_BIT
from kafkawire.sentinels import ACKS_ALL, NO_EPOCH, NO_LEADER
from storage.config.log_config import LogConfig
from storage.errors import StorageError
from storage.log.log import AppendInfo, Log
from storage.producers.producer_state import NewMarker
from storage.segment.segment import FileRegion
from storage.segment.transaction_index import AbortedTransaction


class ReadResult(NamedTuple):
    """Result of one read of a partition; all offsets were taken at the same moment."""

    records: FileRegion | None
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset
    diverging: Divergence | None = None
    log_end_offset: Offset = Offset(-1)
    aborted: Sequence[AbortedTransaction] = ()


class Replica:
    """This broker's copy of a partition."""

    __slots__ = (
        "_clock_ms",
        "_guards",
        "_high_watermark",
        "leader",
        "leader_epoch",
        "leadership",
        "log",
        "rules",
        "topic_id",
        "topic_partition",
        "traffic",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        log: Log,
        high_watermark: Offset,
        clock_ms: Callable[[], int],
    ) -> None:
        """Hold `log`, without a role until a controller assigns one. `clock_ms` never jumps."""
        self._clock_ms = clock_ms
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = NO_EPOCH
        """Leader epoch in the controllers' newest request; NO_EPOCH before the first one."""
        self.leader = NO_LEADER
        self.leadership: Leadership | None = None
        # Of leaderships in consecutive epochs; None until a producer needs one.
        self._guards: TransactionGuards | None = None
        # Valid while the replica does not lead.
        self._high_watermark = min(high_watermark, log.log_end_offset)
        # Drops finished transactions now, as there may never be a read that does.
        self.log.last_stable_offset(self._high_watermark)
        self.rules = BatchRules(log.config)
        """Replaced by another object whenever the topic's config changes."""
        self.traffic = TopicTraffic()
        """Counters of the topic, which the table of replicas sets."""

    @property
    def high_watermark(self) -> Offset:
        """Offset below which every record is committed and visible to consumers."""
        leadership = self.leadership
        return self._high_watermark if leadership is None else leadership.high_watermark

    @property
    def last_stable_offset(self) -> Offset:
        """Offset below which every record is committed and outside open transactions."""
        return self.log.last_stable_offset(self.high_watermark)

    @property
    def epoch_start_offset(self) -> Offset:
        """Log end offset at the time when this broker began to lead."""
        leadership = self.leadership
        return Offset(0) if leadership is None else leadership.epoch_start_offset

    @property
    def low_watermark(self) -> Offset:
        """First offset that any live replica still has."""
        start, leadership = self.log.log_start_offset, self.leadership
        return start if leadership is None else leadership.low_watermark(start)

    # Roles

    def lead(self, leadership: Leadership) -> None:
        """Lead from now on: accept writes and serve followers."""
        # In memory: the checkpoint is written with the first batch. Batches carry their epochs, and
        # after a crash an epoch without batches is not needed.
        self.log.leader_epochs.assign(leadership.leader_epoch, self.log.log_end_offset)
        if self.leadership is None or self.may_have_missed_leader(leadership.leader_epoch):
            # Another leader may have ended transactions meanwhile.
            self._guards = None
        self.leader, self.leader_epoch = leadership.broker_id, leadership.leader_epoch
        self.leadership = leadership

    def may_have_missed_leader(self, leader_epoch: LeaderEpoch) -> bool:
        """Whether another broker may have led between the known epoch and this later one."""
        return leader_epoch > self.leader_epoch + 1

    def follow(self, leader: BrokerId, leader_epoch: LeaderEpoch) -> None:
        """Stop accepting writes; `leader` is NO_LEADER while there is none."""
        self.resign()
        self.leader, self.leader_epoch = leader, leader_epoch

    def resign(self) -> None:
        """Give up the role until the next request of a controller; keep the high watermark."""
        self._high_watermark = self.high_watermark
        self.leadership = self._guards = None
        self.leader = NO_LEADER

    # As leader

    def update_config(self, config: LogConfig) -> None:
        """Apply a changed topic config from the next append on."""
        self.log.update_config(config)
        self.rules = BatchRules(config)

    def append(
        self,
        batch: memoryview,
        acks: int,
        now_ms: int,
        budget: Budget | None = None,
        transaction: TransactionalAppend | None = None,
    ) -> AppendInfo:
        """Check `batch` and write it; it is committed when the high watermark passes it.

        `batch` must be writable: its offsets are assigned in place. Without `transaction` it must
        not be transactional.

        Raises:
            ApiError: this broker does not lead, too few replicas are in sync for `acks`, or the
                batch is invalid.
            BudgetSpentError: the check exceeds the rest of `budget`. Prepare the batch with `rules`
                in a thread, then call `append_prepared`.
            StorageError, OSError: nothing was written.
        """
        leadership = self.writable(acks)
        rules = self.rules
        if rules.keeps_codec:
            header = rules.validate(batch, now_ms, budget)
        elif budget is None:
            batch, header = rules.prepare(batch, now_ms)
        else:
            batch, header = rules.prepare_soon(batch, now_ms, budget)
        return self._write(batch, header, leadership, now_ms, transaction)

    def append_prepared(
        self,
        batch: memoryview,
        header: BatchHeader,
        acks: int,
        now_ms: int,
        transaction: TransactionalAppend | None = None,
    ) -> AppendInfo:
        """Write a batch that was prepared with the current `rules`.

        Raises:
            ApiError, StorageError, OSError: as `append`.
        """
        return self._write(batch, header, self.writable(acks), now_ms, transaction)

    def append_markers(
        self, markers: Sequence[NewMarker], now_ms: int
    ) -> list[Offset | StorageError]:
        """Write transaction markers; see `Log.append_markers`. They need all in-sync replicas.

        Raises:
            ApiError: this broker does not lead, or too few replicas are in sync.
            StorageError, OSError: the markers may have been written, or not.
        """
        leadership = self.writable(ACKS_ALL)
        try:
            results = self.log.append_markers(markers, leadership.leader_epoch, now_ms)
        finally:
            # A failed write of the transaction index leaves the markers in the log.
            self._note_append(leadership)
            # It forgets the ended transactions below the high watermark, also if nobody reads.
            self.log.last_stable_offset(self.high_watermark)
        if self._guards is not None:
            for marker, result in zip(markers, results, strict=True):
                if not isinstance(result, StorageError):
                    self._guards.drop(marker.producer_id)
        return results

    @property
    def guards(self) -> TransactionGuards:
        """Guards of the producers that may open a transaction, while this broker leads."""
        if self._guards is None:
            self._guards = TransactionGuards()
        return self._guards

    def expire_guards(self, now_ms: int, expiration_ms: int) -> None:
        """Drop guards that are `expiration_ms` old."""
        if self._guards is not None:
            self._guards.expire(now_ms, expiration_ms)

    def writable(self, acks: int) -> Leadership:
        """Return the leadership, if it may append.

        Raises:
            ApiError: this broker does not lead, or too few replicas are in sync for `acks`.
        """
        leadership = self.leadership
        if leadership is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == ACKS_ALL and not leadership.has_min_isr:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(leadership.state.isr)} replicas are in sync, "
                f"{leadership.effective_min_isr} are required",
            )
        return leadership

    def _write(
        self,
        batch: memoryview,
        header: BatchHeader,
        leadership: Leadership,
        now_ms: int,
        transaction: TransactionalAppend | None,
    ) -> AppendInfo:
        # Without the property, because this runs for each batch.
        if header.attributes & TRANSACTIONAL_BIT:
            return self._write_transactional(batch, header, leadership, now_ms, transaction)
        try:
            info = self.log.append_as_leader(batch, header, leadership.leader_epoch, now_ms)
        except StorageError:
            # The batch is in the log if only the flush failed that `flush.messages` asks for.
            self._note_append(leadership)
            raise
        # Unpacked, because attributes of a tuple are slow to read.
        base_offset, last_offset, _, _ = info
        # Not true of a duplicate of an earlier batch, whose offset does not change.
        if last_offset >= leadership.log_end_offset:
            now_ms = self._clock_ms() if leadership.has_followers else 0
            leadership.on_append(Offset(last_offset + 1), now_ms)
        traffic = self.traffic
        traffic.produce_count += 1
        traffic.messages_in += last_offset - base_offset + 1
        traffic.bytes_in += len(batch)
        return info

    def _write_transactional(
        self,
        batch: memoryview,
        header: BatchHeader,
        leadership: Leadership,
        now_ms: int,
        transaction: TransactionalAppend | None,
    ) -> AppendInfo:
        producer_id, producers = header.producer_id, self.log.producers
        if transaction is None:
            text = "transactional records need a transactional id"
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, text)
        if producer_id < 0:
            raise ApiError(ErrorCode.INVALID_RECORD, "transactional records need a producer id")
        if transaction.needs_guard and not producers.has_transaction(
            producer_id, header.producer_epoch
        ):
            self.guards.check(header, transaction)
        try:
            info = self.log.append_as_leader(
                batch,
                header,
                leadership.leader_epoch,
                now_ms,
                has_sequence=transaction.has_sequence,
            )
        finally:
            # Also after a failed flush, as in `_write`.
            self._note_append(leadership)
        if self._guards is not None:
            self._guards.drop(producer_id)
        traffic = self.traffic
        traffic.produce_count += 1
        traffic.messages_in += info.last_offset - info.base_offset + 1
        traffic.bytes_in += len(batch)
        return info

    def _note_append(self, leadership: Leadership) -> None:
        end_offset = self.log.log_end_offset
        if end_offset > leadership.log_end_offset:
            leadership.on_append(end_offset, self._clock_ms())

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        last_fetched_epoch: int = NO_EPOCH,
        only_committed: bool = True,
        only_decided: bool = False,
        min_one_batch: bool,
    ) -> ReadResult:
        """Return records from `offset` on, at most about `max_bytes`.

        With `only_decided` they end at the last stable offset, and aborted transactions are listed;
        with `only_committed` they end at the high watermark, otherwise at the log's end. A reader
        whose `last_fetched_epoch` contradicts this log gets the divergence and no records.

        Raises:
            OffsetOutOfRangeError: `offset` is outside the log.
            ApiError: nothing of `last_fetched_epoch` is in this log.
        """
        # Read once: a response must not show records above the high watermark that it carries.
        high_watermark, log_end_offset = self.high_watermark, self.log.log_end_offset
        log_start_offset = self.log.log_start_offset
        last_stable_offset = self.log.last_stable_offset(high_watermark)
        if last_fetched_epoch >= 0:
            found = self._diverging(last_fetched_epoch, offset)
            if found is not None:
                return ReadResult(None, high_watermark, last_stable_offset, log_start_offset, found)
        end_offset = high_watermark if only_committed else log_end_offset
        aborted: Sequence[AbortedTransaction] = ()
        if only_decided:
            end_offset = last_stable_offset
        records = self.log.read(
            Offset(offset), max_bytes, end_offset=end_offset, min_one_batch=min_one_batch
        )
        if only_decided:
            aborted = self.log.aborted_in(records, Offset(offset), end_offset)
        return ReadResult(
            records,
            high_watermark,
            last_stable_offset,
            log_start_offset,
            log_end_offset=log_end_offset,
            aborted=aborted,
        )

    def check_leader_epoch(self, epoch: int) -> None:
        """Refuse a client that expects another leader epoch; NO_EPOCH matches any.

        Raises:
            ApiError: the client's epoch has ended, or has not begun here yet.
        """
        known = self.leader_epoch
        if epoch in (known, NO_EPOCH):
            return
        code = ErrorCode.FENCED_LEADER_EPOCH if epoch < known else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise ApiError(code, f"leader epoch is {known}, the request expects {epoch}")

    def end_offset_for_epoch(self, epoch: int) -> tuple[LeaderEpoch, Offset]:
        """Return the largest epoch up to `epoch` and its end offset; (-1, -1) if unknown."""
        return self.log.leader_epochs.end_offset_for(epoch, self.log.log_end_offset)

    def delete_records(self, offset: int) -> Offset:
        """Raise the log start offset to `offset` (-1: the high watermark) and return it.

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

    # As follower

    def adopt_high_watermark(self, high_watermark: int) -> None:
        """Raise the high watermark to the leader's, at most to this log's end."""
        known = self.log.log_end_offset
        if high_watermark > self._high_watermark:
            self._high_watermark = min(Offset(high_watermark), known)
            self.log.last_stable_offset(self._high_watermark)

    def on_truncated(self) -> None:
        """Note that the log was truncated, or emptied to start at another offset."""
        log = self.log
        self._high_watermark = max(
            log.log_start_offset, min(self._high_watermark, log.log_end_offset)
        )

    def _diverging(self, epoch: int, offset: int) -> Divergence | None:
        """Return where a reader with `epoch` up to `offset` diverges from this log."""
        log = self.log
        found = divergence(
            log.leader_epochs, log.log_end_offset, last_epoch=epoch, fetch_offset=Offset(offset)
        )
        if found is not None and (found.epoch < 0 or found.end_offset < 0):
            text = f"epoch {epoch} is not in this log"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        if offset < log.log_start_offset:
            text = f"offset {offset} is below the log start offset {log.log_start_offset}"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        return found

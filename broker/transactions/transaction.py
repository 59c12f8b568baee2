"""One transactional id: its state machine (decision).

Each event is a method call. The caller then carries out the effects, in order. A change is
*pending* from its decision until its record is replicated; only then does it count. Meanwhile every
other request is refused with CONCURRENT_TRANSACTIONS. One part counts at once: the epoch with which
an open transaction is aborted, so that the old producer is out even if the write fails.

`now_ms` is the time of day, as the records hold it.

Source: TransactionMetadata and TransactionCoordinator of Kafka 3.9; KIP-98, KIP-360.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

from broker.transactions.transaction_effects import (
    NO_PRODUCER,
    AllocateProducerId,
    Append,
    Change,
    ChangeKind,
    CodeWaiter,
    Effect,
    Ending,
    Initializing,
    InitResult,
    InitWaiter,
    ProducerIdentity,
    Respond,
    RespondToInit,
    SendMarkers,
)
from broker.transactions.transaction_state import (
    AT_REST,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    COMPLETED,
    EMPTY,
    ON_ABORT,
    ON_COMMIT,
    ONGOING,
    PREDECESSORS,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    InvalidTransitionError,
)
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.sentinels import NO_PRODUCER_EPOCH, NO_TIMESTAMP
from kafkawire.transaction_records import TransactionRecord, TransactionStatus

LAST_EPOCH: Final = 32_766
"""Largest epoch of a producer. The next one exists only while such a producer is fenced."""

_STORE_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


def store_error(error: ErrorCode) -> ErrorCode:
    """Return the error for a client whose request could not be stored."""
    return _STORE_ERRORS.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)


def new_record(producer_id: int, now_ms: int) -> TransactionRecord:
    """Return the state of an id without a producer yet."""
    return TransactionRecord(
        producer_id, NO_PRODUCER_EPOCH, 0, EMPTY, frozenset(), now_ms, NO_TIMESTAMP
    )


class Transaction:
    """The state of one transactional id, and of its current or latest transaction."""

    def __init__(self, transactional_id: str, record: TransactionRecord) -> None:
        """Continue from `record`; call `resume` if it was loaded."""
        self.transactional_id = transactional_id
        self.record = record
        """The replicated state, except for the epoch of a fencing abort, which counts at once."""
        self.ending: Ending | None = None
        """The end of the transaction while markers are missing."""
        self._last = NO_PRODUCER
        self._pending: Change | None = None
        self._has_failed_fence = False
        self._effects: list[Effect] = []

    @property
    def status(self) -> TransactionStatus:
        """State of the id."""
        return self.record.status

    @property
    def producer(self) -> ProducerIdentity:
        """The current producer."""
        return ProducerIdentity(self.record.producer_id, self.record.producer_epoch)

    @property
    def has_pending_change(self) -> bool:
        """Whether the write of a change is under way."""
        return self._pending is not None

    @property
    def is_stored(self) -> bool:
        """Whether the log has, or may soon have, a record of this id."""
        return self.record.producer_epoch != NO_PRODUCER_EPOCH or self.has_pending_change

    @property
    def is_ending(self) -> bool:
        """Whether the transaction is decided, and its end will come without a request."""
        if self._pending is not None:
            return self._pending.kind in (ChangeKind.END, ChangeKind.FENCE, ChangeKind.COMPLETE)
        return self.status in PREPARED

    @property
    def open_partitions(self) -> Set[TopicPartition]:
        """The partitions of the transaction; while it ends, the ones without a marker."""
        return self.record.partitions if self.ending is None else self.ending.remaining

    def take_effects(self) -> list[Effect]:
        """Return the effects since the last call, in order."""
        effects, self._effects = self._effects, []
        return effects

    def resume(self) -> None:
        """Send the markers of a decision that was loaded."""
        if self.status in PREPARED:
            self._send_markers()

    # Requests of producers

    def initialize(self, request: Initializing, waiter: InitWaiter, now_ms: int) -> None:
        """Begin or continue a producer; an open transaction is aborted first."""
        error = self._check_initialize(request)
        if error is not None:
            self._effects.append(RespondToInit(waiter, InitResult(error)))
        elif self.status is ONGOING:
            self._fence(now_ms, waiter)
        else:
            self._begin_producer(request, waiter, now_ms)

    def add_partitions(
        self,
        producer: ProducerIdentity,
        partitions: Iterable[TopicPartition],
        waiter: CodeWaiter,
        now_ms: int,
    ) -> None:
        """Add partitions to the open transaction, or open one."""
        error = self._check_producer(producer)
        if error is None and (self.has_pending_change or self.status in PREPARED):
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        held = self.record.partitions
        grown = held.union(partitions)
        is_open = self.status is ONGOING
        if error is None and is_open and len(grown) == len(held):
            error = ErrorCode.NONE
        if error is not None:
            self._effects.append(Respond(waiter, error))
            return
        record = self.record._replace(
            status=ONGOING,
            partitions=grown,
            last_update_ms=now_ms,
            start_ms=self.record.start_ms if is_open else now_ms,
        )
        self._change(ChangeKind.ADD, record, waiter=waiter)

    def verify(
        self, producer: ProducerIdentity, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return for each partition whether it is in the open transaction.

        A pending change is not considered: its partitions would otherwise be refused for as long as
        others are added (KAFKA-14904).
        """
        error = self._check_producer(producer)
        if error is None and self.status in PREPARED:
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        if error is not None:
            return dict.fromkeys(partitions, error)
        held = self.record.partitions
        return {
            each: ErrorCode.NONE if each in held else ErrorCode.TRANSACTION_ABORTABLE
            for each in partitions
        }

    def end(
        self, producer: ProducerIdentity, waiter: CodeWaiter, now_ms: int, *, is_commit: bool
    ) -> None:
        """Commit or abort; the response follows when the decision is replicated."""
        error = self._check_producer(producer)
        if error is None and self.has_pending_change:
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        if error is None:
            error = (ON_COMMIT if is_commit else ON_ABORT)[self.status]
        if error is not None:
            self._effects.append(Respond(waiter, error))
            return
        status = PREPARE_COMMIT if is_commit else PREPARE_ABORT
        record = self.record._replace(status=status, last_update_ms=now_ms)
        self._change(ChangeKind.END, record, waiter=waiter)

    # Time

    def on_timeout(self, now_ms: int) -> bool:
        """Abort the open transaction, and fence its producer; return whether it was open."""
        if self.status is not ONGOING or self.has_pending_change:
            return False
        self._fence(now_ms, None)
        return True

    def expire(self, now_ms: int, retention_ms: int) -> Change | None:
        """Begin to remove an id that was unused for `retention_ms`.

        The caller deletes its record, then calls `on_stored` with the returned change. None if the
        id must stay.
        """
        is_old = self.record.last_update_ms <= now_ms - retention_ms
        if not is_old or self.has_pending_change or self.status not in AT_REST:
            return None
        self._pending = Change(kind=ChangeKind.EXPIRE, record=self.record, last=self._last)
        return self._pending

    # Results

    def on_stored(self, change: Change, error: ErrorCode) -> None:
        """Apply a change whose record is replicated, or drop it after an error of the log."""
        assert self._pending is change, "one change is pending at a time"
        if error is ErrorCode.NONE:
            self._pending = None
            self._apply(change)
        else:
            self._drop(change, store_error(error))

    def on_marker(self, ending: Ending, partition: TopicPartition, now_ms: int) -> None:
        """Note that a partition has its marker; the last one completes the transaction.

        Markers of an earlier ending are too late, and do not count.
        """
        if self.ending is not ending:
            return
        ending.remaining.discard(partition)
        if not ending.remaining and not self.has_pending_change:
            self._complete(ending, now_ms)

    # Inside

    def _check_producer(self, producer: ProducerIdentity) -> ErrorCode | None:
        if producer.producer_id != self.record.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if producer.epoch != self.record.producer_epoch:
            return ErrorCode.PRODUCER_FENCED
        return None

    def _check_initialize(self, request: Initializing) -> ErrorCode | None:
        if self.has_pending_change:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        current, known = request.current, self.record
        if (
            current != NO_PRODUCER
            and known.producer_epoch != NO_PRODUCER_EPOCH
            and current.producer_id != known.producer_id
            # A producer that repeats the request by which it got a new id.
            and not (current.producer_id == self._last.producer_id and current.epoch >= LAST_EPOCH)
        ):
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.CONCURRENT_TRANSACTIONS if self.status in PREPARED else None

    def _begin_producer(self, request: Initializing, waiter: InitWaiter, now_ms: int) -> None:
        known, given = self.record, request.current.epoch
        is_continued, is_current = request.current != NO_PRODUCER, given == known.producer_epoch
        producer_id, epoch = known.producer_id, known.producer_epoch + 1
        last = ProducerIdentity(
            known.producer_id, known.producer_epoch if is_continued else NO_PRODUCER_EPOCH
        )
        if known.producer_epoch >= LAST_EPOCH and (is_current or not is_continued):
            if request.fresh_producer_id is None:
                self._effects.append(AllocateProducerId(request, waiter))
                return
            producer_id, epoch = request.fresh_producer_id, 0
        elif is_continued and not is_current and known.producer_epoch != NO_PRODUCER_EPOCH:
            if given != self._last.epoch:
                result = InitResult(ErrorCode.PRODUCER_FENCED)
                self._effects.append(RespondToInit(waiter, result))
                return
            # The response to the first request was lost: the same identity again.
            epoch, last = known.producer_epoch, self._last
        record = TransactionRecord(
            producer_id, epoch, request.timeout_ms, EMPTY, frozenset(), now_ms, NO_TIMESTAMP
        )
        self._change(ChangeKind.INITIALIZE, record, last=last, init_waiter=waiter)

    def _fence(self, now_ms: int, waiter: InitWaiter | None) -> None:
        """Abort the open transaction in a new epoch, which shuts its producer out at once."""
        if not self._has_failed_fence:
            self.record = self.record._replace(producer_epoch=self.record.producer_epoch + 1)
        self._last = NO_PRODUCER
        record = self.record._replace(status=PREPARE_ABORT, last_update_ms=now_ms)
        self._change(ChangeKind.FENCE, record, init_waiter=waiter)

    def _change(
        self,
        kind: ChangeKind,
        record: TransactionRecord,
        *,
        last: ProducerIdentity | None = None,
        init_waiter: InitWaiter | None = None,
        waiter: CodeWaiter | None = None,
    ) -> None:
        if self.status not in PREDECESSORS[record.status]:
            raise InvalidTransitionError(f"{self.status.name} -> {record.status.name}")
        last = self._last if last is None else last
        change = Change(kind=kind, record=record, last=last, init_waiter=init_waiter, waiter=waiter)
        self._pending = change
        self._effects.append(Append(change))

    def _apply(self, change: Change) -> None:
        self.record, self._last = change.record, change.last
        self._has_failed_fence = False
        if change.waiter is not None:
            self._effects.append(Respond(change.waiter, ErrorCode.NONE))
        if change.init_waiter is not None:
            is_fence = change.kind is ChangeKind.FENCE
            # The producer repeats its request once the transaction is aborted.
            result = (
                InitResult(ErrorCode.CONCURRENT_TRANSACTIONS)
                if is_fence
                else InitResult(ErrorCode.NONE, self.producer)
            )
            self._effects.append(RespondToInit(change.init_waiter, result))
        if self.status in PREPARED:
            self._send_markers()
        elif self.status in COMPLETED:
            self.ending = None

    def _drop(self, change: Change, error: ErrorCode) -> None:
        if change.kind is ChangeKind.COMPLETE:
            # The decision stands, and this coordinator must finish it while it leads: no request
            # comes that could, and a full disk, for one, is no end of the leadership.
            self._effects.append(Append(change, is_retry=True))
            return
        self._pending = None
        if change.kind is ChangeKind.FENCE:
            self._has_failed_fence = True
        if change.waiter is not None:
            self._effects.append(Respond(change.waiter, error))
        if change.init_waiter is not None:
            self._effects.append(RespondToInit(change.init_waiter, InitResult(error)))

    def _send_markers(self) -> None:
        is_commit = self.status is PREPARE_COMMIT
        self.ending = Ending(
            self.transactional_id, is_commit, self.producer, set(self.record.partitions)
        )
        if self.ending.remaining:
            self._effects.append(SendMarkers(self.ending))
        else:
            # No marker will complete a transaction without partitions, which AddPartitionsToTxn
            # may open.
            self._complete(self.ending, self.record.last_update_ms)

    def _complete(self, ending: Ending, now_ms: int) -> None:
        record = self.record._replace(
            status=COMPLETE_COMMIT if ending.is_commit else COMPLETE_ABORT,
            partitions=frozenset(),
            last_update_ms=now_ms,
        )
        self._change(ChangeKind.COMPLETE, record)

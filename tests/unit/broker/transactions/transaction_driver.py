"""Drives one transaction: carries out its effects on a fake log and fake leaders."""

from collections.abc import Iterable

from broker.transactions.transaction import Transaction, new_record
from broker.transactions.transaction_effects import (
    NO_PRODUCER,
    AllocateProducerId,
    Append,
    Change,
    Ending,
    Initializing,
    InitResult,
    ProducerIdentity,
    Respond,
    RespondToInit,
    SendMarkers,
)
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.transaction_records import TransactionRecord

PRODUCER_ID = 4_000
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TIMEOUT_MS = 60_000


class Driver:
    """A transactional id whose writes and markers a test completes by hand or at once."""

    def __init__(self, record: TransactionRecord | None = None) -> None:
        self.now_ms = 1_000
        self.transaction = Transaction("id", record or new_record(PRODUCER_ID, self.now_ms))
        self.stores_at_once = True
        self.store_error = ErrorCode.NONE
        """Result of the writes that are stored at once."""
        self.marks_at_once = True
        self.appended: list[Change] = []
        self.retried: list[Change] = []
        self.endings: list[Ending] = []
        self.log: list[TransactionRecord] = []
        self.fresh_ids = iter(range(PRODUCER_ID + 1, PRODUCER_ID + 1_000))
        self.transaction.resume()
        self.settle()

    @property
    def producer(self) -> ProducerIdentity:
        return self.transaction.producer

    def initialize(self, current: ProducerIdentity = NO_PRODUCER) -> InitResult | None:
        """Return the response; None while there is none."""
        results: list[InitResult] = []
        request = Initializing(timeout_ms=TIMEOUT_MS, current=current)
        self.transaction.initialize(request, results.append, self.now_ms)
        self.settle()
        return results[0] if results else None

    def add(
        self, *partitions: TopicPartition, producer: ProducerIdentity | None = None
    ) -> ErrorCode | None:
        results: list[ErrorCode] = []
        self.transaction.add_partitions(
            producer or self.producer, partitions, results.append, self.now_ms
        )
        self.settle()
        return results[0] if results else None

    def end(
        self, *, is_commit: bool = True, producer: ProducerIdentity | None = None
    ) -> ErrorCode | None:
        results: list[ErrorCode] = []
        self.transaction.end(
            producer or self.producer, results.append, self.now_ms, is_commit=is_commit
        )
        self.settle()
        return results[0] if results else None

    def time_out(self) -> bool:
        was_open = self.transaction.on_timeout(self.now_ms)
        self.settle()
        return was_open

    def store(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Complete the oldest write."""
        change = self.appended.pop(0)
        if error is ErrorCode.NONE:
            self.log.append(change.record)
        self.transaction.on_stored(change, error)
        self.settle()

    def mark(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Report the markers of the newest ending."""
        ending = self.endings[-1]
        for each in list(ending.remaining) if partitions is None else partitions:
            self.transaction.on_marker(ending, each, self.now_ms)
            self.settle()

    def settle(self) -> None:
        while effects := self.transaction.take_effects():
            for effect in effects:
                match effect:
                    case Respond(waiter, error):
                        waiter(error)
                    case RespondToInit(init_waiter, result):
                        init_waiter(result)
                    case Append(change, is_retry):
                        if is_retry:
                            self.retried.append(change)
                            self.appended.append(change)
                        else:
                            self.appended.append(change)
                            if self.stores_at_once:
                                self.store(self.store_error)
                    case SendMarkers(ending):
                        self.endings.append(ending)
                        if self.marks_at_once:
                            self.mark()
                    case AllocateProducerId(request, init_waiter):
                        fresh = Initializing(
                            timeout_ms=request.timeout_ms,
                            current=request.current,
                            fresh_producer_id=next(self.fresh_ids),
                        )
                        self.transaction.initialize(fresh, init_waiter, self.now_ms)

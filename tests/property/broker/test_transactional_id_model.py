"""Random events for a transactional id against a small model of its transactions.

The model knows the decisions that were replicated. Every marker must carry the decision of its own
transaction, every partition of a decided transaction must get exactly one decision, and no producer
may act in a transaction that is not its own.
"""

import itertools
import random
from collections.abc import Callable

import pytest

from broker.transactions.transaction import LAST_EPOCH, Transaction
from broker.transactions.transaction_effects import (
    ChangeKind,
    Ending,
    Initializing,
    InitResult,
    ProducerIdentity,
)
from broker.transactions.transaction_state import AT_REST, COMPLETED, ONGOING, PREPARED
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.transaction_records import TransactionRecord
from tests.unit.broker.transactions.transaction_driver import Driver

STEPS = 3_000
PARTITIONS = [TopicPartition("t", number) for number in range(4)]
ERRORS = [
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.MESSAGE_TOO_LARGE,
]


class Model:
    """One id, several producers that know identities of any age, and a coordinator that moves."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.driver = Driver()
        self.driver.stores_at_once = self.driver.marks_at_once = False
        self.known: list[ProducerIdentity] = [self.driver.producer]
        self.decided = 0
        self.completed = 0
        self.moved = 0

    def step(self) -> None:
        events: list[Callable[[], None]] = [
            self.initialize,
            self.add,
            self.add,
            self.end,
            self.end,
            self.store,
            self.store,
            self.store,
            self.store,
            self.mark,
            self.mark,
            self.fail,
            self.time_out,
            self.move,
        ]
        weights = [2, 4, 4, 4, 4, 6, 6, 6, 6, 6, 6, 1, 1, 1]
        self.random.choices(events, weights)[0]()
        self.check()

    def initialize(self) -> None:
        current = self.random.choice([*self.known[-3:], ProducerIdentity(-1, -1)])

        def note(result: InitResult) -> None:
            # A response is repeated while its producer is the newest one.
            if result.error is ErrorCode.NONE and result.producer != self.known[-1]:
                assert result.producer not in self.known
                self.known.append(result.producer)

        driver = self.driver
        request = Initializing(timeout_ms=1, current=current)
        driver.transaction.initialize(request, note, driver.now_ms)
        driver.settle()

    def add(self) -> None:
        producer = self.random.choice(self.known[-2:])
        current = self.driver.producer
        result = self.driver.add(self.random.choice(PARTITIONS), producer=producer)
        if producer != current:
            assert result in (
                ErrorCode.PRODUCER_FENCED,
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            )

    def end(self) -> None:
        producer = self.random.choice(self.known[-2:])
        current = self.driver.producer
        is_commit = self.random.random() < 0.5
        result = self.driver.end(is_commit=is_commit, producer=producer)
        if producer != current:
            assert result in (
                ErrorCode.PRODUCER_FENCED,
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            )

    def store(self) -> None:
        if self.driver.appended:
            change = self.driver.appended[0]
            count = len(self.driver.endings)
            self.driver.store()
            if change.kind in (ChangeKind.END, ChangeKind.FENCE):
                self.decided += 1
                assert len(self.driver.endings) == count + 1, "a decision is carried out at once"
                ending = self.driver.endings[-1]
                assert ending.remaining == change.record.partitions
                assert ending.producer.epoch == change.record.producer_epoch
            if change.kind is ChangeKind.COMPLETE:
                self.completed += 1

    def fail(self) -> None:
        if self.driver.appended:
            self.driver.store(self.random.choice(ERRORS))

    def mark(self) -> None:
        if self.driver.endings:
            ending = self.random.choice(self.driver.endings[-2:])
            transaction = self.driver.transaction
            partition = self.random.choice(sorted(ending.remaining) or PARTITIONS)
            transaction.on_marker(ending, partition, self.driver.now_ms)
            self.driver.settle()

    def time_out(self) -> None:
        self.driver.time_out()

    def move(self) -> None:
        """Let the next coordinator continue from the log, which has all replicated records."""
        if self.random.random() < 0.5 or not self.driver.log:
            return
        record: TransactionRecord = self.driver.log[-1]
        self.driver.appended.clear()
        self.driver.transaction = Transaction("id", record)
        self.driver.transaction.resume()
        self.driver.settle()
        self.moved += 1

    def check(self) -> None:
        transaction = self.driver.transaction
        assert len(self.driver.appended) <= 1, "one change is pending at a time"
        assert transaction.has_pending_change == bool(self.driver.appended)
        assert transaction.record.producer_epoch <= LAST_EPOCH + 1
        ending: Ending | None = transaction.ending
        if transaction.status in PREPARED:
            assert ending is not None
            assert ending.remaining <= transaction.record.partitions
        if transaction.status in AT_REST:
            assert ending is None
            assert not transaction.record.partitions
        if transaction.status is ONGOING:
            assert transaction.record.partitions
        stored = [record.status for record in self.driver.log[-2:]]
        for before, after in itertools.pairwise(stored):
            if after in COMPLETED:
                assert before in PREPARED
            if before in PREPARED:
                assert after in COMPLETED or after is before


@pytest.mark.parametrize("seed", range(30))
def test_transactions_follow_their_model(seed: int) -> None:
    # A fresh seed in each run; the failure names it.
    drawn = random.SystemRandom().randrange(2**32)
    model = Model(f"{seed} {drawn}")
    try:
        for _ in range(STEPS):
            model.step()
    except BaseException as error:
        error.add_note(f"seed {seed} {drawn}")
        raise
    assert model.decided > 5
    assert model.completed > 3
    assert model.moved > 0

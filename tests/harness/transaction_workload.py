"""A list-append workload over transactions of Ottla's client. Edge: it connects to a cluster.

Each process repeats one transaction: it reads some keys at read_committed, appends unique values to
some keys, and commits or, at random, aborts. The history goes to `transaction_checker`.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from kafkawire.ids import Offset
from ottla import Consumer, Producer, RecordMetadata
from ottla.client.errors import (
    OttlaError,
    TransactionAbortableError,
    TransactionError,
    TransactionTimedOutError,
)
from tests.harness.transaction_history import (
    Append,
    Key,
    Outcome,
    Read,
    Transaction,
    TransactionHistory,
)

ABORT_SHARE: Final = 0.2
MAX_APPENDS: Final = 4
READ_TIMEOUT_MS: Final = 50
BLOCK_MS: Final = 5_000
DELIVERY_TIMEOUT_MS: Final = 8_000
REQUEST_TIMEOUT_MS: Final = 4_000
TRANSACTION_TIMEOUT_MS: Final = 10_000
SETTLE_TIMEOUT_S: Final = 60.0
POLL_INTERVAL_S: Final = 0.1
COMMIT_ATTEMPTS: Final = 3
RESTART_DELAY_S: Final = 0.2


class ChosenAbortError(Exception):
    """The process has chosen to abort."""


@dataclass
class Workload:
    """Processes that run transactions until `stop`; then `finish` completes the history."""

    bootstrap: str
    keys: Sequence[Key]
    seed: int
    pause_s: float = 0.0
    """Longest time between two transactions of a process."""
    history: TransactionHistory = field(default_factory=TransactionHistory)
    _numbers: "count[int]" = field(default_factory=count)
    _sent: "dict[int, list[tuple[Key, str, asyncio.Future[RecordMetadata]]]]" = field(
        default_factory=dict
    )
    """The records of each transaction: a process may be killed before it notes them."""
    _is_stopping: bool = False

    def stop(self) -> None:
        """Let every process end after its current transaction."""
        self._is_stopping = True

    async def run(self, process_count: int) -> None:
        """Run processes until `stop`."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(process_count):
                tasks.create_task(self.process(f"process-{number}"))

    async def finish(self) -> None:
        """Wait until no transaction is open, and read every key to its end."""
        for transaction in self.history.transactions:
            transaction.appends = [_append(*each) for each in self._sent[transaction.number]]
        async with (
            Consumer(
                self.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
            ) as committed,
            Consumer(self.bootstrap) as uncommitted,
            asyncio.timeout(SETTLE_TIMEOUT_S),
        ):
            # The marker of a transaction that times out raises the end, so it is read each time.
            while (end := await uncommitted.end_offsets(self.keys)) != (  # noqa: ASYNC110 - no event
                await committed.end_offsets(self.keys)
            ):
                # Leaves the processor to the brokers under test.
                await asyncio.sleep(POLL_INTERVAL_S)
            committed.assign(self.keys)
            while any((committed.position(key) or 0) < end[key] for key in self.keys):
                for read in await _read(committed):
                    self.history.final.setdefault(read.key, []).append(read)

    async def process(self, name: str) -> None:
        """Run the transactions of one process until `stop`."""
        chance = random.Random(f"{self.seed} {name}")
        while not self._is_stopping:
            try:
                await self._read_and_transact(name, chance)
            except OttlaError:
                # The brokers are away.
                await asyncio.sleep(RESTART_DELAY_S)

    async def _read_and_transact(self, name: str, chance: random.Random) -> None:
        async with Consumer(
            self.bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        ) as consumer:
            consumer.assign(self.keys)
            for key in self.keys:
                consumer.seek(key, 0)
            while not self._is_stopping:
                try:
                    await self._incarnation(name, consumer, chance)
                except OttlaError:
                    # The brokers are away, or this incarnation was fenced: begin another one.
                    await asyncio.sleep(RESTART_DELAY_S)

    async def _incarnation(self, name: str, consumer: Consumer, chance: random.Random) -> None:
        """Run transactions until the producer fails."""
        async with Producer(
            self.bootstrap,
            transactional_id=name,
            max_block_ms=BLOCK_MS,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        ) as producer:
            while not self._is_stopping:
                transaction = Transaction(next(self._numbers), name)
                self.history.transactions.append(transaction)
                sent = self._sent[transaction.number] = []
                if self.pause_s:
                    await asyncio.sleep(chance.uniform(0.0, self.pause_s))
                await self._transact(producer, consumer, transaction, chance, sent)

    async def _transact(
        self,
        producer: Producer,
        consumer: Consumer,
        transaction: Transaction,
        chance: random.Random,
        sent: "list[tuple[Key, str, asyncio.Future[RecordMetadata]]]",
    ) -> None:
        # Until the commit is requested, no outcome but an abort is possible.
        transaction.outcome = Outcome.ABORTED
        await producer.begin_transaction()
        try:
            await self._body(producer, consumer, transaction, chance, sent)
        except (ChosenAbortError, TransactionAbortableError):
            await producer.abort_transaction()
            return
        transaction.outcome = Outcome.UNKNOWN
        try:
            await _commit(producer)
        except TransactionError as error:
            is_certain = not error.may_be_committed
            if is_certain and not isinstance(error, TransactionTimedOutError):
                transaction.outcome = Outcome.ABORTED
            if not isinstance(error, TransactionAbortableError):
                raise
            await producer.abort_transaction()
        else:
            transaction.outcome = Outcome.COMMITTED

    async def _body(
        self,
        producer: Producer,
        consumer: Consumer,
        transaction: Transaction,
        chance: random.Random,
        sent: "list[tuple[Key, str, asyncio.Future[RecordMetadata]]]",
    ) -> None:
        transaction.read_from = _positions(consumer, self.keys)
        transaction.reads = await _read(consumer)
        transaction.read_to = _positions(consumer, self.keys)
        for number in range(chance.randint(1, MAX_APPENDS)):
            key, value = chance.choice(self.keys), f"{transaction.number}.{number}"
            delivery = await producer.send(key.topic, value.encode(), partition=key.partition)
            sent.append((key, value, delivery))
        if chance.random() < ABORT_SHARE:
            if chance.random() < 0.5:
                await producer.flush()
            raise ChosenAbortError


async def _commit(producer: Producer) -> None:
    for _ in range(COMMIT_ATTEMPTS - 1):
        try:
            await producer.commit_transaction()
        except TransactionTimedOutError:
            continue
        return
    await producer.commit_transaction()


async def _read(consumer: Consumer) -> list[Read]:
    records = await consumer.fetch_batch(timeout_ms=READ_TIMEOUT_MS)
    return [
        Read(Key(each.topic, each.partition), each.offset, (each.value or b"").decode())
        for each in records
    ]


def _positions(consumer: Consumer, keys: Sequence[Key]) -> dict[Key, int]:
    return {key: consumer.position(key) or Offset(0) for key in keys}


def _append(key: Key, value: str, delivery: "asyncio.Future[RecordMetadata]") -> Append:
    is_written = delivery.done() and not delivery.cancelled() and delivery.exception() is None
    offset = delivery.result().offset if is_written else -1
    return Append(key, value, offset if offset >= 0 else None)

"""Coordinates the transactions in the partitions of their topic that this broker leads (edge).

Carries out the effects of transactions; `transaction` decides on these. Everything runs in the
event loop's thread, and a waiting request takes no task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Final

import structlog

from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.producer_ids import ProducerIds
from broker.config.group_keys import GroupKeys
from broker.internal_log.coordinated_topic import CoordinatedTopic
from broker.internal_log.deadlines import Deadlines
from broker.internal_log.store import KeyValue, Replicas
from broker.network.request_tasks import in_turns
from broker.purgatory import Purgatory
from broker.scheduler import PeriodicTask
from broker.transactions.held_requests import Attempt, HeldRequests
from broker.transactions.marker_queues import Outgoing
from broker.transactions.marker_sender import MarkerSender, OnMarker
from broker.transactions.transaction import Transaction, new_record
from broker.transactions.transaction_effects import (
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
from broker.transactions.transaction_registry import TransactionRegistry
from broker.transactions.transaction_state import COMPLETED, ONGOING
from broker.transactions.transactions_replay import TransactionsReplay
from kafkawire.compression import Codec
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import LeaderEpoch, TopicPartition
from kafkawire.internal_topic import TRANSACTIONS_TOPIC
from kafkawire.transaction_records import transaction_key, transaction_value

RETRY_S: Final = 0.1
"""Time before the end of a transaction is written again after a failure."""
MAX_TOMBSTONES: Final = 1_000
MAX_TOMBSTONE_BYTES: Final = 256 * 1024
"""Limits for one batch of tombstones, below any sensible `max.message.bytes`."""

log = structlog.get_logger(__name__)

MakeSender = Callable[[OnMarker], MarkerSender]
IsGone = Callable[[], bool]


class TransactionCoordinator:
    """Handles the requests of producers, leaders and administrators; see `handlers`."""

    def __init__(
        self,
        replicas: Replicas,
        purgatory: Purgatory[TopicPartition],
        metadata: MetadataCache,
        config: GroupKeys,
        producer_ids: ProducerIds,
        make_sender: MakeSender,
        *,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        now_ms: Callable[[], int],
        append_timeout_ms: int,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._producer_ids = producer_ids
        self._loop = loop
        self._now_ms = now_ms
        self.registry = TransactionRegistry(self._partition_count)
        self._leaderships = self.registry.leaderships
        self._held = HeldRequests(loop)
        self._deadlines: Deadlines[Transaction] = Deadlines()
        self._allocating: set[asyncio.Task[None]] = set()
        self.timed_out_count = 0
        """Number of transactions that were aborted because of their timeout."""
        self.sender = make_sender(self._on_marker)
        self._topic = CoordinatedTopic(
            replicas,
            purgatory,
            TRANSACTIONS_TOPIC,
            self._leaderships,
            subject="transaction",
            make_replay=TransactionsReplay,
            on_loaded=self._on_loaded,
            codec=Codec.NONE,
            timeout_ms=append_timeout_ms,
            buffer_bytes=config.transaction_state_log_load_buffer_size,
            loop=loop,
            executor=executor,
            now_ms=now_ms,
        )
        self._store = self._topic.store
        self.on_become_leader = self._topic.on_become_leader

    # Leadership

    def on_resign(self, topic_partition: TopicPartition) -> None:
        """Unload the transactions of a partition; waiting requests fail with NOT_COORDINATOR."""
        if self._topic.leads(topic_partition):
            partition = topic_partition.partition
            lost = self.registry.resign(partition)
            self.sender.drop(partition)
            self._unload(lost)
            log.info("transactions.unloaded", partition=partition, transaction_count=len(lost))

    async def stop(self) -> None:
        """Fail all waiting requests, and refuse further ones."""
        await self._topic.stop()
        self._unload(self.registry.close())
        for task in self._allocating:
            task.cancel()
        if self._allocating:
            await asyncio.wait(self._allocating)
        await self.sender.stop()

    # Requests

    def check(self, transactional_id: str) -> None:
        """Check that this broker coordinates an id now.

        Raises:
            ApiError: no id, the broker stops, the partition is loading, or another broker leads it.
        """
        self.registry.find(transactional_id)

    def initialize(
        self, transactional_id: str, request: Initializing, waiter: InitWaiter, is_gone: IsGone
    ) -> None:
        """Call `waiter` with the producer's new identity, or an error."""
        if not 0 < request.timeout_ms <= self._config.transaction_max_timeout_ms:
            waiter(InitResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
            return

        def attempt(hold: bool) -> None:
            def respond(result: InitResult) -> None:
                is_busy = result.error is ErrorCode.CONCURRENT_TRANSACTIONS
                if not (is_busy and hold and self._hold(transactional_id, attempt, is_gone)):
                    waiter(result)

            self._initialize(transactional_id, request, respond)

        attempt(hold=True)

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Iterable[TopicPartition],
        waiter: CodeWaiter,
        is_gone: IsGone,
    ) -> None:
        """Call `waiter` when the partitions are in the transaction, or with an error."""

        def attempt(hold: bool) -> None:
            def respond(error: ErrorCode) -> None:
                is_busy = error is ErrorCode.CONCURRENT_TRANSACTIONS
                if not (is_busy and hold and self._hold(transactional_id, attempt, is_gone)):
                    waiter(error)

            found = self._find(transactional_id, respond)
            if found is not None:
                found.add_partitions(producer, partitions, respond, self._now_ms())
                self._settle(found)

        attempt(hold=True)

    def verify(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Iterable[TopicPartition],
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Return for each partition whether it is in the open transaction of a producer."""
        try:
            found = self.registry.find(transactional_id)
        except ApiError as error:
            return dict.fromkeys(partitions, error.code)
        if found is None:
            return dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return found.verify(producer, partitions)

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        waiter: CodeWaiter,
        *,
        is_commit: bool,
    ) -> None:
        """Call `waiter` when the decision is durable, or with an error."""
        found = self._find(transactional_id, waiter)
        if found is not None:
            found.end(producer, waiter, self._now_ms(), is_commit=is_commit)
            self._settle(found)

    # Periodic work

    def tasks(self) -> list[PeriodicTask]:
        """Return the periodic tasks, with Kafka's names and keys."""
        config = self._config
        return [
            PeriodicTask(
                "transaction-abort",
                self.abort_timed_out,
                period_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
                runs_in_loop=True,
            ),
            PeriodicTask(
                "transactionalId-expiration",
                self.expire,
                period_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
                runs_in_loop=True,
            ),
        ]

    async def abort_timed_out(self) -> None:
        """Abort the transactions that are open for longer than their timeout."""
        now_ms = self._clock_ms()
        async for transaction in in_turns(self._deadlines.take_expired(now_ms)):
            if transaction in self._deadlines:
                # It has ended meanwhile, and another transaction of the id is open.
                continue
            if transaction in self.registry and transaction.on_timeout(self._now_ms()):
                self.timed_out_count += 1
                log.info(
                    "transaction.timed_out",
                    transactional_id=transaction.transactional_id,
                    producer_id=transaction.producer.producer_id,
                )
            self._settle(transaction)
            if transaction in self._deadlines:
                # The write has failed, or another change is pending: again in the next run.
                self._deadlines.set(transaction, now_ms)

    async def expire(self) -> None:
        """Remove the ids that were not used for `transactional.id.expiration.ms`."""
        for partition in self._leaderships.active_partitions():
            held = self.registry.in_partition(partition)
            for begin in range(0, len(held), MAX_TOMBSTONES):
                self._expire(partition, held[begin : begin + MAX_TOMBSTONES])
                await asyncio.sleep(0)

    # Inside

    def _expire(self, partition: int, transactions: Iterable[Transaction]) -> None:
        """Delete the expired ids of some transactions that the partition has, or has had."""
        now_ms, retention_ms = self._now_ms(), self._config.transactional_id_expiration_ms
        batch: list[tuple[Transaction, Change]] = []
        size_bytes = 0
        for transaction in transactions:
            if transaction not in self.registry:
                continue
            change = transaction.expire(now_ms, retention_ms)
            if change is None:
                continue
            batch.append((transaction, change))
            size_bytes += len(transaction.transactional_id.encode())
            if size_bytes >= MAX_TOMBSTONE_BYTES:
                self._delete(partition, batch)
                batch, size_bytes = [], 0
        if batch:
            self._delete(partition, batch)

    def _delete(self, partition: int, batch: list[tuple[Transaction, Change]]) -> None:
        def records() -> Iterator[KeyValue]:
            for transaction, _ in batch:
                yield transaction_key(transaction.transactional_id), None

        def on_stored(error: ErrorCode, _offset: int) -> None:
            for transaction, change in batch:
                transaction.on_stored(change, error)
                if error is ErrorCode.NONE:
                    self.registry.remove(transaction)
            log.info(
                "transactional_ids.expired",
                partition=partition,
                count=len(batch),
                error=error.name,
            )

        self._append(partition, records(), on_stored)

    def _find(self, transactional_id: str, waiter: CodeWaiter) -> Transaction | None:
        """Return the transaction of a request; None if its response is an error."""
        try:
            found = self.registry.find(transactional_id)
        except ApiError as error:
            waiter(error.code)
            return None
        if found is None:
            waiter(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return found

    def _initialize(self, transactional_id: str, request: Initializing, waiter: InitWaiter) -> None:
        try:
            found = self.registry.find(transactional_id)
        except ApiError as error:
            waiter(InitResult(error.code))
            return
        if found is None:
            if request.fresh_producer_id is None:
                self._allocate(transactional_id, request, waiter)
                return
            record = new_record(request.fresh_producer_id, self._now_ms())
            found = Transaction(transactional_id, record)
            self.registry.add(found)
            # The new state has this id.
            request = _without_fresh_id(request)
        found.initialize(request, waiter, self._now_ms())
        self._settle(found)

    def _allocate(self, transactional_id: str, request: Initializing, waiter: InitWaiter) -> None:
        async def allocate() -> None:
            try:
                producer_id = await self._producer_ids.allocate()
            except ApiError as error:
                waiter(InitResult(error.code))
            except asyncio.CancelledError:
                waiter(InitResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
                raise
            else:
                fresh = Initializing(
                    timeout_ms=request.timeout_ms,
                    current=request.current,
                    fresh_producer_id=producer_id,
                )
                self._initialize(transactional_id, fresh, waiter)

        task = self._loop.create_task(allocate(), name="producer id")
        self._allocating.add(task)
        task.add_done_callback(self._allocating.discard)

    def _hold(self, transactional_id: str, attempt: Attempt, is_gone: IsGone) -> bool:
        """Keep a request until the end of the transaction before, if that is near."""
        try:
            found = self.registry.find(transactional_id)
        except ApiError:
            return False
        return found is not None and found.is_ending and self._held.add(found, attempt, is_gone)

    def _on_loaded(self, partition: int, replay: TransactionsReplay) -> int:
        transactions = replay.transactions()
        self._activate_when_replicated(partition, transactions)
        return len(transactions)

    def _activate_when_replicated(self, partition: int, transactions: list[Transaction]) -> None:
        """Coordinate once no election can lose a record that was loaded.

        Otherwise this coordinator could send the markers of a commit that the next one never reads,
        and aborts.
        """
        began = self._leaderships.first_epoch(partition)

        def on_stored(error: ErrorCode, _offset: int) -> None:
            if not self._leaderships.is_loading_since(partition, began):
                return
            # Whether another write would have enough replicas does not matter here.
            if error in (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
                self._activate(partition, transactions)
            else:
                log.info("transactions.not_active", partition=partition, error=error.name)
                self._loop.call_later(
                    RETRY_S, self._retry_activation, partition, began, transactions
                )

        self._store.await_end(partition, self._leaderships.epoch(partition), on_stored)

    def _retry_activation(
        self, partition: int, began: LeaderEpoch, transactions: list[Transaction]
    ) -> None:
        if self._leaderships.is_loading_since(partition, began):
            self._activate_when_replicated(partition, transactions)

    def _activate(self, partition: int, transactions: list[Transaction]) -> None:
        self.registry.activate(partition, transactions)
        for transaction in transactions:
            transaction.resume()
            self._settle(transaction)

    def _unload(self, transactions: Iterable[Transaction]) -> None:
        for transaction in transactions:
            self._deadlines.cancel(transaction)
            # Their next attempt finds no coordinator here.
            self._held.release(transaction)

    def _settle(self, transaction: Transaction) -> None:
        """Carry out a transaction's effects, and set its deadline."""
        while effects := transaction.take_effects():
            for effect in effects:
                self._carry_out(transaction, effect)
        is_open = transaction.status is ONGOING and transaction in self.registry
        if is_open and transaction not in self._deadlines:
            record = transaction.record
            # Durations of a clock that never jumps; the log has only the time of day.
            left_ms = record.start_ms + record.timeout_ms - self._now_ms()
            delay_ms = min(max(left_ms, 0), record.timeout_ms)
            self._deadlines.set(transaction, self._clock_ms() + delay_ms)
        elif not is_open and transaction in self._deadlines:
            self._deadlines.cancel(transaction)

    def _carry_out(self, transaction: Transaction, effect: Effect) -> None:
        match effect:
            case Respond(waiter, error):
                waiter(error)
            case RespondToInit(init_waiter, result):
                init_waiter(result)
            case Append(change, is_retry):
                if is_retry:
                    self._loop.call_later(RETRY_S, self._write, transaction, change)
                else:
                    self._write(transaction, change)
            case SendMarkers(ending):
                self._send_markers(transaction, ending)
            case AllocateProducerId(request, init_waiter):
                self._allocate(transaction.transactional_id, request, init_waiter)

    def _write(self, transaction: Transaction, change: Change) -> None:
        if transaction not in self.registry:
            # A completion is left to the next coordinator.
            if change.kind is not ChangeKind.COMPLETE:
                transaction.on_stored(change, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                self._settle(transaction)
            return
        transactional_id = transaction.transactional_id

        def records() -> Iterator[KeyValue]:
            yield transaction_key(transactional_id), transaction_value(change.record)

        partition = self.registry.partition_of(transaction)
        self._append(partition, records(), partial(self._on_stored, transaction, change))

    def _append(
        self,
        partition: int,
        records: Iterable[KeyValue],
        on_stored: Callable[[ErrorCode, int], None],
    ) -> None:
        self._store.append(partition, self._leaderships.epoch(partition), records, on_stored)

    def _on_stored(
        self, transaction: Transaction, change: Change, error: ErrorCode, offset: int
    ) -> None:
        del offset
        if error is not ErrorCode.NONE:
            log.warning(
                "transaction.not_stored",
                transactional_id=transaction.transactional_id,
                kind=change.kind.name,
                error=error.name,
            )
        transaction.on_stored(change, error)
        if not transaction.is_stored:
            self.registry.remove(transaction)
        self._settle(transaction)
        if change.kind is ChangeKind.COMPLETE and transaction.status in COMPLETED:
            self._held.release(transaction)

    def _send_markers(self, transaction: Transaction, ending: Ending) -> None:
        if transaction not in self.registry:
            return
        partition = self.registry.partition_of(transaction)
        self.sender.send(Outgoing(ending, partition, self._leaderships.first_epoch(partition)))

    def _on_marker(self, outgoing: Outgoing, topic_partition: TopicPartition) -> None:
        ending = outgoing.ending
        found = self.registry.get(outgoing.coordinator_partition, ending.transactional_id)
        if found is not None:
            found.on_marker(ending, topic_partition, self._now_ms())
            self._settle(found)

    def _clock_ms(self) -> int:
        # Not the wall clock, which may be changed.
        return round(self._loop.time() * 1000)

    def _partition_count(self) -> int:
        topic = self._metadata.image.topics.get(TRANSACTIONS_TOPIC)
        return len(topic.partitions) if topic else self._config.transaction_state_log_num_partitions


def _without_fresh_id(request: Initializing) -> Initializing:
    return Initializing(timeout_ms=request.timeout_ms, current=request.current)

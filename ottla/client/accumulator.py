"""Gathers records into batches and says which are due. Decision: no I/O, clock or dice.

Per partition there is a queue of batches, of which the last may still be open. At most one batch
of a partition is out at a time, and while it is (or waits for its retry) the ones behind it wait
too: the partition is muted. Without sequence numbers nothing else keeps order under retries.
Invariants: records of a partition are taken out in the order of their `append`; reserved memory is
given back exactly when its batch is done.
"""

import enum
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from kafkawire.ids import BrokerId, TopicPartition
from ottla.client.config import ProducerConfig
from ottla.client.memory_budget import MemoryBudget
from ottla.client.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from ottla.client.partitioner import TopicPartitioner
from ottla.client.producer_batch import Delivery, ProducerBatch
from ottla.client.record import BytesLike, Headers


class PartitionQueue:
    """The batches of one partition, oldest first."""

    __slots__ = ("batches", "in_flight", "topic_partition")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.batches: deque[ProducerBatch] = deque()
        self.in_flight: ProducerBatch | None = None
        """The batch that is out; while there is one, the partition is muted."""


class TopicQueues:
    """What is known and gathered of one topic."""

    __slots__ = (
        "available",
        "open_batches",
        "partition_count",
        "partitioner",
        "queues",
    )

    def __init__(self, partitioner: TopicPartitioner) -> None:
        self.partitioner = partitioner
        self.partition_count = 0
        self.available: list[int] = []
        """The partitions that have a leader."""
        self.open_batches: dict[int, ProducerBatch] = {}
        self.queues: dict[int, PartitionQueue] = {}

    def lengths(self) -> dict[int, int]:
        """Return how many batches wait per available partition.

        Empty until each partition had a batch: the weights would shut out the others (KIP-794).
        """
        if len(self.queues) < self.partition_count:
            return {}
        return {partition: len(self.queues[partition].batches) for partition in self.available}


class Need(enum.Enum):
    """What an append that found no open batch with room waits for."""

    TOPIC = enum.auto()
    PARTITION = enum.auto()
    BATCH = enum.auto()


@dataclass(slots=True)
class Due:
    """What can be done now: batches by leader, and when to look again."""

    by_leader: dict[BrokerId, list[PartitionQueue]]
    leaderless: set[str]
    """Topics with due batches whose leader is not known."""
    look_again_at_s: float


class Accumulator:
    """All records that are accepted and not yet acknowledged."""

    def __init__(
        self,
        config: ProducerConfig,
        new_delivery: Callable[[], Delivery],
        random_below: Callable[[int], int],
    ) -> None:
        self.budget = MemoryBudget(config.buffer_memory_bytes)
        self.incomplete: dict[ProducerBatch, None] = {}
        """Every batch that is not settled, the oldest first (but for halves of a split)."""
        self.flush_count = 0
        """How many flushes wait; while one does, every batch is due."""
        self._batch_size_bytes = config.batch_size_bytes
        self._codec = config.codec
        self._linger_s = config.linger_ms / 1000
        self._delivery_timeout_s = config.delivery_timeout_ms / 1000
        self._is_adaptive = config.adaptive_partitioning
        self._new_delivery = new_delivery
        self._random_below = random_below
        self._topics: dict[str, TopicQueues] = {}
        self._waiting: dict[TopicPartition, PartitionQueue] = {}
        """Queues that hold batches and are not muted, the longest-waiting first."""

    # Taking records in

    def on_topic(self, topic: TopicMetadata) -> None:
        """Adopt the partitions of `topic`; only then can records for it be appended."""
        queues = self._topics.get(topic.name)
        if queues is None:
            partitioner = TopicPartitioner(self._batch_size_bytes, self._random_below)
            queues = self._topics[topic.name] = TopicQueues(partitioner)
        queues.partition_count = len(topic.partitions)
        queues.available = topic.available()
        queues.partitioner.on_partitions(queues.partition_count, queues.available)

    def append(
        self,
        topic: str,
        value: BytesLike | None,
        key: BytesLike | None,
        partition: int | None,
        timestamp_ms: int,
        headers: Headers,
    ) -> Delivery | None:
        """Take one record into the open batch of its partition, and return its delivery.

        None when that has to wait for something (`need` says what). This is the hot path of
        `send`: what happens once per batch is kept out of it (benchmarks/client_throughput.py).
        """
        queues = self._topics.get(topic)
        if queues is None:
            return None
        if partition is None:
            if key is None:
                partition = queues.partitioner.sticky
            else:
                partition = queues.partitioner.for_key(key)
        batch = queues.open_batches.get(partition)
        if batch is None or batch.append(timestamp_ms, key, value, headers) < 0:
            return None
        delivery = self._new_delivery()
        batch.deliveries.append(delivery)
        batch.timestamps_ms.append(timestamp_ms)
        return delivery

    def need(self, topic: str, partition: int | None) -> Need:
        """Return what an append that got None waits for."""
        queues = self._topics.get(topic)
        if queues is None:
            return Need.TOPIC
        if partition is not None and not 0 <= partition < queues.partition_count:
            return Need.PARTITION
        return Need.BATCH

    def close_full(
        self, topic: str, key: BytesLike | None, partition: int | None, refused_bytes: int
    ) -> bool:
        """Close the open batch that had no room for a record of `refused_bytes`, if there is one.

        Return whether the record now goes to another partition, whose open batch may have room.
        """
        queues = self._topics[topic]
        chosen = _choose(queues, key, partition)
        batch = queues.open_batches.get(chosen)
        if batch is not None:
            self._close_batch(batch, refused_bytes)
        return _choose(queues, key, partition) != chosen

    def reservation(self, size_bytes: int) -> int:
        """Return how much memory a batch takes that begins with a record of `size_bytes`."""
        return max(self._batch_size_bytes, size_bytes)

    def open_batch(
        self,
        topic: str,
        value: BytesLike | None,
        key: BytesLike | None,
        partition: int | None,
        timestamp_ms: int,
        headers: Headers,
        reserved_bytes: int,
        now_s: float,
    ) -> Delivery:
        """Open a batch with its first record, in memory that the caller has reserved."""
        queues = self._topics[topic]
        chosen = _choose(queues, key, partition)
        assert chosen not in queues.open_batches
        queue = queues.queues.get(chosen)
        if queue is None:
            queue = queues.queues[chosen] = PartitionQueue(TopicPartition(topic, chosen))
        batch = ProducerBatch(
            queue.topic_partition, self._codec, self._batch_size_bytes, reserved_bytes, now_s
        )
        # Before the batch is known to anybody: this raises when the record is none.
        batch.append(timestamp_ms, key, value, headers)
        delivery = self._new_delivery()
        batch.deliveries.append(delivery)
        batch.timestamps_ms.append(timestamp_ms)
        queues.open_batches[chosen] = batch
        queue.batches.append(batch)
        self.incomplete[batch] = None
        self._update_waiting(queue)
        return delivery

    # Sending batches

    def due(self, metadata: ClusterMetadata, now_s: float) -> Due:
        """Return the queues whose first batch may be sent now, by the leader to send it to."""
        due = Due(by_leader={}, leaderless=set(), look_again_at_s=inf)
        sends_all = self.flush_count > 0 or self.budget.is_exhausted
        for queue in self._waiting.values():
            batch = queue.batches[0]
            held = metadata.partition(queue.topic_partition)
            due_at_s = self._due_at_s(batch, held, sends_all or len(queue.batches) > 1)
            if due_at_s > now_s:
                due.look_again_at_s = min(due.look_again_at_s, due_at_s)
            elif held is None or held.leader not in metadata.brokers:
                due.leaderless.add(queue.topic_partition.topic)
            else:
                due.by_leader.setdefault(held.leader, []).append(queue)
        return due

    def take(self, queue: PartitionQueue) -> ProducerBatch:
        """Take the first batch out and mute the partition until the batch is back or done."""
        assert queue.in_flight is None
        batch = queue.batches.popleft()
        self._close_batch(batch)
        queue.in_flight = batch
        self._update_waiting(queue)
        return batch

    def put_back(self, batch: ProducerBatch, retry_at_s: float) -> None:
        """Return a batch that was taken: it is the first to go again, from `retry_at_s` on."""
        queue = self._unmute(batch)
        batch.retry_at_s = retry_at_s
        queue.batches.appendleft(batch)
        self._update_waiting(queue)

    def split(self, batch: ProducerBatch, now_s: float) -> None:
        """Return a batch that was taken in two halves."""
        queue = self._unmute(batch)
        del self.incomplete[batch]
        halves = batch.split(now_s)
        self.incomplete.update(dict.fromkeys(halves))
        queue.batches.extendleft(reversed(halves))
        self._update_waiting(queue)

    def done(self, batch: ProducerBatch) -> None:
        """Note that a batch that was taken is settled: free its memory, unmute its partition."""
        queue = self._unmute(batch)
        del self.incomplete[batch]
        self._update_waiting(queue)
        self.budget.release(batch.reserved_bytes)

    def next_expiry_s(self) -> float:
        """Return when the oldest batch will have waited longer than the delivery timeout."""
        oldest = next(iter(self.incomplete), None)
        return inf if oldest is None else oldest.created_at_s + self._delivery_timeout_s

    def overdue_in_flight(self, now_s: float) -> list[ProducerBatch]:
        """Return the batches that are out for longer than the delivery timeout; they stay out."""
        deadline_s = now_s - self._delivery_timeout_s
        return [
            batch
            for batch in self.incomplete
            if batch.created_at_s <= deadline_s
            and not batch.is_done
            and self._queue(batch).in_flight is batch
        ]

    def expired(self, now_s: float) -> list[ProducerBatch]:
        """Take out and return the batches that waited longer than the delivery timeout."""
        expired = []
        for queue in list(self._waiting.values()):
            while (
                queue.batches and queue.batches[0].created_at_s + self._delivery_timeout_s <= now_s
            ):
                expired.append(self._drop_first(queue))
            self._update_waiting(queue)
        return expired

    def drop_all(self) -> list[ProducerBatch]:
        """Take out and return every batch that is not out."""
        dropped = []
        for topic in self._topics.values():
            for queue in topic.queues.values():
                while queue.batches:
                    dropped.append(self._drop_first(queue))
                self._update_waiting(queue)
        return dropped

    # Inside

    def _due_at_s(
        self, batch: ProducerBatch, held: PartitionMetadata | None, is_pressed: bool
    ) -> float:
        if batch.attempt_count > 0:
            has_new_leader = held is not None and held.leader_epoch > batch.tried_epoch
            return -inf if has_new_leader else batch.retry_at_s
        if batch.is_closed or is_pressed:
            return -inf
        return batch.created_at_s + self._linger_s

    def _close_batch(self, batch: ProducerBatch, refused_bytes: int = 0) -> None:
        """Let `batch` take no more; `refused_bytes` is the size of a record it had no room for."""
        if batch.is_closed:
            return
        batch.is_closed = True
        topic, partition = batch.topic_partition
        queues = self._topics[topic]
        del queues.open_batches[partition]
        if partition == queues.partitioner.sticky:
            # Only here, so that a partition is never left with its batch half full (KIP-794).
            if self._is_adaptive:
                queues.partitioner.on_load(queues.lengths())
            queues.partitioner.on_sticky_bytes(batch.size_bytes, refused_bytes)

    def _drop_first(self, queue: PartitionQueue) -> ProducerBatch:
        batch = queue.batches.popleft()
        self._close_batch(batch)
        del self.incomplete[batch]
        self.budget.release(batch.reserved_bytes)
        return batch

    def _unmute(self, batch: ProducerBatch) -> PartitionQueue:
        queue = self._queue(batch)
        assert queue.in_flight is batch
        queue.in_flight = None
        return queue

    def _queue(self, batch: ProducerBatch) -> PartitionQueue:
        topic, partition = batch.topic_partition
        return self._topics[topic].queues[partition]

    def _update_waiting(self, queue: PartitionQueue) -> None:
        if queue.batches and queue.in_flight is None:
            self._waiting.setdefault(queue.topic_partition, queue)
        else:
            self._waiting.pop(queue.topic_partition, None)


def _choose(queues: TopicQueues, key: BytesLike | None, partition: int | None) -> int:
    if partition is not None:
        return partition
    return queues.partitioner.sticky if key is None else queues.partitioner.for_key(key)

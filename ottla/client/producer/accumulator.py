"""Gathers records into batches and decides which batches are due (decision).

Each partition has a queue of batches, the last of which may still be open. At most one batch of a
partition is in flight. While it is in flight or waits for its retry, the partition is muted: the
batches behind it wait. Without sequence numbers nothing else preserves order across retries. To
keep throughput up, a batch may grow beyond its usual size until the sender takes it.
Invariants: records of a partition are taken in the order of their `append`; the memory of a batch
is released exactly when the batch is done.
"""

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from operator import index
from typing import Final

from kafkawire.ids import BrokerId, TopicPartition
from ottla.client.client_config import ProducerConfig
from ottla.client.cluster_metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from ottla.client.producer.memory_budget import MemoryBudget
from ottla.client.producer.partitioner import TopicPartitioner
from ottla.client.producer.producer_batch import Delivery, ProducerBatch
from ottla.client.producer.topic_queues import PartitionQueue, TopicQueues
from ottla.client.record import BytesLike, Headers, UnsentRecord

GROWTH_LIMIT: Final = 16
"""Size limit of a batch in multiples of `batch_size_bytes`, within `max_request_bytes`."""

MAX_DRAWS: Final = 10
"""Number of full batches after which a record without a key lets one of them grow.

While their leaders cannot be reached, thousands of batches may be full.
"""


class Need(enum.Enum):
    """The obstacle to an append for which no open batch had room."""

    TOPIC = enum.auto()
    PARTITION = enum.auto()
    MEMORY = enum.auto()


@dataclass(slots=True)
class Due:
    """The queues with a batch to send now, by leader, and the time of the next check."""

    by_leader: dict[BrokerId, list[PartitionQueue]]
    leaderless: set[str]
    """Topics with due batches whose leader is unknown."""
    look_again_at_s: float

    def keep(self, may_be_sent: Callable[[PartitionQueue], bool]) -> None:
        """Drop the queues whose first batch has to wait for another reason."""
        self.by_leader = {
            leader: [queue for queue in queues if may_be_sent(queue)]
            for leader, queues in self.by_leader.items()
        }


class Accumulator:
    """All records that were accepted and are not yet acknowledged."""

    def __init__(
        self,
        config: ProducerConfig,
        new_delivery: Callable[[], Delivery],
        random_below: Callable[[int], int],
    ) -> None:
        self.budget = MemoryBudget(config.buffer_memory_bytes)
        self.incomplete: dict[ProducerBatch, None] = {}
        """Every unsettled batch, oldest first."""
        self.flush_count = 0
        """Number of flushes in progress; while there is one, every batch is due."""
        self._config = config
        self._linger_s = config.linger_ms / 1000
        self._delivery_timeout_s = config.delivery_timeout_ms / 1000
        self._new_delivery = new_delivery
        self._random_below = random_below
        self._topics: dict[str, TopicQueues] = {}
        self._waiting: dict[TopicPartition, PartitionQueue] = {}
        """Queues that hold batches and are not muted, longest wait first."""

    # Accepting records

    def on_topic(self, topic: TopicMetadata, *, is_wanted: bool = True) -> None:
        """Adopt the partitions of `topic`; records for a topic can be appended only after this.

        With `is_wanted` the application is about to use it, so that `forget_idle` keeps it.
        """
        queues = self._topics.get(topic.name)
        if queues is None:
            batch_size_bytes = self._config.batch_size_bytes
            queues = self._topics[topic.name] = TopicQueues(
                TopicPartitioner(batch_size_bytes, self._random_below),
                min(GROWTH_LIMIT * batch_size_bytes, self._config.max_request_bytes),
            )
        queues.is_used = queues.is_used or is_wanted
        queues.adopt(topic)

    def keep(self, topic: str) -> None:
        """Never forget `topic`, which is known."""
        self._topics[topic].is_kept = True

    def forget_idle(self) -> list[str]:
        """Forget the topics that were not used since the last call; return their names."""
        idle = [name for name, queues in self._topics.items() if queues.rests()]
        for name in idle:
            del self._topics[name]
        return idle

    def append(
        self,
        topic: str,
        value: BytesLike | None,
        key: BytesLike | None,
        partition: int | None,
        timestamp_ms: int,
        headers: Headers,
    ) -> Delivery | None:
        """Append one record to the open batch of its partition and return its delivery.

        Return None if the append has to wait; `need` returns the reason.
        """
        # The hot path of `send`: work per batch is kept out (benchmarks/client_throughput.py).
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

    def partitions(self, topic: str) -> tuple[Sequence[int], Sequence[int]] | None:
        """Return all partitions of `topic`, and the ones with a leader; None if it is unknown."""
        queues = self._topics.get(topic)
        return None if queues is None else (range(queues.partition_count), queues.available)

    def need(self, topic: str, partition: int | None) -> Need:
        """Return the reason why `append` returned None."""
        queues = self._topics.get(topic)
        if queues is None:
            return Need.TOPIC
        if partition is None or _is_within(partition, queues.partition_count):
            return Need.MEMORY
        return Need.PARTITION

    def reservation(self, size_bytes: int) -> int:
        """Return the number of bytes to reserve before `take_in` of a `size_bytes` record."""
        return max(self._config.batch_size_bytes, size_bytes)

    def take_in(self, record: UnsentRecord, reserved_bytes: int, now_s: float) -> Delivery:
        """Append a record to a new batch, or to one that may grow, using reserved memory.

        The batch takes over the reservation; if it is not needed, it is released.
        """
        used_bytes = 0
        try:
            delivery = self._append_elsewhere(record)
            if delivery is None:
                delivery = self._append_with(record, reserved_bytes, now_s)
                used_bytes = reserved_bytes
        finally:
            if reserved_bytes > used_bytes:
                self.budget.release(reserved_bytes)
        return delivery

    def _append_elsewhere(self, record: UnsentRecord) -> Delivery | None:
        """Mark the full batch, and append to another open batch that has room, if one is drawn."""
        queues = self._topics[record.topic]
        delivery = self.append(*record)
        for attempt in range(min(MAX_DRAWS, queues.partition_count)):
            chosen = queues.choose(record.key, record.partition)
            batch = queues.open_batches.get(chosen)
            if delivery is not None or batch is None:
                break
            batch.is_full = True
            if record.partition is not None or record.key is not None:
                break
            if attempt == 0:
                # Once: the loop changes no queue, and there may be thousands of them.
                self._adopt_load(queues)
            self._count_sticky(queues, batch, self._config.batch_size_bytes)
            if queues.partitioner.sticky == chosen:
                break
            delivery = self.append(*record)
        return delivery

    def _append_with(self, record: UnsentRecord, reserved_bytes: int, now_s: float) -> Delivery:
        """Append to the open batch, which grows, or to a new one; it takes over the reservation."""
        queues = self._topics[record.topic]
        queues.is_used = True
        partition = queues.choose(record.key, record.partition)
        queue = queues.queue(TopicPartition(record.topic, partition))
        batch = queues.open_batches.get(partition)
        if batch is not None:
            grown_bytes = batch.reserved_bytes + reserved_bytes
            if grown_bytes <= queues.growth_limit_bytes:
                batch.reserved_bytes = grown_bytes
                self._double(batch, queues.growth_limit_bytes)
                # This raises nothing: the batch has refused the record because of its size alone.
                return self._append_to(batch, record)
            self._close_batch(batch)
        batch = ProducerBatch(
            queue.topic_partition,
            self._config.codec,
            reserved_bytes,
            now_s,
            level=self._config.compression_level,
            is_transactional=self._config.transactional_id is not None,
        )
        # Before the batch is in the queue: an invalid record raises here.
        delivery = self._append_to(batch, record)
        queues.open_batches[partition] = batch
        queue.batches.append(batch)
        self.incomplete[batch] = None
        self._update_waiting(queue)
        return delivery

    def _double(self, batch: ProducerBatch, limit_bytes: int) -> None:
        """Reserve as much again for a growing batch, if it is free: the next records need less."""
        more_bytes = min(batch.reserved_bytes, limit_bytes - batch.reserved_bytes)
        if self.budget.try_reserve(more_bytes):
            batch.reserved_bytes += more_bytes

    def _append_to(self, batch: ProducerBatch, record: UnsentRecord) -> Delivery:
        added = batch.append(record.timestamp_ms, record.key, record.value, record.headers)
        assert added >= 0, "the caller reserved memory for the record"
        delivery = self._new_delivery()
        batch.deliveries.append(delivery)
        batch.timestamps_ms.append(record.timestamp_ms)
        return delivery

    # Sending batches

    def due(self, metadata: ClusterMetadata, now_s: float) -> Due:
        """Return the queues whose first batch may be sent now, by leader."""
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
        """Take the first batch and mute the partition until the batch is put back or done."""
        assert queue.in_flight is None
        batch = queue.batches.popleft()
        self._close_batch(batch)
        queue.in_flight = batch
        self._update_waiting(queue)
        return batch

    def put_back(self, batch: ProducerBatch, retry_at_s: float) -> None:
        """Put a taken batch back at the head of its queue, to be sent again from `retry_at_s`."""
        queue = self._unmute(batch)
        batch.retry_at_s = retry_at_s
        queue.batches.appendleft(batch)
        self._update_waiting(queue)

    def forget_sequences(self, topic_partition: TopicPartition) -> None:
        """Clear the sequence numbers of the waiting batches; they get new ones when sent.

        Needed once an earlier batch got new numbers or was given up. Batches that may be written
        keep their numbers, and fail if the broker does not expect these.
        """
        for batch in self._topics[topic_partition.topic].queues[topic_partition.partition].batches:
            if not batch.may_be_written:
                batch.identity = None

    def split(self, batch: ProducerBatch, now_s: float) -> None:
        """Put a taken batch back as two halves."""
        halves = batch.split(now_s)
        queue = self._unmute(batch)
        # In the place of the whole: they have its age, and the oldest batch expires first.
        self.incomplete = {
            each: None
            for known in self.incomplete
            for each in (halves if known is batch else (known,))
        }
        # The topic's size limit is lower than assumed: no batch may exceed its usual size.
        self._topics[batch.topic_partition.topic].growth_limit_bytes = 0
        queue.batches.extendleft(reversed(halves))
        self._update_waiting(queue)

    def done(self, batch: ProducerBatch) -> None:
        """Release the memory of a taken batch that is settled, and unmute its partition."""
        queue = self._unmute(batch)
        del self.incomplete[batch]
        self._update_waiting(queue)
        self.budget.release(batch.reserved_bytes)

    def is_out(self, batch: ProducerBatch) -> bool:
        """Whether `batch` was taken and is neither put back nor done."""
        return self._queue(batch).in_flight is batch

    def next_expiry_s(self) -> float:
        """Return when the delivery timeout of the oldest batch expires."""
        for batch in self.incomplete:
            if not batch.is_done:
                return self._expires_at_s(batch)
        return inf

    def expire(self, now_s: float) -> list[ProducerBatch]:
        """Return the batches whose delivery timeout has passed without an acknowledgement.

        Waiting batches are removed. A batch in flight stays taken until its response arrives.
        """
        overdue = [
            batch
            for batch in self.incomplete
            if self._expires_at_s(batch) <= now_s and not batch.is_done
        ]
        self._remove(overdue)
        return overdue

    def waiting_partitions(self) -> list[TopicPartition]:
        """Return the partitions whose first batch is not in flight."""
        return list(self._waiting)

    def drop_waiting(self) -> list[ProducerBatch]:
        """Remove every batch that is not in flight from its queue, and return it."""
        return self._remove(batch for batch in self.incomplete if not batch.is_done)

    def drop_all(self) -> list[ProducerBatch]:
        """Return every unsettled batch; remove the waiting ones from their queues."""
        unsettled = [batch for batch in self.incomplete if not batch.is_done]
        self._remove(unsettled)
        return unsettled

    # Inside

    def _remove(self, batches: Iterable[ProducerBatch]) -> list[ProducerBatch]:
        """Remove `batches` from their queues, except for ones in flight; return the others."""
        waiting = [each for each in batches if self._queue(each).in_flight is not each]
        for batch in waiting:
            queue = self._queue(batch)
            queue.batches.remove(batch)
            self._drop(batch)
            self._update_waiting(queue)
        return waiting

    def _expires_at_s(self, batch: ProducerBatch) -> float:
        # The only place that calculates it: another sum could be rounded to a later time, and the
        # sender would look for overdue batches again and again until the clock has passed it.
        return batch.created_at_s + self._delivery_timeout_s

    def _due_at_s(
        self, batch: ProducerBatch, held: PartitionMetadata | None, is_pressed: bool
    ) -> float:
        if batch.attempt_count > 0:
            has_new_leader = held is not None and held.leader_epoch > batch.tried_epoch
            return -inf if has_new_leader else batch.retry_at_s
        if batch.is_full or batch.is_closed or is_pressed:
            return -inf
        return batch.created_at_s + self._linger_s

    def _close_batch(self, batch: ProducerBatch) -> None:
        """Close `batch` for further records."""
        if batch.is_closed:
            return
        batch.is_closed = True
        topic, partition = batch.topic_partition
        queues = self._topics[topic]
        del queues.open_batches[partition]
        if partition == queues.partitioner.sticky:
            self._adopt_load(queues)
            self._count_sticky(queues, batch, 0)

    def _adopt_load(self, queues: TopicQueues) -> None:
        """Report the lengths of the queues to the partitioner, before it may switch."""
        if self._config.adaptive_partitioning:
            queues.partitioner.on_load(queues.lengths())

    def _count_sticky(self, queues: TopicQueues, batch: ProducerBatch, refused_bytes: int) -> None:
        """Report the bytes appended to the sticky partition to the partitioner.

        Called only when a batch is full or sent, so that the partitioner never leaves a partition
        with a half-full batch (KIP-794).
        """
        appended_bytes = batch.filled_bytes - batch.counted_bytes
        batch.counted_bytes = batch.filled_bytes
        queues.partitioner.on_sticky_bytes(appended_bytes, refused_bytes)

    def _drop(self, batch: ProducerBatch) -> None:
        self._close_batch(batch)
        del self.incomplete[batch]
        self.budget.release(batch.reserved_bytes)

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


def _is_within(partition: int, count: int) -> bool:
    try:
        # 1.0 equals 1, but as the number of a queue no request can carry it.
        return 0 <= index(partition) < count
    except TypeError:
        return False

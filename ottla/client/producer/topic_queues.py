"""The batches of one topic, by partition (decision).

Invariant: in each partition only the last batch may be open, and at most one is in flight.
"""

from collections import deque

from kafkawire.ids import TopicPartition
from ottla.client.cluster_metadata import TopicMetadata
from ottla.client.producer.partitioner import TopicPartitioner
from ottla.client.producer.producer_batch import ProducerBatch
from ottla.client.record import BytesLike


class PartitionQueue:
    """The batches of one partition, oldest first."""

    __slots__ = ("batches", "in_flight", "topic_partition")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.batches: deque[ProducerBatch] = deque()
        self.in_flight: ProducerBatch | None = None
        """The batch in flight; while there is one, the partition is muted."""


class TopicQueues:
    """Partitions and batches of one topic."""

    __slots__ = (
        "available",
        "growth_limit_bytes",
        "is_kept",
        "is_used",
        "open_batches",
        "partition_count",
        "partitioner",
        "queues",
    )

    def __init__(self, partitioner: TopicPartitioner, growth_limit_bytes: int) -> None:
        self.partitioner = partitioner
        self.growth_limit_bytes = growth_limit_bytes
        """Limit of the size to which a batch may grow."""
        self.is_kept = False
        """Whether the topic never rests."""
        self.is_used = True
        """Whether a batch has begun since the last `rests`."""
        self.partition_count = 0
        self.available: list[int] = []
        """The partitions that have a leader."""
        self.open_batches: dict[int, ProducerBatch] = {}
        self.queues: dict[int, PartitionQueue] = {}

    def adopt(self, topic: TopicMetadata) -> None:
        """Adopt the partitions of `topic`, and the set of available ones."""
        self.partition_count = len(topic.partitions)
        self.available = topic.available()
        self.partitioner.on_partitions(self.partition_count, self.available)

    def rests(self) -> bool:
        """Whether no batch has begun since the last call, and none is left."""
        was_used, self.is_used = self.is_used, False
        return not (was_used or self.is_kept) and not any(
            queue.batches or queue.in_flight is not None for queue in self.queues.values()
        )

    def choose(self, key: BytesLike | None, partition: int | None) -> int:
        """Return the partition of a record."""
        if partition is not None:
            return partition
        return self.partitioner.sticky if key is None else self.partitioner.for_key(key)

    def queue(self, topic_partition: TopicPartition) -> PartitionQueue:
        """Return the queue of a partition; create it if needed."""
        queue = self.queues.get(topic_partition.partition)
        if queue is None:
            queue = self.queues[topic_partition.partition] = PartitionQueue(topic_partition)
        return queue

    def lengths(self) -> dict[int, int]:
        """Return the number of waiting batches per available partition.

        Empty until each partition has had a batch; before that, weights would exclude the
        partitions without one (KIP-794).
        """
        queues = self.queues
        if len(queues) < self.partition_count:
            return {}
        # An earlier topic of the same name may have had more partitions.
        if any(partition not in queues for partition in self.available):
            return {}
        return {partition: len(queues[partition].batches) for partition in self.available}

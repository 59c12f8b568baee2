"""Assigns sequence numbers to the records of an idempotent producer (decision).

Brokers recognise duplicates by these numbers. In each partition and producer epoch records are
numbered from 0. A batch keeps its numbers across retries. Once a batch was given up, the broker may
or may not have its numbers. The producer then begins a new epoch, and each partition switches to it
with its next batch, from 0.
Invariant: no two batches of a partition have the same epoch and sequence.
Source: KIP-98, KIP-360, and Kafka's TransactionManager.
"""

from typing import Final, NamedTuple

from kafkawire.ids import ProducerId, TopicPartition

MAX_SEQUENCE: Final = 2**31 - 1
MAX_EPOCH: Final = 2**15 - 1


class ProducerIdentity(NamedTuple):
    """A producer id and a producer epoch."""

    producer_id: ProducerId
    epoch: int


class ProducerSequences:
    """The identity of this producer, and the next sequence number of each partition."""

    def __init__(self) -> None:
        self.identity: ProducerIdentity | None = None
        """Current identity; None until a broker has assigned one. Batches have to wait for it."""
        self._next: dict[TopicPartition, tuple[ProducerIdentity, int]] = {}

    def adopt(self, producer_id: ProducerId, epoch: int) -> None:
        """Use this identity from now on."""
        self.identity = ProducerIdentity(producer_id, epoch)

    def take(
        self, topic_partition: TopicPartition, record_count: int
    ) -> tuple[ProducerIdentity, int]:
        """Return identity and base sequence for the next batch of a partition.

        No batch of the partition may be in flight.
        """
        assert self.identity is not None
        identity, sequence = self._next.get(topic_partition, (self.identity, 0))
        if identity != self.identity:
            identity, sequence = self.identity, 0
        self._next[topic_partition] = (identity, (sequence + record_count) & MAX_SEQUENCE)
        return identity, sequence

    def on_gap(self, identity: ProducerIdentity) -> None:
        """Begin a new epoch, since the broker may or may not have a batch of `identity`.

        Nothing changes if a newer epoch has already begun. After the last epoch the identity is
        None: a new id is needed.
        """
        if identity != self.identity:
            return
        producer_id, epoch = identity
        self.identity = ProducerIdentity(producer_id, epoch + 1) if epoch < MAX_EPOCH else None

"""Numbers an idempotent producer's records, so that brokers know repeats. Decision: no I/O.

Per partition records are numbered from 0 in each epoch of the producer. A batch keeps its numbers
however often it is sent. When a batch was given up, nobody knows whether its numbers are taken: the
producer begins a new epoch, and each partition follows with its next batch, from 0.
Invariant: no two batches of a partition have the same epoch and sequence.
Source: KIP-98, KIP-360, and Kafka's TransactionManager.
"""

from typing import Final, NamedTuple

from kafkawire.ids import ProducerId, TopicPartition

MAX_SEQUENCE: Final = 2**31 - 1
MAX_EPOCH: Final = 2**15 - 1


class ProducerIdentity(NamedTuple):
    """A producer id, and which of its epochs."""

    producer_id: ProducerId
    epoch: int


class ProducerSequences:
    """Who this producer is, and what each partition's next number is."""

    def __init__(self) -> None:
        self.identity: ProducerIdentity | None = None
        """None until a broker has given one: nothing can be numbered before."""
        self._next: dict[TopicPartition, tuple[ProducerIdentity, int]] = {}

    def adopt(self, producer_id: ProducerId, epoch: int) -> None:
        """Be this producer from now on."""
        self.identity = ProducerIdentity(producer_id, epoch)

    def take(
        self, topic_partition: TopicPartition, record_count: int
    ) -> tuple[ProducerIdentity, int]:
        """Return identity and first number for the next batch of a partition.

        To be called when no batch of the partition is under way.
        """
        assert self.identity is not None
        identity, sequence = self._next.get(topic_partition, (self.identity, 0))
        if identity != self.identity:
            identity, sequence = self.identity, 0
        self._next[topic_partition] = (identity, (sequence + record_count) & MAX_SEQUENCE)
        return identity, sequence

    def on_gap(self, identity: ProducerIdentity) -> None:
        """Note that the numbers of a batch under `identity` may be taken or not.

        Nothing changes if a new epoch has begun since. After the last epoch a new id is needed.
        """
        if identity != self.identity:
            return
        producer_id, epoch = identity
        self.identity = ProducerIdentity(producer_id, epoch + 1) if epoch < MAX_EPOCH else None

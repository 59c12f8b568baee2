"""Random histories of a producer's accumulator, against a minimal model.

The model has, for each partition, a list of values in the order of their `append`. Values finish in
that order, for any sequence of sending, requeuing, splitting, expiring and finishing.
"""

import asyncio
from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafkawire.compression import Codec
from kafkawire.ids import BrokerId, Offset, TopicPartition
from kafkawire.records import read_records
from ottla.client.client_config import ProducerConfig
from ottla.client.cluster_metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from ottla.client.errors import ProduceError
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.producer_batch import Delivery, ProducerBatch, max_batch_size
from ottla.client.record import UnsentRecord

PARTITIONS = 3
BATCH_BYTES = 150
BUFFER_BYTES = 4_000
TIMEOUT_S = 50.0
CLUSTER = ClusterMetadata(
    brokers={BrokerId(0): None},  # type: ignore[dict-item]
    topics={
        "t": TopicMetadata(
            name="t",
            partitions={
                number: PartitionMetadata(partition=number, leader=BrokerId(0))
                for number in range(PARTITIONS)
            },
        )
    },
)


class AccumulatorHistory(RuleBasedStateMachine):
    """The accumulator with the calls of a producer and a sender."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        config = ProducerConfig(
            batch_size_bytes=BATCH_BYTES,
            buffer_memory_bytes=BUFFER_BYTES,
            delivery_timeout_ms=int(TIMEOUT_S * 1000),
            codec=Codec.LZ4,
        )
        self.accumulator = Accumulator(
            config, lambda: asyncio.Future(loop=self.loop), lambda below: self.number % below
        )
        self.number = 0
        self.now_s = 0.0
        self.accumulator.on_topic(CLUSTER.topics["t"])
        self.out: list[ProducerBatch] = []
        self.deliveries: list[Delivery] = []
        self.accepted: defaultdict[TopicPartition, list[bytes]] = defaultdict(list)
        self.finished: defaultdict[TopicPartition, list[bytes]] = defaultdict(list)
        self.given_up: set[bytes] = set()

    def teardown(self) -> None:
        while self.out or self.due():
            for batch in list(self.out):
                self.finish_batch(batch)
            self.take()
        for partition, values in self.accepted.items():
            assert self.finished[partition] == [
                value for value in values if value not in self.given_up
            ]
        assert all(delivery.done() for delivery in self.deliveries)
        assert self.accumulator.budget.free_bytes == BUFFER_BYTES
        assert not self.accumulator.incomplete
        self.loop.close()

    def due(self) -> list[TopicPartition]:
        queues = self.accumulator.due(CLUSTER, self.now_s).by_leader.get(BrokerId(0), [])
        return [queue.topic_partition for queue in queues]

    @rule(size=st.integers(0, 200), partition=st.none() | st.integers(0, PARTITIONS - 1))
    def send(self, size: int, partition: int | None) -> None:
        value = b"%06d" % self.number + b"x" * size
        record = UnsentRecord("t", value, None, partition, self.number, ())
        delivery = self.accumulator.append(*record)
        if delivery is None:
            wanted = self.accumulator.reservation(max_batch_size(record))
            if not self.accumulator.budget.try_reserve(wanted):
                return
            delivery = self.accumulator.take_in(record, wanted, self.now_s)
        self.number += 1
        self.deliveries.append(delivery)
        holders = [
            batch for batch in self.accumulator.incomplete if batch.deliveries[-1] is delivery
        ]
        self.accepted[holders[0].topic_partition].append(value)

    @rule()
    def take(self) -> None:
        queues = self.accumulator.due(CLUSTER, self.now_s).by_leader.get(BrokerId(0), [])
        for queue in queues:
            batch = self.accumulator.take(queue)
            batch.attempt_count += 1
            self.out.append(batch)

    def pick(self, choice: int) -> ProducerBatch:
        return self.out[choice % len(self.out)]

    @precondition(lambda self: self.out)
    @rule(choice=st.integers(0, 100))
    def finish(self, choice: int) -> None:
        self.finish_batch(self.pick(choice))

    def finish_batch(self, batch: ProducerBatch) -> None:
        self.out.remove(batch)
        values = [record.value or b"" for record in read_records(batch.payload())]
        self.accumulator.done(batch)
        if not batch.is_done:
            self.finished[batch.topic_partition] += values
            batch.complete(Offset(0), -1)

    @precondition(lambda self: self.out)
    @rule(choice=st.integers(0, 100), wait_s=st.sampled_from([0.0, 1.0]))
    def put_back(self, choice: int, wait_s: float) -> None:
        batch = self.pick(choice)
        if not batch.is_done:
            self.out.remove(batch)
            self.accumulator.put_back(batch, self.now_s + wait_s)
            self.now_s += wait_s

    @precondition(lambda self: self.out)
    @rule(choice=st.integers(0, 100))
    def split(self, choice: int) -> None:
        batch = self.pick(choice)
        if len(batch.deliveries) > 1 and not batch.is_done:
            self.out.remove(batch)
            self.accumulator.split(batch, self.now_s)

    @rule(passed_s=st.sampled_from([1.0, TIMEOUT_S]))
    def expire(self, passed_s: float) -> None:
        self.now_s += passed_s
        for batch in self.accumulator.expire(self.now_s):
            batch.is_closed = True
            self.given_up |= {record.value or b"" for record in read_records(batch.payload())}
            batch.fail(ProduceError("late"))

    @invariant()
    def at_most_one_batch_of_a_partition_is_out(self) -> None:
        out = [batch.topic_partition for batch in self.out]
        assert len(out) == len(set(out))
        assert not set(out) & set(self.due())

    @invariant()
    def memory_is_that_of_the_batches(self) -> None:
        held = sum(batch.reserved_bytes for batch in self.accumulator.incomplete)
        assert self.accumulator.budget.free_bytes == BUFFER_BYTES - held

    @invariant()
    def batches_are_within_their_memory(self) -> None:
        for batch in self.accumulator.incomplete:
            assert batch.is_closed or batch.filled_bytes <= batch.reserved_bytes


TestAccumulatorHistory = AccumulatorHistory.TestCase
TestAccumulatorHistory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

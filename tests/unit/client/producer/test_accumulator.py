"""Records gather into batches; batches are sent in order, one per partition at a time."""

import asyncio
from collections.abc import Iterator
from itertools import count
from math import inf
from typing import Any

import pytest

from kafkawire.ids import BrokerId, LeaderEpoch, Offset, ProducerId, TopicPartition
from kafkawire.records import read_header, read_records
from ottla.client.client_config import ProducerConfig
from ottla.client.errors import ProduceError
from ottla.client.producer.accumulator import GROWTH_LIMIT, MAX_DRAWS, Accumulator, Need
from ottla.client.producer.producer_batch import Delivery, ProducerBatch
from ottla.client.producer.producer_sequences import ProducerIdentity
from ottla.client.record import UnsentRecord
from tests.unit.client.client_fakes import T0, T1, metadata, topic

BATCH_BYTES = 200
VALUE = b"x" * 50
PER_BATCH = 2
"""Number of these values that fit in a batch."""

ONE_BROKER = metadata(topic(0, 0))


class Gathering:
    """An accumulator for topic t, driven like the producer drives it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, **settings: float) -> None:
        defaults = {"batch_size_bytes": BATCH_BYTES, "buffer_memory_bytes": 100 * BATCH_BYTES}
        config = ProducerConfig(**{**defaults, **settings})  # type: ignore[arg-type]
        self.accumulator = Accumulator(config, lambda: asyncio.Future(loop=loop), lambda _: 0)
        self.accumulator.on_topic(topic(0, 0))
        self.deliveries: list[Delivery] = []

    def send(self, value: bytes = VALUE, partition: int | None = 0, now_s: float = 0.0) -> Delivery:
        record = UnsentRecord("t", value, None, partition, 1_000, ())
        delivery = self.accumulator.append(*record)
        if delivery is None:
            wanted = self.accumulator.reservation(len(value) + 82)
            assert self.accumulator.budget.try_reserve(wanted)
            delivery = self.accumulator.take_in(record, wanted, now_s)
        self.deliveries.append(delivery)
        return delivery

    def due(self, now_s: float = 0.0) -> list[TopicPartition]:
        due = self.accumulator.due(ONE_BROKER, now_s)
        return [queue.topic_partition for queue in due.by_leader.get(BrokerId(0), [])]

    def take(self, now_s: float = 0.0) -> ProducerBatch:
        """Take the first due batch."""
        due = self.accumulator.due(ONE_BROKER, now_s)
        batch = self.accumulator.take(due.by_leader[BrokerId(0)][0])
        batch.attempt_count += 1
        batch.tried_epoch = LeaderEpoch(0)
        return batch

    def finish(self, batch: ProducerBatch) -> None:
        self.accumulator.done(batch)
        batch.complete(Offset(0), -1)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that never runs."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def gathering(loop: asyncio.AbstractEventLoop) -> Gathering:
    return Gathering(loop)


def values(batch: ProducerBatch) -> list[bytes | None]:
    batch.is_closed = True
    return [record.value for record in read_records(batch.payload())]


def test_an_unknown_topic_or_partition_is_needed_first(gathering: Gathering) -> None:
    accumulator = gathering.accumulator
    assert accumulator.append("u", b"v", None, None, 0, ()) is None
    assert accumulator.need("u", None) is Need.TOPIC
    assert accumulator.append("t", b"v", None, 2, 0, ()) is None
    assert accumulator.need("t", 2) is Need.PARTITION
    assert accumulator.need("t", -1) is Need.PARTITION
    assert accumulator.need("t", 1) is Need.MEMORY
    others: list[Any] = [1.0, "1", 0.5]
    assert [accumulator.need("t", each) for each in others] == [Need.PARTITION] * len(others)


def test_records_share_a_batch_until_it_is_taken(gathering: Gathering) -> None:
    for number in range(PER_BATCH + 1):
        gathering.send(b"%d" % number * 50)
    assert values(gathering.take()) == [b"0" * 50, b"1" * 50, b"2" * 50]


def test_a_batch_lingers_until_its_time(loop: asyncio.AbstractEventLoop) -> None:
    gathering = Gathering(loop, linger_ms=100)
    gathering.send(now_s=5.0)
    assert gathering.due(now_s=5.0) == []
    assert gathering.accumulator.due(ONE_BROKER, 5.0).look_again_at_s == pytest.approx(5.1)
    assert gathering.due(now_s=5.2) == [T0]


def test_a_full_batch_does_not_linger(loop: asyncio.AbstractEventLoop) -> None:
    gathering = Gathering(loop, linger_ms=100)
    seen = []
    for _ in range(PER_BATCH + 1):
        gathering.send()
        seen.append(gathering.due())
    assert seen == [[]] * PER_BATCH + [[T0]]


def test_a_flush_makes_every_batch_due(loop: asyncio.AbstractEventLoop) -> None:
    gathering = Gathering(loop, linger_ms=100)
    gathering.send()
    gathering.send(partition=1)
    gathering.accumulator.flush_count = 1
    assert gathering.due() == [T0, T1]


def test_a_waiting_claim_for_memory_makes_every_batch_due(
    loop: asyncio.AbstractEventLoop,
) -> None:
    gathering = Gathering(loop, linger_ms=100, buffer_memory_bytes=BATCH_BYTES)
    gathering.send()
    assert gathering.due() == []
    gathering.accumulator.budget.claim(BATCH_BYTES, lambda: None)
    assert gathering.due() == [T0]


def test_a_partition_is_muted_while_its_batch_is_in_flight(gathering: Gathering) -> None:
    gathering.send(b"first")
    first = gathering.take()
    gathering.send(b"second")
    assert gathering.due() == []
    gathering.finish(first)
    assert values(gathering.take()) == [b"second"]


def test_other_partitions_are_not_muted(gathering: Gathering) -> None:
    gathering.send()
    gathering.take()
    gathering.send(partition=1)
    assert gathering.due() == [T1]


def test_a_retried_batch_is_sent_first_and_not_before_its_time(
    gathering: Gathering,
) -> None:
    gathering.send(b"first")
    first = gathering.take()
    gathering.send(b"second")
    gathering.accumulator.put_back(first, retry_at_s=3.0)
    assert gathering.due(now_s=2.9) == []
    assert gathering.accumulator.due(ONE_BROKER, 2.9).look_again_at_s == 3.0
    assert gathering.take(now_s=3.0) is first


def test_a_new_leader_is_tried_at_once(gathering: Gathering) -> None:
    gathering.send()
    batch = gathering.take()
    gathering.accumulator.put_back(batch, retry_at_s=3.0)
    elected = metadata(topic(1, 1, epoch=1))
    assert BrokerId(1) in gathering.accumulator.due(elected, 0.0).by_leader


def test_topics_without_leader_are_reported(gathering: Gathering) -> None:
    gathering.send()
    for unknown in (metadata(topic(-1, -1)), metadata(topic(9, 9)), metadata()):
        due = gathering.accumulator.due(unknown, 0.0)
        assert (due.by_leader, due.leaderless) == ({}, {"t"})


def test_a_waiting_batch_grows_up_to_its_limit(gathering: Gathering) -> None:
    gathering.send()
    out = gathering.take()
    sent = 60
    for _ in range(sent):
        gathering.send()
    gathering.finish(out)
    grown = gathering.take()
    assert PER_BATCH < len(grown.deliveries) < sent
    limit_bytes = GROWTH_LIMIT * BATCH_BYTES
    assert 0.8 * limit_bytes < len(grown.payload()) <= limit_bytes
    gathering.finish(grown)
    rest = gathering.take()
    assert len(rest.deliveries) == sent - len(grown.deliveries)


def test_a_growing_batch_reserves_twice_its_size_if_that_is_free(
    loop: asyncio.AbstractEventLoop,
) -> None:
    gathering = Gathering(loop, buffer_memory_bytes=7 * BATCH_BYTES)
    budget = gathering.accumulator.budget
    free_units: dict[int, None] = {}
    while budget.free_bytes:
        gathering.send()
        free_units[budget.free_bytes // BATCH_BYTES] = None
    # The batch has one unit, then four, and then gets only one more at a time.
    assert list(free_units) == [6, 3, 2, 1, 0]
    assert gathering.take().reserved_bytes == budget.total_bytes


def test_the_halves_of_a_grown_batch_have_all_its_records(gathering: Gathering) -> None:
    sent = [b"%02d" % number * 25 for number in range(4 * PER_BATCH + 1)]
    for value in sent:
        gathering.send(value)
    gathering.accumulator.split(gathering.take(), now_s=0.0)
    read = []
    for _ in range(2):
        half = gathering.take()
        read += values(half)
        gathering.finish(half)
    assert read == sent


def test_no_batch_grows_after_a_split(gathering: Gathering) -> None:
    gathering.send()
    gathering.send()
    out = gathering.take()
    gathering.accumulator.split(out, now_s=0.0)
    out = gathering.take()
    for _ in range(20):
        gathering.send()
    gathering.finish(out)
    gathering.finish(gathering.take())
    assert len(gathering.take().deliveries) <= PER_BATCH


def test_the_halves_of_a_batch_are_sent_first(gathering: Gathering) -> None:
    for value in (b"0", b"1", b"2"):
        gathering.send(value)
    out = gathering.take()
    gathering.send(b"3")
    gathering.accumulator.split(out, now_s=0.0)
    order = []
    for _ in range(3):
        batch = gathering.take()
        order += values(batch)
        gathering.finish(batch)
    assert order == [b"0", b"1", b"2", b"3"]
    assert gathering.accumulator.budget.free_bytes == gathering.accumulator.budget.total_bytes


def test_unkeyed_records_switch_partitions_when_their_batch_is_full(
    loop: asyncio.AbstractEventLoop,
) -> None:
    gathering = Gathering(loop)
    choices = iter([1, 0, 1, 0])
    accumulator = Accumulator(
        ProducerConfig(batch_size_bytes=BATCH_BYTES),
        lambda: asyncio.Future(loop=loop),
        lambda _: next(choices),
    )
    accumulator.on_topic(topic(0, 0))
    gathering.accumulator = accumulator
    for _ in range(2 * PER_BATCH):
        gathering.send(partition=None)
    batches = [
        accumulator.take(queue) for queue in accumulator.due(ONE_BROKER, 0.0).by_leader[BrokerId(0)]
    ]
    assert {batch.topic_partition: len(batch.deliveries) for batch in batches} == {
        T1: PER_BATCH,
        T0: PER_BATCH,
    }


def test_a_send_draws_few_partitions_although_all_batches_are_full(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Without a bound one send would block the event loop for seconds."""
    partition_count = 20 * MAX_DRAWS
    draws = count()
    gathering = Gathering(loop)
    gathering.accumulator = Accumulator(
        ProducerConfig(batch_size_bytes=BATCH_BYTES),
        lambda: asyncio.Future(loop=loop),
        lambda below: next(draws) % below,
    )
    gathering.accumulator.on_topic(topic(*[0] * partition_count))
    for partition in range(partition_count):
        for _ in range(PER_BATCH):
            gathering.send(partition=partition)
    drawn_before = next(draws)
    gathering.send(partition=None)
    assert MAX_DRAWS <= next(draws) - drawn_before <= MAX_DRAWS + 1


def test_a_topic_recreated_with_fewer_partitions_gets_records(gathering: Gathering) -> None:
    accumulator = gathering.accumulator
    accumulator.on_topic(topic(0, 0, 0, 0))
    for partition in (2, 3):
        gathering.send(partition=partition)
    due = accumulator.due(metadata(topic(0, 0, 0, 0)), 0.0)
    for queue in due.by_leader[BrokerId(0)]:
        gathering.finish(accumulator.take(queue))
    accumulator.on_topic(topic(0, 0))
    gathering.send(partition=None)
    gathering.finish(gathering.take())
    assert gathering.deliveries[-1].result().partition in (0, 1)


def test_memory_is_held_until_the_batch_is_done(gathering: Gathering) -> None:
    budget = gathering.accumulator.budget
    gathering.send()
    assert budget.free_bytes == budget.total_bytes - BATCH_BYTES
    batch = gathering.take()
    gathering.accumulator.put_back(batch, 0.0)
    batch = gathering.take()
    assert budget.free_bytes == budget.total_bytes - BATCH_BYTES
    gathering.finish(batch)
    assert budget.free_bytes == budget.total_bytes


@pytest.mark.parametrize("earlier", [0, 1, PER_BATCH])
def test_an_invalid_record_takes_no_memory(gathering: Gathering, earlier: int) -> None:
    budget = gathering.accumulator.budget
    for _ in range(earlier):
        gathering.send()
    free_bytes = budget.free_bytes
    assert budget.try_reserve(BATCH_BYTES)
    record = UnsentRecord("t", "text", None, 0, 0, ())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        gathering.accumulator.take_in(record, BATCH_BYTES, 0.0)
    assert budget.free_bytes == free_bytes
    assert gathering.due() == ([T0] if earlier else [])


def test_reserved_memory_is_released_if_another_batch_has_room(
    gathering: Gathering,
) -> None:
    budget = gathering.accumulator.budget
    gathering.send()
    assert budget.try_reserve(BATCH_BYTES)
    record = UnsentRecord("t", b"v", None, 0, 0, ())
    gathering.accumulator.take_in(record, BATCH_BYTES, 0.0)
    assert budget.free_bytes == budget.total_bytes - BATCH_BYTES
    assert len(gathering.take().deliveries) == 2


def test_expired_batches_are_removed_unless_they_are_in_flight(
    loop: asyncio.AbstractEventLoop,
) -> None:
    gathering = Gathering(loop, delivery_timeout_ms=1_000)
    accumulator = gathering.accumulator
    assert accumulator.next_expiry_s() == inf
    gathering.send(now_s=0.0)
    out = gathering.take()
    gathering.send(now_s=0.5)
    gathering.send(partition=1, now_s=0.6)
    assert accumulator.next_expiry_s() == 1.0
    assert accumulator.expire(0.9) == []
    overdue = accumulator.expire(1.55)
    assert overdue[0] is out
    assert [batch.topic_partition for batch in overdue] == [T0, T0]
    for batch in overdue:
        batch.fail(ProduceError("late"))
    assert accumulator.next_expiry_s() == pytest.approx(1.6)
    assert accumulator.expire(1.55) == []
    gathering.send(now_s=1.55)
    assert gathering.due(now_s=1.55) == [T1]
    accumulator.done(out)
    assert gathering.due(now_s=1.55) == [T1, T0]


def test_a_batch_expires_at_its_expiry_time_even_if_that_was_rounded(
    loop: asyncio.AbstractEventLoop,
) -> None:
    gathering = Gathering(loop, delivery_timeout_ms=20_000)
    created_at_s = 1014.3999172550381
    assert created_at_s + 20 - 20 < created_at_s
    gathering.send(now_s=created_at_s)
    assert gathering.accumulator.expire(gathering.accumulator.next_expiry_s())


def test_drop_all_returns_the_unsettled_batches(gathering: Gathering) -> None:
    gathering.send()
    out = gathering.take()
    gathering.send()
    gathering.send(partition=1)
    dropped = gathering.accumulator.drop_all()
    assert dropped[0] is out
    assert len(dropped) == 3
    assert gathering.due() == []
    assert gathering.accumulator.budget.free_bytes == 99 * BATCH_BYTES


def test_drop_waiting_leaves_the_batch_in_flight(gathering: Gathering) -> None:
    gathering.send()
    gathering.send(partition=1)
    in_flight = gathering.take()
    gathering.send(b"behind")
    assert gathering.accumulator.waiting_partitions() == [T1]
    dropped = gathering.accumulator.drop_waiting()
    assert [batch.topic_partition for batch in dropped] == [T1, T0]
    assert list(gathering.accumulator.incomplete) == [in_flight]
    assert gathering.accumulator.waiting_partitions() == []
    gathering.finish(in_flight)
    assert gathering.accumulator.budget.free_bytes == gathering.accumulator.budget.total_bytes


def test_queues_that_may_not_be_sent_are_not_due(gathering: Gathering) -> None:
    gathering.send()
    gathering.send(partition=1)
    due = gathering.accumulator.due(ONE_BROKER, 1.0)
    due.keep(lambda queue: queue.topic_partition == T1)
    assert [queue.topic_partition for queue in due.by_leader[BrokerId(0)]] == [T1]


def test_batches_of_a_transaction_say_so(loop: asyncio.AbstractEventLoop) -> None:
    settings = {"enable_idempotence": True, "transactional_id": "orders"}
    gathering = Gathering(loop, **settings)  # type: ignore[arg-type]
    gathering.send()
    gathering.send()
    batch = gathering.take()
    batch.identify(ProducerIdentity(ProducerId(7), 0), 0)
    assert read_header(batch.payload()).is_transactional
    for half in batch.split(0.0):
        assert read_header(half.payload()).is_transactional


def test_partitions_are_known_with_their_topic(gathering: Gathering) -> None:
    known = gathering.accumulator.partitions("t")
    assert known is not None
    assert (list(known[0]), list(known[1])) == ([0, 1], [0, 1])
    assert gathering.accumulator.partitions("unknown") is None


def test_halves_expire_with_the_time_of_their_batch(loop: asyncio.AbstractEventLoop) -> None:
    gathering = Gathering(loop, delivery_timeout_ms=1_000)
    accumulator = gathering.accumulator
    gathering.send()
    gathering.send()
    split = gathering.take()
    gathering.send(partition=1, now_s=0.9)
    accumulator.split(split, now_s=0.95)
    assert accumulator.next_expiry_s() == 1.0
    halves = accumulator.expire(1.0)
    assert [values(half) for half in halves] == [[VALUE], [VALUE]]
    assert accumulator.next_expiry_s() == 1.9


def test_a_topic_without_batches_is_forgotten(gathering: Gathering) -> None:
    accumulator = gathering.accumulator
    gathering.send()
    assert accumulator.forget_idle() == []
    assert accumulator.forget_idle() == [], "its batch waits"
    batch = gathering.take()
    assert accumulator.forget_idle() == [], "its batch is in flight"
    gathering.finish(batch)
    accumulator.on_topic(topic(0, 0))
    assert accumulator.forget_idle() == [], "the application has just asked for it"
    accumulator.on_topic(topic(0, 0), is_wanted=False)
    assert accumulator.forget_idle() == ["t"]
    assert accumulator.need("t", 0) is Need.TOPIC


def test_a_topic_may_be_kept(gathering: Gathering) -> None:
    accumulator = gathering.accumulator
    accumulator.keep("t")
    assert [accumulator.forget_idle() for _ in range(3)] == [[], [], []]

"""Several tasks read the partitions of one consumer side by side, against a real broker."""

import asyncio
from collections import defaultdict

import pytest

from ottla import Admin, Consumer, NewTopic, Producer, TopicPartition
from ottla.client.consumer.fetch_buffer import CURSOR_RECORDS
from ottla.client.consumer.partition_streams import FULL_RECORDS, PartitionStream
from ottla.client.errors import ConfigurationError, DeserializationError
from tests.conftest import BrokerProcess
from tests.integration.client.client_support import FAST
from tests.integration.client.fake_broker import FakeCluster
from tests.waiting import until

PARTITIONS = 3
COUNT = FULL_RECORDS * 2


async def fill(broker: BrokerProcess, topic: str) -> None:
    async with Admin(broker.bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, partitions=PARTITIONS)])
    async with Producer(broker.bootstrap, linger_ms=5) as producer:
        for number in range(COUNT):
            for partition in range(PARTITIONS):
                await producer.send(topic, b"%d" % number, partition=partition)


async def test_a_slow_task_holds_up_no_other_partition(shared_broker: BrokerProcess) -> None:
    await fill(shared_broker, "side-by-side")
    seen: dict[TopicPartition, list[int]] = defaultdict(list)
    may_go_on = asyncio.Event()

    async def handle(stream: PartitionStream) -> None:
        async for record in stream:
            if record.partition == 0:
                await may_go_on.wait()
            seen[stream.topic_partition].append(record.offset)

    def count(partition: int) -> int:
        return len(seen[TopicPartition("side-by-side", partition)])

    consumer = Consumer(shared_broker.bootstrap, auto_offset_reset="earliest")
    async with consumer, asyncio.TaskGroup() as tasks:

        async def deal() -> None:
            async for stream in consumer.partition_streams():
                tasks.create_task(handle(stream))

        await consumer.assign_topics("side-by-side")
        tasks.create_task(deal())
        await until(lambda: count(1) == count(2) == COUNT, "the quick tasks")
        assert count(0) == 0
        may_go_on.set()
        await until(lambda: count(0) == COUNT, "the slow task")
        await consumer.close()
    assert all(offsets == list(range(COUNT)) for offsets in seen.values())


async def test_a_stream_ends_with_its_assignment_and_commits_carry_over(
    shared_broker: BrokerProcess,
) -> None:
    await fill(shared_broker, "handed-over")
    ended: list[TopicPartition] = []
    offsets: dict[int, list[int]] = defaultdict(list)

    def member() -> Consumer:
        return Consumer(
            shared_broker.bootstrap,
            group_id="side-by-side",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
        )

    async def handle(consumer: Consumer, stream: PartitionStream) -> None:
        async for record in stream:
            offsets[record.partition].append(record.offset)
            if record.offset % 500 == 499:
                await consumer.commit({stream.topic_partition: record.offset + 1})
        ended.append(stream.topic_partition)

    async def run(consumer: Consumer) -> None:
        consumer.subscribe(["handed-over"])
        async with asyncio.TaskGroup() as tasks:
            async for stream in consumer.partition_streams():
                tasks.create_task(handle(consumer, stream))

    first, second = member(), member()
    async with first:
        running = asyncio.create_task(run(first))
        everything = list(range(COUNT))
        await until(lambda: all(offsets[n] == everything for n in range(PARTITIONS)), "all records")
        await first.commit()
        async with second:
            other = asyncio.create_task(run(second))
            await until(lambda: len(second.assignment()) > 0, "a rebalance")
            await until(lambda: len(ended) >= PARTITIONS, "the streams to end")
            await second.close()
            await other
        await first.close()
        await running
    # All of them were committed, so nothing was read twice.
    assert all(offsets[n] == everything for n in range(PARTITIONS))


async def test_automatic_commits_are_refused(shared_broker: BrokerProcess) -> None:
    async with Consumer(shared_broker.bootstrap, group_id="g") as consumer:
        with pytest.raises(ConfigurationError, match="enable_auto_commit=False"):
            consumer.partition_streams()


async def test_after_an_error_of_one_partition_the_others_continue_where_their_streams_were(
    cluster: FakeCluster,
) -> None:
    full, failing = cluster.create("t", [0, 0])
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    for _ in range(3):
        full.append_values(*[b"good"] * FULL_RECORDS)
    failing.append_values(b"bad")
    handled: list[int] = []

    def decode(value: bytes | None) -> bytes | None:
        if value == b"bad":
            raise ValueError("not good")
        return value

    async with Consumer(
        cluster.bootstrap, auto_offset_reset="earliest", value_deserializer=decode, **FAST
    ) as consumer:
        consumer.assign([first, second])
        consumer.pause(second)
        streams = aiter(consumer.partition_streams())
        stream = await anext(streams)
        handled.append((await anext(stream)).offset)
        dealing = asyncio.ensure_future(anext(streams))
        await until(lambda: first in consumer.paused(), "a full stream")
        consumer.resume(second)
        with pytest.raises(DeserializationError):
            await dealing
        assert consumer.paused() == []
        consumer.seek(second, 1)
        streams = aiter(consumer.partition_streams())
        stream = await anext(streams)
        dealing = asyncio.ensure_future(anext(streams))
        handled += [(await anext(stream)).offset for _ in range(3 * FULL_RECORDS - 1)]
        dealing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dealing
    assert handled == list(range(3 * FULL_RECORDS))


async def test_leaving_the_streams_early_leaves_no_record_unread(cluster: FakeCluster) -> None:
    for log in cluster.create("t", [0, 0]):
        log.append_values(b"0", b"1")
    async with Consumer(cluster.bootstrap, auto_offset_reset="earliest", **FAST) as consumer:
        await consumer.assign_topics("t")
        async for stream in consumer.partition_streams():
            read = [await anext(stream)]
            break
        while len(read) < 4:
            records = await consumer.fetch_batch(timeout_ms=60_000)
            assert records, f"only {len(read)} of 4 records were read"
            read += records
    places = sorted((record.partition, record.offset) for record in read)
    assert places == [(0, 0), (0, 1), (1, 0), (1, 1)]


async def test_a_read_after_leaving_the_streams_continues_at_their_first_record(
    cluster: FakeCluster,
) -> None:
    """The event loop closes the iteration only later, and the next records are there already."""
    (log,) = cluster.create("t")
    for _ in range(3):
        log.append_values(*[b"v"] * CURSOR_RECORDS)
    count = 3 * CURSOR_RECORDS
    async with Consumer(cluster.bootstrap, auto_offset_reset="earliest", **FAST) as consumer:
        await consumer.assign_topics("t")
        async for stream in consumer.partition_streams():
            read = [await anext(stream)]
            break
        async with asyncio.timeout(20):
            while len(read) < count:
                read += await consumer.fetch_batch()
    assert [record.offset for record in read] == list(range(count))


async def test_records_that_wait_in_a_stream_do_not_count_as_handed_over(
    cluster: FakeCluster,
) -> None:
    """A commit without offsets would cover them, and a restart would skip them."""
    (log,) = cluster.create("t")
    log.append_values(b"0", b"1", b"2")
    place = TopicPartition("t", 0)
    positions = []
    async with Consumer(cluster.bootstrap, auto_offset_reset="earliest", **FAST) as consumer:
        await consumer.assign_topics("t")
        async for stream in consumer.partition_streams():
            for _ in range(3):
                await anext(stream)
                positions.append(consumer.positions()[place].offset)
            break
    assert positions == [1, 2, 3]


async def test_a_read_after_leaving_the_streams_of_a_topic_created_again_begins_at_its_start(
    cluster: FakeCluster,
) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"old", b"old", b"old")
    place = TopicPartition("t", 0)
    async with Consumer(
        cluster.bootstrap, auto_offset_reset="earliest", metadata_max_age_ms=20, **FAST
    ) as consumer:
        await consumer.assign_topics("t")
        state, old = consumer._reading.state(place), cluster.logs.topics["t"]
        await until(lambda: state.topic_id == old.topic_id, "the id of the topic")
        async for stream in consumer.partition_streams():
            await anext(stream)
            (log,) = cluster.create("t")
            log.append_values(b"0", b"1")
            cluster.announce()
            await until(lambda: consumer.position(place) == 0, "the position in the new topic")
            break
        async with asyncio.timeout(20):
            values: list[object] = []
            while b"1" not in values:
                values += [record.value for record in await consumer.fetch_batch()]
    assert values == [b"0", b"1"]

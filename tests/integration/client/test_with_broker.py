"""The client against Ottla's broker in a process of its own."""

import asyncio
from contextlib import nullcontext

import pytest

from ottla import Admin, Consumer, ConsumerRecord, NewTopic, Producer, TopicPartition
from ottla.client.admin_model import OffsetSpec, ResourceType
from ottla.client.errors import BrokerError, TopicExistsError, UnknownTopicError
from tests.conftest import BrokerProcess, StartBroker
from tests.integration.client.client_support import FAST
from tests.ports import free_port

T0 = TopicPartition("t", 0)
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


async def test_every_codec_survives_a_round_trip(broker_process: BrokerProcess) -> None:
    address = broker_process.bootstrap
    async with Admin(address) as admin:
        await admin.create_topics([NewTopic("t", partitions=3)])
    sent = []
    for codec in CODECS:
        async with Producer(address, compression=codec, linger_ms=2) as producer:
            for number in range(500):
                key, value = b"%s-%d" % ((codec or "none").encode(), number), b"v" * number
                await producer.send("t", value, key=key, timestamp_ms=number, headers=[("h", key)])
                sent.append((key, value, number, (("h", key),)))
    received: list[ConsumerRecord] = []
    async with Consumer(address, auto_offset_reset="earliest") as consumer:
        await consumer.assign_topics("t")
        while len(received) < len(sent):
            received += await consumer.fetch_batch(1_000)
    assert sorted((r.key, r.value, r.timestamp_ms, r.headers) for r in received) == sorted(sent)
    for partition in range(3):
        offsets = [record.offset for record in received if record.partition == partition]
        assert offsets == list(range(len(offsets)))


async def test_seeking_by_time_and_ends(broker_process: BrokerProcess) -> None:
    async with Producer(broker_process.bootstrap) as producer:
        for number in range(100):
            await producer.send_and_wait("t", b"%d" % number, timestamp_ms=1_000 + 10 * number)
    async with Consumer(broker_process.bootstrap) as consumer:
        consumer.assign([T0])
        await consumer.seek_to_timestamp(T0, 1_495)
        assert [record.value for record in await consumer.fetch_batch(1)] == [b"50"]
        assert await consumer.beginning_offsets([T0]) == {T0: 0}
        assert await consumer.end_offsets([T0]) == {T0: 100}
        await consumer.seek_to_beginning(T0)
        assert [record.value for record in await consumer.fetch_batch(1)] == [b"0"]


async def test_the_admin_client_runs_the_broker(broker_process: BrokerProcess) -> None:
    async with Admin(broker_process.bootstrap) as admin:
        await admin.create_topics([NewTopic("t", 2, 1, {"retention.ms": "60000"})])
        with pytest.raises(TopicExistsError):
            await admin.create_topics([NewTopic("t", 2, 1)])
        with pytest.raises(BrokerError):
            await admin.create_topics([NewTopic("u", 1, 5)])
        assert await admin.list_topics() == ["t"]
        described = (await admin.describe_topics(["t"]))["t"]
        assert len(described.partitions) == 2
        configs = await admin.describe_configs(ResourceType.TOPIC, "t", ["retention.ms"])
        assert configs["retention.ms"].value == "60000"
        (directory,) = await admin.describe_log_dirs()
        assert {replica.topic_partition.partition for replica in directory.replicas} == {0, 1}
        async with Producer(broker_process.bootstrap) as producer:
            for _ in range(10):
                await producer.send_and_wait("t", b"v", partition=0)
        assert await admin.delete_records({T0: 4}) == {T0: 4}
        places = await admin.list_offsets({T0: OffsetSpec.EARLIEST})
        assert places[T0].offset == 4
        await admin.delete_topics(["t"])
        assert await admin.list_topics() == []
        with pytest.raises(UnknownTopicError):
            await admin.describe_topics(["t"])


@pytest.mark.parametrize("transactional_id", [None, "x"])
async def test_a_producer_continues_in_a_topic_that_is_created_again(
    broker_process: BrokerProcess, transactional_id: str | None
) -> None:
    async with (
        Admin(broker_process.bootstrap) as admin,
        Producer(broker_process.bootstrap, transactional_id=transactional_id, **FAST) as producer,
    ):

        async def write(count: int) -> list[int]:
            async with nullcontext() if transactional_id is None else producer.transaction():
                sent = [await producer.send_and_wait("t", b"v", partition=0) for _ in range(count)]
            return [written.offset for written in sent]

        for _ in range(3):
            await admin.create_topics([NewTopic("t", 1, 1)])
            # The new log has no state of the producer, whose sequence numbers continue.
            assert await write(3) == [0, 1, 2]
            await admin.delete_topics(["t"])


async def test_a_consumer_reads_no_record_at_a_position_in_a_former_topic(
    broker_process: BrokerProcess,
) -> None:
    address = broker_process.bootstrap
    read: list[tuple[bytes | None, int]] = []
    async with (
        Admin(address) as admin,
        Producer(address, **FAST) as producer,
        Consumer(address, auto_offset_reset="earliest", **FAST) as consumer,
    ):

        async def write(generation: int) -> None:
            await admin.create_topics([NewTopic("t", 1, 1), NewTopic(f"u{generation}", 1, 1)])
            for _ in range(3 + 2 * generation):
                await producer.send_and_wait("t", b"%d" % generation, partition=0)

        async def read_up_to(generation: int) -> None:
            last = (b"%d" % generation, 2 + 2 * generation)
            while last not in read:
                read.extend((each.value, each.offset) for each in await consumer.fetch_batch(2))

        await write(0)
        # The other topics keep the fetch session while that of `t` changes.
        await consumer.assign_topics("t", "u0")
        await read_up_to(0)
        for generation in range(1, 9):
            await admin.delete_topics(["t"])
            await write(generation)
            if generation % 3 == 0:
                await read_up_to(generation)
        await read_up_to(8)
    for generation in range(9):
        offsets = [offset for value, offset in read if value == b"%d" % generation]
        # The consumer may miss a topic or the end of it, but it starts at the beginning.
        assert offsets == list(range(len(offsets)))


async def test_clients_survive_a_broker_that_is_killed_and_restarted(
    start_broker: StartBroker,
) -> None:
    listeners = {"listeners": f"PLAINTEXT://127.0.0.1:{free_port()}"}
    first = start_broker(overrides=listeners)
    async with (
        Producer(first.bootstrap, **FAST) as producer,
        Consumer(first.bootstrap, auto_offset_reset="earliest", **FAST) as consumer,
    ):
        await producer.send_and_wait("t", b"before")
        consumer.assign([T0])
        assert [record.value for record in await consumer.fetch_batch(1)] == [b"before"]
        await asyncio.to_thread(first.kill)
        during = await producer.send("t", b"during")
        await asyncio.to_thread(start_broker, first.data_dir, listeners)
        assert (await during).offset == 1
        assert [record.value for record in await consumer.fetch_batch(1)] == [b"during"]

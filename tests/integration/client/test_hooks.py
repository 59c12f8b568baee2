"""Serializers, partitioners, interceptors and patterns against a real broker."""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ottla import (
    Admin,
    Consumer,
    ConsumerRecord,
    NewTopic,
    Producer,
    RecordMetadata,
    TopicPartition,
)
from ottla.client.errors import (
    ConfigurationError,
    DeserializationError,
    NotInGroupError,
    RecordTooLargeError,
    SerializationError,
    TransactionStateError,
)
from ottla.client.interceptor import ConsumerInterceptor, ProducerInterceptor, ProducerRecord
from ottla.client.offset import CommittedOffset
from ottla.client.serialization import (
    json_deserializer,
    json_serializer,
    string_deserializer,
    string_serializer,
)
from tests.conftest import BrokerProcess
from tests.waiting import until

FROM_START: dict[str, Any] = {"auto_offset_reset": "earliest"}


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """Return `count` records."""
    records: list[ConsumerRecord] = []
    while len(records) < count:
        records += await consumer.fetch_batch(count - len(records))
    return records


async def reversed_text(value: str) -> bytes:
    """An async serializer."""
    await asyncio.sleep(0)
    return value[::-1].encode()


async def unreversed_text(data: bytes | None) -> str:
    """An async deserializer."""
    await asyncio.sleep(0)
    return (data or b"").decode()[::-1]


async def test_plain_and_async_serializers_round_trip(shared_broker: BrokerProcess) -> None:
    async with Producer(
        shared_broker.bootstrap, key_serializer=reversed_text, value_serializer=json_serializer
    ) as producer:
        for number in range(1_500):
            await producer.send("round", {"n": number}, key=f"key{number}")
        with pytest.raises(ConfigurationError, match="async serializer"):
            producer.send_nowait("round", {}, key="a")
    async with Consumer(
        shared_broker.bootstrap,
        key_deserializer=unreversed_text,
        value_deserializer=json_deserializer,
        **FROM_START,
    ) as consumer:
        await consumer.assign_topics("round")
        records = await read(consumer, 1_500)
        assert [each.value["n"] for each in records] == list(range(1_500))
        assert [each.key for each in records] == [f"key{n}" for n in range(1_500)]
        await consumer.seek_to_beginning()
        async for record in consumer:
            assert (record.key, record.value) == ("key0", {"n": 0})
            break


async def test_a_record_that_cannot_be_decoded_is_reported_until_it_is_skipped(
    shared_broker: BrokerProcess,
) -> None:
    async with Producer(shared_broker.bootstrap) as producer:
        for value in (b"1", b"2", b"not JSON", b"4"):
            await producer.send_and_wait("damaged", value)
    async with Consumer(
        shared_broker.bootstrap, value_deserializer=json_deserializer, **FROM_START
    ) as consumer:
        (partition,) = await consumer.assign_topics("damaged")
        assert [record.value for record in await consumer.fetch_batch()] == [1, 2]
        for _ in range(2):
            with pytest.raises(DeserializationError, match="at offset 2") as raised:
                await consumer.fetch_batch()
            assert (raised.value.topic_partition, raised.value.offset) == (partition, 2)
        assert consumer.position(partition) == 2
        consumer.seek(partition, 3)
        assert [record.value for record in await consumer.fetch_batch()] == [4]


async def test_a_serializer_that_raises_sends_nothing(shared_broker: BrokerProcess) -> None:
    async with Producer(shared_broker.bootstrap, value_serializer=json_serializer) as producer:
        with pytest.raises(SerializationError, match="value_serializer raised TypeError"):
            await producer.send("unsent", {1, 2})
        with pytest.raises(TypeError, match="key must be bytes or None, got str 'k'"):
            await producer.send("unsent", 1, key="k")
        written = await producer.send_and_wait("unsent", None, key=b"k")
        assert written.offset == 0


async def test_the_partitioner_chooses_unless_a_partition_is_named(
    shared_broker: BrokerProcess,
) -> None:
    seen: list[tuple[bytes | None, list[int], list[int]]] = []

    def last(key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        seen.append((key, list(partitions), list(available)))
        return 7 if key == b"nowhere" else partitions[-1]

    async with Admin(shared_broker.bootstrap) as admin:
        await admin.create_topics([NewTopic("placed", partitions=3)])
    async with Producer(
        shared_broker.bootstrap, partitioner=last, key_serializer=string_serializer
    ) as producer:
        assert (await producer.send_and_wait("placed", b"v", key="a")).partition == 2
        assert (await producer.send_and_wait("placed", b"v", partition=1)).partition == 1
        assert (await producer.send_nowait("placed", b"v")).partition == 2
        with pytest.raises(ConfigurationError, match=r"returned 7 for topic placed, .* 0\.\.2"):
            await producer.send("placed", b"v", key="nowhere")
    everything = [0, 1, 2]
    assert seen == [(key, everything, everything) for key in (b"a", None, b"nowhere")]


class Recorder(ProducerInterceptor, ConsumerInterceptor):
    """Notes all calls, adds a header to every record, and can raise after that."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.outcomes: list[tuple[RecordMetadata | None, str]] = []
        self.commits: list[Mapping[TopicPartition, CommittedOffset]] = []
        self.consumed = 0

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.end()
        return record._replace(headers=[*record.headers, ("seen", b"1")])

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        self.outcomes.append((metadata, type(error).__name__))
        self.end()

    def on_consume(self, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        self.consumed += len(records)
        self.end()
        return [record._replace(value=record.value.upper()) for record in records]

    def on_commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self.commits.append(offsets)
        self.end()

    def end(self) -> None:
        if self.fails:
            raise RuntimeError("a broken interceptor")


async def test_interceptors_see_everything_and_lose_nothing(
    shared_broker: BrokerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "ottla")
    good, bad = Recorder(), Recorder(fails=True)
    async with Producer(shared_broker.bootstrap, interceptors=[bad, good]) as producer:
        for number in range(10):
            await producer.send("watched", b"v%d" % number)
        await producer.flush()
        with pytest.raises(RecordTooLargeError):
            await producer.send("watched", bytes(2_000_000))
    names = [name for _, name in good.outcomes]
    assert names == ["NoneType"] * 10 + ["RecordTooLargeError"]
    assert [place.offset for place, _ in good.outcomes if place] == list(range(10))
    async with Consumer(
        shared_broker.bootstrap, group_id="watchers", interceptors=[bad, good], **FROM_START
    ) as consumer:
        consumer.subscribe(["watched"])
        records = await read(consumer, 10)
        assert [record.value for record in records] == [b"V%d" % n for n in range(10)]
        assert records[0].headers == (("seen", b"1"),)
        await consumer.commit()
    partition = TopicPartition("watched", 0)
    assert [each[partition].offset for each in good.commits] == [10]
    assert bad.consumed == good.consumed == 10


async def test_compression_levels_reach_the_codec(shared_broker: BrokerProcess) -> None:
    text = json.dumps([{"id": n, "name": f"name {n * 7919 % 1000}"} for n in range(2_000)])
    sizes = []
    async with Admin(shared_broker.bootstrap) as admin:
        for level in (1, 9):
            topic = f"level{level}"
            async with Producer(
                shared_broker.bootstrap, compression="gzip", compression_level=level
            ) as producer:
                await producer.send_and_wait(topic, text.encode())
            (directory,) = await admin.describe_log_dirs(topics={topic: [0]})
            sizes.append(directory.replicas[0].size_bytes)
    assert sizes[1] < sizes[0] < len(text)


async def test_a_hooked_record_belongs_to_the_transaction_of_its_call(
    shared_broker: BrokerProcess,
) -> None:
    may_end = asyncio.Event()

    async def slow(value: str) -> bytes:
        if value == "late":
            await may_end.wait()
        return value.encode()

    async with Producer(
        shared_broker.bootstrap, transactional_id="hooked", value_serializer=slow
    ) as producer:
        async with producer.transaction():
            await producer.send("booked", "early")
            late = asyncio.ensure_future(producer.send("booked", "late"))
            await asyncio.sleep(0)
        async with producer.transaction():
            may_end.set()
            with pytest.raises(TransactionStateError):
                await late
    async with Consumer(
        shared_broker.bootstrap, value_deserializer=string_deserializer, **FROM_START
    ) as consumer:
        await consumer.assign_topics("booked")
        assert [record.value for record in await consumer.fetch_batch()] == ["early"]


async def test_a_pattern_finds_topics_that_are_created_later(
    shared_broker: BrokerProcess,
) -> None:
    async with (
        Admin(shared_broker.bootstrap) as admin,
        Consumer(
            shared_broker.bootstrap,
            group_id="patterns",
            metadata_max_age_ms=100,
            retry_backoff_ms=20,
            heartbeat_interval_ms=100,
            **FROM_START,
        ) as consumer,
        Producer(shared_broker.bootstrap) as producer,
    ):
        consumer.subscribe(pattern="regex-[a-z]+")
        assert consumer.subscription() == frozenset()
        with pytest.raises(NotInGroupError):
            consumer.assign([TopicPartition("regex-a", 0)])
        for name in ("regex-a", "regex-1", "other"):
            await producer.send_and_wait(name, name.encode())
        assert [record.value for record in await read(consumer, 1)] == [b"regex-a"]
        assert consumer.subscription() == {"regex-a"}
        await producer.send_and_wait("regex-b", b"regex-b")
        assert [record.value for record in await read(consumer, 1)] == [b"regex-b"]
        assert consumer.subscription() == {"regex-a", "regex-b"}
        await admin.delete_topics(["regex-a"])
        await until(lambda: consumer.subscription() == {"regex-b"}, "the deletion to be seen")
        with pytest.raises(ConfigurationError, match="exclude each other"):
            consumer.subscribe(["other"], pattern="regex")
        consumer.subscribe(["other"])
        assert [record.value for record in await read(consumer, 1)] == [b"other"]
        await consumer.unsubscribe()

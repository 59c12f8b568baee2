"""Four clients that read topics to the end at both isolation levels. Edge: they connect."""

import asyncio
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, cast

import confluent_kafka
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition

import ottla
from kafkawire.ids import TopicPartition
from tests.interop.kafka_jars import run_java

with warnings.catch_warnings():
    # It loads its schemas with a deprecated function of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer
    from kafka import TopicPartition as PythonPartition

PROGRAM: Final = Path(__file__).with_name("ReadTransactions.java")
PARTITIONS: Final = 2
TIMEOUT_S: Final = 60.0
SMALL_FETCH_BYTES: Final = 3_000
"""Small enough that transactions begin in one response and end in another."""

Level = Literal["read_committed", "read_uncommitted"]
LEVELS: Final[tuple[Level, ...]] = ("read_committed", "read_uncommitted")


class Row(NamedTuple):
    """A record as any client sees it."""

    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes


class Seen(NamedTuple):
    """The records that one client read at one isolation level."""

    client: str
    level: Level
    rows: tuple[Row, ...]


Reader = Callable[[str, Level, Mapping[TopicPartition, int]], list[Row]]


def ends_of(bootstrap: str, level: Level, topics: Sequence[str]) -> dict[TopicPartition, int]:
    """Return the end offset of each partition at an isolation level."""

    async def ask() -> dict[TopicPartition, int]:
        async with ottla.Consumer(bootstrap, isolation_level=level) as consumer:
            places = [TopicPartition(topic, n) for topic in topics for n in range(PARTITIONS)]
            return {place: int(end) for place, end in (await consumer.end_offsets(places)).items()}

    return asyncio.run(ask())


def read_all(bootstrap: str, topics: Sequence[str]) -> list[Seen]:
    """Return the records that each client reads at each isolation level."""
    found = []
    for level in LEVELS:
        ends = ends_of(bootstrap, level, topics)
        for name, read in READERS.items():
            found.append(Seen(name, level, tuple(sorted(read(bootstrap, level, ends)))))
    return [*found, *_by_java(bootstrap, topics)]


def agreed(seen: Sequence[Seen]) -> dict[Level, tuple[Row, ...]]:
    """Return the records at each isolation level; all clients must have read the same."""
    rows: dict[Level, tuple[Row, ...]] = {}
    for each in seen:
        known = rows.setdefault(each.level, each.rows)
        assert each.rows == known, f"{each.client} reads other records at {each.level}"
    return rows


def _by_us(bootstrap: str, level: Level, ends: Mapping[TopicPartition, int]) -> list[Row]:
    async def read() -> list[Row]:
        rows = []
        async with ottla.Consumer(
            bootstrap,
            isolation_level=level,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=SMALL_FETCH_BYTES,
            fetch_max_wait_ms=100,
        ) as consumer:
            consumer.assign(ends)
            while any((consumer.position(place) or 0) < end for place, end in ends.items()):
                for each in await consumer.fetch_batch(timeout_ms=100):
                    key, value = cast("bytes", each.key), cast("bytes", each.value)
                    rows.append(Row(each.topic, each.partition, each.offset, key, value))
        return [row for row in rows if row.offset < ends[TopicPartition(*row[:2])]]

    return asyncio.run(asyncio.wait_for(read(), TIMEOUT_S))


def _by_librdkafka(bootstrap: str, level: Level, ends: Mapping[TopicPartition, int]) -> list[Row]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": level,
            "max.partition.fetch.bytes": SMALL_FETCH_BYTES,
            "fetch.wait.max.ms": 100,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(*place, 0) for place in ends])
        rows: list[Row] = []
        at_end: set[tuple[str, int]] = set()
        while len(at_end) < len(ends):
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"{len(rows)} rows, then nothing"
            error, topic, partition = message.error(), message.topic(), message.partition()
            assert topic is not None
            assert partition is not None
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                at_end.add((topic, partition))
                continue
            offset = cast("int", message.offset())
            key, value = cast("bytes", message.key()), cast("bytes", message.value())
            rows.append(Row(topic, partition, offset, key, value))
    finally:
        consumer.close()
    return rows


def _by_aiokafka(bootstrap: str, level: Level, ends: Mapping[TopicPartition, int]) -> list[Row]:
    async def read() -> list[Row]:
        rows = []
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level=level,
            max_partition_fetch_bytes=SMALL_FETCH_BYTES,
            fetch_max_wait_ms=100,
            auto_offset_reset="earliest",
        )
        await consumer.start()
        try:
            places = {AioPartition(*place): end for place, end in ends.items()}
            consumer.assign(list(places))
            while any([await consumer.position(place) < end for place, end in places.items()]):
                for batch in (await consumer.getmany(timeout_ms=100)).values():
                    rows += [Row(r.topic, r.partition, r.offset, r.key, r.value) for r in batch]
        finally:
            await consumer.stop()
        return rows

    return asyncio.run(asyncio.wait_for(read(), TIMEOUT_S))


def _by_kafka_python(bootstrap: str, level: Level, ends: Mapping[TopicPartition, int]) -> list[Row]:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level=level,
        max_partition_fetch_bytes=SMALL_FETCH_BYTES,
        fetch_max_wait_ms=100,
        auto_offset_reset="earliest",
    )
    try:
        places = {PythonPartition(*place): end for place, end in ends.items()}
        consumer.assign(list(places))
        rows: list[Row] = []
        while any(consumer.position(place) < end for place, end in places.items()):
            for batch in consumer.poll(timeout_ms=100).values():
                rows += [Row(r.topic, r.partition, r.offset, r.key, r.value) for r in batch]
    finally:
        consumer.close()
    return rows


def _by_java(bootstrap: str, topics: Sequence[str]) -> list[Seen]:
    rows: dict[str, list[Row]] = {level: [] for level in LEVELS}
    for line in run_java(str(PROGRAM), bootstrap, str(PARTITIONS), *topics).splitlines():
        if line.startswith("row\t"):
            _, level, topic, partition, offset, key, value = line.split("\t")
            row = Row(topic, int(partition), int(offset), key.encode(), value.encode())
            rows[level].append(row)
    return [Seen("java", level, tuple(sorted(rows[level]))) for level in LEVELS]


READERS: Final[Mapping[str, Reader]] = {
    "ottla": _by_us,
    "librdkafka": _by_librdkafka,
    "aiokafka": _by_aiokafka,
    "kafka-python": _by_kafka_python,
}

"""Each client as two functions: write all samples to partition 0 in order, and read them all.

Edge: only this module depends on the clients. They run in the process of the test, except for kcat.
"""

from __future__ import annotations

import asyncio
import subprocess
import warnings
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Final

import aiokafka
import confluent_kafka

import ottla
from kafkawire.ids import TopicPartition
from tests.interop.clients.sample import Received, Sample

with warnings.catch_warnings():
    # It loads its schemas with a deprecated function of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

CLIENT_TIMEOUT_S: Final = 120.0
POLL_BATCH: Final = 10_000
KCAT_HEADER_SEPARATOR: Final = ","

Write = Callable[[str, str, str, Iterable[Sample]], Coroutine[None, None, None]]
Read = Callable[[str, str, int], Coroutine[None, None, list[Received]]]


async def write_ottla(address: str, topic: str, codec: str, records: Iterable[Sample]) -> None:
    compression = None if codec == "none" else codec
    async with ottla.Producer(address, acks="all", compression=compression) as producer:
        deliveries = [
            await producer.send(
                topic,
                record.value,
                key=record.key,
                headers=record.headers,
                partition=0,
                timestamp_ms=record.timestamp_ms,
            )
            for record in records
        ]
        await producer.flush()
    for offset, delivery in enumerate(deliveries):
        assert (await delivery).offset == offset


async def read_ottla(address: str, topic: str, count: int) -> list[Received]:
    received: list[Received] = []
    async with ottla.Consumer(address, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        async for record in consumer:
            received.append(
                Received(
                    record.offset,
                    _bytes(record.key),
                    _bytes(record.value),
                    tuple((name, value or b"") for name, value in record.headers),
                    record.timestamp_ms,
                )
            )
            if len(received) == count:
                return received
    raise AssertionError("the consumer ended early")


async def write_aiokafka(address: str, topic: str, codec: str, records: Iterable[Sample]) -> None:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=address, compression_type=None if codec == "none" else codec, acks="all"
    )
    await producer.start()
    try:
        for record in records:
            await producer.send(
                topic,
                record.value,
                record.key,
                partition=0,
                timestamp_ms=record.timestamp_ms,
                headers=list(record.headers),
            )
        await producer.flush()
    finally:
        await producer.stop()


async def read_aiokafka(address: str, topic: str, count: int) -> list[Received]:
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
    await consumer.start()
    received: list[Received] = []
    try:
        partition = aiokafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        while len(received) < count:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                received += [
                    Received(r.offset, r.key, r.value, tuple(r.headers), r.timestamp)
                    for r in records
                ]
    finally:
        await consumer.stop()
    return received


async def write_confluent(address: str, topic: str, codec: str, records: Iterable[Sample]) -> None:
    failures: list[object] = []

    def on_delivery(error: object, _message: object) -> None:
        if error is not None:
            failures.append(error)

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "compression.type": codec, "acks": "all", "linger.ms": 5}
    )
    for record in records:
        while True:
            try:
                producer.produce(
                    topic,
                    record.value,
                    record.key,
                    0,
                    on_delivery=on_delivery,
                    timestamp=record.timestamp_ms or 0,
                    headers=list(record.headers),
                )
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    assert producer.flush(CLIENT_TIMEOUT_S) == 0
    assert not failures, failures[:3]


async def read_confluent(address: str, topic: str, count: int) -> list[Received]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "interop",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    received: list[Received] = []
    while len(received) < count:
        messages = consumer.consume(min(POLL_BATCH, count - len(received)), CLIENT_TIMEOUT_S)
        assert messages, f"only {len(received)} of {count} arrived"
        for message in messages:
            assert message.error() is None, message.error()
            headers = tuple((str(h[0]), _bytes(h[1]) or b"") for h in message.headers() or ())
            received.append(
                Received(
                    message.offset() or 0,
                    _bytes(message.key()),
                    _bytes(message.value()),
                    headers,
                    message.timestamp()[1],
                )
            )
    consumer.close()
    return received


async def write_kafka_python(
    address: str, topic: str, codec: str, records: Iterable[Sample]
) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=address,
        compression_type=None if codec == "none" else codec,
        acks="all",
        enable_idempotence=False,
        linger_ms=5,
    )
    try:
        futures = [
            producer.send(
                topic,
                record.value,
                record.key,
                list(record.headers),
                partition=0,
                timestamp_ms=record.timestamp_ms,
            )
            for record in records
        ]
        producer.flush(CLIENT_TIMEOUT_S)
    finally:
        producer.close(CLIENT_TIMEOUT_S)
    for offset, future in enumerate(futures):
        assert future.get(0).offset == offset


async def read_kafka_python(address: str, topic: str, count: int) -> list[Received]:
    consumer = kafka.KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
    consumer.assign([kafka.TopicPartition(topic, 0)])
    received: list[Received] = []
    while len(received) < count:
        polled = consumer.poll(int(CLIENT_TIMEOUT_S * 1000), max_records=POLL_BATCH)
        assert polled, f"only {len(received)} of {count} arrived"
        for records in polled.values():
            received += [
                Received(r.offset, r.key, r.value, tuple(r.headers), r.timestamp) for r in records
            ]
    consumer.close()
    return received


async def write_kcat(address: str, topic: str, codec: str, records: Iterable[Sample]) -> None:
    lines = b"".join((r.key or b"") + b"\t" + (r.value or b"") + b"\n" for r in records)
    command = ["kcat", "-P", "-b", address, "-t", topic, "-p", "0", "-K", "\t", "-z", codec]
    command += ["-H", "source=kcat", "-X", "acks=all"]
    await asyncio.to_thread(
        subprocess.run, command, input=lines, check=True, timeout=CLIENT_TIMEOUT_S
    )


async def read_kcat(address: str, topic: str, count: int) -> list[Received]:
    command = ["kcat", "-C", "-b", address, "-t", topic, "-p", "0", "-o", "beginning", "-q"]
    command += ["-c", str(count), "-X", "check.crcs=true", "-f", "%o %T %K %S %h\n%k%s"]
    finished = await asyncio.to_thread(
        subprocess.run, command, stdout=subprocess.PIPE, check=True, timeout=CLIENT_TIMEOUT_S
    )
    output = finished.stdout
    received, position = [], 0
    while position < len(output):
        end = output.index(b"\n", position)
        offset, timestamp, key_bytes, value_bytes, *text = output[position:end].split(b" ")
        key, position = _take(output, end + 1, int(key_bytes))
        value, position = _take(output, position, int(value_bytes))
        received.append(Received(int(offset), key, value, _headers(text), int(timestamp)))
    return received


def _take(output: bytes, position: int, size_bytes: int) -> tuple[bytes | None, int]:
    if size_bytes < 0:
        return None, position
    return output[position : position + size_bytes], position + size_bytes


def _headers(text: list[bytes]) -> tuple[tuple[str, bytes], ...]:
    joined = b" ".join(text).decode()
    if not joined:
        return ()
    pairs = (pair.partition("=") for pair in joined.split(KCAT_HEADER_SEPARATOR))
    return tuple((name, value.encode()) for name, _, value in pairs)


def _bytes(value: object) -> bytes | None:
    if value is None:
        return None
    assert isinstance(value, bytes | bytearray | memoryview), type(value)
    return bytes(value)


WRITERS: Final[Mapping[str, Write]] = {
    "ottla": write_ottla,
    "aiokafka": write_aiokafka,
    "confluent": write_confluent,
    "kafka-python": write_kafka_python,
    "kcat": write_kcat,
}
READERS: Final[Mapping[str, Read]] = {
    "ottla": read_ottla,
    "aiokafka": read_aiokafka,
    "confluent": read_confluent,
    "kafka-python": read_kafka_python,
    "kcat": read_kcat,
}

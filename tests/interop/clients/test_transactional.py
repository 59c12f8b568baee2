"""Transactional producers of other clients: commits, aborts and fencing at our broker."""

import asyncio
from collections.abc import Sequence

import pytest

from kafkawire.errors import ErrorCode
from tests.conftest import BrokerProcess
from tests.integration.broker.wire import Wire
from tests.interop.clients.committed_records import committed_values

TIMEOUT_S = 60
ROUNDS = 6
PARTITIONS = 2


def is_committed(number: int) -> bool:
    """Whether a test commits a transaction; it aborts every third one."""
    return number % 3 != 1


EXPECTED: Sequence[str] = [str(number) for number in range(ROUNDS) if is_committed(number)]


def create(broker: BrokerProcess, topic: str) -> None:
    with Wire(broker.port) as wire:
        assert wire.create_topic(topic, PARTITIONS).error_code == ErrorCode.NONE


def check(broker: BrokerProcess, topic: str) -> None:
    assert committed_values(broker.bootstrap, topic, PARTITIONS) == [EXPECTED] * PARTITIONS


@pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")
def test_kafka_python(shared_broker: BrokerProcess) -> None:
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    topic = "of-kafka-python"
    create(shared_broker, topic)

    def start() -> KafkaProducer:
        producer = KafkaProducer(
            bootstrap_servers=shared_broker.bootstrap,
            transactional_id=topic,
            max_block_ms=TIMEOUT_S * 1000,
        )
        producer.init_transactions()
        return producer

    producer = start()
    for number in range(ROUNDS):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.send(topic, str(number).encode(), partition=partition)
        if is_committed(number):
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    check(shared_broker, topic)
    successor = start()
    try:
        producer.begin_transaction()
        producer.send(topic, b"late", partition=0)
        with pytest.raises(KafkaError):
            producer.commit_transaction()
    finally:
        successor.close(timeout=TIMEOUT_S)
        producer.close(timeout=1)
    check(shared_broker, topic)


def test_librdkafka(shared_broker: BrokerProcess) -> None:
    from confluent_kafka import KafkaError, KafkaException, Producer

    topic = "of-librdkafka"
    create(shared_broker, topic)

    def start() -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": shared_broker.bootstrap,
                "transactional.id": topic,
                "log_level": 0,
            }
        )
        producer.init_transactions(TIMEOUT_S)
        return producer

    producer = start()
    for number in range(ROUNDS):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(topic, str(number), partition=partition)
        if is_committed(number):
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
    check(shared_broker, topic)
    start()
    producer.begin_transaction()
    producer.produce(topic, "late", partition=0)
    with pytest.raises(KafkaException) as raised:
        producer.commit_transaction(TIMEOUT_S)
    assert raised.value.args[0].code() == KafkaError._FENCED
    check(shared_broker, topic)


async def test_aiokafka(shared_broker: BrokerProcess) -> None:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import ProducerFenced

    topic = "of-aiokafka"
    create(shared_broker, topic)

    async def start() -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            bootstrap_servers=shared_broker.bootstrap, transactional_id=topic
        )
        await asyncio.wait_for(producer.start(), TIMEOUT_S)
        return producer

    producer = await start()
    for number in range(ROUNDS):
        await producer.begin_transaction()
        for partition in range(PARTITIONS):
            await producer.send_and_wait(topic, str(number).encode(), partition=partition)
        if is_committed(number):
            await producer.commit_transaction()
        else:
            await producer.abort_transaction()
    await asyncio.to_thread(check, shared_broker, topic)
    successor = await start()
    with pytest.raises(ProducerFenced):
        async with producer.transaction():
            await producer.send_and_wait(topic, b"late", partition=0)
    await successor.stop()
    await producer.stop()
    await asyncio.to_thread(check, shared_broker, topic)

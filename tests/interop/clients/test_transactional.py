"""Transactional producers of other clients fail at once without a transaction coordinator."""

import asyncio

import pytest

from tests.conftest import BrokerProcess

# Far longer than needed; a client that retries would use all of it.
TIMEOUT_S = 30


@pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")
def test_kafka_python(shared_broker: BrokerProcess) -> None:
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    producer = KafkaProducer(
        bootstrap_servers=shared_broker.bootstrap,
        transactional_id="t",
        max_block_ms=TIMEOUT_S * 1000,
    )
    try:
        with pytest.raises(KafkaError) as raised:
            producer.init_transactions()
        # Its error has no text, only a class name.
        assert "TransactionalIdAuthorization" in type(raised.value).__name__
    finally:
        producer.close(timeout=TIMEOUT_S)


def test_librdkafka(shared_broker: BrokerProcess) -> None:
    from confluent_kafka import KafkaException, Producer

    settings = {
        "bootstrap.servers": shared_broker.bootstrap,
        "transactional.id": "t",
        "log_level": 0,
    }
    with pytest.raises(KafkaException, match="does not coordinate transactions"):
        Producer(settings).init_transactions(TIMEOUT_S)


async def test_aiokafka(shared_broker: BrokerProcess) -> None:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import TransactionalIdAuthorizationFailed

    producer = AIOKafkaProducer(bootstrap_servers=shared_broker.bootstrap, transactional_id="t")
    try:
        with pytest.raises(TransactionalIdAuthorizationFailed):
            await asyncio.wait_for(producer.start(), TIMEOUT_S)
    finally:
        await producer.stop()

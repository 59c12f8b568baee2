"""One Kafka broker for the tests of transactions."""

from collections.abc import Iterator

import pytest

from tests.integration.coordination.process import Coordinator, wait_until
from tests.interop.kafka_broker import KafkaBroker, kafka_jars_or_skip

START_TIMEOUT_S = 120.0
SETTINGS = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "auto.create.topics.enable": "false",
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A Kafka broker that coordinates transactions, on Ottla's coordinator."""
    jars = kafka_jars_or_skip()
    directory = tmp_path_factory.mktemp("kafka")
    coordinator = Coordinator(directory / "coordinator")
    broker = KafkaBroker(1, directory, coordinator.address, jars, SETTINGS)
    try:
        wait_until(broker.has_started, START_TIMEOUT_S)
        yield broker
    finally:
        broker.kill()
        coordinator.kill()

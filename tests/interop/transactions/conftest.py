"""One Kafka broker for the tests of transactions."""

from collections.abc import Iterator

import pytest

from tests.interop.kafka_broker import KafkaBroker, kafka_on_coordinator

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
    with kafka_on_coordinator(tmp_path_factory.mktemp("kafka"), SETTINGS) as (broker, _):
        yield broker

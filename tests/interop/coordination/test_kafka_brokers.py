"""Three Kafka 3.9.1 brokers on our coordinator: start, produce, fail over, lose it, stop.

`tests/interop/kafka_jars.py` describes how to get the jars.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kazoo.client import KazooClient  # type: ignore[import-untyped]
from kazoo.exceptions import NoNodeError  # type: ignore[import-untyped]

from tests.integration.coordination.process import (
    Coordinator,
    four_letter,
    wait_until,
)
from tests.interop.kafka_broker import START_TIMEOUT_S, KafkaBroker, kafka_jars_or_skip

FAILOVER_TIMEOUT_S = 60.0
BROKERS = (1, 2, 3)
PARTITIONS = 6
RECORDS = 1000
CHROOT = "/kafka"
CHROOT = "/kafka"


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    server = Coordinator(tmp_path / "coordinator")
    yield server
    server.kill()


@pytest.fixture
def brokers(tmp_path: Path, coordinator: Coordinator) -> Iterator[dict[int, KafkaBroker]]:
    jars = kafka_jars_or_skip()
    connect = f"{coordinator.address}{CHROOT}"
    started = {n: KafkaBroker(n, tmp_path, connect, jars) for n in BROKERS}
    yield started
    for broker in started.values():
        broker.kill()


def test_kafka_brokers_run_on_our_coordinator(
    coordinator: Coordinator, brokers: dict[int, KafkaBroker]
) -> None:
    wait_until(lambda: all(each.has_started() for each in brokers.values()), START_TIMEOUT_S)
    client = KazooClient(f"{coordinator.address}{CHROOT}")
    client.start()
    addresses = ",".join(broker.address for broker in brokers.values())
    admin = AdminClient({"bootstrap.servers": addresses})
    admin.create_topics([NewTopic("t", PARTITIONS, 3)])["t"].result(30)
    produce(addresses, 0)

    first = controller(client)
    assert first in BROKERS
    brokers[first].kill()
    wait_until(lambda: controller(client) not in (None, first), FAILOVER_TIMEOUT_S)
    assert client.get("/controller_epoch")[0] == b"2"
    wait_until(lambda: first not in leaders(client), FAILOVER_TIMEOUT_S)
    produce(addresses, RECORDS)

    living = [number for number in BROKERS if number != first]
    epochs = [client.get(f"/brokers/ids/{number}")[1].czxid for number in living]
    coordinator.kill()
    produce(addresses, 2 * RECORDS)
    coordinator.start()
    wait_until(lambda: client.connected)
    # No broker had to register again, and no controller was elected.
    assert [client.get(f"/brokers/ids/{number}")[1].czxid for number in living] == epochs
    assert client.get("/controller_epoch")[0] == b"2"
    assert consume(addresses) == {str(n).encode() for n in range(3 * RECORDS)}

    for number in living:
        brokers[number].stop()
    wait_until(lambda: client.get_children("/brokers/ids") == [])
    client.stop()
    client.close()
    assert "zk_connection_rejected_count\t0" in four_letter(coordinator.port, "mntr")


def controller(client: KazooClient) -> int | None:
    try:
        number: int = json.loads(client.get("/controller")[0])["brokerid"]
    except NoNodeError:
        return None
    return number


def leaders(client: KazooClient) -> set[int]:
    states = [f"/brokers/topics/t/partitions/{n}/state" for n in range(PARTITIONS)]
    return {json.loads(client.get(path)[0])["leader"] for path in states}


def produce(addresses: str, begin: int) -> None:
    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": addresses, "acks": "all"})
    for number in range(begin, begin + RECORDS):
        producer.produce(
            "t",
            str(number).encode(),
            on_delivery=lambda error, _message: failures.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert failures == []


def consume(addresses: str) -> set[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": addresses, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    found: set[bytes] = set()

    def is_complete() -> bool:
        for message in consumer.consume(500, 1.0):
            if message.error() is None:
                found.add(message.value() or b"")
        return len(found) == 3 * RECORDS

    wait_until(is_complete, 60)
    consumer.close()
    return found

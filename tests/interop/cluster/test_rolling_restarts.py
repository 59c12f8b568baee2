"""Restarts of all brokers, in order, under load from fifty clients of four kinds. Edge.

A client that knows its leaders sends as soon as a broker listens again, long before the broker
learns of its leaderships. Such requests wait, and must be neither lost nor refused.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

import ottla
from kafkawire.ids import TopicPartition
from ottla.client.admin_model import NewTopic, OffsetSpec
from tests.harness.cluster import ClusterProcesses
from tests.harness.history import History
from tests.harness.observer import Observer
from tests.harness.proof import prove
from tests.harness.workload import ConfluentProducer, OurProducer, Pace, Producing, read_logs
from tests.interop.cluster.verifiable_producer import VerifiableProducer
from tests.interop.kafka_broker import kafka_jars_or_skip

OUR_IDEMPOTENT: Final = 20
OUR_PLAIN: Final = 14
CONFLUENT_IDEMPOTENT: Final = 6
CONFLUENT_PLAIN: Final = 6
JAVA: Final = 4
JAVA_TOPIC: Final = "java"
JAVA_PARTITIONS: Final = 6
JAVA_RATE: Final = 20
"""Records per second of one Java producer."""
SLOW: Final = Pace(burst=1, turn_s=0.4)
RESTARTS: Final = int(os.environ.get("OTTLA_ROUNDS", "20"))
MANY_PARTITIONS: Final = 400
"""Number of partitions without load, which make the start of a single broker slow."""
HEAL_TIMEOUT_S: Final = 60.0


def fifty_clients(
    bootstrap: str, history: History, partitions: Sequence[TopicPartition]
) -> Sequence[Producing]:
    """Return all producers except for Java's."""
    ours = [f"ours, idempotent {number}" for number in range(OUR_IDEMPOTENT)]
    plain = [f"ours {number}" for number in range(OUR_PLAIN)]
    return [
        OurProducer(bootstrap, history, partitions, ours, pace=SLOW),
        OurProducer(bootstrap, history, partitions, plain, is_idempotent=False, pace=SLOW),
        *(
            ConfluentProducer(
                bootstrap,
                history,
                partitions,
                is_idempotent=number < CONFLUENT_IDEMPOTENT,
                name=f"librdkafka {number}",
                pace=SLOW,
            )
            for number in range(CONFLUENT_IDEMPOTENT + CONFLUENT_PLAIN)
        ),
    ]


@pytest.mark.soak
@pytest.mark.parametrize("broker_count", [1, 3])
async def test_fifty_clients_do_not_notice_rolling_restarts(
    tmp_path: Path, broker_count: int
) -> None:
    jars = kafka_jars_or_skip()

    async def restart_all(cluster: ClusterProcesses, observer: Observer) -> None:
        async with ottla.Admin(cluster.bootstrap) as admin:
            await admin.create_topics(
                [
                    NewTopic(JAVA_TOPIC, JAVA_PARTITIONS, broker_count),
                    NewTopic("idle", MANY_PARTITIONS, 1),
                ]
            )
        with ExitStack() as running:
            java = [
                running.enter_context(
                    VerifiableProducer(
                        cluster.bootstrap, JAVA_TOPIC, number, tmp_path, jars, JAVA_RATE
                    )
                )
                for number in range(JAVA)
            ]
            for producer in java:
                await producer.wait_for_success()
            for _ in range(RESTARTS):
                for number in cluster.numbers:
                    assert await asyncio.to_thread(cluster.stop, number) == 0
                    await asyncio.to_thread(cluster.start_brokers, number)
                    await observer.wait_until_whole(len(cluster.numbers), HEAL_TIMEOUT_S)
        await _require_proof_of_java(cluster.bootstrap, java)

    with ClusterProcesses(tmp_path, broker_count=broker_count) as cluster:
        outcome = await prove(cluster, restart_all, load=fifty_clients)
    outcome.require_proof()
    assert outcome.failed == []


async def _require_proof_of_java(bootstrap: str, java: Sequence[VerifiableProducer]) -> None:
    """Assert that the log has all records acknowledged to Java's producers, and none failed."""
    where = [TopicPartition(JAVA_TOPIC, number) for number in range(JAVA_PARTITIONS)]
    async with ottla.Admin(bootstrap) as admin:
        places = await admin.list_offsets({each: int(OffsetSpec.LATEST) for each in where})
    ends = {partition: int(place.offset) for partition, place in places.items()}
    logs = await asyncio.to_thread(read_logs, bootstrap, ends)
    held = {(partition, seen.offset): seen.value for partition, log in logs.items() for seen in log}
    for producer in java:
        assert producer.failed() == []
        acknowledged = producer.acknowledged()
        assert acknowledged, "no record was acknowledged, so this proves nothing"
        for each in acknowledged:
            assert held.get((each.partition, each.offset)) == each.value

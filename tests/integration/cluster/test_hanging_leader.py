"""A leader hangs while the markers of a transaction are sent to it."""

import asyncio
from pathlib import Path

from kafkawire.ids import TopicPartition
from kafkawire.internal_topic import TRANSACTIONS_TOPIC
from ottla import Admin, Consumer, NewTopic, OttlaError, Producer
from tests.harness.cluster import ClusterProcesses

HANGS, COORDINATES, FOLLOWS = 1, 2, 3
KEY = TopicPartition("t", 0)
REQUEST_TIMEOUT_MS = 2_000
PATIENCE_S = 120.0
POLL_INTERVAL_S = 0.1
OVERRIDES = {
    # Limit for a response of the broker that hangs, far beyond the end of this test.
    "request.timeout.ms": "600000",
    "min.insync.replicas": "2",
}


async def test_committed_records_are_read_once_the_leader_is_replaced(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, overrides=OVERRIDES) as cluster:
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topics(
                [
                    NewTopic("t", assignment={0: (HANGS, COORDINATES, FOLLOWS)}),
                    NewTopic(
                        TRANSACTIONS_TOPIC,
                        assignment={0: (COORDINATES, FOLLOWS)},
                        configs={"cleanup.policy": "compact"},
                    ),
                ]
            )
        async with (
            Producer(cluster.bootstrap, transactional_id="id") as producer,
            Consumer(
                cluster.bootstrap,
                isolation_level="read_committed",
                request_timeout_ms=REQUEST_TIMEOUT_MS,
            ) as consumer,
        ):
            await producer.begin_transaction()
            await producer.send("t", b"value")
            await producer.flush()
            cluster.pause(HANGS)
            await producer.commit_transaction()
            async with asyncio.timeout(PATIENCE_S):
                while await end_offset(consumer) < 2:  # noqa: ASYNC110 - leaves the processor alone
                    await asyncio.sleep(POLL_INTERVAL_S)


async def end_offset(consumer: Consumer) -> int:
    """Return the last stable offset; 0 while no leader answers."""
    try:
        return (await consumer.end_offsets([KEY]))[KEY]
    except OttlaError:
        return 0

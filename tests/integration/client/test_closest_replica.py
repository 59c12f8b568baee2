"""A consumer reads from the follower in its rack, and from the leader when that fails (KIP-392)."""

import asyncio
import logging
from pathlib import Path

import pytest

from ottla import Admin, Consumer, NewTopic, Producer, TopicPartition
from tests.harness.cluster import ClusterProcesses

RACK_AWARE = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    # A dead follower leaves the in-sync set soon.
    "replica.lag.time.max.ms": "3000",
    # A follower learns of each high watermark with the next response.
    "replica.fetch.wait.max.ms": "50",
    "group.initial.rebalance.delay.ms": "0",
}
WHERE = TopicPartition("near", 0)
READ_TIMEOUT_S = 60


async def test_the_follower_in_the_rack_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.client")
    with ClusterProcesses(
        tmp_path, broker_count=2, overrides=RACK_AWARE, has_racks=True
    ) as cluster:
        async with (
            Admin(cluster.bootstrap) as admin,
            Producer(cluster.bootstrap) as producer,
            Consumer(cluster.bootstrap, client_rack="rack-2", auto_offset_reset="earliest") as near,
            Consumer(
                cluster.bootstrap, client_rack="rack-1", auto_offset_reset="earliest"
            ) as at_leader,
        ):
            await admin.create_topics([NewTopic("near", assignment={0: (1, 2)})])
            for consumer in (near, at_leader):
                # This waits for a broker that has yet to learn of the topic.
                consumer.assign([WHERE])
            for number in range(50):
                await producer.send_and_wait("near", b"%d" % number)
                for consumer in (near, at_leader):
                    async with asyncio.timeout(READ_TIMEOUT_S):
                        (record,) = await consumer.fetch_batch()
                    assert record.value == b"%d" % number
            named = [message for message in caplog.messages if "replica.preferred" in message]
            assert set(named) == {"replica.preferred partition=near-0 broker=2"}
            # Again after a stall in which the follower left the in-sync set, but not at each fetch.
            assert len(named) < 10
            # Without its follower the consumer reads from the leader again.
            cluster.kill(2)
            await producer.send_and_wait("near", b"last")
            async with asyncio.timeout(READ_TIMEOUT_S):
                (record,) = await near.fetch_batch()
            assert (record.value, record.offset) == (b"last", 50)

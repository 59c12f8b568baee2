"""Groups whose coordinator is killed, or paused and resumed.

One consumer commits growing offsets, one after the other. Every later coordinator must know each
acknowledged commit, and a broker that is no longer coordinator must not acknowledge one. The tests
run with `make soak`; in the simulated clusters of `tests/simulation/world`, judges see the same
every day.
"""

import asyncio
import contextlib
import threading
from pathlib import Path

import confluent_kafka
import pytest

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.client.admin.admin import Admin
from ottla.client.admin_model import GroupDescription, NewTopic
from tests.harness.cluster import ClusterProcesses
from tests.integration.broker.wire import Wire
from tests.integration.coordination.process import wait_until

GROUP = "g"
PARTITION = TopicPartition("t", 0)
OVERRIDES = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    # Otherwise a commit that only the coordinator has would be lost with it.
    "min.insync.replicas": "2",
}
ROUNDS = 12
COMMITS_PER_ROUND = 30
PATIENCE_S = 60.0
SESSION_MS = 45_000


class Committer(threading.Thread):
    """A group member that commits 1, 2, 3, ... and records the acknowledged offsets."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged = 0
        self.refused: list[int] = []
        self._is_stopped = threading.Event()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "group.instance.id": "one",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
                # Needed for a paused coordinator, whose connections stay open.
                "socket.timeout.ms": 4_000,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([PARTITION.topic])

    def run(self) -> None:
        offset = 0
        while not self._is_stopped.is_set():
            self._consumer.poll(0.005)
            if not self._consumer.assignment():
                continue
            offset += 1
            wanted = confluent_kafka.TopicPartition(*PARTITION, offset)
            try:
                self._consumer.commit(offsets=[wanted], asynchronous=False)
            except confluent_kafka.KafkaException as error:
                self.refused.append(error.args[0].code())
            else:
                self.acknowledged = offset
        self._consumer.close()

    def stop(self) -> None:
        self._is_stopped.set()
        self.join(PATIENCE_S)


def coordinator_of(cluster: ClusterProcesses) -> int:
    """Return the broker that coordinates the group; wait until there is one."""
    found: list[int] = []

    def is_found() -> bool:
        for number in cluster.running:
            with contextlib.suppress(OSError), Wire(cluster.ports[number]) as wire:
                request = FindCoordinatorRequest(key=GROUP)
                response = wire.ask(ApiKey.FIND_COORDINATOR, 3, request, FindCoordinatorResponse)
                if response.error_code == ErrorCode.NONE and response.node_id in cluster.running:
                    found.append(response.node_id)
                    return True
        return False

    wait_until(is_found, PATIENCE_S)
    return found[0]


def commit_as(group: GroupDescription, generation_id: int, offset: int) -> OffsetCommitRequest:
    """Return a commit in the name of the group's only member."""
    each = OffsetCommitRequestPartition(
        partition_index=PARTITION.partition, committed_offset=offset, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=generation_id,
        member_id=group.members[0].member_id,
        group_instance_id="one",
        topics=[OffsetCommitRequestTopic(name=PARTITION.topic, partitions=[each])],
    )


async def committed(bootstrap: str) -> int:
    async with Admin(bootstrap) as admin:
        return (await admin.list_group_offsets(GROUP))[PARTITION].offset


async def create_topic(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics([NewTopic(PARTITION.topic, 1, 3)])


async def describe(bootstrap: str) -> GroupDescription:
    async with Admin(bootstrap) as admin:
        return await admin.describe_group(GROUP)


def has_full_isr(bootstrap: str) -> bool:
    async def ask() -> bool:
        async with Admin(bootstrap) as admin:
            found = await admin.describe_topics(["__consumer_offsets", PARTITION.topic])
        return all(len(part.isr) == 3 for topic in found.values() for part in topic.partitions)

    return asyncio.run(ask())


def has_forgotten(bootstrap: str, number: int) -> bool:
    """Whether the cluster knows that a broker is dead; until then its id is taken."""

    async def ask() -> bool:
        async with Admin(bootstrap) as admin:
            return number not in (await admin.describe_cluster()).brokers

    return asyncio.run(ask())


@pytest.mark.soak
def test_no_acknowledged_commit_is_lost_when_coordinators_are_killed(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, overrides=OVERRIDES) as cluster:
        asyncio.run(create_topic(cluster.bootstrap))
        committer = Committer(cluster.bootstrap)
        committer.start()
        killed = []
        for _ in range(ROUNDS):
            target = committer.acknowledged + COMMITS_PER_ROUND
            wait_until(lambda: committer.acknowledged >= target, PATIENCE_S)  # noqa: B023
            wait_until(lambda: has_full_isr(cluster.bootstrap), PATIENCE_S)
            number = coordinator_of(cluster)
            killed.append(number)
            cluster.kill(number)
            acknowledged = committer.acknowledged
            assert asyncio.run(committed(cluster.bootstrap)) >= acknowledged
            wait_until(lambda: has_forgotten(cluster.bootstrap, number), PATIENCE_S)  # noqa: B023
            wait_until(lambda: committer.acknowledged > acknowledged, PATIENCE_S)  # noqa: B023
            cluster.start_brokers(number)
        committer.stop()
        assert asyncio.run(committed(cluster.bootstrap)) >= committer.acknowledged
        assert committer.acknowledged >= ROUNDS * COMMITS_PER_ROUND
        assert len(set(killed)) > 1, "the coordinator never moved"


@pytest.mark.soak
def test_resumed_coordinator_acknowledges_no_commit(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, overrides=OVERRIDES) as cluster:
        asyncio.run(create_topic(cluster.bootstrap))
        committer = Committer(cluster.bootstrap)
        committer.start()
        wait_until(lambda: committer.acknowledged >= COMMITS_PER_ROUND, PATIENCE_S)
        wait_until(lambda: has_full_isr(cluster.bootstrap), PATIENCE_S)
        group = asyncio.run(describe(cluster.bootstrap))
        old = coordinator_of(cluster)
        with Wire(cluster.ports[old]) as wire:
            cluster.pause(old)
            # The first request that the broker reads when it resumes: from the member, in the
            # generation that the broker still considers current.
            wire.send(ApiKey.OFFSET_COMMIT, 8, commit_as(group, 1, 1_000_000))
            acknowledged = committer.acknowledged
            wait_until(lambda: committer.acknowledged > acknowledged + 5, PATIENCE_S)
            cluster.resume(old)
            _, response = wire.receive(ApiKey.OFFSET_COMMIT, 8)
            assert isinstance(response, OffsetCommitResponse)
            code = response.topics[0].partitions[0].error_code
            assert code != ErrorCode.NONE, "a deposed coordinator acknowledged a commit"
        committer.stop()
        assert committer.acknowledged <= asyncio.run(committed(cluster.bootstrap)) < 1_000_000


@pytest.mark.soak
def test_commit_of_an_old_generation_is_refused_by_the_next_coordinator(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, overrides=OVERRIDES) as cluster:
        asyncio.run(create_topic(cluster.bootstrap))
        committer = Committer(cluster.bootstrap)
        committer.start()
        wait_until(lambda: committer.acknowledged >= COMMITS_PER_ROUND, PATIENCE_S)
        wait_until(lambda: has_full_isr(cluster.bootstrap), PATIENCE_S)
        group = asyncio.run(describe(cluster.bootstrap))
        cluster.kill(coordinator_of(cluster))
        acknowledged = committer.acknowledged
        wait_until(lambda: committer.acknowledged > acknowledged, PATIENCE_S)
        after = asyncio.run(describe(cluster.bootstrap))
        assert [each.member_id for each in after.members] == [group.members[0].member_id]
        with Wire(cluster.ports[coordinator_of(cluster)]) as wire:
            request = commit_as(group, 0, 1_000_000)
            response = wire.ask(ApiKey.OFFSET_COMMIT, 8, request, OffsetCommitResponse)
        assert response.topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION
        committer.stop()

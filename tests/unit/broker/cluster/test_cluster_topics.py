"""Error codes for a topic that cannot be created or grow: `broker.cluster.cluster_topics`."""

import asyncio
from contextlib import nullcontext
from typing import cast

import pytest

from broker.cluster import cluster_topics
from broker.cluster.cluster_topics import CreationWaits
from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.topic_plan import TopicDefaults, TopicPlan
from clusterstate.plans import Plan
from clusterstate.replica_placement import RandomStart
from clusterstate.znodes import paths
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId, TopicId
from kafkawire.internal_topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from storage.config.log_config import LogConfig
from tests.plans.driver import Driver, put_topic

PLAN = TopicPlan(name="t", assignments=((BrokerId(1),),), configs={})
DEFAULTS = TopicDefaults(partition_count=1, replication_factor=1, log_config=LogConfig())


class AbsentCoordinator:
    """Responds to its first requests that a topic is being deleted, then not at all."""

    def __init__(self, response_count: int) -> None:
        self.responses_left = response_count

    async def run(self, plan: object) -> bool:
        del plan
        if not self.responses_left:
            await asyncio.Event().wait()
        self.responses_left -= 1
        return False


def topics_of(session: object) -> cluster_topics.ClusterTopics:
    return cluster_topics.ClusterTopics(
        cast(CoordinatorSession, session),
        MetadataCache(),
        lambda: DEFAULTS,
        new_topic_id=lambda: TopicId(int=1),
        roll=lambda _broker_count: RandomStart(0, 0),
    )


@pytest.mark.parametrize(
    ("response_count", "code"),
    [
        pytest.param(0, ErrorCode.REQUEST_TIMED_OUT, id="no response"),
        pytest.param(1, ErrorCode.TOPIC_ALREADY_EXISTS, id="deletion in progress"),
    ],
)
async def test_topic_exists_only_if_the_deletion_of_a_same_named_one_was_seen(
    monkeypatch: pytest.MonkeyPatch, response_count: int, code: ErrorCode
) -> None:
    monkeypatch.setattr(cluster_topics, "CREATION_WAIT_S", 0.05)
    creating = topics_of(AbsentCoordinator(response_count))
    with pytest.raises(ApiError) as refused:
        await creating.create(PLAN)
    assert refused.value.code is code


async def test_the_topics_of_a_request_wait_once_for_an_absent_coordinator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_topics, "CREATION_WAIT_S", 0.0)
    waits = CreationWaits(asyncio.get_running_loop().time())
    for text in ("result unknown", "topic t was not created: the coordinator does not respond"):
        with pytest.raises(ApiError, match=text) as refused:
            await topics_of(AbsentCoordinator(0)).create(PLAN, waits)
        assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(("wait_s", "attempt_count"), [(60.0, 3), (0.0, 1)])
async def test_a_creation_waits_for_a_deletion_until_its_deadline(
    monkeypatch: pytest.MonkeyPatch, wait_s: float, attempt_count: int
) -> None:
    monkeypatch.setattr(cluster_topics, "DELETION_RETRY_S", 0)
    attempts: list[object] = []

    class Deleting:
        async def run(self, plan: object) -> bool:
            attempts.append(plan)
            return len(attempts) == 3

    waits = CreationWaits(asyncio.get_running_loop().time(), wait_s)
    refused = pytest.raises(ApiError, match="still being deleted")
    with refused if attempt_count == 1 else nullcontext():
        await topics_of(Deleting()).create(PLAN, waits)
    assert len(attempts) == attempt_count


class MemoryCoordinator:
    """Runs plans with a coordinator in memory."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    async def run(self, plan: Plan[int]) -> int:
        return self.driver.run(plan)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (OFFSETS_TOPIC, r"because groups .* offsets\.topic\.num\.partitions"),
        (TRANSACTIONS_TOPIC, r"because transactional ids .* transaction\.state\.log\.num"),
    ],
)
async def test_topic_of_a_coordinator_keeps_its_number_of_partitions(
    name: str, reason: str
) -> None:
    driver = Driver()
    put_topic(driver.coordinator, (1,), name=name)
    before = driver.coordinator.nodes[paths.topic(name)].data
    growing = topics_of(MemoryCoordinator(driver))
    with pytest.raises(ApiError, match=reason) as refused:
        await growing.add_partitions(name, 2, [[1]], validate_only=False)
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert driver.coordinator.nodes[paths.topic(name)].data == before
    with pytest.raises(ApiError) as missing:
        await topics_of(MemoryCoordinator(Driver())).add_partitions(
            name, 2, None, validate_only=True
        )
    assert missing.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

"""Error codes for a topic that cannot be created now: `broker.cluster.cluster_topics`."""

import asyncio
from typing import cast

import pytest

from broker.cluster import cluster_topics
from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.topic_plan import TopicDefaults, TopicPlan
from clusterstate.assignment import RandomStart
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId, TopicId
from storage.config.log_config import LogConfig

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
    creating = cluster_topics.ClusterTopics(
        cast(CoordinatorSession, AbsentCoordinator(response_count)),
        MetadataCache(),
        lambda: DEFAULTS,
        new_topic_id=lambda: TopicId(int=1),
        roll=lambda _broker_count: RandomStart(0, 0),
    )
    with pytest.raises(ApiError) as refused:
        await creating.create(PLAN)
    assert refused.value.code is code

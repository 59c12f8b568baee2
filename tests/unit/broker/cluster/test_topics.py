"""Error codes for a topic that cannot be created now: `broker.cluster.topics`."""

import asyncio
from typing import cast

import pytest

from broker.cluster import topics
from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.topic_plan import TopicDefaults, TopicPlan
from controller.assignment import Dice
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId, TopicId
from storage.config import LogConfig

PLAN = TopicPlan(name="t", assignments=((BrokerId(1),),), configs={})
DEFAULTS = TopicDefaults(partition_count=1, replication_factor=1, log_config=LogConfig())


class AbsentCoordinator:
    """A session that answers each of its first questions that a topic is being deleted."""

    def __init__(self, answer_count: int) -> None:
        self.answers_left = answer_count

    async def run(self, plan: object) -> bool:
        del plan
        if not self.answers_left:
            await asyncio.Event().wait()
        self.answers_left -= 1
        return False


@pytest.mark.parametrize(
    ("answer_count", "code"),
    [
        pytest.param(0, ErrorCode.REQUEST_TIMED_OUT, id="never answers"),
        pytest.param(1, ErrorCode.TOPIC_ALREADY_EXISTS, id="has seen a deletion"),
    ],
)
async def test_a_topic_exists_only_if_a_deletion_of_that_name_was_seen(
    monkeypatch: pytest.MonkeyPatch, answer_count: int, code: ErrorCode
) -> None:
    monkeypatch.setattr(topics, "CREATION_WAIT_S", 0.05)
    creating = topics.ClusterTopics(
        cast(CoordinatorSession, AbsentCoordinator(answer_count)),
        MetadataCache(),
        lambda: DEFAULTS,
        new_topic_id=lambda: TopicId(int=1),
        roll=lambda _broker_count: Dice(0, 0),
    )
    with pytest.raises(ApiError) as refused:
        await creating.create(PLAN)
    assert refused.value.code is code

"""Changes topics by writing the coordinator's nodes (edge).

Any broker may write them. The nodes' versions guard the writes, and the controller carries out the
changes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import structlog

from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.topic_plan import (
    DrawStart,
    TopicDefaults,
    TopicPlan,
    TopicSpec,
    check_may_grow,
    partition_count_of,
    plan_growth,
    plan_topic,
)
from clusterstate.errors import MalformedZnodeError
from clusterstate.replica_assignment import Replicas
from clusterstate.replica_placement import RandomStart
from clusterstate.topic_requests import (
    Assignments,
    NewTopic,
    create_topic,
    grow_topic,
    request_deletions,
)
from coordination.errors import SessionExpiredError
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import TopicId

CREATION_WAIT_S: Final = 5.0
"""Longest wait of a creation for the coordinator."""
DELETION_WAIT_S: Final = 4.0
"""Longest wait of a request for the deletion of same-named topics; Kafka's does not wait at all.

Such a deletion may need a broker that is down."""
DELETION_RETRY_S: Final = 0.02

log = structlog.get_logger(__name__)


class CreationWaits:
    """The waits of one request that creates topics, which share their limits."""

    def __init__(self, now_s: float, deletion_wait_s: float = DELETION_WAIT_S) -> None:
        """`now_s` is the time on the clock of the event loop."""
        self.deletion_deadline_s = now_s + deletion_wait_s
        self.has_timed_out = False
        """Whether the coordinator has not responded for a whole `CREATION_WAIT_S`."""


class ClusterTopics:
    """Requests changes of topics for clients.

    When a method returns, the request is stored in the coordinator. Its result appears in the
    metadata cache after the controller has carried it out.

    Every method raises an ApiError on failure. REQUEST_TIMED_OUT means that the result is unknown.
    """

    def __init__(
        self,
        session: CoordinatorSession,
        metadata: MetadataCache,
        defaults: Callable[[], TopicDefaults],
        *,
        new_topic_id: Callable[[], TopicId],
        roll: DrawStart,
    ) -> None:
        self._session = session
        self._metadata = metadata
        self._defaults = defaults
        self._new_topic_id = new_topic_id
        self._roll = roll

    def partition_count(self, spec: TopicSpec) -> int:
        """Return the number of partitions that `spec` requests; 0 if it is illegal."""
        return partition_count_of(spec, self._defaults().partition_count)

    def plan(self, spec: TopicSpec) -> TopicPlan:
        """Return the topic that `spec` would create; request nothing."""
        return plan_topic(spec, self._metadata.image, self._defaults(), self._roll)

    async def create(self, plan: TopicPlan, waits: CreationWaits | None = None) -> TopicId:
        """Create a topic and return its id.

        With `waits`, wait for the deletion of a same-named topic.
        """
        topic_id = self._new_topic_id()
        partitions = dict(enumerate(plan.assignments))
        topic = NewTopic(plan.name, topic_id, partitions, plan.configs)
        await self._create(topic, waits or CreationWaits(0.0, 0.0))
        log.info("topic.created", topic=plan.name, partition_count=len(partitions))
        return topic_id

    async def _create(self, topic: NewTopic, waits: CreationWaits) -> None:
        if waits.has_timed_out:
            text = f"topic {topic.name} was not created: the coordinator does not respond"
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, text)
        loop = asyncio.get_running_loop()
        try:
            while not await self._is_created(topic):
                if loop.time() >= waits.deletion_deadline_s:
                    text = f"an earlier topic {topic.name} is still being deleted"
                    raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, text)
                await asyncio.sleep(DELETION_RETRY_S)
        except TimeoutError:
            waits.has_timed_out = True
            text = f"the coordinator did not respond within {CREATION_WAIT_S:g} s: result unknown"
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, text) from None

    async def _is_created(self, topic: NewTopic) -> bool:
        """Create a topic; return False if a same-named one is being deleted."""
        with _translating_errors():
            async with asyncio.timeout(CREATION_WAIT_S):
                return await self._session.run(create_topic(topic))

    async def add_partitions(
        self,
        name: str,
        partition_count: int,
        chosen: Sequence[Sequence[int]] | None,
        *,
        validate_only: bool,
    ) -> int:
        """Add partitions up to `partition_count`, on the `chosen` brokers; return the new count."""

        def growth(existing: Assignments) -> dict[int, Replicas]:
            check_may_grow(name)
            added = plan_growth(partition_count, chosen, existing, self._metadata.image)
            return {} if validate_only else dict(added)

        with _translating_errors():
            reached = await self._session.run(grow_topic(name, growth))
        if not validate_only:
            log.info("topic.grown", topic=name, partition_count=reached)
        return reached

    async def delete(self, names: Sequence[str]) -> frozenset[str]:
        """Delete topics, and return the names that no topic has."""
        with _translating_errors():
            unknown = await self._session.run(request_deletions(names))
        for name in names:
            if name not in unknown:
                log.info("topic.deletion_requested", topic=name)
        return unknown


def roll(broker_count: int) -> RandomStart:
    """Return random starting points for the placement of a new topic."""
    # The first broker is no secret, so the generator need not be secure.
    return RandomStart(
        random.randrange(max(broker_count, 1)),
        random.randrange(max(broker_count, 1)),
    )


@contextmanager
def _translating_errors() -> Iterator[None]:
    """Translate errors of the coordinator into errors for clients."""
    try:
        yield
    except SessionExpiredError as error:
        text = f"the result is unknown: {error}"
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, text) from error
    except MalformedZnodeError as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error

"""One rebalance of a member: join, assign as leader, sync (edge).

The assignor that the group agreed on decides the assignment. `group_session` carries it out.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from kafkawire.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    assigned_partitions,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kafkawire.errors import DecodeError, ErrorCode
from kafkawire.ids import TopicPartition, by_topic
from kafkawire.messages.consumer_protocol import (
    AssignedPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
)
from kafkawire.messages.group_membership import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from ottla.client.consumer.group.assignor import Assignment, Assignor, Subscription, flatten
from ottla.client.consumer.group.group_config import GroupConfig, chosen_assignor
from ottla.client.consumer.group.group_member import Holding, Member
from ottla.client.errors import ProtocolError
from ottla.client.network.cluster import Cluster
from ottla.client.network.connection_pool import Purpose
from ottla.client.network.coordinator import Coordinator

JOIN_GRACE_MS: Final = 5_000
"""Time that a response may take beyond the rebalance timeout."""
REFRESH_SHARE: Final = 1 / 3
"""Share of the session timeout for which a leader waits for metadata."""

log = logging.getLogger(__name__)


class Joining:
    """Takes a member through rebalances, one at a time."""

    def __init__(
        self,
        cluster: Cluster,
        config: GroupConfig,
        coordinator: Coordinator,
        member: Member,
        holding: Holding,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._coordinator = coordinator
        self._member = member
        self._holding = holding
        self._timeout_s = (config.max_poll_interval_ms + JOIN_GRACE_MS) / 1000
        self._refresh_timeout_s = config.session_timeout_ms * REFRESH_SHARE / 1000
        self._shared_counts: Mapping[str, int] = {}

    def is_outdated(self) -> bool:
        """Whether partition counts have changed since this member, as leader, assigned them.

        A topic that is missing from the metadata may return in a moment, so it does not count.
        """
        counts = self._counts(self._shared_counts)
        return any(counts[topic] not in (0, was) for topic, was in self._shared_counts.items())

    def forget(self) -> None:
        """Forget that this member is the leader."""
        self._shared_counts = {}

    async def join(
        self, topics: frozenset[str], held: list[TopicPartition]
    ) -> list[TopicPartition]:
        """Take part in the next generation; return the partitions assigned to this member.

        `held` are the partitions that it owns, or owned before it gave them up for this rebalance.

        Raises:
            OttlaError: the coordinator refuses, or cannot be reached; see `judge`.
        """
        joined = await self._join(topics, held)
        return await self._sync(joined, await self._assign(joined))

    async def _join(self, topics: frozenset[str], held: list[TopicPartition]) -> JoinGroupResponse:
        config = self._config
        request = JoinGroupRequest(
            group_id=config.group_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            member_id=self._member.member_id,
            group_instance_id=config.group_instance_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(
                    name=each.name, metadata=self._subscription(each, topics, held)
                )
                for each in config.assignors
            ],
        )
        response = await self._coordinator.request(
            request, JoinGroupResponse, purpose=Purpose.JOIN, timeout_s=self._timeout_s
        )
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member.on_named(response.member_id)
        if response.error_code != ErrorCode.NONE:
            raise self._coordinator.refusal(response.error_code)
        if response.generation_id < 0 or not response.member_id:
            # Taken for no membership, it would end the heartbeats and the reads without an error.
            raise ProtocolError(
                f"the coordinator admitted member {response.member_id!r} in generation "
                f"{response.generation_id}"
            )
        self._member.on_joined(response)
        return response

    def _subscription(
        self, assignor: Assignor, topics: frozenset[str], held: list[TopicPartition]
    ) -> bytes:
        generation = self._member.last_generation
        # An eager member owns nothing while it joins; only its assignor's user data may report
        # the partitions that it held.
        owned = by_topic(sorted(held) if self._config.is_cooperative else ())
        subscription = ConsumerProtocolSubscription(
            topics=sorted(topics),
            user_data=assignor.user_data(held, generation),
            owned_partitions=[
                OwnedPartitions(topic=topic, partitions=indexes) for topic, indexes in owned.items()
            ],
            generation_id=generation,
        )
        return encode_subscription(subscription)

    async def _assign(self, joined: JoinGroupResponse) -> Assignment:
        """Return the assignment of the group if this member is the leader, else an empty one."""
        self.forget()
        if joined.leader != joined.member_id:
            return {}
        assignor = chosen_assignor(self._config.assignors, joined.protocol_name)
        if assignor is None:
            raise ProtocolError(
                f"the group chose the assignor {joined.protocol_name!r}, which this member lacks"
            )
        members = {each.member_id: _subscription_of(each) for each in joined.members}
        topics = frozenset(topic for member in members.values() for topic in member.topics)
        self._holding.keep_topics(topics)
        await self._refresh()
        self._shared_counts = counts = self._counts(topics)
        # A static leader that returned only observes: the group keeps its assignment (KIP-814).
        return {} if joined.skip_assignment else assignor.assign(counts, members)

    async def _refresh(self) -> None:
        """Refresh the metadata; keep the known one if a broker hangs, as no heartbeat is sent now.

        `is_outdated` notices a difference once the response has arrived.
        """
        try:
            async with asyncio.timeout(self._refresh_timeout_s):
                await self._cluster.refresh()
        except TimeoutError:
            log.warning("metadata.not_refreshed group=%s", self._config.group_id)

    def _counts(self, topics: Iterable[str]) -> dict[str, int]:
        known = self._cluster.metadata.topics
        return {topic: len(known[topic].partitions) if topic in known else 0 for topic in topics}

    async def _sync(
        self, joined: JoinGroupResponse, assignment: Assignment
    ) -> list[TopicPartition]:
        request = SyncGroupRequest(
            group_id=self._config.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=_encode(partitions))
                for member, partitions in assignment.items()
            ],
        )
        # With the timeout of most requests, as in Java: no heartbeat is sent now, and a member that
        # joins again meanwhile gets the same generation.
        response = await self._coordinator.ask(request, SyncGroupResponse, purpose=Purpose.JOIN)
        try:
            return assigned_partitions(response.assignment)
        except DecodeError as error:
            raise ProtocolError(f"the leader of the group sent no assignment: {error}") from error


def _encode(partitions: Iterable[TopicPartition]) -> bytes:
    given = [
        AssignedPartitions(topic=topic, partitions=indexes)
        for topic, indexes in by_topic(sorted(partitions)).items()
    ]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=given))


def _subscription_of(member: JoinGroupResponseMember) -> Subscription:
    """Return the subscription of a member; if it cannot be decoded, one without topics."""
    try:
        subscription = decode_subscription(member.metadata)
    except DecodeError as error:
        log.warning("subscription.unreadable member=%s error=%s", member.member_id, error)
        return Subscription(topics=(), group_instance_id=member.group_instance_id)
    return Subscription(
        topics=tuple(subscription.topics),
        owned=flatten(subscription.owned_partitions),
        generation=subscription.generation_id,
        group_instance_id=member.group_instance_id,
        user_data=subscription.user_data,
    )

"""The interface of assignors, which assign partitions to members of a group (decision).

The leader of the group runs `assign`. Every assignor assigns each partition of a subscribed topic
to exactly one subscriber, and returns the same assignment for the same input.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kafkawire.ids import TopicPartition
from kafkawire.messages.consumer_protocol import OwnedPartitions
from ottla.client.offset import NO_GENERATION, MemberId

Assignment = dict[MemberId, list[TopicPartition]]
PartitionCounts = Mapping[str, int]
"""Number of partitions by topic; a topic that does not exist is missing."""


class RebalanceProtocol(enum.IntEnum):
    """The treatment of a member's partitions during a rebalance (KIP-429)."""

    EAGER = 0
    """The member gives up all of its partitions before it joins."""
    COOPERATIVE = 1
    """The member keeps its partitions, and afterwards gives up the ones it has lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One member as the leader of the group sees it."""

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    """Partitions that the member held when it joined."""
    generation: int = NO_GENERATION
    """Generation in which it got them; a claim of a newer generation overrides this one."""
    group_instance_id: str | None = None
    user_data: bytes | None = None


class Assignor(Protocol):
    """A strategy for assigning partitions."""

    name: str
    """Name by which the members agree on the assignor."""
    protocols: frozenset[RebalanceProtocol]

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return the data that this member sends to the leader besides its subscription."""

    def assign(
        self, partition_counts: PartitionCounts, members: Mapping[MemberId, Subscription]
    ) -> Assignment:
        """Return the partitions of every member, including members without any."""


def in_order(members: Mapping[MemberId, Subscription]) -> list[MemberId]:
    """Return the members in the order in which partitions are assigned.

    Static members come first, ordered by the instance id that they keep across restarts, so that
    a restart changes nothing. The others follow by member id (KIP-345).
    """

    def place(member: MemberId) -> tuple[bool, str]:
        instance = members[member].group_instance_id
        return (instance is None, member if instance is None else instance)

    return sorted(members, key=place)


def subscribers(members: Mapping[MemberId, Subscription]) -> dict[str, list[MemberId]]:
    """Return the subscribers of each topic, in order; topics are sorted by name."""
    found: dict[str, list[MemberId]] = {}
    for member in in_order(members):
        for topic in set(members[member].topics):
            found.setdefault(topic, []).append(member)
    return {topic: found[topic] for topic in sorted(found)}


def flatten(topics: Iterable[OwnedPartitions]) -> list[TopicPartition]:
    """Return the partitions of all topics in one list."""
    return [TopicPartition(each.topic, index) for each in topics for index in each.partitions]

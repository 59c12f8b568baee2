"""How the partitions of a group's topics are shared among its members. Decision: no I/O.

The leader of the group runs `assign`. Every assignor gives each partition of a topic that somebody
reads to exactly one member that reads it, and gives the same answer for the same input.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kafkawire.ids import TopicPartition

MemberId = str
Assignment = dict[MemberId, list[TopicPartition]]
PartitionCounts = Mapping[str, int]
"""How many partitions each topic has; a topic that does not exist is missing."""

NO_GENERATION = -1


class RebalanceProtocol(enum.IntEnum):
    """What a member does with its partitions while the group is rebalanced (KIP-429)."""

    EAGER = 0
    """It gives up all of them first."""
    COOPERATIVE = 1
    """It keeps them, and gives up afterwards those that went to others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One member as the leader sees it."""

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    """What it held when it joined."""
    generation: int = NO_GENERATION
    """Since which generation; claims of an older one are void."""
    group_instance_id: str | None = None
    user_data: bytes | None = None


class Assignor(Protocol):
    """One way to share partitions."""

    name: str
    """By which the members agree on it."""
    protocols: frozenset[RebalanceProtocol]

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return what this member tells the leader beyond its subscription."""

    def assign(
        self, partition_counts: PartitionCounts, members: Mapping[MemberId, Subscription]
    ) -> Assignment:
        """Return the partitions of every member, also of those that get none."""


class ForgetfulAssignor:
    """What assignors have in common that do not look at what members held before."""

    protocols = frozenset({RebalanceProtocol.EAGER})

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:  # noqa: ARG002
        """Tell nothing."""
        return None


def in_order(members: Mapping[MemberId, Subscription]) -> list[MemberId]:
    """Return the members in the order in which they are served.

    Static members come first, by the id that they keep over restarts, so that a restart changes
    nothing; then the others by their member ids (KIP-345).
    """

    def place(member: MemberId) -> tuple[bool, str]:
        instance = members[member].group_instance_id
        return (instance is None, member if instance is None else instance)

    return sorted(members, key=place)


def subscribers(members: Mapping[MemberId, Subscription]) -> dict[str, list[MemberId]]:
    """Return, per topic in order of names, the members that read it, in their order."""
    found: dict[str, list[MemberId]] = {}
    for member in in_order(members):
        for topic in set(members[member].topics):
            found.setdefault(topic, []).append(member)
    return {topic: found[topic] for topic in sorted(found)}


def all_partitions(topics: Iterable[str], counts: PartitionCounts) -> list[TopicPartition]:
    """Return the partitions of those topics that exist, in order."""
    return [
        TopicPartition(topic, index)
        for topic in sorted(set(topics))
        for index in range(counts.get(topic, 0))
    ]

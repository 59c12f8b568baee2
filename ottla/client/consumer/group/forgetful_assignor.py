"""Range and round-robin assignors: both ignore previous assignments (decision).

The range assignor assigns topics with equal partition counts and the same subscribers alike, so
that a join by key finds both sides at one member.
Source: RangeAssignor, without racks, and RoundRobinAssignor of Kafka 3.9.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle

from kafkawire.ids import TopicPartition
from ottla.client.consumer.group.assignor import (
    Assignment,
    PartitionCounts,
    RebalanceProtocol,
    Subscription,
    in_order,
    subscribers,
)
from ottla.client.offset import MemberId


class ForgetfulAssignor:
    """Base class of the two."""

    protocols = frozenset({RebalanceProtocol.EAGER})

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:  # noqa: ARG002
        """Return None: the leader needs no further data."""
        return None


class RangeAssignor(ForgetfulAssignor):
    """Gives each member adjacent partitions of each of its topics; a rest goes to the first."""

    name = "range"

    def assign(
        self, partition_counts: PartitionCounts, members: Mapping[MemberId, Subscription]
    ) -> Assignment:
        """Return the partitions of every member."""
        assignment: Assignment = {member: [] for member in members}
        for topic, readers in subscribers(members).items():
            each, extra = divmod(partition_counts.get(topic, 0), len(readers))
            start = 0
            for place, member in enumerate(readers):
                end = start + each + (place < extra)
                assignment[member] += [TopicPartition(topic, index) for index in range(start, end)]
                start = end
        return assignment


class RoundRobinAssignor(ForgetfulAssignor):
    """Assigns the sorted partitions in turn; skips members that do not subscribe to the topic."""

    name = "roundrobin"

    def assign(
        self, partition_counts: PartitionCounts, members: Mapping[MemberId, Subscription]
    ) -> Assignment:
        """Return the partitions of every member."""
        assignment: Assignment = {member: [] for member in members}
        topics = {member: frozenset(held.topics) for member, held in members.items()}
        turns = cycle(in_order(members))
        for partition in _all_partitions(frozenset().union(*topics.values()), partition_counts):
            # Terminates: every topic here has at least one subscriber.
            member = next(each for each in turns if partition.topic in topics[each])
            assignment[member].append(partition)
        return assignment


def _all_partitions(topics: Iterable[str], counts: PartitionCounts) -> list[TopicPartition]:
    """Return the partitions of all existing `topics`, in order."""
    return [
        TopicPartition(topic, index)
        for topic in sorted(set(topics))
        for index in range(counts.get(topic, 0))
    ]

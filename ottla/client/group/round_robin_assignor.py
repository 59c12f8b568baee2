"""Round robin: partitions are dealt to the members like cards. Decision: no I/O.

Source: RoundRobinAssignor of Kafka 3.9.
"""

from collections.abc import Mapping
from itertools import cycle

from ottla.client.group.assignor import (
    Assignment,
    ForgetfulAssignor,
    MemberId,
    PartitionCounts,
    Subscription,
    all_partitions,
    in_order,
)


class RoundRobinAssignor(ForgetfulAssignor):
    """Deals the partitions of all topics in turn; a member is passed over that does not read it."""

    name = "roundrobin"

    def assign(
        self, partition_counts: PartitionCounts, members: Mapping[MemberId, Subscription]
    ) -> Assignment:
        """Return the hand of every member."""
        assignment: Assignment = {member: [] for member in members}
        topics = {member: frozenset(held.topics) for member, held in members.items()}
        turns = cycle(in_order(members))
        for partition in all_partitions(frozenset().union(*topics.values()), partition_counts):
            # Ends: whoever made the topic known reads it.
            member = next(each for each in turns if partition.topic in topics[each])
            assignment[member].append(partition)
        return assignment

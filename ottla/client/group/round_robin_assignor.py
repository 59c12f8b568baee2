"""Round-robin assignor: members take turns at the sorted partitions. Decision: no I/O.

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
    """Assigns the partitions of all topics in turn; skips members without that subscription."""

    name = "roundrobin"

    def assign(
        self, partition_counts: PartitionCounts, members: Mapping[MemberId, Subscription]
    ) -> Assignment:
        """Return the partitions of every member."""
        assignment: Assignment = {member: [] for member in members}
        topics = {member: frozenset(held.topics) for member, held in members.items()}
        turns = cycle(in_order(members))
        for partition in all_partitions(frozenset().union(*topics.values()), partition_counts):
            # Terminates: every topic here has at least one subscriber.
            member = next(each for each in turns if partition.topic in topics[each])
            assignment[member].append(partition)
        return assignment

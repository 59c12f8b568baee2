"""Range assignor: each member gets adjacent partitions of each of its topics. Decision: no I/O.

Topics with equal partition counts and the same subscribers are assigned alike, so that a join by
key finds both sides at one member. Source: RangeAssignor of Kafka 3.9, without racks.
"""

from collections.abc import Mapping

from kafkawire.ids import TopicPartition
from ottla.client.group.assignor import (
    Assignment,
    ForgetfulAssignor,
    MemberId,
    PartitionCounts,
    Subscription,
    subscribers,
)


class RangeAssignor(ForgetfulAssignor):
    """Assigns each topic separately; the first members get one partition more on a remainder."""

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

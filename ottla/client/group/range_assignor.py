"""Ranges: each member gets neighbouring partitions of every topic that it reads. Decision: no I/O.

Topics with equally many partitions and the same readers are shared alike, so that joins by key
find both sides at one member. Source: RangeAssignor of Kafka 3.9, without racks.
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
    """Shares each topic by itself; the first members get one more where it does not divide."""

    name = "range"

    def assign(
        self, partition_counts: PartitionCounts, members: Mapping[MemberId, Subscription]
    ) -> Assignment:
        """Return the ranges of every member."""
        assignment: Assignment = {member: [] for member in members}
        for topic, readers in subscribers(members).items():
            each, extra = divmod(partition_counts.get(topic, 0), len(readers))
            start = 0
            for place, member in enumerate(readers):
                end = start + each + (place < extra)
                assignment[member] += [TopicPartition(topic, index) for index in range(start, end)]
                start = end
        return assignment

"""The groups that this broker coordinates, by partition of `__consumer_offsets` (decision).

These are the groups of partitions that it leads and has loaded. Invariant: a group is held only
while its partition is active here. It stays in that partition, and is found there, although the
topic may get more partitions: its records stay there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from broker.groups.group import Group
from broker.groups.rebalance import GroupLimits
from broker.internal_log.leaderships import Leaderships
from kafkawire.errors import ApiError, ErrorCode


class GroupRegistry:
    """Groups by id, and the partitions that they belong to."""

    def __init__(self, limits: GroupLimits, partition_count: Callable[[], int]) -> None:
        """Map groups to `partition_count()` partitions, the actual or planned number."""
        self.limits = limits
        self.leaderships = Leaderships(partition_count)
        self._partitions: dict[Group, int] = {}
        self._by_partition: dict[int, dict[Group, None]] = {}
        # Of two groups with one id, before and after the topic got more partitions, the last one.
        self._groups: dict[str, Group] = {}

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._partitions))

    def __contains__(self, group: Group) -> bool:
        return group in self._partitions

    def __len__(self) -> int:
        return len(self._partitions)

    def in_partition(self, partition: int) -> list[Group]:
        """Return the groups of one partition."""
        return list(self._by_partition.get(partition, ()))

    def partition_of(self, group: Group) -> int:
        """Return the partition of a group that is held here."""
        return self._partitions[group]

    def activate(self, partition: int, groups: Iterable[Group]) -> None:
        """Coordinate the groups of a partition that was loaded."""
        self.leaderships.activate(partition)
        for group in groups:
            self._hold(partition, group)

    def resign(self, partition: int) -> list[Group]:
        """Give a partition up; return its groups."""
        self.leaderships.resign(partition)
        lost = self.in_partition(partition)
        for group in lost:
            self.remove(group)
        return lost

    def close(self) -> list[Group]:
        """Give all partitions up when the broker stops; return the groups."""
        self.leaderships.close()
        lost = list(self)
        self._partitions.clear()
        self._by_partition.clear()
        self._groups.clear()
        return lost

    # Groups

    def get(self, group_id: str) -> Group | None:
        """Return a group that is held here, although the topic may have got more partitions."""
        return self._groups.get(group_id)

    def find(self, group_id: str, *, may_be_unnamed: bool = False) -> Group | None:
        """Return a group that this broker coordinates now, None if there is none with this id.

        Before consumer groups had members, offsets could be committed without a group id. Such an
        unnamed group can still be used for that.

        Raises:
            ApiError: no group id, the broker stops, the partition is loading, or another broker's
                group.
        """
        if not group_id and not may_be_unnamed:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        self.leaderships.check(group_id)
        return self._groups.get(group_id)

    def find_or_add(self, group_id: str, *, may_be_unnamed: bool = False) -> Group:
        """Return a group, a new one if there is none with this id.

        Raises:
            ApiError: as `find`.
        """
        group = self.find(group_id, may_be_unnamed=may_be_unnamed)
        if group is None:
            group = Group(group_id, self.limits)
            self._hold(self.leaderships.partition_of(group_id), group)
        return group

    def remove(self, group: Group) -> None:
        """Remove a group, if it is held here."""
        partition = self._partitions.pop(group, None)
        if partition is not None:
            held = self._by_partition[partition]
            del held[group]
            if not held:
                del self._by_partition[partition]
        if self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]

    def _hold(self, partition: int, group: Group) -> None:
        self._partitions[group] = partition
        self._by_partition.setdefault(partition, {})[group] = None
        self._groups[group.group_id] = group

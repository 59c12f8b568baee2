"""The groups that this broker coordinates, by partition of `__consumer_offsets` (decision).

These are the groups of partitions that it leads and has loaded. Invariant: a group is held only
while its partition is active here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum

from broker.groups.group import Group
from broker.groups.rebalance import GroupLimits
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.group_records import partition_for
from kafkawire.ids import LeaderEpoch


class PartitionState(Enum):
    """State of a partition that this broker leads."""

    LOADING = "loading"
    ACTIVE = "active"


class GroupRegistry:
    """Groups by id, and the partitions that they belong to."""

    def __init__(self, limits: GroupLimits, partition_count: Callable[[], int]) -> None:
        """Map groups to `partition_count()` partitions, the actual or planned number."""
        self.limits = limits
        self._partition_count = partition_count
        self._groups: dict[str, Group] = {}
        self._states: dict[int, PartitionState] = {}
        self._epochs: dict[int, LeaderEpoch] = {}
        self._loading_since: dict[int, LeaderEpoch] = {}
        self._is_open = True

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._groups.values()))

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def is_loading(self) -> bool:
        """Whether any partition is still loading."""
        return PartitionState.LOADING in self._states.values()

    def partition_of(self, group_id: str) -> int:
        """Return the partition that a group belongs to."""
        return partition_for(group_id, self._partition_count())

    def in_partition(self, partition: int) -> list[Group]:
        """Return the groups of one partition."""
        return [group for group in self if self.partition_of(group.group_id) == partition]

    # Partitions

    def lead(self, partition: int, leader_epoch: LeaderEpoch) -> bool:
        """Note a leadership; return whether the partition has to be loaded.

        A leader that only gets a newer epoch knows the groups already.
        """
        self._epochs[partition] = max(leader_epoch, self._epochs.get(partition, leader_epoch))
        if partition in self._states:
            return False
        self._states[partition] = PartitionState.LOADING
        self._loading_since[partition] = leader_epoch
        return True

    def is_loading_since(self, partition: int, leader_epoch: LeaderEpoch) -> bool:
        """Whether a load that began in this epoch is still needed."""
        return (
            self._states.get(partition) is PartitionState.LOADING
            and self._loading_since[partition] == leader_epoch
        )

    def activate(self, partition: int, groups: Iterable[Group]) -> None:
        """Coordinate the groups of a partition that was loaded."""
        assert self._states[partition] is PartitionState.LOADING, "a partition is loaded once"
        del self._loading_since[partition]
        self._states[partition] = PartitionState.ACTIVE
        self._groups.update((group.group_id, group) for group in groups)

    def resign(self, partition: int) -> list[Group]:
        """Give a partition up; return its groups."""
        self._states.pop(partition, None)
        self._epochs.pop(partition, None)
        self._loading_since.pop(partition, None)
        lost = self.in_partition(partition)
        for group in lost:
            del self._groups[group.group_id]
        return lost

    def close(self) -> list[Group]:
        """Give all partitions up when the broker stops; return the groups."""
        self._is_open = False
        lost = list(self._groups.values())
        self._groups.clear()
        self._states.clear()
        return lost

    def leads(self, partition: int) -> bool:
        """Whether a partition is loading or active here."""
        return partition in self._states

    def active_partitions(self) -> list[int]:
        """Return the partitions whose groups are coordinated here."""
        return [
            partition for partition, state in self._states.items() if state is PartitionState.ACTIVE
        ]

    def epoch(self, partition: int) -> LeaderEpoch:
        """Return the epoch in which this broker leads a partition."""
        return self._epochs[partition]

    # Groups

    def check(self, group_id: str, *, may_be_unnamed: bool = False) -> None:
        """Check that this broker coordinates a group now.

        Before consumer groups had members, offsets could be committed without a group id. Such an
        unnamed group can still be used for that.

        Raises:
            ApiError: no group id, the broker stops, the partition is loading, or another broker's
                group.
        """
        if not group_id and not may_be_unnamed:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        if not self._is_open:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        state = self._states.get(self.partition_of(group_id))
        if state is PartitionState.LOADING:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if state is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)

    def find(self, group_id: str, *, may_be_unnamed: bool = False) -> Group | None:
        """Return a group, None if there is none with this id.

        Raises:
            ApiError: as `check`.
        """
        self.check(group_id, may_be_unnamed=may_be_unnamed)
        return self._groups.get(group_id)

    def find_or_add(self, group_id: str, *, may_be_unnamed: bool = False) -> Group:
        """Return a group, a new one if there is none with this id.

        Raises:
            ApiError: as `check`.
        """
        group = self.find(group_id, may_be_unnamed=may_be_unnamed)
        if group is None:
            group = self._groups[group_id] = Group(group_id, self.limits)
        return group

    def remove(self, group: Group) -> None:
        """Remove a dead group."""
        if self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]

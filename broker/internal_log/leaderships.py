"""The partitions of one internal topic that this broker leads, and the keys they hold (decision).

A coordinator serves a key (a group, a transactional id) only while the key's partition is active
here: led, and loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import LeaderEpoch
from kafkawire.internal_topic import partition_for


class PartitionState(Enum):
    """State of a partition that this broker leads."""

    LOADING = "loading"
    ACTIVE = "active"


class Leaderships:
    """The led partitions, each with its state and its epochs."""

    def __init__(self, partition_count: Callable[[], int]) -> None:
        """Map keys to `partition_count()` partitions, the actual or planned number."""
        self._partition_count = partition_count
        self._states: dict[int, PartitionState] = {}
        self._epochs: dict[int, LeaderEpoch] = {}
        self._first_epochs: dict[int, LeaderEpoch] = {}
        self._is_open = True

    @property
    def is_loading(self) -> bool:
        """Whether any partition is still loading."""
        return PartitionState.LOADING in self._states.values()

    @property
    def is_open(self) -> bool:
        """Whether the broker has not begun to stop."""
        return self._is_open

    def __contains__(self, partition: int) -> bool:
        """Whether a partition is loading or active here."""
        return partition in self._states

    def partition_of(self, key: str) -> int:
        """Return the partition that a key belongs to."""
        return partition_for(key, self._partition_count())

    def lead(self, partition: int, leader_epoch: LeaderEpoch) -> bool:
        """Note a leadership; return whether the partition has to be loaded.

        A leader that only gets the next epoch knows the partition's state already. After a jump of
        epochs, in which another broker may have led, it is to resign first.
        """
        self._epochs[partition] = max(leader_epoch, self._epochs.get(partition, leader_epoch))
        if partition in self._states:
            return False
        self._states[partition] = PartitionState.LOADING
        self._first_epochs[partition] = leader_epoch
        return True

    def is_loading_since(self, partition: int, leader_epoch: LeaderEpoch) -> bool:
        """Whether a load that began in this epoch is still needed."""
        return (
            self._states.get(partition) is PartitionState.LOADING
            and self._first_epochs[partition] == leader_epoch
        )

    def activate(self, partition: int) -> None:
        """Coordinate the keys of a partition that was loaded."""
        assert self._states[partition] is PartitionState.LOADING, "a partition is loaded once"
        self._states[partition] = PartitionState.ACTIVE

    def resign(self, partition: int) -> None:
        """Give a partition up."""
        self._states.pop(partition, None)
        self._epochs.pop(partition, None)
        self._first_epochs.pop(partition, None)

    def close(self) -> None:
        """Give all partitions up, and refuse every key, as the broker stops."""
        self._is_open = False
        self._states.clear()

    def active_partitions(self) -> list[int]:
        """Return the partitions whose keys are coordinated here."""
        return [
            partition for partition, state in self._states.items() if state is PartitionState.ACTIVE
        ]

    def loading_partitions(self) -> list[int]:
        """Return the partitions that this broker leads, and has not loaded yet."""
        return [index for index, state in self._states.items() if state is PartitionState.LOADING]

    def epoch(self, partition: int) -> LeaderEpoch:
        """Return the newest epoch in which this broker leads a partition."""
        return self._epochs[partition]

    def first_epoch(self, partition: int) -> LeaderEpoch:
        """Return the epoch in which this broker began to lead a partition."""
        return self._first_epochs[partition]

    def has_led_since(self, partition: int, leader_epoch: LeaderEpoch) -> bool:
        """Whether this broker has led a partition without a break since an epoch."""
        began = self._first_epochs.get(partition)
        return began is not None and began <= leader_epoch

    def check(self, key: str) -> int:
        """Return the partition of a key that this broker coordinates now.

        Raises:
            ApiError: the broker stops, the partition is loading, or another broker leads it.
        """
        if not self._is_open:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        partition = partition_for(key, self._partition_count())
        state = self._states.get(partition)
        if state is PartitionState.LOADING:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if state is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return partition

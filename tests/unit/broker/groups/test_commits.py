"""Commits, and their removal, with a log that fails: `broker.groups.commits`."""

from collections.abc import Callable, Iterable, Iterator
from typing import cast

import pytest

from broker.groups import commits
from broker.groups.commits import MAX_TOMBSTONE_BYTES, GroupCommits
from broker.groups.group import Group
from broker.groups.rebalance import GroupLimits
from broker.groups.registry import GroupRegistry
from broker.internal_log.store import InternalStore, KeyValue
from kafkawire.errors import ErrorCode
from kafkawire.group_records import CommittedOffset, offset_key
from kafkawire.ids import LeaderEpoch, TopicPartition
from kafkawire.sentinels import ACKS_ALL, NO_OFFSET

GROUP, P0, P1 = "g", TopicPartition("t", 0), TopicPartition("t", 1)
OUTSIDE = ("", None, -1)
RETENTION_MS = 1_000


class FakeStore:
    """A log whose appends end with `error`; nothing is appended unless `is_appending`.

    Only appends that wait for no follower succeed if it `lacks_replicas`.
    """

    def __init__(self) -> None:
        self.records: list[KeyValue] = []
        self.batches: list[list[KeyValue]] = []
        self.error, self.is_appending, self.lacks_replicas = ErrorCode.NONE, True, False

    def append(
        self,
        partition: int,
        leader_epoch: LeaderEpoch,
        records: Iterable[KeyValue],
        on_stored: Callable[[ErrorCode, int], None],
        *,
        acks: int = ACKS_ALL,
    ) -> None:
        del partition, leader_epoch
        if self.lacks_replicas and acks == ACKS_ALL:
            on_stored(ErrorCode.NOT_ENOUGH_REPLICAS, NO_OFFSET)
            return
        position = len(self.records) if self.is_appending else NO_OFFSET
        if self.is_appending:
            self.batches.append(list(records))
            self.records += self.batches[-1]
        on_stored(self.error, position)


def _drop_effects(group: Group) -> None:
    group.take_effects()


class World:
    """A coordinator of one partition."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.store = FakeStore()
        limits = GroupLimits(max_size=10, initial_rebalance_delay_ms=0)
        self.registry = GroupRegistry(limits, lambda: 1)
        self.registry.leaderships.lead(0, LeaderEpoch(0))
        self.registry.activate(0, [])
        self.commits = GroupCommits(
            self.registry,
            cast(InternalStore, self.store),
            metadata_max_bytes=100,
            retention_ms=RETENTION_MS,
            now_ms=lambda: self.now_ms,
            clock_ms=lambda: self.now_ms,
            settle=_drop_effects,
        )

    def commit(self, *partitions: TopicPartition, error: ErrorCode = ErrorCode.NONE) -> None:
        self.store.error = error
        codes: list[ErrorCode] = []
        offset = CommittedOffset(5, 0, "", self.now_ms)
        self.commits.commit(GROUP, OUTSIDE, dict.fromkeys(partitions, offset), codes.append)
        assert [code is ErrorCode.NONE for code in codes] == [error is ErrorCode.NONE]
        self.store.error = ErrorCode.NONE

    def log_holds(self, partition: TopicPartition) -> bool:
        """Whether a load of the log would find an offset."""
        return dict(self.store.records).get(offset_key(GROUP, partition)) is not None


def delete_group(commits: GroupCommits) -> None:
    assert commits.delete_group(GROUP) is ErrorCode.NONE


def delete_offsets(commits: GroupCommits) -> None:
    assert commits.delete_offsets(GROUP, [P0]) == {P0: ErrorCode.NONE}


def delete_topic(commits: GroupCommits) -> None:
    commits.on_partitions_deleted([P0])


@pytest.mark.parametrize("delete", [delete_group, delete_offsets, delete_topic])
def test_offsets_are_deleted_although_too_few_replicas_are_in_sync(
    delete: Callable[[GroupCommits], None],
) -> None:
    """As in Kafka: a topic of that name would begin at the stale offset."""
    world = World()
    world.commit(P0)
    world.store.lacks_replicas = True
    delete(world.commits)
    assert not world.log_holds(P0), "the next coordinator would find the offset"


def test_tombstones_with_long_names_are_written_in_several_batches() -> None:
    """One batch of them would exceed `max.message.bytes`."""
    world = World()
    partitions = [TopicPartition("t" * 249, index) for index in range(5_000)]
    world.commit(*partitions)
    delete_group(world.commits)
    batches = world.store.batches[1:]
    assert sum(map(len, batches)) == len(partitions)
    assert max(sum(len(key) for key, _ in batch) for batch in batches) <= MAX_TOMBSTONE_BYTES


def test_deleted_group_leaves_no_commit_that_was_replicated_too_late() -> None:
    world = World()
    world.commit(P0)
    world.commit(P1, error=ErrorCode.REQUEST_TIMED_OUT)
    assert world.log_holds(P1)
    assert world.commits.delete_group(GROUP) is ErrorCode.NONE
    assert not world.log_holds(P0)
    assert not world.log_holds(P1), "the next coordinator would find the offset"


def test_deleted_topic_leaves_no_commit_that_was_replicated_too_late() -> None:
    world = World()
    world.commit(P1)
    world.commit(P0, error=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    world.commits.on_partitions_deleted([P0])
    assert not world.log_holds(P0)
    assert world.log_holds(P1)


class CountedWalks(list[TopicPartition]):
    """Partitions that count how often someone walks through them."""

    walk_count = 0

    def __iter__(self) -> Iterator[TopicPartition]:
        self.walk_count += 1
        return super().__iter__()


def test_deletion_of_a_topic_does_not_walk_through_its_partitions_for_each_group() -> None:
    """Thousands of both would keep the event loop for seconds."""
    world = World()
    groups = [world.registry.find_or_add(f"g{index}") for index in range(50)]
    for group in groups:
        group.offsets.restore(P0, CommittedOffset(5, 0, "", 0), 0)
        group.offsets.restore(P1, CommittedOffset(5, 0, "", 0), 0)
    deleted = CountedWalks([P0])
    world.commits.on_partitions_deleted(deleted)
    assert [group.offsets.partitions() for group in groups] == [[P1]] * len(groups)
    assert deleted.walk_count == 1


def loading(world: World, *, epoch: int = 1) -> None:
    world.commits.on_resign(0)
    world.registry.resign(0)
    world.registry.leaderships.lead(0, LeaderEpoch(epoch))


def loaded(world: World, *committed: TopicPartition) -> Group:
    """Finish the load of a log with commits of these partitions."""
    group = Group(GROUP, world.registry.limits)
    for position, each in enumerate(committed):
        group.offsets.restore(each, CommittedOffset(5, 0, "", 0), position)
    world.registry.activate(0, [group])
    world.commits.on_loaded(0)
    return group


def test_offsets_of_a_partition_that_is_deleted_during_the_load_are_removed() -> None:
    world = World()
    world.commit(P0, P1)
    loading(world)
    world.commits.on_partitions_deleted([P0])
    group = loaded(world, P0, P1)
    assert group.offsets.partitions() == [P1]
    assert not world.log_holds(P0), "the next coordinator would find the offset"
    assert world.log_holds(P1)


def test_group_whose_only_partition_is_deleted_during_the_load_is_removed() -> None:
    world = World()
    loading(world)
    world.commits.on_partitions_deleted([P0])
    loaded(world, P0)
    assert not len(world.registry)


def test_deletion_during_a_load_that_another_coordinator_finished_removes_nothing() -> None:
    """The topic may exist again by now, with offsets that the other coordinator stored."""
    world = World()
    loading(world)
    world.commits.on_partitions_deleted([P0])
    loading(world, epoch=3)
    assert loaded(world, P0).offsets.partitions() == [P0]


def test_deletions_during_a_load_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "MAX_EARLY_DELETIONS", 1)
    world = World()
    loading(world)
    world.commits.on_partitions_deleted([P0])
    world.commits.on_partitions_deleted([P1])
    assert loaded(world, P0, P1).offsets.partitions() == [P0]


def test_group_without_offsets_is_removed_with_commits_that_were_replicated_too_late() -> None:
    world = World()
    world.commit(P0)
    world.commit(P1, error=ErrorCode.REQUEST_TIMED_OUT)
    world.now_ms = RETENTION_MS
    [group] = world.registry
    world.commits.expire(group)
    assert not len(world.registry)
    assert not world.log_holds(P1)


def test_commit_that_was_not_appended_needs_no_tombstone() -> None:
    world = World()
    world.store.is_appending = False
    world.commit(P0, error=ErrorCode.NOT_ENOUGH_REPLICAS)
    world.store.is_appending = True
    assert world.commits.delete_group(GROUP) is ErrorCode.NONE
    assert world.store.records == []

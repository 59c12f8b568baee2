"""Pending, committed and expired offsets: `broker.groups.offsets`."""

import pytest

from broker.groups.offsets import GroupOffsets
from broker.groups.state import COMPLETING, EMPTY, PREPARING, STABLE
from kafkawire.group_records import CommittedOffset
from kafkawire.ids import TopicPartition
from tests.unit.broker.groups.group_driver import World, world_in

P0, P1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
NOW_MS = 1_000_000
KEEP_MS = 1_000


def at(offset: int, time_ms: int = NOW_MS, expires_ms: int | None = None) -> CommittedOffset:
    return CommittedOffset(offset, 0, "", time_ms, expires_ms)


def test_commit_can_be_read_once_it_is_replicated() -> None:
    offsets, commits = GroupOffsets(), {P0: at(5)}
    offsets.begin(commits)
    assert offsets.get(P0) is None
    assert offsets.is_pending(P0)
    assert (offsets.partitions(), offsets.all_partitions()) == ([], [P0])
    offsets.finish(commits, 0)
    assert offsets.get(P0) == at(5)
    assert not offsets.is_pending(P0)
    assert (len(offsets), offsets.is_empty) == (1, False)


@pytest.mark.parametrize("wanted", [{P0}, {P0, U0}, {P0, P1, U0}])
def test_partitions_with_an_offset_are_found_among_others(wanted: set[TopicPartition]) -> None:
    """In every state: committed, being appended, failed after the append, and undecided."""
    offsets, commits = [GroupOffsets() for _ in range(4)], {P0: at(5)}
    for each in offsets[:3]:
        each.begin(commits)
    offsets[0].finish(commits, 0)
    offsets[2].fail(commits, is_in_log=True)
    offsets[3].undecided.add(7, commits, 0)
    for each in offsets:
        assert each.all_partitions() == each.partitions_among(wanted) == [P0]
        assert each.partitions_among({P1, U0}) == each.partitions_among(set()) == []


def test_failed_commit_keeps_the_previous_offset() -> None:
    offsets, first, second = GroupOffsets(), {P0: at(5)}, {P0: at(6)}
    offsets.begin(first)
    offsets.finish(first, 0)
    offsets.begin(second)
    offsets.fail(second, is_in_log=False)
    assert offsets.get(P0) == at(5)
    assert not offsets.is_pending(P0)


def test_later_commit_in_the_log_counts() -> None:
    offsets, first, second = GroupOffsets(), {P0: at(5)}, {P0: at(5)}
    offsets.begin(first)
    offsets.begin(second)
    offsets.finish(second, 2)
    assert not offsets.is_pending(P0)
    offsets.begin(first)
    offsets.finish(first, 1)
    held = offsets.get(P0)
    assert held is second[P0]


def test_partition_is_pending_until_its_last_commit_is_replicated() -> None:
    offsets, first, second = GroupOffsets(), {P0: at(5)}, {P0: at(5)}
    offsets.begin(first)
    offsets.begin(second)
    offsets.finish(first, 1)
    assert offsets.is_pending(P0)


def test_offset_removed_while_pending_stays_removed() -> None:
    offsets, commits = GroupOffsets(), {P0: at(5)}
    offsets.begin(commits)
    assert offsets.remove([P0, P1]) == [P0], "the offset is in the log and needs a tombstone"
    offsets.finish(commits, 0)
    assert offsets.get(P0) is None
    assert offsets.is_empty


def test_acknowledged_commit_counts_though_a_later_one_failed_before() -> None:
    offsets, first, second = GroupOffsets(), {P0: at(5)}, {P0: at(6)}
    offsets.begin(first)
    offsets.begin(second)
    offsets.fail(second, is_in_log=False)
    assert offsets.is_pending(P0)
    offsets.finish(first, 1)
    assert offsets.get(P0) == at(5)
    assert not offsets.is_pending(P0)


def test_offset_removed_while_pending_stays_removed_during_a_later_commit() -> None:
    offsets, first, second = GroupOffsets(), {P0: at(5)}, {P0: at(6)}
    offsets.begin(first)
    assert offsets.remove([P0]) == [P0]
    offsets.begin(second)
    offsets.finish(first, 1)
    assert offsets.get(P0) is None, "a tombstone follows it in the log"
    offsets.fail(second, is_in_log=False)
    assert offsets.is_empty


def test_removal_of_a_commit_that_failed_in_the_log_needs_a_tombstone() -> None:
    offsets, commits = GroupOffsets(), {P0: at(5)}
    offsets.begin(commits)
    offsets.fail(commits, is_in_log=True)
    assert offsets.get(P0) is None
    assert not offsets.is_pending(P0)
    assert offsets.is_empty, "the group may be removed"
    assert offsets.all_partitions() == [P0]
    assert offsets.remove([P0, P1]) == [P0]
    assert offsets.remove([P0]) == []


def test_removed_commit_that_fails_later_needs_no_second_tombstone() -> None:
    offsets, commits = GroupOffsets(), {P0: at(5)}
    offsets.begin(commits)
    assert offsets.remove([P0]) == [P0]
    offsets.fail(commits, is_in_log=True)
    assert offsets.all_partitions() == []


def grown(world: World, **offsets: CommittedOffset) -> World:
    for topic, committed in offsets.items():
        world.group.offsets.restore(TopicPartition(topic, 0), committed, 0)
    return world


@pytest.mark.parametrize(("age_ms", "has_expired"), [(KEEP_MS - 1, False), (KEEP_MS, True)])
def test_group_without_members_expires_each_offset_by_its_own_time(
    age_ms: int, has_expired: bool
) -> None:
    world = grown(World(), t=at(1, NOW_MS - age_ms), u=at(1, NOW_MS))
    assert world.group.expired_offsets(NOW_MS, KEEP_MS) == ([P0] if has_expired else [])


@pytest.mark.parametrize(("age_ms", "has_expired"), [(KEEP_MS - 1, False), (KEEP_MS, True)])
def test_empty_group_expires_offsets_by_the_time_it_became_empty(
    age_ms: int, has_expired: bool
) -> None:
    world, _ = world_in(EMPTY)
    world.group.state_timestamp_ms = NOW_MS - age_ms
    grown(world, t=at(1, 0), u=at(1, NOW_MS))
    assert world.group.expired_offsets(NOW_MS, KEEP_MS) == ([P0, U0] if has_expired else [])
    assert world.group.may_lose_offsets


def test_stable_group_expires_only_offsets_of_other_topics() -> None:
    world, _ = world_in(STABLE)
    grown(world, t=at(1, 0), u=at(1, 0))
    assert world.group.expired_offsets(NOW_MS, KEEP_MS) == [U0]


@pytest.mark.parametrize("state", [PREPARING, COMPLETING])
def test_no_offset_expires_during_a_rebalance(state: object) -> None:
    world, _ = world_in(state)  # type: ignore[arg-type]
    grown(world, u=at(1, 0))
    assert world.group.expired_offsets(NOW_MS, KEEP_MS) == []


def test_expiry_time_set_by_an_old_client_counts() -> None:
    world = grown(World(), t=at(1, 0, expires_ms=NOW_MS + 1), u=at(1, NOW_MS, expires_ms=NOW_MS))
    assert world.group.expired_offsets(NOW_MS, KEEP_MS) == [U0]


def test_pending_offset_does_not_expire() -> None:
    world = grown(World(), t=at(1, 0))
    world.group.offsets.begin({P0: at(2)})
    assert world.group.expired_offsets(NOW_MS, KEEP_MS) == []

"""Pending and committed offsets, and which of them nobody needs any more."""

import pytest

from broker.groups.offsets import GroupOffsets
from broker.groups.state import COMPLETING, EMPTY, PREPARING, STABLE
from kafkawire.group_records import CommittedOffset
from kafkawire.ids import TopicPartition
from tests.unit.broker.group_driver import World, world_in

P0, P1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
NOW_MS = 1_000_000
KEEP_MS = 1_000


def at(offset: int, time_ms: int = NOW_MS, expires_ms: int | None = None) -> CommittedOffset:
    return CommittedOffset(offset, 0, "", time_ms, expires_ms)


def test_a_commit_can_be_read_when_it_is_replicated() -> None:
    offsets, commits = GroupOffsets(), {P0: at(5)}
    offsets.begin(commits)
    assert offsets.get(P0) is None
    assert offsets.is_pending(P0)
    assert (offsets.partitions(), offsets.all_partitions()) == ([], [P0])
    offsets.finish(commits, 0)
    assert offsets.get(P0) == at(5)
    assert not offsets.is_pending(P0)
    assert (len(offsets), offsets.is_empty) == (1, False)


def test_a_commit_that_fails_leaves_what_was_there() -> None:
    offsets, first, second = GroupOffsets(), {P0: at(5)}, {P0: at(6)}
    offsets.begin(first)
    offsets.finish(first, 0)
    offsets.begin(second)
    offsets.fail(second)
    assert offsets.get(P0) == at(5)
    assert not offsets.is_pending(P0)


def test_the_commit_that_stands_later_in_the_log_counts() -> None:
    offsets, first, second = GroupOffsets(), {P0: at(5)}, {P0: at(5)}
    offsets.begin(first)
    offsets.begin(second)
    offsets.finish(second, 2)
    assert not offsets.is_pending(P0)
    offsets.begin(first)
    offsets.finish(first, 1)
    held = offsets.get(P0)
    assert held is second[P0]


def test_a_commit_is_pending_until_the_last_one_is_replicated() -> None:
    offsets, first, second = GroupOffsets(), {P0: at(5)}, {P0: at(5)}
    offsets.begin(first)
    offsets.begin(second)
    offsets.finish(first, 1)
    assert offsets.is_pending(P0)


def test_what_is_removed_while_it_is_pending_does_not_come_back() -> None:
    offsets, commits = GroupOffsets(), {P0: at(5)}
    offsets.begin(commits)
    assert offsets.remove([P0, P1]) == [P0], "it is in the log, and needs a tombstone"
    offsets.finish(commits, 0)
    assert offsets.get(P0) is None
    assert offsets.is_empty


def grown(world: World, **offsets: CommittedOffset) -> World:
    for topic, committed in offsets.items():
        world.group.offsets.restore(TopicPartition(topic, 0), committed, 0)
    return world


@pytest.mark.parametrize(("age_ms", "is_over"), [(KEEP_MS - 1, False), (KEEP_MS, True)])
def test_a_group_that_only_stores_offsets_keeps_each_for_its_own_time(
    age_ms: int, is_over: bool
) -> None:
    world = grown(World(), t=at(1, NOW_MS - age_ms), u=at(1, NOW_MS))
    assert world.group.expired_offsets(NOW_MS, KEEP_MS) == ([P0] if is_over else [])


@pytest.mark.parametrize(("age_ms", "is_over"), [(KEEP_MS - 1, False), (KEEP_MS, True)])
def test_an_empty_group_keeps_all_from_when_it_became_empty(age_ms: int, is_over: bool) -> None:
    world, _ = world_in(EMPTY)
    world.group.state_timestamp_ms = NOW_MS - age_ms
    grown(world, t=at(1, 0), u=at(1, NOW_MS))
    assert world.group.expired_offsets(NOW_MS, KEEP_MS) == ([P0, U0] if is_over else [])
    assert world.group.may_lose_offsets


def test_a_group_keeps_what_it_reads_and_forgets_what_it_has_read() -> None:
    world, _ = world_in(STABLE)
    grown(world, t=at(1, 0), u=at(1, 0))
    assert world.group.expired_offsets(NOW_MS, KEEP_MS) == [U0]


@pytest.mark.parametrize("state", [PREPARING, COMPLETING])
def test_nothing_expires_while_a_group_rebalances(state: object) -> None:
    world, _ = world_in(state)  # type: ignore[arg-type]
    grown(world, u=at(1, 0))
    assert world.group.expired_offsets(NOW_MS, KEEP_MS) == []


def test_an_old_clients_own_time_to_expire_counts() -> None:
    world = grown(World(), t=at(1, 0, expires_ms=NOW_MS + 1), u=at(1, NOW_MS, expires_ms=NOW_MS))
    assert world.group.expired_offsets(NOW_MS, KEEP_MS) == [U0]


def test_what_is_pending_does_not_expire() -> None:
    world = grown(World(), t=at(1, 0))
    world.group.offsets.begin({P0: at(2)})
    assert world.group.expired_offsets(NOW_MS, KEEP_MS) == []

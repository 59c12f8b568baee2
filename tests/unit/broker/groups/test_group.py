"""Members, rebalances and deadlines of one group, beyond the tables of states."""

import pytest

from broker.groups import joins
from broker.groups.group_effects import JoinedMember, StoreReason
from broker.groups.members import Member
from broker.groups.state import COMPLETING, DEAD, EMPTY, PREPARING, STABLE
from kafkawire.errors import ErrorCode
from tests.unit.broker.groups.group_driver import (
    DELAY_MS,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    World,
    world_in,
)

BOTH = (("sticky", b"s"), ("range", b"r"))
BAD_SUBSCRIPTION = (("range", b"\0"),)


# The first rebalance


def test_first_members_share_one_generation() -> None:
    world = World()
    first = world.join()
    world.pass_time(DELAY_MS - 1)
    second = world.join(protocols=BOTH)
    assert (first, second) == ([], [])
    world.pass_time(DELAY_MS * 2)
    [lead], [follow] = first, second
    assert lead.generation_id == follow.generation_id == 1
    assert lead.leader_id == follow.leader_id == lead.member_id
    assert (lead.protocol_type, lead.protocol_name) == ("consumer", "range")
    assert lead.members == (
        JoinedMember(lead.member_id, None, RANGE[0][1]),
        JoinedMember(follow.member_id, None, b"r"),
    )
    assert follow.members == ()


def test_newcomer_prolongs_the_first_wait_up_to_the_rebalance_timeout() -> None:
    world = World()
    first = world.join(rebalance_ms=2 * DELAY_MS + 500)
    for _ in range(4):
        world.pass_time(DELAY_MS // 2)
        world.join(rebalance_ms=1)
    assert first == []
    world.pass_time(600)
    assert len(first) == 1
    assert world.now_ms - 1_000 == 2 * DELAY_MS + 600


def test_first_join_without_delay_completes_at_once() -> None:
    world = World(delay_ms=0)
    results = world.join()
    world.pass_time(0)
    assert results[0].error is ErrorCode.NONE


def test_member_joins_with_its_assigned_id() -> None:
    world = World()
    [given] = world.join(requires_known_id=True)
    assert given.error is ErrorCode.MEMBER_ID_REQUIRED
    world.join()
    world.pass_time(DELAY_MS * 2)
    assert world.group.state is COMPLETING
    results = world.join(given.member_id)
    world.join(next(iter(world.group.members)).member_id)
    assert results[0].generation_id == 2
    assert results[0].member_id == given.member_id


def test_rebalance_waits_for_members_with_a_pending_id() -> None:
    world = World()
    [member_id] = world.stabilize(None)
    [given] = world.join(requires_known_id=True)
    rejoined = world.join(member_id)
    assert rejoined == []
    assert world.leave(given.member_id) is ErrorCode.NONE
    assert rejoined[0].generation_id == 2


def test_pending_id_expires_after_a_session_timeout() -> None:
    world = World()
    [member_id] = world.stabilize(None)
    [given] = world.join(requires_known_id=True)
    rejoined = world.join(member_id)
    world.pass_time(SESSION_MS)
    assert rejoined[0].generation_id == 2
    assert world.join(given.member_id)[0].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_pending_id_is_refused_for_a_static_member() -> None:
    world = World()
    [given] = world.join(requires_known_id=True)
    assert world.join(given.member_id, "static")[0].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_new_member_is_removed_after_the_limit_for_its_first_join() -> None:
    world = World()
    [leader] = world.stabilize("static")
    newcomer = world.join(rebalance_ms=600_000)
    for _ in range(30):
        world.pass_time(SESSION_MS - 1)
        world.heartbeat(leader, instance_id="static")
    world.pass_time(SESSION_MS)
    assert newcomer[0].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert newcomer[0].member_id == ""


def test_heartbeat_of_a_new_member_does_not_shorten_its_limit() -> None:
    world = World()
    [leader] = world.stabilize(None)
    newcomer = world.join()
    new_id = next(iter(world.group.members.joining))
    assert world.heartbeat(new_id) is ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(4):
        world.pass_time(SESSION_MS // 2)
        world.heartbeat(leader)
    world.join(leader)
    assert newcomer[0].error is ErrorCode.NONE


# Later rebalances


def test_members_that_do_not_join_again_are_removed() -> None:
    world = World()
    stays, goes = world.stabilize(None, None)
    results = world.join(stays)
    for _ in range(REBALANCE_MS // 5_000):
        world.pass_time(5_000)
        world.heartbeat(goes)
    assert results[0].generation_id == 2
    assert [member.member_id for member in world.group.members] == [stays]
    assert world.heartbeat(goes) is ErrorCode.UNKNOWN_MEMBER_ID


def test_absent_leader_is_replaced_by_a_member_that_has_joined() -> None:
    world = World()
    leader, follower = world.stabilize("one", "two")
    results = world.join(follower, "two", protocols=(*RANGE, ("new", b"")))
    for _ in range(REBALANCE_MS // 5_000):
        world.pass_time(5_000)
        world.heartbeat(leader, instance_id="one")
    assert results[0].leader_id == follower
    assert leader in world.group.members, "a static member stays in the group"


def test_rebalance_without_joins_lasts_until_static_sessions_expire() -> None:
    world = World()
    world.join("", "static", rebalance_ms=1_000)
    world.pass_time(DELAY_MS)
    [member] = world.group.members
    world.sync(member.member_id, {}, instance_id="static")
    newcomer = world.join(rebalance_ms=1_000)
    world.leave(next(iter(world.group.members.joining)))
    assert newcomer[0].error is ErrorCode.UNKNOWN_MEMBER_ID
    world.pass_time(5_000)
    assert world.group.state is PREPARING
    world.pass_time(SESSION_MS)
    assert world.group.state is EMPTY


def test_group_of_absent_static_members_waits_without_a_busy_loop() -> None:
    world = World()
    world.join("", "static", rebalance_ms=1)
    world.pass_time(DELAY_MS)
    [member] = world.group.members
    world.sync(member.member_id, {}, instance_id="static")
    world.join(rebalance_ms=1)
    world.leave(next(iter(world.group.members.joining)))
    world.pass_time(1)
    assert world.group.state is PREPARING
    assert world.group.deadlines.next_ms == world.now_ms + 1_000
    returned = world.join(member.member_id, "static", rebalance_ms=1)
    assert [each.generation_id for each in returned] == [2], "a member that returns does not wait"


def test_late_call_handles_expired_deadlines_in_order() -> None:
    world = World()
    for instance_id in (None, None, "static"):
        world.join("", instance_id, rebalance_ms=2_000)
    world.pass_time(DELAY_MS)
    joined, silent, static = world.group.members
    for each in world.group.members:
        world.sync(each.member_id, {}, instance_id=each.instance_id)
    assert world.group.members.leader_id == joined.member_id
    results = world.join(joined.member_id, protocols=(*RANGE, ("new", b"")), rebalance_ms=2_000)
    # The rebalance timeout expires before both sessions. It removes one member. The other one stays
    # in the group, and its session starts over with the new generation.
    world.now_ms += SESSION_MS * 2
    world.group.on_time(world.now_ms)
    world.settle()
    assert results[0].generation_id == 2
    assert silent.member_id not in world.group.members
    assert static.member_id in world.group.members


def test_follower_that_lost_its_response_joins_the_same_generation() -> None:
    world = World()
    leader, follower = world.stabilize(None, None)
    [again] = world.join(follower)
    assert (again.generation_id, again.leader_id, again.members) == (1, leader, ())
    assert world.group.state is STABLE


def test_repeated_join_gets_a_response_each_time() -> None:
    world = World()
    first, _ = world.stabilize(None, None)
    lost = world.join(first, protocols=(*RANGE, ("new", b"")))
    waits = world.join(first, protocols=(*RANGE, ("new", b"")))
    assert lost[0].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert waits == []


def test_group_size_is_limited() -> None:
    world = World(max_size=2)
    ids = world.stabilize(None, None)
    [refused] = world.join()
    assert (refused.error, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    world.join(ids[0])
    assert world.group.state is PREPARING
    third = world.join()
    [last] = world.join(ids[1])
    assert last.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.pass_time(0)
    assert third[0].error is ErrorCode.NONE


def test_oldest_pending_id_is_dropped_at_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joins, "MAX_PENDING_MEMBERS", 2)
    world = World()
    given = [world.join(requires_known_id=True)[0].member_id for _ in range(3)]
    assert list(world.group.members.pending) == given[1:]
    [result] = world.join(given[0])
    assert result.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.join(given[1]) == [], "the join waits for the generation"
    world.pass_time(SESSION_MS)
    assert not world.group.members.pending


# Protocols


def test_common_protocol_with_the_most_votes_wins() -> None:
    world = World()
    world.join(protocols=(("a", b""), ("b", b""), ("c", b"")))
    world.join(protocols=(("b", b""), ("a", b""), ("d", b"")))
    results = world.join(protocols=(("d", b""), ("b", b""), ("a", b"")))
    world.pass_time(DELAY_MS * 3)
    assert results[0].protocol_name == "b"


def test_protocol_listed_twice_counts_once() -> None:
    world = World()
    world.join(protocols=(("x", b""), ("x", b""), ("a", b"")))
    results = world.join(protocols=(("a", b""),))
    world.pass_time(DELAY_MS * 2)
    assert results[0].protocol_name == "a"


def test_protocols_that_no_member_supports_any_longer_are_forgotten() -> None:
    """Otherwise a member with other names in each join would fill the memory of the broker."""
    world = World()
    [first] = world.stabilize(None)
    for index in range(3):
        joins = world.join(protocols=(*RANGE, (f"brief-{index}", b"")))
        world.join(first, protocols=(*RANGE, (f"own-{index}", b"")))
        world.leave(joins[0].member_id)
    assert set(world.group.members._support) == {"range", "own-2"}


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("connect", RANGE), ("consumer", (("other", b""),)), ("consumer", ())],
)
def test_member_without_a_common_protocol_is_refused(
    protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    world = World()
    world.stabilize(None)
    [refused] = world.join(protocol_type=protocol_type, protocols=protocols)
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert World().join(protocol_type="")[0].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name"), [("connect", "range"), ("consumer", "sticky")]
)
def test_sync_for_another_protocol_is_refused(protocol_type: str, protocol_name: str) -> None:
    world = World()
    [member_id] = world.begin_generation(None)
    [refused] = world.sync(member_id, protocol_type=protocol_type, protocol_name=protocol_name)
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    [result] = world.sync(member_id, protocol_type="consumer", protocol_name="range")
    assert (result.protocol_type, result.protocol_name) == ("consumer", "range")


def test_readable_subscription_is_known() -> None:
    world, member_id = world_in(STABLE)
    assert world.group.rebalance.topics == {"t"}
    assert world.group.is_subscribed_to("t")
    assert not world.group.is_subscribed_to("u")
    world.leave(member_id)
    assert world.group.rebalance.topics == frozenset()
    assert not world.group.is_subscribed_to("t")


def test_unreadable_subscription_counts_for_every_topic() -> None:
    world = World()
    world.join(protocols=BAD_SUBSCRIPTION)
    world.pass_time(DELAY_MS)
    assert world.group.rebalance.topics is None
    assert world.group.is_subscribed_to("u")


def test_subscription_of_another_protocol_type_is_unknown() -> None:
    world = World()
    world.join(protocol_type="connect")
    world.pass_time(DELAY_MS)
    assert world.group.rebalance.topics is None
    assert not world.group.may_lose_offsets


# Syncing


def test_every_follower_gets_an_assignment_after_the_leader_sent_it() -> None:
    world = World()
    world.stores_at_once = False
    leader, follower, forgotten = world.begin_generation(None, None, None)
    waiting = [world.sync(follower), world.sync(forgotten)]
    assert waiting == [[], []]
    led = world.sync(leader, {leader: b"L", follower: b"F", "stranger": b"S"})
    assert (led, waiting) == ([], [[], []]), "the syncs wait until the assignment is stored"
    assert world.unstored[0].assignments == {leader: b"L", follower: b"F", forgotten: b""}
    world.finish_store()
    assert [result.assignment for [result] in [led, *waiting]] == [b"L", b"F", b""]


def test_repeated_sync_of_the_leader_stores_one_assignment() -> None:
    world = World()
    world.stores_at_once = False
    [leader] = world.begin_generation(None)
    lost = world.sync(leader, {leader: b"1"})
    results = world.sync(leader, {leader: b"2"})
    assert lost[0].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert len(world.unstored) == 1
    world.finish_store()
    assert results[0].assignment == b"1"


def test_failed_store_of_an_assignment_causes_a_rebalance() -> None:
    world = World()
    world.stores_at_once = False
    leader, follower = world.begin_generation(None, None)
    results = [world.sync(follower), world.sync(leader, {leader: b"1"})]
    world.finish_store(ErrorCode.NOT_COORDINATOR)
    assert {result.error for [result] in results} == {ErrorCode.NOT_COORDINATOR}
    assert world.group.state is PREPARING


def test_assignment_of_an_earlier_generation_is_dropped() -> None:
    world = World()
    world.stores_at_once = False
    [leader] = world.begin_generation(None)
    results = world.sync(leader, {leader: b"1"})
    world.join()
    assert results[0].error is ErrorCode.REBALANCE_IN_PROGRESS
    world.join(leader)
    world.finish_store()
    assert world.group.state is COMPLETING
    assert world.group.members[leader].assignment == b""


def test_member_that_never_syncs_is_removed() -> None:
    world = World()
    leader, silent = world.begin_generation(None, None)
    world.sync(leader, {leader: b"1"})
    for _ in range(REBALANCE_MS // 5_000):
        world.pass_time(5_000)
        world.heartbeat(leader)
        world.heartbeat(silent)
    assert world.group.state is PREPARING
    assert [member.member_id for member in world.group.members] == [leader]


def test_group_without_any_sync_becomes_empty() -> None:
    world = World()
    [member_id] = world.begin_generation(None)
    for _ in range(REBALANCE_MS // 5_000):
        world.pass_time(5_000)
        world.heartbeat(member_id)
    assert world.group.state is EMPTY
    assert world.stored[-1].reason is StoreReason.EMPTIED


def test_late_call_rebalances_once_though_sessions_and_syncs_have_expired() -> None:
    world = World()
    _leader, _silent, waiting = world.begin_generation(None, None, None)
    results = world.sync(waiting)
    # As after a pause of the process: the sessions of the other two expired first.
    world.now_ms += REBALANCE_MS
    world.group.on_time(world.now_ms)
    world.settle()
    assert results[0].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.group.state is PREPARING
    assert [member.member_id for member in world.group.members] == [waiting]


def test_late_call_leaves_a_group_empty_whose_sessions_have_expired() -> None:
    world = World()
    world.begin_generation(None)
    world.now_ms += REBALANCE_MS
    world.group.on_time(world.now_ms)
    world.settle()
    assert (world.group.state, world.group.generation_id) == (EMPTY, 2)
    assert world.group.deadlines.next_ms is None


def test_member_with_a_waiting_sync_needs_no_heartbeat() -> None:
    world = World()
    leader, follower = world.begin_generation(None, None)
    results = world.sync(follower)
    for _ in range(3):
        world.pass_time(SESSION_MS - 1)
        world.heartbeat(leader)
    world.sync(leader, {})
    assert results[0].error is ErrorCode.NONE
    world.pass_time(SESSION_MS - 1)
    assert world.heartbeat(follower) is ErrorCode.NONE


def test_waiting_sync_of_a_leaving_member_fails() -> None:
    world = World()
    leader, follower = world.begin_generation(None, None)
    results = world.sync(follower)
    world.leave(follower)
    assert results[0].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.group.state is PREPARING
    assert leader in world.group.members


def test_unload_fails_every_waiting_request() -> None:
    world = World()
    _, follower = world.begin_generation(None, None)
    sync = world.sync(follower)
    world.unload()
    assert sync[0].error is ErrorCode.NOT_COORDINATOR
    world = World()
    join = world.join()
    world.unload()
    assert join[0].error is ErrorCode.NOT_COORDINATOR
    assert (world.group.state, world.group.deadlines.next_ms) == (DEAD, None)


# Static members (KIP-345)


def test_returning_static_member_replaces_itself_without_a_rebalance() -> None:
    world = World()
    leader, old = world.stabilize("one", "two")
    [back] = world.join("", "two")
    assert (back.error, back.generation_id, back.leader_id) == (ErrorCode.NONE, 1, leader)
    assert back.member_id != old
    assert world.sync(back.member_id, instance_id="two")[0].assignment == old.encode()
    assert world.stored[-1].assignments == {leader: leader.encode(), back.member_id: old.encode()}
    assert world.heartbeat(old, instance_id="two") is ErrorCode.FENCED_INSTANCE_ID
    assert world.commit(old, instance_id="two") is ErrorCode.FENCED_INSTANCE_ID
    assert world.leave(old, "two") is ErrorCode.FENCED_INSTANCE_ID
    assert world.sync(old, instance_id="two")[0].error is ErrorCode.FENCED_INSTANCE_ID
    assert world.join(old, "two")[0].error is ErrorCode.FENCED_INSTANCE_ID


def test_static_member_that_dies_after_a_slow_return_leaves_the_group() -> None:
    world = World()
    leader, _ = world.stabilize("one", "two")
    world.stores_at_once = False
    back = world.join("", "two")
    for _ in range(2):
        # Only the leader is alive, and the record is stored after more than a session timeout.
        world.pass_time(SESSION_MS * 3 // 4)
        world.heartbeat(leader, instance_id="one")
    world.finish_store()
    [joined] = back
    assert joined.error is ErrorCode.NONE
    world.pass_time(SESSION_MS * 3 // 4)
    world.heartbeat(leader, instance_id="one")
    assert joined.member_id in world.group.members
    world.pass_time(SESSION_MS * 3 // 4)
    assert joined.member_id not in world.group.members


@pytest.mark.parametrize("can_skip", [True, False])
def test_returning_static_leader_does_not_send_an_assignment(can_skip: bool) -> None:
    world = World()
    old, _ = world.stabilize("one", "two")
    [back] = world.join("", "one", can_skip_assignment=can_skip)
    assert back.skip_assignment is can_skip
    assert back.leader_id == (back.member_id if can_skip else old)
    assert len(back.members) == (2 if can_skip else 0)


def test_returning_static_follower_learns_the_leader() -> None:
    world = World()
    leader, _ = world.stabilize("one", "two")
    [back] = world.join("", "two", can_skip_assignment=True)
    assert (back.skip_assignment, back.leader_id, back.members) == (False, leader, ())


def test_returning_static_member_with_another_protocol_causes_a_rebalance() -> None:
    world = World()
    world.join("", "one", protocols=BOTH)
    world.pass_time(DELAY_MS)
    member_id = next(iter(world.group.members)).member_id
    world.sync(member_id, {})
    back = world.join("", "one", protocols=(("range", b""),))
    assert (back[0].generation_id, back[0].protocol_name) == (2, "range")


def test_static_member_that_returns_during_a_rebalance_joins_it() -> None:
    world = World()
    _, old = world.begin_generation("one", "two")
    waiting = world.sync(old, instance_id="two")
    back = world.join("", "two")
    assert waiting[0].error is ErrorCode.FENCED_INSTANCE_ID
    assert (back, world.group.state) == ([], PREPARING)
    again = world.join("", "two")
    assert back[0].error is ErrorCode.FENCED_INSTANCE_ID
    assert again == []


def test_static_member_keeps_its_old_id_after_a_failed_store() -> None:
    world = World()
    [old] = world.stabilize("one")
    world.stores_at_once = False
    back = world.join("", "one", session_ms=SESSION_MS * 2)
    assert back == []
    world.finish_store(ErrorCode.NOT_COORDINATOR)
    assert (back[0].error, back[0].member_id) == (ErrorCode.NOT_COORDINATOR, "")
    member = world.group.members[old]
    assert (member.session_timeout_ms, member.protocols) == (SESSION_MS, RANGE)
    assert world.heartbeat(old, instance_id="one") is ErrorCode.NONE


def test_static_member_that_returns_twice_gets_the_result_of_the_second_store() -> None:
    world = World()
    world.stabilize("one")
    world.stores_at_once = False
    first, second = world.join("", "one"), world.join("", "one")
    assert first[0].error is ErrorCode.FENCED_INSTANCE_ID
    world.finish_store(ErrorCode.NOT_COORDINATOR)
    assert second == []
    world.finish_store()
    assert second[0].error is ErrorCode.NONE


def test_rebalance_overtakes_the_store_of_a_static_member() -> None:
    world = World()
    world.stabilize("one")
    world.stores_at_once = False
    back = world.join("", "one")
    newcomer = world.join()
    assert back[0].generation_id == newcomer[0].generation_id == 2
    world.finish_store()
    assert len(back) == 1


def test_static_member_leaves_by_its_instance_id() -> None:
    world = World()
    world.stabilize("one")
    assert world.leave("", "two") is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.leave("", None) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.leave("", "one") is ErrorCode.NONE
    assert world.group.state is EMPTY


def test_unknown_instance_id_is_refused() -> None:
    world = World()
    [member_id] = world.stabilize(None)
    assert world.heartbeat(member_id, instance_id="nobody") is ErrorCode.UNKNOWN_MEMBER_ID


# Restored from the log


def restored(*member_ids: str, max_size: int = 100, leader_id: str | None = None) -> World:
    world = World(max_size=max_size)
    members = [
        Member(
            member_id=member_id,
            instance_id=None,
            client_id="c",
            client_host="/h",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocols=RANGE,
            assignment=member_id.encode(),
        )
        for member_id in member_ids
    ]
    world.group.restore(
        members,
        generation_id=7,
        protocol_type="consumer",
        protocol_name="range",
        leader_id=leader_id,
        state_timestamp_ms=5,
        now_ms=world.now_ms,
    )
    return world


def test_restored_group_continues_its_generation() -> None:
    world = restored("a", "b", leader_id="b")
    assert world.group.state is STABLE
    assert world.heartbeat("a", 7) is ErrorCode.NONE
    assert world.sync("b", generation_id=7)[0].assignment == b"b"
    assert world.group.members.leader_id == "b"
    world.pass_time(SESSION_MS)
    assert world.group.state is EMPTY


def test_restored_group_without_members_is_empty() -> None:
    world = restored(leader_id="gone")
    assert (world.group.state, world.group.generation_id) == (EMPTY, 7)
    assert world.group.state_timestamp_ms == 5
    assert world.group.members.leader_id is None


def test_restored_group_above_the_size_limit_rebalances() -> None:
    assert restored("a", "b", max_size=1).group.state is PREPARING

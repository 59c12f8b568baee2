"""Every pair of state and event: the response to the event and the next state of the group.

"waits" means that a join or sync has no response yet. The member is a dynamic, valid one; in EMPTY
and DEAD it is the last member that the group had.
"""

import itertools
from collections.abc import Callable

import pytest

from broker.groups.group_effects import NO_GENERATION, UNKNOWN_MEMBER
from broker.groups.state import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREDECESSORS,
    PREPARING,
    STABLE,
    GroupState,
    InvalidTransitionError,
)
from kafkawire.errors import ErrorCode
from tests.unit.broker.groups.group_driver import (
    DELAY_MS,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    World,
    world_in,
)

WAITS = "waits"
NONE = ErrorCode.NONE.name
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID.name
REBALANCING = ErrorCode.REBALANCE_IN_PROGRESS.name
UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE.name
ILLEGAL = ErrorCode.ILLEGAL_GENERATION.name
NOT_EMPTY = ErrorCode.NON_EMPTY_GROUP.name
STATES = (EMPTY, PREPARING, COMPLETING, STABLE, DEAD)

Event = Callable[[World, str], str]


def outcome(answers: list[object]) -> str:
    return answers[-1].error.name if answers else WAITS  # type: ignore[attr-defined]


def silence(world: World, member_id: str) -> str:
    del member_id
    world.pass_time(SESSION_MS)
    return ""


def long_silence(world: World, member_id: str) -> str:
    del member_id
    world.pass_time(REBALANCE_MS + SESSION_MS + DELAY_MS)
    return ""


EVENTS: dict[str, Event] = {
    "a new member joins": lambda w, _: outcome([*w.join()]),
    "a new member asks for an id": lambda w, _: outcome([*w.join(requires_known_id=True)]),
    "the member joins again": lambda w, m: outcome([*w.join(m)]),
    "the member joins with new metadata": lambda w, m: outcome(
        [*w.join(m, protocols=(*RANGE, ("sticky", b"")))]
    ),
    "the member joins without a protocol": lambda w, m: outcome([*w.join(m, protocols=())]),
    "the member syncs": lambda w, m: outcome([*w.sync(m, {m: b"1"})]),
    "the member syncs an old generation": lambda w, m: outcome([*w.sync(m, generation_id=99)]),
    "a heartbeat": lambda w, m: w.heartbeat(m).name,
    "a heartbeat of an old generation": lambda w, m: w.heartbeat(m, 99).name,
    "a heartbeat of a stranger": lambda w, _: w.heartbeat("stranger").name,
    "the member leaves": lambda w, m: w.leave(m).name,
    "a stranger leaves": lambda w, _: w.leave("stranger").name,
    "the member commits": lambda w, m: w.commit(m).name,
    "the member commits in an old generation": lambda w, m: w.commit(m, 99).name,
    "an outsider commits": lambda w, _: w.commit(UNKNOWN_MEMBER, NO_GENERATION).name,
    "an administrator deletes the group": lambda w, _: w.group.delete().name,
    "silence for a session": silence,
    "silence for a rebalance and more": long_silence,
}

# Response and next state, with one column per state of STATES.
TABLE: dict[str, tuple[tuple[str, GroupState], ...]] = {
    "a new member joins": (
        (WAITS, PREPARING), (WAITS, PREPARING), (WAITS, PREPARING), (WAITS, PREPARING),
        (UNAVAILABLE, DEAD),
    ),
    "a new member asks for an id": (
        ("MEMBER_ID_REQUIRED", EMPTY), ("MEMBER_ID_REQUIRED", PREPARING),
        ("MEMBER_ID_REQUIRED", COMPLETING), ("MEMBER_ID_REQUIRED", STABLE), (UNAVAILABLE, DEAD),
    ),
    # In PREPARING the group waited only for this member. In STABLE the member leads the group, so
    # its join begins a rebalance.
    "the member joins again": (
        (UNKNOWN, EMPTY), (NONE, COMPLETING), (NONE, COMPLETING), (NONE, COMPLETING),
        (UNAVAILABLE, DEAD),
    ),
    "the member joins with new metadata": (
        (UNKNOWN, EMPTY), (NONE, COMPLETING), (NONE, COMPLETING), (NONE, COMPLETING),
        (UNAVAILABLE, DEAD),
    ),
    "the member joins without a protocol": (
        ("INCONSISTENT_GROUP_PROTOCOL", EMPTY), ("INCONSISTENT_GROUP_PROTOCOL", PREPARING),
        ("INCONSISTENT_GROUP_PROTOCOL", COMPLETING), ("INCONSISTENT_GROUP_PROTOCOL", STABLE),
        (UNAVAILABLE, DEAD),
    ),
    "the member syncs": (
        (UNKNOWN, EMPTY), (REBALANCING, PREPARING), (NONE, STABLE), (NONE, STABLE),
        (UNAVAILABLE, DEAD),
    ),
    "the member syncs an old generation": (
        (UNKNOWN, EMPTY), (ILLEGAL, PREPARING), (ILLEGAL, COMPLETING), (ILLEGAL, STABLE),
        (UNAVAILABLE, DEAD),
    ),
    "a heartbeat": (
        (UNKNOWN, EMPTY), (REBALANCING, PREPARING), (NONE, COMPLETING), (NONE, STABLE),
        (UNAVAILABLE, DEAD),
    ),
    "a heartbeat of an old generation": (
        (UNKNOWN, EMPTY), (ILLEGAL, PREPARING), (ILLEGAL, COMPLETING), (ILLEGAL, STABLE),
        (UNAVAILABLE, DEAD),
    ),
    "a heartbeat of a stranger": (
        (UNKNOWN, EMPTY), (UNKNOWN, PREPARING), (UNKNOWN, COMPLETING), (UNKNOWN, STABLE),
        (UNAVAILABLE, DEAD),
    ),
    # In PREPARING the member that has joined need not wait any longer.
    "the member leaves": (
        (UNKNOWN, EMPTY), (NONE, COMPLETING), (NONE, EMPTY), (NONE, EMPTY), (UNAVAILABLE, DEAD),
    ),
    "a stranger leaves": (
        (UNKNOWN, EMPTY), (UNKNOWN, PREPARING), (UNKNOWN, COMPLETING), (UNKNOWN, STABLE),
        (UNAVAILABLE, DEAD),
    ),
    "the member commits": (
        (UNKNOWN, EMPTY), (NONE, PREPARING), (REBALANCING, COMPLETING), (NONE, STABLE),
        (UNAVAILABLE, DEAD),
    ),
    "the member commits in an old generation": (
        (UNKNOWN, EMPTY), (ILLEGAL, PREPARING), (ILLEGAL, COMPLETING), (ILLEGAL, STABLE),
        (UNAVAILABLE, DEAD),
    ),
    "an outsider commits": (
        (NONE, EMPTY), (UNKNOWN, PREPARING), (UNKNOWN, COMPLETING), (UNKNOWN, STABLE),
        (UNAVAILABLE, DEAD),
    ),
    "an administrator deletes the group": (
        (NONE, DEAD), (NOT_EMPTY, PREPARING), (NOT_EMPTY, COMPLETING), (NOT_EMPTY, STABLE),
        ("GROUP_ID_NOT_FOUND", DEAD),
    ),
    "silence for a session": (
        ("", EMPTY), ("", COMPLETING), ("", EMPTY), ("", EMPTY), ("", DEAD),
    ),
    "silence for a rebalance and more": (
        ("", EMPTY), ("", EMPTY), ("", EMPTY), ("", EMPTY), ("", DEAD),
    ),
}  # fmt: skip


def test_the_table_has_every_event_and_every_state() -> None:
    assert TABLE.keys() == EVENTS.keys()
    assert {len(row) for row in TABLE.values()} == {len(GroupState)} == {len(STATES)}


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.value)
@pytest.mark.parametrize("event", EVENTS)
def test_every_event_in_every_state(event: str, state: GroupState) -> None:
    world, member_id = world_in(state)
    response = EVENTS[event](world, member_id)
    assert (response, world.group.state) == TABLE[event][STATES.index(state)]


@pytest.mark.parametrize(("source", "target"), list(itertools.product(GroupState, repeat=2)))
def test_every_pair_of_states_is_allowed_or_refused(source: GroupState, target: GroupState) -> None:
    rebalance = World().group.rebalance
    rebalance.state = source
    if source in PREDECESSORS[target]:
        rebalance.move_to(target)
        assert rebalance.state is target
    else:
        with pytest.raises(InvalidTransitionError, match=f"{source.value} -> {target.value}"):
            rebalance.move_to(target)


@pytest.mark.parametrize(
    ("state", "member", "code"),
    [
        pytest.param(EMPTY, ("", None, -1), NONE, id="an old producer, no members"),
        pytest.param(EMPTY, ("gone", None, -1), NONE, id="a member of before"),
        pytest.param(STABLE, ("", None, -1), NONE, id="an old producer"),
        pytest.param(STABLE, ("it", None, 1), NONE, id="the member"),
        pytest.param(COMPLETING, ("it", None, 1), NONE, id="the member, not synced"),
        pytest.param(STABLE, ("it", None, 0), ILLEGAL, id="a generation of before"),
        pytest.param(STABLE, ("gone", None, 1), UNKNOWN, id="another member"),
        pytest.param(STABLE, ("gone", "static", 1), "FENCED_INSTANCE_ID", id="a replaced member"),
        pytest.param(DEAD, ("", None, -1), UNAVAILABLE, id="no group"),
    ],
)
def test_commit_in_a_transaction_names_a_current_member_or_none(
    state: GroupState, member: tuple[str, str | None, int], code: str
) -> None:
    """A zombie that was replaced in a rebalance must not commit (KIP-447)."""
    world, member_id = world_in(state, "static")
    named, instance_id, generation_id = member
    due_ms = world.group.deadlines.next_ms
    found = world.group.check_transactional_commit(
        member_id if named == "it" else named, instance_id, generation_id
    )
    assert found.name == code
    assert world.group.deadlines.next_ms == due_ms, "it is no heartbeat"

"""States of a connection and reasons not to read it, in all combinations."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from itertools import product

import pytest
from structlog.testing import capture_logs

from broker.network.connection_state import (
    MAX_KEPT_S,
    MAX_STALL_S,
    MIN_PROGRESS_BYTES,
    PREDECESSORS,
    WAITS_FOR_BROKER,
    ConnectionState,
    Pause,
    Progress,
    reason_to_pause,
)
from broker.network.reply import Reply
from tests.unit.broker.network_fakes import Client, World, request_frame

NEW, OPEN, MUTED, DRAINING, DROPPED, CLOSED = ConnectionState
MUTED_S = 2.0


def test_every_reason_to_pause_follows_from_the_state_and_the_facts() -> None:
    both = (False, True)
    for (state, room), facts in product(
        product(ConnectionState, (0, 1, 7)), product(both, both, both, both, both)
    ):
        needs_memory, is_early, is_blocked, is_channel_full, is_client_slow = facts
        reason = reason_to_pause(
            state,
            room,
            needs_memory=needs_memory,
            is_early=is_early,
            is_blocked=is_blocked,
            is_channel_full=is_channel_full,
            is_client_slow=is_client_slow,
        )
        # In order of precedence.
        applies = {
            Pause.MUTED: state is MUTED,
            Pause.ENDING: state is not OPEN,
            Pause.LONG_REQUEST: is_blocked,
            Pause.CLIENT: is_client_slow,
            Pause.MEMORY: needs_memory,
            Pause.OPENING: is_early,
            Pause.CHANNEL: not room and is_channel_full,
            Pause.IN_FLIGHT: not room,
        }
        assert reason is next((each for each in applies if applies[each]), None)
        is_up_to_client = is_blocked or is_client_slow
        is_up_to_broker = needs_memory or is_early or (not room and is_channel_full)
        waits = state is OPEN and is_up_to_broker and not is_up_to_client
        assert (reason in WAITS_FOR_BROKER) == waits


def test_a_state_is_entered_from_earlier_states_only_except_after_a_mute() -> None:
    order = list(ConnectionState)
    moves = {(source, target) for target in PREDECESSORS for source in PREDECESSORS[target]}
    backwards = {move for move in moves if order.index(move[0]) >= order.index(move[1])}
    assert backwards == {(MUTED, OPEN)}
    assert PREDECESSORS.keys() == set(ConnectionState)


# All events in all states.


def lose(client: Client) -> None:
    client.processor.connection_lost(None)


def drop(client: Client) -> None:
    client.processor.drop("test")


def send_garbage(client: Client) -> None:
    client.send(struct.pack(">i", -1))


EVENTS: Mapping[str, Callable[[Client], None]] = {
    "mute": lambda client: client.processor.mute(MUTED_S),
    "finish": lambda client: client.processor.finish(),
    "abort": lambda client: client.processor.abort(),
    "drop": drop,
    "garbage": send_garbage,
    "lost": lose,
}
AFTER: Mapping[ConnectionState, Mapping[str, ConnectionState]] = {
    OPEN: {
        "mute": MUTED,
        "finish": DRAINING,
        "abort": DRAINING,
        "drop": DROPPED,
        "garbage": DROPPED,
        "lost": CLOSED,
    },
    # Garbage is not read.
    MUTED: {"finish": DRAINING, "abort": DRAINING, "drop": DROPPED, "lost": CLOSED},
    DRAINING: {"drop": DROPPED, "lost": CLOSED},
    DROPPED: {"lost": CLOSED},
    CLOSED: {},
}
"""The state after each event; an event without an entry has no effect on the state."""
PATHS: Mapping[ConnectionState, list[str]] = {
    OPEN: [],
    MUTED: ["mute"],
    DRAINING: ["finish"],
    DROPPED: ["garbage"],
    CLOSED: ["lost"],
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", AFTER, ids=lambda state: state.value)
def test_each_event_leads_to_the_state_in_the_table(state: ConnectionState, event: str) -> None:
    reply = Reply()
    world = World(handle=lambda _request: reply)
    client = world.connect()
    client.send(request_frame(1))
    world.loop.run()
    with capture_logs() as logs:
        for step in PATHS[state]:
            EVENTS[step](client)
        assert client.processor._state is state
        EVENTS[event](client)
        after = AFTER[state].get(event, state)
        assert client.processor._state is after
        world.loop.pass_time(MUTED_S)
    is_lost = client.transport.is_closing or after is CLOSED
    final = CLOSED if is_lost else OPEN if after is MUTED else after
    assert client.processor._state is final
    assert is_lost or client.transport.is_reading == (final is OPEN)
    assert reply.cancelled == is_lost
    drops = [each for each in logs if each["event"] == "connection.dropped"]
    assert len(drops) == (DROPPED in (state, after))


# Incomplete requests while memory is short.


def test_progress_is_measured_from_the_first_check_since_memory_is_short() -> None:
    progress = Progress()
    assert progress.check(1, now_s=100.0, since_s=100.0, last_active_s=0.0) is None
    assert progress.check(1, now_s=100.0 + MAX_STALL_S, since_s=100.0, last_active_s=0.0) is None
    assert progress.check(1, now_s=103.0, since_s=100.0, last_active_s=0.0) is not None
    assert progress.check(1, now_s=103.0, since_s=102.0, last_active_s=0.0) is None


def test_a_reset_or_enough_bytes_restart_the_time() -> None:
    for arrived_bytes, is_reset in ((1 + MIN_PROGRESS_BYTES, False), (1, True), (0, True)):
        progress = Progress()
        progress.check(1, now_s=1.0, since_s=1.0, last_active_s=0.0)
        if is_reset:
            progress.reset()
        assert progress.check(arrived_bytes, 9.0, since_s=1.0, last_active_s=0.0) is None


def test_a_small_request_has_a_longer_time_from_the_last_activity() -> None:
    progress = Progress()
    for since_s, last_active_s in ((10.0, 3.0), (3.0, 10.0)):
        late_s = 10.0 + MAX_KEPT_S
        assert progress.check(0, late_s, since_s, last_active_s) is None
        assert progress.check(0, late_s + 1, since_s, last_active_s) is not None

"""Deadlines of a session on the client: ping, drop, suspect, expire."""

import pytest

from coordination.client.session_expiry import Due, SessionExpiry, SessionState

TIMEOUT_MS = 3000
CONNECTED, SUSPENDED = SessionState.CONNECTED, SessionState.SUSPENDED
SUSPECT, CLOSED = SessionState.SUSPECT, SessionState.CLOSED


@pytest.mark.parametrize(
    ("state", "silence_ms", "sent_ms_ago", "due"),
    [
        (CONNECTED, 0, 999, Due.NOTHING),
        (CONNECTED, 0, 1000, Due.PING),
        (CONNECTED, 1999, 1500, Due.PING),
        (CONNECTED, 2000, 1500, Due.DROP),
        (SUSPENDED, 2999, 2999, Due.NOTHING),
        (SUSPENDED, 3000, 3000, Due.SUSPECT),
        (SUSPENDED, 4000, 4000, Due.EXPIRE),
        (SUSPECT, 3999, 3999, Due.NOTHING),
        (SUSPECT, 4000, 4000, Due.EXPIRE),
        (CLOSED, 9999, 9999, Due.NOTHING),
    ],
)
def test_the_due_action_follows_from_state_and_times(
    state: SessionState, silence_ms: int, sent_ms_ago: int, due: Due
) -> None:
    clock = SessionExpiry(TIMEOUT_MS, TIMEOUT_MS, 0)
    clock.received_ms, clock.sent_ms = 10_000 - silence_ms, 10_000 - sent_ms_ago
    assert clock.due(state, 10_000) is due


@pytest.mark.parametrize("state", [CONNECTED, SUSPENDED, SUSPECT])
def test_an_action_is_due_exactly_after_the_wait(state: SessionState) -> None:
    clock = SessionExpiry(TIMEOUT_MS, TIMEOUT_MS, 500)
    wait_ms = clock.wait_ms(state, 500)
    assert clock.due(state, 500 + wait_ms - 1) is Due.NOTHING
    assert clock.due(state, 500 + wait_ms) is not Due.NOTHING


def test_a_session_with_a_raised_timeout_outlives_the_silence_of_one_server() -> None:
    expiry = SessionExpiry(20_000, 6_000, 0)
    due_ms: dict[Due, int] = {}
    state = CONNECTED
    for now_ms in range(0, 30_000, 500):
        due = expiry.due(state, now_ms)
        if due is Due.DROP:
            state = SUSPENDED
        elif due is Due.SUSPECT:
            state = SUSPECT
        due_ms.setdefault(due, now_ms)
    assert due_ms == {
        Due.NOTHING: 0,
        Due.PING: 2_000,
        Due.DROP: 4_000,
        Due.SUSPECT: 6_000,
        Due.EXPIRE: 27_000,
    }

"""The limits of lines that strangers cause: `monitoring.log_limits`."""

import pytest

from monitoring import log_limits
from monitoring.log_limits import (
    LIMITED,
    MAX_LINES,
    MAX_LINES_PER_HOST,
    WINDOW_S,
    LineLimits,
)

EVENT, OTHER, *_ = sorted(LIMITED)


def test_a_host_gets_a_limited_number_of_lines_and_the_last_one_says_so() -> None:
    limits = LineLimits()
    found = [limits.take(EVENT, "a", 1.0) for _ in range(MAX_LINES_PER_HOST + 3)]
    assert found[: MAX_LINES_PER_HOST - 1] == [{}] * (MAX_LINES_PER_HOST - 1)
    assert found[MAX_LINES_PER_HOST - 1 :] == [{"limit_reached": True}, None, None, None]
    assert limits.take(EVENT, "b", 1.0) == {}
    assert limits.take(OTHER, "a", 1.0) == {}


def test_the_first_line_of_the_next_window_counts_the_missing_ones() -> None:
    limits = LineLimits()
    for _ in range(MAX_LINES_PER_HOST + 3):
        limits.take(EVENT, "a", 1.0)
    assert limits.take(EVENT, "a", 0.9 + WINDOW_S) is None
    assert limits.take(EVENT, "a", 1.0 + WINDOW_S) == {"left_out_count": 4}
    assert limits.take(EVENT, "a", 1.0 + WINDOW_S) == {}


def test_all_hosts_together_get_a_limited_number_of_lines() -> None:
    limits = LineLimits()
    found = [limits.take(EVENT, f"host-{number}", 1.0) for number in range(MAX_LINES + 10)]
    assert found.count({}) == MAX_LINES - 1
    assert found[MAX_LINES - 1 :] == [{"limit_reached": True}, *[None] * 10]


def test_lines_stay_counted_while_other_hosts_use_up_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_limits, "MAX_LINES", 1)
    limits = LineLimits()
    # The window of the second host is older than that of all hosts, whose limit is used up.
    assert limits.take(EVENT, "a", 0.0) == {"limit_reached": True}
    assert limits.take(EVENT, "b", 5.0) is None
    assert limits.take(EVENT, "a", WINDOW_S) == {"limit_reached": True}
    assert limits.take(EVENT, "b", 6.0 + WINDOW_S) is None
    assert limits.take(EVENT, "b", 2 * WINDOW_S) == {
        "left_out_count": 2,
        "limit_reached": True,
    }


def test_the_number_of_counted_hosts_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_limits, "MAX_HOSTS", 2)
    limits = LineLimits()
    for host in ("a", "b", "c"):
        limits.take(EVENT, host, 0.0)
    assert list(limits._by_host) == [(EVENT, "b"), (EVENT, "c")]


def test_a_line_is_completed_or_left_out() -> None:
    limits = LineLimits()
    lines = [{"event": EVENT, "client_host": "a"} for _ in range(MAX_LINES_PER_HOST + 1)]
    admitted = [limits.admit(line, 1.0) for line in lines]
    assert admitted == [True] * MAX_LINES_PER_HOST + [False]
    assert lines[-2] == {"event": EVENT, "client_host": "a", "limit_reached": True}
    assert limits.admit({"event": EVENT, "client_host": "b"}, 1.0)


def test_other_events_are_not_limited() -> None:
    limits, line = LineLimits(), {"event": "segment.rolled"}
    assert all(limits.admit(line, 1.0) for _ in range(MAX_LINES + 1))
    assert line == {"event": "segment.rolled"}

"""Events of a supervisor as sentences and as JSON."""

import pytest

from ottla.cli.up.events import (
    Died,
    Event,
    Hung,
    Joinable,
    LeftOut,
    NotRestarted,
    Ready,
    Renewed,
    Secured,
    Started,
    Stopped,
    reason_in,
    to_json,
)


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (Ready(("a:1", "b:2"), "c:3", 0.9), "ready a:1,b:2"),
        (
            Secured("/a b/client", "/a b/admin"),
            "clients need /a b/client, administrators /a b/admin\n"
            "try: ottla topics list --command-config '/a b/client'",
        ),
        (
            Joinable("first:2181", ("/a", "/b"), True),
            "other machines need /a and /b in DIR/security\n"
            "then: ottla up --secure --dir DIR --join first:2181",
        ),
        (
            Joinable("first:2181", ("/a",), False),
            "other machines need /a in DIR\nthen: ottla up --dir DIR --join first:2181",
        ),
        (Renewed("/broker-1.pem", is_authority=False), "renewed /broker-1.pem"),
        (
            Renewed("/ca.pem", is_authority=True),
            "renewed /ca.pem: give it to clients that have a copy",
        ),
        (Died("broker-1", -9, True, 0.5), "broker-1 died (SIGKILL); it restarts in 0.5 s"),
        (Died("broker-1", -40, True, 0.5), "broker-1 died (signal 40); it restarts in 0.5 s"),
        (Died("broker-1", 1, False, None), "broker-1 died (exit code 1); it stays down"),
        (Started("broker-1", 42), "broker-1 restarted (process 42)"),
        (
            NotRestarted("broker-1", "No space left on device", 2.0),
            "broker-1 cannot be restarted: No space left on device; next attempt in 2 s",
        ),
        (Stopped("coordinator", 0), "coordinator stopped"),
        (LeftOut(3), "reports left out while nothing read them: 3"),
        (Stopped("broker-1", -15), "broker-1 stopped"),
        (Stopped("broker-1", -9), "broker-1 died (SIGKILL)"),
    ],
)
def test_event_becomes_a_sentence(event: Event, sentence: str) -> None:
    assert str(event) == sentence


def test_event_names_the_hung_child() -> None:
    assert str(Hung("broker-3")).startswith("broker-3 hangs")


def test_event_becomes_a_json_object() -> None:
    assert to_json(Ready(("a:1",), "c:3", 0.9)) == {
        "event": "ready",
        "brokers": ["a:1"],
        "coordinator": "c:3",
        "seconds": 0.9,
    }
    assert to_json(Died("broker-1", -9, True, None)) == {
        "event": "died",
        "name": "broker-1",
        "exit_code": -9,
        "is_session_closed": True,
        "restart_s": None,
    }


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"event": "broker.not_started", "error": "no disk"}', "no disk"),
        ('{"event": "broker.stopped"}', "broker.stopped"),
        ("broker: num.partitions must be a number", "num.partitions must be a number"),
        ("ottla coordinator: another coordinator runs here", "another coordinator runs here"),
        ("Something else: happened", "Something else: happened"),
        ("[1]", "[1]"),
        ("", ""),
    ],
)
def test_reason_is_taken_from_the_last_log_line(line: str, reason: str) -> None:
    assert reason_in(line) == reason

"""What a supervisor tells people and programs."""

import pytest

from ottla.cli.up.events import Died, Event, Hung, Ready, Started, Stopped, reason_in, to_json


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (Ready(("a:1", "b:2"), "c:3", 0.9), "ready a:1,b:2"),
        (Died("broker-1", -9, True, 0.5), "broker-1 died (SIGKILL); it starts again in 0.5 s"),
        (Died("broker-1", 1, False, None), "broker-1 died (exit code 1); it stays down"),
        (Started("broker-1", 42), "broker-1 runs again (process 42)"),
        (Stopped("coordinator", 0), "coordinator stopped"),
        (Stopped("broker-1", -15), "broker-1 stopped"),
        (Stopped("broker-1", -9), "broker-1 died (SIGKILL)"),
    ],
)
def test_events_are_sentences(event: Event, sentence: str) -> None:
    assert str(event) == sentence


def test_a_hung_child_is_named() -> None:
    assert str(Hung("broker-3")).startswith("broker-3 hangs")


def test_events_are_objects_for_programs() -> None:
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
        ("ottla coordinator: another one runs here", "another one runs here"),
        ("Something else: happened", "Something else: happened"),
        ("[1]", "[1]"),
        ("", ""),
    ],
)
def test_the_last_line_of_a_log_says_why(line: str, reason: str) -> None:
    assert reason_in(line) == reason

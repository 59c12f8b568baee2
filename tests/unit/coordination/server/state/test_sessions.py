"""Deadlines and passwords of sessions: `coordination.server.state.sessions`."""

import json
from pathlib import Path

import pytest

from coordination.server.state import sessions
from coordination.server.state.sessions import (
    Passwords,
    SessionTable,
    first_session_id,
    zookeeper_password,
)
from coordination.server.state.tree import State

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "zookeeper_frames.json").read_text())
SECRET = b"s" * 32


def captured_sessions() -> list[tuple[int, str]]:
    groups = ("frames", "extra_frames", "java_client_frames", "kazoo_frames")
    answers = [item["decoded"] for group in groups for item in GOLDEN[group]]
    return [
        (answer["sessionId"], answer["passwd"]["hex"])
        for answer in answers
        if answer.get("record") == "ConnectResponse" and answer["sessionId"]
    ]


def test_the_compatible_password_is_zookeepers() -> None:
    assert len(captured_sessions()) > 8
    for session_id, password in captured_sessions():
        assert zookeeper_password(session_id).hex() == password


def test_a_keyed_password_proves_its_own_session_only() -> None:
    passwords = Passwords(SECRET, zookeeper_compatible=False)
    password = passwords.issue(7)
    assert passwords.accept(7, password)
    assert not passwords.accept(8, password)
    assert not passwords.accept(7, zookeeper_password(7))
    assert not passwords.accept(7, None)
    assert not Passwords(b"other" * 8, zookeeper_compatible=False).accept(7, password)


def test_the_compatible_kind_accepts_both_passwords() -> None:
    passwords = Passwords(SECRET, zookeeper_compatible=True)
    keyed = Passwords(SECRET, zookeeper_compatible=False).issue(7)
    assert passwords.issue(7) == zookeeper_password(7)
    assert passwords.accept(7, keyed)
    assert passwords.accept(7, zookeeper_password(7))


def test_a_session_ends_one_timeout_after_its_last_packet() -> None:
    table = SessionTable()
    session = table.add(1, 100, 0)
    table.touch(session, 60)
    assert table.expired(159) == []
    assert table.expired(160) == [session]


def test_an_expired_session_is_returned_until_it_is_removed() -> None:
    table = SessionTable()
    session = table.add(1, 100, 0)
    assert table.expired(100) == [session]
    assert table.expired(101) == [session]
    table.remove(1)
    assert table.expired(500) == []


def test_sessions_that_expire_together_are_returned_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "MAX_EXPIRED", 2)
    table = SessionTable()
    expected = [table.add(number, 100, 0) for number in range(3)]
    found = []
    for _ in range(2):
        assert (table.next_check_ms() or 0) <= 101
        turn = table.expired(101)
        found.append(len(turn))
        for session in turn:
            expected.remove(session)
            table.remove(session.session_id)
    assert (found, expected) == ([2, 1], [])


def test_a_stall_extends_all_deadlines() -> None:
    table = SessionTable()
    session = table.add(1, 100, 0)
    table.extend_all(10_000, 10_000)
    assert table.expired(10_099) == []
    assert table.expired(10_100) == [session]


def test_a_server_that_is_late_all_the_time_keeps_no_session_of_a_dead_client() -> None:
    table = SessionTable()
    dead, alive = table.add(1, 1_000, 0), table.add(2, 1_000, 0)
    for now_ms in range(300, 1_500, 300):
        if now_ms == 900:
            table.touch(alive, now_ms)
        table.extend_all(300, now_ms)
    assert dead.deadline_ms == 1_300
    assert alive.deadline_ms == 1_900 + 300
    table.extend_all(500, 1_500)
    assert dead.deadline_ms == 1_500, "the longest time counts"
    assert table.expired(1_500) == [dead]


def test_a_session_whose_packet_was_read_after_a_stall_gets_no_more_than_its_timeout() -> None:
    table = SessionTable()
    session = table.add(1, 100, 0)
    table.touch(session, 10_000)
    table.extend_all(10_000, 10_001)
    assert table.expired(10_100) == []
    assert table.expired(10_101) == [session]


def test_a_lingering_session_ends_early_without_a_packet() -> None:
    table = SessionTable()
    gone, back = table.add(1, 10_000, 0), table.add(2, 10_000, 0)
    for session in (gone, back):
        table.shorten(session, 250)
    table.touch(back, 100)
    assert table.expired(250) == [gone]
    table.shorten(back, 99_999)
    assert back.deadline_ms == 10_100


def test_another_timeout_counts_from_now() -> None:
    table = SessionTable()
    session = table.add(1, 10_000, 0)
    table.change_timeout(session, 100, 50)
    assert table.expired(149) == []
    assert table.expired(150) == [session]


@pytest.mark.parametrize("server_id", [1, 127])
def test_session_ids_begin_with_the_server_and_the_time(server_id: int) -> None:
    first = first_session_id(server_id, 1_795_217_680_000, last_session_id=0)
    assert first >> 56 == server_id
    assert first & 0xFFFF == 0
    assert first_session_id(server_id, 1_795_217_680_001, first) - first == 1 << 16


def test_session_ids_grow_although_the_clock_was_set_back() -> None:
    last = first_session_id(1, 1_795_217_680_000, 0) + 7
    assert first_session_id(1, 1_795_217_000_000, last) == last + 1


def test_session_ids_grow_although_the_server_id_was_changed_meanwhile() -> None:
    state = State()
    by_first = first_session_id(2, 1_795_217_680_000, state.last_session_id) + 7
    state.add_session(by_first, 4000)
    by_second = first_session_id(1, 1_795_217_690_000, state.last_session_id) + 7
    state.add_session(by_second, 4000)
    # The clock was set back.
    by_third = first_session_id(1, 1_795_217_690_000, state.last_session_id)
    assert by_third == by_second + 1
    by_fourth = first_session_id(2, 1_795_217_680_000, state.last_session_id)
    assert by_fourth >> 56 == 2
    assert by_fourth > by_first + (1 << 16)


def test_the_next_check_follows_extended_deadlines() -> None:
    table = SessionTable()
    assert table.next_check_ms() is None
    table.add(1, 100, 0)
    table.add(2, 300, 0)
    assert table.next_check_ms() == 100
    table.extend_all(50, 50)
    assert table.expired(149) == []
    assert [session.session_id for session in table.expired(150)] == [1]

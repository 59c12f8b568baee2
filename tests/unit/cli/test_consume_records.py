"""Messages of `ottla consume` while it waits for partitions."""

from kafkawire.ids import TopicPartition
from ottla.cli.consume_records import ABSENCE_PATIENCE_S, SILENT_WAIT_S, Absences, Reminder


def test_hint_about_missing_partitions_is_printed_once() -> None:
    reminder = Reminder(100.0)
    assert not reminder.is_due(100.0 + SILENT_WAIT_S - 0.1, [])
    assert reminder.is_due(100.0 + SILENT_WAIT_S, [])
    assert not reminder.is_due(100.0 + 2 * SILENT_WAIT_S, [])


def test_member_with_an_assignment_gets_no_hint() -> None:
    reminder = Reminder(100.0)
    assert not reminder.is_due(100.5, [TopicPartition("t", 0)])
    assert not reminder.is_due(1_000.0, []), "a rebalance revokes partitions for a moment"


def test_a_missing_topic_is_reported_once_after_a_moment() -> None:
    absences = Absences()
    assert absences.due(100.0, {"b", "a"}) == []
    assert absences.due(100.0 + ABSENCE_PATIENCE_S - 0.1, {"b", "a"}) == []
    assert absences.due(100.0 + ABSENCE_PATIENCE_S, {"b", "a"}) == ["a", "b"]
    assert absences.due(200.0, {"b", "a"}) == []


def test_a_topic_that_comes_back_is_reported_again() -> None:
    absences = Absences()
    absences.due(100.0, {"a"})
    assert absences.due(101.0, {"a"}) == ["a"]
    assert absences.due(102.0, set()) == []
    assert absences.due(103.0, {"a"}) == []
    assert absences.due(104.0, {"a"}) == ["a"]

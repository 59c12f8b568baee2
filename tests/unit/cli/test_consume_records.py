"""Messages of `ottla consume` while it waits for partitions."""

from kafkawire.ids import TopicPartition
from ottla.cli.consume_records import SILENT_WAIT_S, Reminder


def test_hint_about_missing_partitions_is_printed_once() -> None:
    reminder = Reminder(100.0)
    assert not reminder.is_due(100.0 + SILENT_WAIT_S - 0.1, [])
    assert reminder.is_due(100.0 + SILENT_WAIT_S, [])
    assert not reminder.is_due(100.0 + 2 * SILENT_WAIT_S, [])


def test_member_with_an_assignment_gets_no_hint() -> None:
    reminder = Reminder(100.0)
    assert not reminder.is_due(100.5, [TopicPartition("t", 0)])
    assert not reminder.is_due(1_000.0, []), "a rebalance revokes partitions for a moment"

"""The messages of `ottla consume` while it waits for partitions."""

from kafkawire.ids import TopicPartition
from ottla.cli.consume_records import SILENT_WAIT_S, Reminder


def test_a_person_is_told_once_that_no_partition_was_given() -> None:
    reminder = Reminder(100.0)
    assert not reminder.is_due(100.0 + SILENT_WAIT_S - 0.1, [])
    assert reminder.is_due(100.0 + SILENT_WAIT_S, [])
    assert not reminder.is_due(100.0 + 2 * SILENT_WAIT_S, [])


def test_a_member_that_reads_is_told_nothing() -> None:
    reminder = Reminder(100.0)
    assert not reminder.is_due(100.5, [TopicPartition("t", 0)])
    assert not reminder.is_due(1_000.0, []), "a rebalance takes partitions away for a moment"

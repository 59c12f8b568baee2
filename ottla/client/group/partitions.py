"""Partitions as lists and by topic, as messages have them. Decision: no I/O."""

from collections.abc import Iterable

from kafkawire.ids import TopicPartition


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic, all in order."""
    found: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        found.setdefault(topic, []).append(index)
    return found


def flatten(topics: Iterable[tuple[str, Iterable[int]]]) -> list[TopicPartition]:
    """Return the partitions of all topics in one list."""
    return [TopicPartition(topic, index) for topic, indexes in topics for index in indexes]

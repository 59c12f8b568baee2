"""Converts partitions between a flat list and lists by topic. Decision: no I/O."""

from collections.abc import Iterable

from kafkawire.ids import TopicPartition


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers by topic, all in ascending order."""
    found: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        found.setdefault(topic, []).append(index)
    return found


def flatten(topics: Iterable[tuple[str, Iterable[int]]]) -> list[TopicPartition]:
    """Return the partitions of all topics in one list."""
    return [TopicPartition(topic, index) for topic, indexes in topics for index in indexes]

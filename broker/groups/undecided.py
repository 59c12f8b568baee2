"""Offsets of one group that were committed in transactions without an end (decision).

They are in the log, and count from the marker on that commits their transaction. Invariant: an
offset is held from its append until a marker of its producer that lies behind it, or until its
partition is removed, whether its response was a success or not: a load of the log would find it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from kafkawire.group_records import CommittedOffset
from kafkawire.ids import TopicPartition

Placed: TypeAlias = tuple[CommittedOffset, int]
"""A committed offset, and the base offset of its batch in the log."""


class UndecidedOffsets:
    """Offsets by producer and partition; only the last commit of each."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[TopicPartition, Placed]] = {}

    def __contains__(self, partition: TopicPartition) -> bool:
        return any(partition in each for each in self._by_producer.values())

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def __iter__(self) -> Iterator[TopicPartition]:
        for offsets in self._by_producer.values():
            yield from offsets

    @property
    def producer_ids(self) -> list[int]:
        """Producers with undecided offsets."""
        return list(self._by_producer)

    def add(
        self, producer_id: int, commits: Mapping[TopicPartition, CommittedOffset], position: int
    ) -> None:
        """Add offsets of a batch at `position` of the log."""
        held = self._by_producer.setdefault(producer_id, {})
        held.update((partition, (each, position)) for partition, each in commits.items())

    def take(self, producer_id: int, marker_offset: int) -> dict[TopicPartition, Placed]:
        """Remove and return the offsets that a marker of their producer decides."""
        held = self._by_producer.get(producer_id, {})
        taken = {key: each for key, each in held.items() if each[1] < marker_offset}
        self.remove(taken, producer_id)
        return taken

    def remove(
        self, partitions: Iterable[TopicPartition], producer_id: int | None = None
    ) -> list[TopicPartition]:
        """Remove partitions, of one producer or of all; return the ones that were held."""
        removed: dict[TopicPartition, None] = {}
        named = list(partitions)
        for each in self.producer_ids if producer_id is None else [producer_id]:
            held = self._by_producer.get(each, {})
            for partition in named:
                if held.pop(partition, None) is not None:
                    removed[partition] = None
            if not held:
                self._by_producer.pop(each, None)
        return list(removed)


def keep_later(
    committed: dict[TopicPartition, Placed], others: Mapping[TopicPartition, Placed]
) -> None:
    """Put each of `others` in `committed`, unless that holds a later one.

    A plain commit after a transaction's wins, even if the marker came later still.
    """
    for partition, placed in others.items():
        held = committed.get(partition)
        if held is None or held[1] < placed[1]:
            committed[partition] = placed

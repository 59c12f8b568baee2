"""Observations of producers and consumers during a run. Values only.

A record's value names its producer and its number: each producer counts per partition from 0 and
sends in that order, so that order and completeness can be checked by the values alone.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from kafkawire.ids import TopicPartition

_PADDING = b"." * 64


class Item(NamedTuple):
    """One record that a producer sent: its `number`-th to that partition."""

    producer: str
    partition: TopicPartition
    number: int

    def encode(self) -> bytes:
        """Return the record's value."""
        where = f"{self.partition.topic}/{self.partition.partition}"
        return f"{self.producer}|{where}|{self.number}|".encode() + _PADDING


class Seen(NamedTuple):
    """A record and its offset, as a consumer read it."""

    offset: int
    value: bytes


@dataclass(slots=True)
class History:
    """All observations of a run. Writers only append; no entry is removed."""

    unordered: set[str] = field(default_factory=set)
    """Producers that do not guarantee the order of their records within a partition."""
    sent: set[Item] = field(default_factory=set)
    acknowledged: dict[Item, int | None] = field(default_factory=dict)
    """Acknowledged offset of each record; None if the producer learned only that it was written."""
    failed: list[tuple[Item, str]] = field(default_factory=list)
    """Sends that failed: the record may be in the log or not."""
    read: dict[TopicPartition, list[Seen]] = field(default_factory=dict)
    """Records that consumers read during the run."""


def decode(value: bytes) -> Item | None:
    """Return the item that `Item.encode` wrote, None for any other value."""
    parts = value.split(b"|")
    if len(parts) != 4 or parts[3] != _PADDING:
        return None
    topic, _, number = parts[1].decode().rpartition("/")
    return Item(parts[0].decode(), TopicPartition(topic, int(number)), int(parts[2]))

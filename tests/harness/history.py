"""What producers and consumers saw while a cluster was in trouble. Values only.

A record's value names its producer and its number there: each producer counts per partition from
0 and sends in that order, so that order and completeness can be judged from the values alone.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from kafkawire.ids import TopicPartition

_PADDING = b"." * 64


class Item(NamedTuple):
    """One record that a producer sent: the `number`-th of `producer` to that partition."""

    producer: str
    partition: TopicPartition
    number: int

    def encode(self) -> bytes:
        """Return the record's value."""
        where = f"{self.partition.topic}/{self.partition.partition}"
        return f"{self.producer}|{where}|{self.number}|".encode() + _PADDING


class Seen(NamedTuple):
    """A record at its place, as a consumer read it."""

    offset: int
    value: bytes


@dataclass(slots=True)
class History:
    """Everything that was observed. Who writes to it appends; nothing is ever taken back."""

    unordered: set[str] = field(default_factory=set)
    """Producers that do not promise to keep the order of what they send to a partition."""
    sent: set[Item] = field(default_factory=set)
    acknowledged: dict[Item, int] = field(default_factory=dict)
    """The offset that the cluster promised for each."""
    failed: list[tuple[Item, str]] = field(default_factory=list)
    """Sends that were given up: the record may be in the log or not."""
    read: dict[TopicPartition, list[Seen]] = field(default_factory=dict)
    """What consumers were shown while it went on."""


def decode(value: bytes) -> Item | None:
    """Return what `Item.encode` wrote, None for anything else."""
    parts = value.split(b"|")
    if len(parts) != 4 or parts[3] != _PADDING:
        return None
    topic, _, number = parts[1].decode().rpartition("/")
    return Item(parts[0].decode(), TopicPartition(topic, int(number)), int(parts[2]))

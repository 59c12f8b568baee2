"""One row per topic, and one per partition of a topic (decision)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafkawire.ids import TopicPartition
from kafkawire.sentinels import NO_LEADER
from ottla.client.admin_model import TopicDescription
from ottla.client.cluster_metadata import PartitionMetadata
from ottla.console.observation.observation import Observation
from ottla.console.view.table import SortKey

UNKNOWN_LAST: Final = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A topic. Sums are None while a part of them is unknown."""

    name: str
    is_internal: bool
    partitions: int
    replicas: int
    """The largest number of replicas of a partition."""
    under_replicated: int
    offline: int
    records: int | None
    """Number of offsets between start and end; gaps of compaction and transactions count."""
    size_bytes: int | None
    """Size of all replicas."""
    rate: float | None
    """Records per second."""
    byte_rate: float | None
    """Growth of the leaders' logs in bytes per second; negative after a deletion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """A partition, with the size of its leader's log."""

    number: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    start: int | None
    end: int | None
    size_bytes: int | None

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is not in sync."""
        return len(self.isr) < len(self.replicas)

    @property
    def records(self) -> int | None:
        """Number of offsets between start and end."""
        return None if self.start is None or self.end is None else self.end - self.start


TOPIC_COLUMNS: Final[Mapping[str, SortKey[TopicRow]]] = {
    "name": lambda row: row.name,
    "partitions": lambda row: row.partitions,
    "replicas": lambda row: row.replicas,
    "health": lambda row: row.offline * 1_000_000 + row.under_replicated,
    "records": lambda row: UNKNOWN_LAST if row.records is None else row.records,
    "size": lambda row: UNKNOWN_LAST if row.size_bytes is None else row.size_bytes,
    "rate": lambda row: UNKNOWN_LAST if row.rate is None else row.rate,
}
PARTITION_COLUMNS: Final[Mapping[str, SortKey[PartitionRow]]] = {
    "partition": lambda row: row.number,
    "leader": lambda row: UNKNOWN_LAST if row.leader is None else row.leader,
    "start": lambda row: UNKNOWN_LAST if row.start is None else row.start,
    "end": lambda row: UNKNOWN_LAST if row.end is None else row.end,
    "records": lambda row: UNKNOWN_LAST if row.records is None else row.records,
    "size": lambda row: UNKNOWN_LAST if row.size_bytes is None else row.size_bytes,
}


def topic_rows(observation: Observation) -> list[TopicRow]:
    """Return a row per topic."""
    return [topic_row(observation, topic) for topic in observation.topics.values()]


def topic_row(observation: Observation, topic: TopicDescription) -> TopicRow:
    """Return the row of one topic."""
    places = [TopicPartition(topic.name, each.partition) for each in topic.partitions]
    ranges = [observation.ranges[each] for each in places if each in observation.ranges]
    sizes = [observation.sizes[each] for each in places if each in observation.sizes]
    written, grown = observation.written.get(topic.name), observation.grown.get(topic.name)
    return TopicRow(
        name=topic.name,
        is_internal=topic.is_internal,
        partitions=len(topic.partitions),
        replicas=max((len(each.replicas) for each in topic.partitions), default=0),
        under_replicated=sum(len(each.isr) < len(each.replicas) for each in topic.partitions),
        offline=sum(each.leader == NO_LEADER for each in topic.partitions),
        records=sum(held.end - held.start for held in ranges)
        if len(ranges) == len(places)
        else None,
        size_bytes=sum(sum(held.values()) for held in sizes) if len(sizes) == len(places) else None,
        rate=None if written is None else written.rate_per_s(),
        byte_rate=None if grown is None else grown.rate_per_s(),
    )


def partition_rows(observation: Observation, topic: TopicDescription) -> list[PartitionRow]:
    """Return a row per partition of a topic."""
    return [_partition_row(observation, topic.name, each) for each in topic.partitions]


def _partition_row(observation: Observation, topic: str, held: PartitionMetadata) -> PartitionRow:
    place = TopicPartition(topic, held.partition)
    known = observation.ranges.get(place)
    return PartitionRow(
        number=held.partition,
        leader=None if held.leader == NO_LEADER else held.leader,
        leader_epoch=held.leader_epoch,
        replicas=held.replicas,
        isr=held.isr,
        offline=held.offline_replicas,
        start=None if known is None else known.start,
        end=None if known is None else known.end,
        size_bytes=observation.sizes.get(place, {}).get(held.leader),
    )

"""The latest samples of a cluster, and their history (decision).

One object per console, changed by the collector and read by all pages. A failed sample leaves the
previous one in place; its error is shown until the next success. Memory: the latest samples, and
`MAX_POINTS` numbers for each topic and group.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafkawire.ids import Offset, TopicPartition
from kafkawire.sentinels import NO_LEADER
from ottla.client.admin_model import (
    ClusterDescription,
    GroupDescription,
    LogDirectory,
    TopicDescription,
)
from ottla.client.offset import CommittedOffset
from ottla.console.observation.series import Series


class Probe(enum.StrEnum):
    """A kind of sample."""

    METADATA = "metadata"
    OFFSETS = "offsets"
    LOG_DIRS = "log directories"
    GROUPS = "groups"


@dataclass(frozen=True, slots=True)
class ObservedGroup:
    """A group and its committed offsets at one time."""

    description: GroupDescription
    committed: Mapping[TopicPartition, CommittedOffset]


@dataclass(frozen=True, slots=True)
class LogRange:
    """The first offset of a log, and its high watermark (exclusive)."""

    start: Offset
    end: Offset


@dataclass(slots=True)
class Observation:
    """The latest samples. Callers change it only through the methods `on_...`."""

    cluster: ClusterDescription | None = None
    topics: Mapping[str, TopicDescription] = field(default_factory=dict)
    partitions: frozenset[TopicPartition] = frozenset()
    log_dirs: tuple[LogDirectory, ...] = ()
    sizes: Mapping[TopicPartition, Mapping[int, int]] = field(default_factory=dict)
    """Size in bytes of each replica, by partition and broker."""
    ranges: Mapping[TopicPartition, LogRange] = field(default_factory=dict)
    groups: Mapping[str, ObservedGroup] = field(default_factory=dict)
    failures: dict[Probe, str] = field(default_factory=dict)
    version: int = 0
    """Grows with each sample."""
    written: dict[str, Series] = field(default_factory=dict)
    """Sum of the end offsets of each topic over time."""
    grown: dict[str, Series] = field(default_factory=dict)
    """Size in bytes of the leaders' logs of each topic over time."""
    lags: dict[str, Series] = field(default_factory=dict)
    """Lag of each group over time."""

    def on_metadata(
        self, cluster: ClusterDescription, topics: Mapping[str, TopicDescription]
    ) -> None:
        """Replace the brokers and topics; forget the history of deleted topics."""
        self.cluster, self.topics = cluster, topics
        self.partitions = frozenset(
            TopicPartition(name, each.partition)
            for name, topic in topics.items()
            for each in topic.partitions
        )
        for history in (self.written, self.grown):
            _forget(history, topics)
        self._succeed(Probe.METADATA)

    def on_offsets(self, time_ms: int, ranges: Mapping[TopicPartition, LogRange]) -> None:
        """Replace the ends of all logs. Partitions without a leader keep theirs."""
        kept = {each: held for each, held in self.ranges.items() if each in self.partitions}
        self.ranges = {**kept, **ranges}
        sums: dict[str, int] = {}
        for each, held in self.ranges.items():
            sums[each.topic] = sums.get(each.topic, 0) + held.end
        for topic, total in sums.items():
            self.written.setdefault(topic, Series()).count(time_ms, total)
        self._succeed(Probe.OFFSETS)

    def on_log_dirs(self, time_ms: int, log_dirs: Iterable[LogDirectory]) -> None:
        """Replace the log directories and the sizes of all replicas."""
        self.log_dirs = tuple(log_dirs)
        sizes: dict[TopicPartition, dict[int, int]] = {}
        for directory in self.log_dirs:
            for replica in directory.replicas:
                if not replica.is_future:
                    held = sizes.setdefault(replica.topic_partition, {})
                    held[directory.broker_id] = replica.size_bytes
        self.sizes = sizes
        for name, topic in self.topics.items():
            leaders = [
                sizes.get(TopicPartition(name, each.partition), {}).get(each.leader)
                for each in topic.partitions
            ]
            known = [size for size in leaders if size is not None]
            if known and len(known) == len(leaders):
                self.grown.setdefault(name, Series()).add(time_ms, sum(known))
        self._succeed(Probe.LOG_DIRS)

    def on_groups(self, time_ms: int, groups: Mapping[str, ObservedGroup]) -> None:
        """Replace the groups, and add their lags to the history."""
        self.groups = groups
        _forget(self.lags, groups)
        for name, group in groups.items():
            lags = [self.lag(each, at.offset) for each, at in group.committed.items()]
            known = [lag for lag in lags if lag is not None]
            if known:
                self.lags.setdefault(name, Series()).add(time_ms, sum(known))
        self._succeed(Probe.GROUPS)

    def on_failure(self, probe: Probe, text: str) -> None:
        """Remember that a sample could not be taken."""
        self.failures[probe] = text
        self.version += 1

    def lag(self, partition: TopicPartition, offset: int) -> int | None:
        """Return the number of offsets that a group has yet to read; None if it is unknown."""
        held = self.ranges.get(partition)
        return None if held is None else max(0, held.end - max(offset, held.start))

    def led_partitions(self) -> list[TopicPartition]:
        """Return all partitions that have a leader."""
        return [
            TopicPartition(name, each.partition)
            for name, topic in self.topics.items()
            for each in topic.partitions
            if each.leader != NO_LEADER
        ]

    def _succeed(self, probe: Probe) -> None:
        self.failures.pop(probe, None)
        self.version += 1


def _forget(history: dict[str, Series], existing: Mapping[str, object]) -> None:
    for name in history.keys() - existing.keys():
        del history[name]

"""The metrics of each partition on this broker: its log, its replicas, its followers (decision).

The lines of all families are collected in one pass over the partitions, because most of the time
goes into finding a partition's parts and its labels. A broker with more than `MAX_PARTITIONS` shows
the first ones only, and counts the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from broker.replication.replica import Replica
from kafkawire.ids import TopicPartition
from monitoring.exposition import GAUGE, Family, label_value

MAX_PARTITIONS: Final = 20_000
STEP_SEGMENTS: Final = 50
"""Segments of logs in one step, half a millisecond or so: each log has at least one."""
TEXT_LINES: Final = 1000
"""Lines that are joined in one step; they are complete by then."""
LABELS: Final = ("topic", "partition")


def _family(name: str, meaning: str) -> Family:
    return Family(name=name, kind=GAUGE, meaning=meaning, labels=LABELS)


SIZE: Final = _family("kafka_log_log_size", "Bytes of the log on disk.")
SEGMENTS: Final = _family("kafka_log_log_numlogsegments", "Segments of the log.")
START: Final = _family("kafka_log_log_logstartoffset", "First offset of the log.")
END: Final = _family("kafka_log_log_logendoffset", "Offset of the log's next record.")
LOG_FAMILIES: Final = (SIZE, SEGMENTS, START, END)
REPLICAS: Final = _family(
    "kafka_cluster_partition_replicascount", "Replicas of a partition led here."
)
IN_SYNC: Final = _family(
    "kafka_cluster_partition_insyncreplicascount", "Replicas in sync of a partition led here."
)
UNDER_REPLICATED: Final = _family(
    "kafka_cluster_partition_underreplicated",
    "1 if a replica of a partition led here is not in sync.",
)
UNDER_MIN_ISR: Final = _family(
    "kafka_cluster_partition_underminisr",
    "1 if fewer replicas of a partition led here are in sync than min.insync.replicas.",
)
AT_MIN_ISR: Final = _family(
    "kafka_cluster_partition_atminisr",
    "1 if exactly min.insync.replicas of a partition led here are in sync.",
)
STABLE_LAG: Final = _family(
    "kafka_cluster_partition_laststableoffsetlag",
    "Committed records of a partition led here that open transactions hold back.",
)
CURRENT: Final = _family(
    "kafka_topic_partition_current_offset",
    "High watermark of a partition led here, as Kafka Exporter names it.",
)
OLDEST: Final = _family(
    "kafka_topic_partition_oldest_offset",
    "First offset of a partition led here, as Kafka Exporter names it.",
)
LEADER_FAMILIES: Final = (
    REPLICAS,
    IN_SYNC,
    UNDER_REPLICATED,
    UNDER_MIN_ISR,
    AT_MIN_ISR,
    STABLE_LAG,
    CURRENT,
    OLDEST,
)
FOLLOWER_LAG: Final = Family(
    name="kafka_server_fetcherlagmetrics_consumerlag",
    kind=GAUGE,
    meaning="Committed records of the leader that a follower here lacks.",
    labels=("clientId", *LABELS),
)
PARTITION_FAMILIES: Final = (*LOG_FAMILIES, *LEADER_FAMILIES, FOLLOWER_LAG)

Lags = Iterable[tuple[tuple[int, int], Sequence[tuple[TopicPartition, int]]]]
"""By leader and number of the connection: the partitions copied from it, with their lag."""


def partition_pieces(replicas: Sequence[Replica], lags: Lags) -> Iterator[str]:
    """Yield the metrics of the partitions; "" after a step without text."""
    collected = _Collected()
    segment_count = 0
    for replica in replicas[:MAX_PARTITIONS]:
        segment_count += collected.add(replica)
        if segment_count >= STEP_SEGMENTS:
            segment_count = 0
            yield ""
    for family, lines in zip((*LOG_FAMILIES, *LEADER_FAMILIES), collected.lines, strict=True):
        head = family.head if lines else ""
        for start in range(0, len(lines), TEXT_LINES):
            yield head + "".join(lines[start : start + TEXT_LINES])
            head = ""
    yield from FOLLOWER_LAG.pieces(_follower_lags(lags))


def _follower_lags(lags: Lags) -> Iterator[tuple[tuple[str, str, str], int]]:
    for (leader, number), partitions in lags:
        client = f"ReplicaFetcherThread-{number}-{leader}"
        for (topic, partition), lag in partitions[:MAX_PARTITIONS]:
            yield (client, topic, str(partition)), lag


class _Collected:
    """The lines of each family, in the order of `LOG_FAMILIES` and `LEADER_FAMILIES`."""

    def __init__(self) -> None:
        self.lines: list[list[str]] = [[] for _ in (*LOG_FAMILIES, *LEADER_FAMILIES)]
        self._topics: dict[str, str] = {}

    def add(self, replica: Replica) -> int:
        """Add the lines of a partition; return its number of segments."""
        topic, partition = replica.topic_partition
        name = self._topics.get(topic)
        if name is None:
            name = self._topics[topic] = label_value(topic)
        labels = f'{{topic="{name}",partition="{partition}"}}'
        sizes, counts, starts, ends, *led = self.lines
        log = replica.log
        segments = log.segments
        size_bytes = sum([segment.size_bytes for segment in segments])
        sizes.append(f"kafka_log_log_size{labels} {size_bytes}\n")
        counts.append(f"kafka_log_log_numlogsegments{labels} {len(segments)}\n")
        starts.append(f"kafka_log_log_logstartoffset{labels} {log.log_start_offset}\n")
        ends.append(f"kafka_log_log_logendoffset{labels} {log.log_end_offset}\n")
        leadership = replica.leadership
        if leadership is not None:
            replica_count, isr_count = len(leadership.replicas), len(leadership.state.isr)
            min_isr, high_watermark = leadership.effective_min_isr, leadership.high_watermark
            values = (
                replica_count,
                isr_count,
                int(isr_count < replica_count),
                int(isr_count < min_isr),
                int(isr_count == min_isr),
                high_watermark - log.last_stable_offset(high_watermark),
                high_watermark,
                log.log_start_offset,
            )
            for lines, family, value in zip(led, LEADER_FAMILIES, values, strict=True):
                lines.append(f"{family.name}{labels} {value}\n")
        return len(segments)

"""The metrics of each partition on this broker: its log, its replicas, its followers (decision).

The values for all families are collected in one pass over the partitions, because most of the time
goes into finding a partition's parts and its labels. A broker with more than `MAX_PARTITIONS` shows
the first ones only, and counts the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from broker.replication.leadership import Leadership
from broker.replication.replica import Replica
from kafkawire.ids import TopicPartition
from monitoring.exposition import GAUGE, Family, label_value

MAX_PARTITIONS: Final = 20_000
STEP_SEGMENTS: Final = 50
"""Segments of logs in one step, half a millisecond or so: each log has at least one."""
TEXT_LINES: Final = 1000
"""Lines that are formatted in one step."""
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
    held, led = _Columns(LOG_FAMILIES), _Columns(LEADER_FAMILIES)
    topics: dict[str, str] = {}
    segment_count = 0
    for replica in replicas[:MAX_PARTITIONS]:
        topic, partition = replica.topic_partition
        name = topics.get(topic)
        if name is None:
            name = topics[topic] = label_value(topic)
        labels = f'{{topic="{name}",partition="{partition}"}}'
        held.add(labels, _log_values(replica))
        if replica.leadership is not None:
            led.add(labels, _leader_values(replica, replica.leadership))
        segment_count += len(replica.log.segments)
        if segment_count >= STEP_SEGMENTS:
            segment_count = 0
            yield ""
    yield from held.pieces()
    yield from led.pieces()
    yield from FOLLOWER_LAG.pieces(_follower_lags(lags))


def _log_values(replica: Replica) -> Sequence[int]:
    """Return the values for `LOG_FAMILIES`."""
    log = replica.log
    segments = log.segments
    size_bytes = sum([segment.size_bytes for segment in segments])
    return size_bytes, len(segments), log.log_start_offset, log.log_end_offset


def _leader_values(replica: Replica, leadership: Leadership) -> Sequence[int]:
    """Return the values for `LEADER_FAMILIES`."""
    replica_count, isr_count = len(leadership.replicas), len(leadership.state.isr)
    min_isr, high_watermark = leadership.effective_min_isr, leadership.high_watermark
    return (
        replica_count,
        isr_count,
        isr_count < replica_count,
        isr_count < min_isr,
        isr_count == min_isr,
        high_watermark - replica.log.last_stable_offset(high_watermark),
        high_watermark,
        replica.log.log_start_offset,
    )


def _follower_lags(lags: Lags) -> Iterator[tuple[tuple[str, str, str], int]]:
    for (leader, number), partitions in lags:
        client = f"ReplicaFetcherThread-{number}-{leader}"
        for (topic, partition), lag in partitions[:MAX_PARTITIONS]:
            yield (client, topic, str(partition)), lag


class _Columns:
    """The labels of partitions, and for each of some families the values in the same order."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families
        self._labels: list[str] = []
        self._values: list[list[int]] = [[] for _ in families]

    def add(self, labels: str, values: Sequence[int]) -> None:
        """Add a partition, with its value for each family."""
        self._labels.append(labels)
        for column, value in zip(self._values, values, strict=True):
            column.append(value)

    def pieces(self) -> Iterator[str]:
        """Yield the lines of one family after the other."""
        for family, values in zip(self._families, self._values, strict=True):
            head = family.head
            for start in range(0, len(values), TEXT_LINES):
                end = start + TEXT_LINES
                yield head + _text(family.name, self._labels[start:end], values[start:end])
                head = ""


def _text(name: str, labels: Sequence[str], values: Sequence[int]) -> str:
    # One call of the formatter for all lines takes half the time of one for each line
    # (benchmarks.micro.test_metrics_page).
    words: list[str | int] = [0] * (2 * len(labels))
    words[::2], words[1::2] = labels, values
    return f"{name}%s %d\n" * len(labels) % tuple(words)

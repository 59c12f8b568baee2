"""Counts the records, bytes and requests of each topic on this broker (decision).

Counting is an addition to an attribute on the path of Produce and Fetch. A topic has counters while
one of its partitions is here, so clients cannot add topics. When the last one leaves, its counts
stay in the total of all topics.
"""

from __future__ import annotations


class TopicTraffic:
    """The counters of one topic, or of several; they only grow."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetch_count",
        "failed_produce_count",
        "fetch_count",
        "messages_in",
        "produce_count",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        # Requests are counted once for each of their partitions, as in Kafka.
        self.produce_count = 0
        self.fetch_count = 0
        self.failed_produce_count = 0
        self.failed_fetch_count = 0

    def add(self, other: TopicTraffic) -> None:
        """Add the counts of `other`."""
        self.messages_in += other.messages_in
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.replication_bytes_in += other.replication_bytes_in
        self.replication_bytes_out += other.replication_bytes_out
        self.produce_count += other.produce_count
        self.fetch_count += other.fetch_count
        self.failed_produce_count += other.failed_produce_count
        self.failed_fetch_count += other.failed_fetch_count


class Traffic:
    """The counters of all topics with a partition here."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicTraffic] = {}
        self._partition_counts: dict[str, int] = {}
        # Of topics that have left, and of partitions that were never here.
        self._others = TopicTraffic()
        self.produce_errors: dict[int, int] = {}
        """Partitions of Produce requests with an error, by its code."""
        self.fetch_errors: dict[int, int] = {}
        """Partitions of Fetch requests of consumers with an error, by its code."""

    def join(self, topic: str) -> TopicTraffic:
        """Note one more partition of a topic; return its counters."""
        self._partition_counts[topic] = self._partition_counts.get(topic, 0) + 1
        traffic = self._topics.get(topic)
        if traffic is None:
            traffic = self._topics[topic] = TopicTraffic()
        return traffic

    def leave(self, topic: str) -> None:
        """Note one partition fewer."""
        self._partition_counts[topic] -= 1
        if not self._partition_counts[topic]:
            self._others.add(self._topics.pop(topic))
            del self._partition_counts[topic]

    def of(self, topic: str) -> TopicTraffic:
        """Return the counters of a topic, or the ones shared by all topics that are not here."""
        return self._topics.get(topic, self._others)

    def on_produce_error(self, topic: str, code: int) -> None:
        """Count a partition of a Produce request that got an error."""
        traffic = self.of(topic)
        traffic.produce_count += 1
        traffic.failed_produce_count += 1
        self.produce_errors[code] = self.produce_errors.get(code, 0) + 1

    def on_fetch_error(self, topic: str, code: int) -> None:
        """Count a partition of a Fetch request of a consumer that got an error."""
        self.of(topic).failed_fetch_count += 1
        self.fetch_errors[code] = self.fetch_errors.get(code, 0) + 1

    @property
    def topics(self) -> dict[str, TopicTraffic]:
        """The counters by topic, as a copy."""
        return dict(self._topics)

    @property
    def total(self) -> TopicTraffic:
        """The counts of all topics that are or were here."""
        total = TopicTraffic()
        for traffic in (self._others, *self._topics.values()):
            total.add(traffic)
        return total

"""The metrics of each topic's traffic, and of its errors (decision)."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Final

from broker.replication.topic_traffic import Traffic
from kafkawire.errors import name_of
from monitoring.exposition import COUNTER, Family, Value, braced, labels_text

_TOPICS: Final = "kafka_server_brokertopicmetrics"
TOPIC: Final = ("topic",)


def _family(name: str, meaning: str, labels: tuple[str, ...] = TOPIC) -> Family:
    return Family(name=f"{_TOPICS}_{name}_total", kind=COUNTER, meaning=meaning, labels=labels)


COUNTERS: Final = {
    "messages_in": _family("messagesin", "Records of producers that were appended."),
    "bytes_in": _family("bytesin", "Bytes of batches of producers that were appended."),
    "bytes_out": _family("bytesout", "Bytes of batches that were sent to consumers."),
    "produce_count": _family("totalproducerequests", "Partitions of Produce requests."),
    "fetch_count": _family("totalfetchrequests", "Partitions of Fetch requests of consumers."),
    "failed_produce_count": _family(
        "failedproducerequests", "Partitions of Produce requests that got an error."
    ),
    "failed_fetch_count": _family(
        "failedfetchrequests", "Partitions of Fetch requests of consumers that got an error."
    ),
}
"""With a series for each topic here, and one without a topic for all, as in Kafka."""
REPLICATION: Final = {
    "replication_bytes_in": _family("replicationbytesin", "Bytes copied from leaders.", ()),
    "replication_bytes_out": _family("replicationbytesout", "Bytes sent to followers.", ()),
}
ERRORS: Final = Family(
    name="kafka_network_requestmetrics_errors_total",
    kind=COUNTER,
    meaning="Partitions of Produce requests, and of Fetch requests of consumers, by error.",
    labels=("request", "error"),
)
TOPIC_FAMILIES: Final = (*COUNTERS.values(), *REPLICATION.values(), ERRORS)


def topic_pieces(traffic: Traffic) -> Iterator[str]:
    """Yield the metrics of `traffic`."""
    topics, total = traffic.topics, traffic.total
    labels = [(braced(labels_text(TOPIC, (name,))), each) for name, each in topics.items()]
    yield ""
    for attribute, family in COUNTERS.items():
        read = attrgetter(attribute)
        lines = (f"{family.name}{text} {read(each)}\n" for text, each in [("", total), *labels])
        yield from family.pieces_of(lines)
    for attribute, family in REPLICATION.items():
        yield from family.pieces([((), attrgetter(attribute)(total))])
    yield from ERRORS.pieces(_errors(traffic))


def _errors(traffic: Traffic) -> Iterator[tuple[tuple[str, str], Value]]:
    for request, errors in (("Produce", traffic.produce_errors), ("Fetch", traffic.fetch_errors)):
        for code, count in sorted(errors.items()):
            yield (request, name_of(code)), count

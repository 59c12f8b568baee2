"""Base classes of interceptors, which see every record (edge).

The client calls them in the event loop, so they must not block. An exception in one is logged, and
the record continues as if the interceptor were not there.
Source: org.apache.kafka.clients.producer.ProducerInterceptor and ConsumerInterceptor of Kafka 3.9.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kafkawire.ids import Offset, TopicPartition
from ottla.client.offset import CommittedOffset
from ottla.client.record import ConsumerRecord, Headers, RecordMetadata

log = logging.getLogger(__name__)

_FAILURES: Final = (Exception, asyncio.CancelledError)
"""Errors of an interceptor. It cannot await, so its CancelledError does not cancel the task."""


class ProducerRecord(NamedTuple):
    """A record before its key and value become bytes."""

    topic: str
    value: Any
    key: Any
    partition: int | None
    timestamp_ms: int
    headers: Headers


class ProducerInterceptor:
    """Sees the records of a producer; override the methods of interest."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send in place of `record`, before it is serialized."""
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        """Learn the place of a record in the log, or the reason why it has none."""


class ConsumerInterceptor:
    """Sees the records and commits of a consumer; override the methods of interest."""

    def on_consume(self, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        """Return the records to hand over in place of `records`: as many, in the same order.

        Key, value and headers of a record may differ; its place in the log may not. A record that
        is read again, such as after a seek or a rebalance, passes here again.
        """
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Learn which offsets the group has committed."""


def intercept_send(
    interceptors: Sequence[ProducerInterceptor], record: ProducerRecord
) -> ProducerRecord:
    """Return `record` as the interceptors changed it, each seeing the result of the one before."""
    for each in interceptors:
        try:
            record = ProducerRecord._make(each.on_send(record))
        except _FAILURES:
            log.exception("interceptor.failed method=on_send topic=%s", record.topic)
    return record


def intercept_acknowledgement(
    interceptors: Sequence[ProducerInterceptor],
    metadata: RecordMetadata | None,
    error: BaseException | None,
) -> None:
    """Report the outcome of one record to all interceptors."""
    for each in interceptors:
        try:
            each.on_acknowledgement(metadata, error)
        except _FAILURES:
            log.exception("interceptor.failed method=on_acknowledgement")


def intercept_consume(
    interceptors: Sequence[ConsumerInterceptor], records: list[ConsumerRecord]
) -> list[ConsumerRecord]:
    """Return `records` as the interceptors changed them; other records are ignored."""
    for each in interceptors:
        try:
            changed = [ConsumerRecord._make(record) for record in each.on_consume(records)]
        except _FAILURES:
            log.exception("interceptor.failed method=on_consume")
            continue
        if [_place(record) for record in changed] == [_place(record) for record in records]:
            records = changed
        else:
            log.error("interceptor.failed method=on_consume error=it returned other records")
    return records


def _place(record: ConsumerRecord) -> tuple[str, int, Offset]:
    return record.topic, record.partition, record.offset


def intercept_commit(
    interceptors: Sequence[ConsumerInterceptor],
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> None:
    """Report committed offsets to all interceptors."""
    for each in interceptors:
        try:
            each.on_commit(offsets)
        except _FAILURES:
            log.exception("interceptor.failed method=on_commit")

"""Counters of a client, under the names of Kafka's Java client, and its health (decision).

The counters grow per batch and per request, never per record.
"""

from dataclasses import dataclass
from typing import NamedTuple


class Health(NamedTuple):
    """Whether a client works, and otherwise why not."""

    is_healthy: bool
    reason: str
    """Empty if the client is healthy."""
    metadata_age_s: float
    """Time since the last successful refresh of the metadata; inf before the first."""
    connection_count: int


@dataclass(slots=True)
class ProducerCounts:
    """Totals since the start of a producer; a retried record counts once as sent."""

    record_count: int = 0
    size_bytes: int = 0
    batch_count: int = 0
    retried_record_count: int = 0
    failed_record_count: int = 0
    request_count: int = 0


@dataclass(slots=True)
class FetchCounts:
    """Totals since the start of a consumer."""

    request_count: int = 0
    failed_request_count: int = 0


def producer_metrics(
    counts: ProducerCounts, *, buffer_total_bytes: int, buffer_free_bytes: int, health: Health
) -> dict[str, float]:
    """Return the metrics of a producer by name."""
    batches = counts.batch_count
    return {
        "record-send-total": counts.record_count,
        "record-retry-total": counts.retried_record_count,
        "record-error-total": counts.failed_record_count,
        "byte-total": counts.size_bytes,
        "batch-total": batches,
        "batch-size-avg": counts.size_bytes / batches if batches else 0.0,
        "records-per-batch-avg": counts.record_count / batches if batches else 0.0,
        "request-total": counts.request_count,
        "buffer-total-bytes": buffer_total_bytes,
        "buffer-available-bytes": buffer_free_bytes,
        "connection-count": health.connection_count,
        "metadata-age": health.metadata_age_s,
    }


def consumer_metrics(
    counts: FetchCounts,
    *,
    record_count: int,
    size_bytes: int,
    buffered_bytes: int,
    lags: list[int],
    partition_count: int,
    health: Health,
) -> dict[str, float]:
    """Return the metrics of a consumer by name; `lags` lacks partitions whose lag is unknown."""
    return {
        "records-consumed-total": record_count,
        "bytes-consumed-total": size_bytes,
        "fetch-total": counts.request_count,
        "fetch-error-total": counts.failed_request_count,
        "fetch-buffered-bytes": buffered_bytes,
        "records-lag-max": max(lags, default=0),
        "records-lag-total": sum(lags),
        "assigned-partitions": partition_count,
        "connection-count": health.connection_count,
        "metadata-age": health.metadata_age_s,
    }

"""Metrics have the names of Kafka's Java client."""

from ottla.client.client_metrics import (
    FetchCounts,
    Health,
    ProducerCounts,
    consumer_metrics,
    producer_metrics,
)

HEALTH = Health(is_healthy=True, reason="", metadata_age_s=1.5, connection_count=2)


def test_a_producer_reports_totals_and_averages() -> None:
    counts = ProducerCounts(record_count=10, size_bytes=400, batch_count=4, request_count=3)
    found = producer_metrics(counts, buffer_total_bytes=100, buffer_free_bytes=60, health=HEALTH)
    assert found == {
        "record-send-total": 10,
        "record-retry-total": 0,
        "record-error-total": 0,
        "byte-total": 400,
        "batch-total": 4,
        "batch-size-avg": 100.0,
        "records-per-batch-avg": 2.5,
        "request-total": 3,
        "buffer-total-bytes": 100,
        "buffer-available-bytes": 60,
        "connection-count": 2,
        "metadata-age": 1.5,
    }
    idle = producer_metrics(
        ProducerCounts(), buffer_total_bytes=1, buffer_free_bytes=1, health=HEALTH
    )
    assert (idle["batch-size-avg"], idle["records-per-batch-avg"]) == (0.0, 0.0)


def test_a_consumer_reports_its_lag() -> None:
    def metrics(lags: list[int]) -> dict[str, float]:
        return consumer_metrics(
            FetchCounts(request_count=7, failed_request_count=1),
            record_count=10,
            size_bytes=500,
            buffered_bytes=20,
            lags=lags,
            partition_count=3,
            health=HEALTH,
        )

    found = metrics([4, 6])
    assert (found["records-lag-max"], found["records-lag-total"]) == (6, 10)
    assert (found["fetch-total"], found["fetch-error-total"]) == (7, 1)
    assert (found["records-consumed-total"], found["assigned-partitions"]) == (10, 3)
    assert metrics([])["records-lag-max"] == 0

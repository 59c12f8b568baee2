"""Metrics in Prometheus' text format: `broker.status.exposition`."""

from broker.network.metrics import RequestMetrics
from broker.status.exposition import exposition
from kafkawire.apis import ApiKey


def test_gauges_have_kafkas_names_if_there_are_any() -> None:
    text = exposition({"broker_state": 3, "isr_shrinks": 2, "waiting_requests": 1}, {})
    assert text.startswith(
        "# TYPE kafka_server_KafkaServer_BrokerState gauge\n"
        "kafka_server_KafkaServer_BrokerState 3\n"
        "# TYPE kafka_server_ReplicaManager_IsrShrinks_total counter\n"
        "kafka_server_ReplicaManager_IsrShrinks_total 2\n"
        "# TYPE ottla_waiting_requests gauge\n"
        "ottla_waiting_requests 1\n"
    )


def test_durations_of_requests_are_a_histogram_by_api() -> None:
    produce = RequestMetrics()
    for duration_s in (0.00005, 0.0005, 200.0):
        produce.on_answered(duration_s)
    lines = exposition({}, {ApiKey.PRODUCE: produce}).splitlines()
    assert lines[1] == "# TYPE ottla_request_duration_seconds histogram"
    buckets = [line for line in lines if "_bucket{" in line]
    assert buckets[0] == 'ottla_request_duration_seconds_bucket{request="Produce",le="0.000064"} 1'
    assert buckets[3] == 'ottla_request_duration_seconds_bucket{request="Produce",le="0.000512"} 2'
    assert buckets[-1] == 'ottla_request_duration_seconds_bucket{request="Produce",le="+Inf"} 3'
    assert lines[-2:] == [
        'ottla_request_duration_seconds_sum{request="Produce"} 200.000550',
        'ottla_request_duration_seconds_count{request="Produce"} 3',
    ]

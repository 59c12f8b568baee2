"""Metrics of requests: `broker.status.request_metrics` and `broker.network.metrics`."""

from broker.network.metrics import RequestMetrics
from broker.network.request_timing import RequestTiming
from broker.status.request_metrics import request_pieces
from kafkawire.apis import ApiKey

PREFIX = "kafka_network_requestmetrics_"


def lines_of(metrics: RequestMetrics) -> list[str]:
    text = "".join(request_pieces({ApiKey.PRODUCE: metrics}))
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_durations_of_requests_are_a_histogram_by_api() -> None:
    produce = RequestMetrics()
    for duration_s in (0.00005, 0.0005, 200.0):
        produce.on_answered(duration_s)
    lines = lines_of(produce)
    buckets = [line for line in lines if "_bucket{" in line]
    assert buckets[0] == 'ottla_request_duration_seconds_bucket{request="Produce",le="0.000064"} 1'
    assert buckets[3] == 'ottla_request_duration_seconds_bucket{request="Produce",le="0.000512"} 2'
    assert buckets[-1] == 'ottla_request_duration_seconds_bucket{request="Produce",le="+Inf"} 3'
    assert lines[-2:] == [
        'ottla_request_duration_seconds_sum{request="Produce"} 200.000550',
        'ottla_request_duration_seconds_count{request="Produce"} 3',
    ]
    assert f'{PREFIX}requests_total{{request="Produce"}} 3' in lines


def test_the_parts_of_the_time_of_a_request_add_up() -> None:
    produce = RequestMetrics()
    timing = RequestTiming(handled_at_s=11.0)
    timing.returned_at_s, timing.completed_at_s = 13.0, 17.0
    produce.on_answered(12.0)
    produce.on_timed(timing, 10.0, 22.0)
    lines = lines_of(produce)
    values = {
        part: f'{PREFIX}{part}timems{{request="Produce",quantile="0.50"}}'
        for part in ("requestqueue", "local", "remote", "responsequeue", "total")
    }
    found = {
        part: float(line.split()[-1])
        for part, name in values.items()
        for line in lines
        if line.startswith(name)
    }
    assert found == {
        "requestqueue": 1000,
        "local": 2000,
        "remote": 4000,
        "responsequeue": 5000,
        "total": 12_000,
    }
    assert f'{PREFIX}remotetimems_count{{request="Produce"}} 1' in lines

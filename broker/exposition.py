"""Renders a broker's metrics as text for Prometheus (decision).

Source: Prometheus' text-based exposition format, version 0.0.4.
"""

from collections.abc import Iterator, Mapping

from broker.metric_names import REQUEST_DURATION, outside_name
from broker.network.metrics import RequestMetrics
from kafkawire.apis import APIS, ApiKey


def exposition(values: Mapping[str, int], requests: Mapping[int, RequestMetrics]) -> str:
    """Return the gauges' `values` and the durations of `requests` (by API key) as text."""
    return "".join(f"{line}\n" for line in (*_gauges(values), *_durations(requests)))


def _gauges(values: Mapping[str, int]) -> Iterator[str]:
    for name, value in values.items():
        outside = outside_name(name)
        yield f"# TYPE {outside} {'counter' if outside.endswith('_total') else 'gauge'}"
        yield f"{outside} {value}"


def _durations(requests: Mapping[int, RequestMetrics]) -> Iterator[str]:
    yield f"# HELP {REQUEST_DURATION} Time from the last byte read to the response's write."
    yield f"# TYPE {REQUEST_DURATION} histogram"
    for api_key, metrics in sorted(requests.items()):
        label = f'request="{APIS[ApiKey(api_key)].name}"'
        for bound_s, count in metrics.durations():
            yield f'{REQUEST_DURATION}_bucket{{{label},le="{bound_s:.6f}"}} {count}'
        yield f'{REQUEST_DURATION}_bucket{{{label},le="+Inf"}} {metrics.request_count}'
        yield f"{REQUEST_DURATION}_sum{{{label}}} {metrics.duration_sum_s:.6f}"
        yield f"{REQUEST_DURATION}_count{{{label}}} {metrics.request_count}"

"""The metrics of requests by API: their number, their time and its parts (decision).

Quantiles are taken from the last `samples.KEPT` timed requests of an API. The histogram holds every
request; unlike quantiles, histograms of several brokers can be added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from broker.network.metrics import RequestMetrics
from kafkawire.apis import APIS, ApiKey
from monitoring.exposition import COUNTER, HISTOGRAM, SUMMARY, Family, labels_text, value_text
from monitoring.samples import Samples

_REQUESTS: Final = "kafka_network_requestmetrics"
REQUEST: Final = ("request",)
STEP_APIS: Final = 8
"""APIs in one step: sorting the samples of one takes tens of microseconds."""
QUANTILE: Final = ("request", "quantile")
COUNT: Final = Family(
    name=f"{_REQUESTS}_requests_total",
    kind=COUNTER,
    meaning="Requests that were answered, by API.",
    labels=REQUEST,
)


def _summary(name: str, meaning: str) -> Family:
    return Family(name=f"{_REQUESTS}_{name}", kind=SUMMARY, meaning=meaning, labels=QUANTILE)


PARTS: Final = {
    "total": _summary(
        "totaltimems", "Milliseconds from the last byte read to the response's write."
    ),
    "request_queue": _summary(
        "requestqueuetimems", "Milliseconds that requests wait for a handler."
    ),
    "local": _summary("localtimems", "Milliseconds in the handler, on this broker."),
    "remote": _summary(
        "remotetimems", "Milliseconds of waiting for records, replicas or other brokers."
    ),
    "response_queue": _summary(
        "responsequeuetimems", "Milliseconds from the complete response to its write."
    ),
}
"""By the attributes of `RequestMetrics`."""
DURATION: Final = Family(
    name="ottla_request_duration_seconds",
    kind=HISTOGRAM,
    meaning="Time from the last byte read to the response's write, of all requests.",
    labels=("request", "le"),
)
REQUEST_FAMILIES: Final = (COUNT, *PARTS.values(), DURATION)


def request_pieces(requests: Mapping[int, RequestMetrics]) -> Iterator[str]:
    """Yield the metrics of `requests`, by API key."""
    named = [(APIS[ApiKey(key)].name, each) for key, each in sorted(requests.items())]
    yield from COUNT.pieces(((name,), each.request_count) for name, each in named)
    for attribute, family in PARTS.items():
        lines: list[str] = []
        for number, (name, each) in enumerate(named, 1):
            lines += _summary_lines(family, name, each.request_count, getattr(each, attribute))
            if number % STEP_APIS == 0:
                yield ""
        yield from family.pieces_of(lines)
    yield from DURATION.pieces_of(_durations(named))


def _summary_lines(family: Family, api: str, count: int, samples: Samples) -> list[str]:
    lines = [
        f"{family.name}{{{labels_text(QUANTILE, (api, text))}}} {value_text(value)}\n"
        for text, value in samples.quantiles()
    ]
    return [*lines, f"{family.name}_count{{{labels_text(REQUEST, (api,))}}} {count}\n"]


def _durations(named: list[tuple[str, RequestMetrics]]) -> Iterator[str]:
    name = DURATION.name
    for api, metrics in named:
        label = f'request="{api}"'
        for bound_s, count in metrics.durations():
            yield f'{name}_bucket{{{label},le="{bound_s:.6f}"}} {count}\n'
        yield f'{name}_bucket{{{label},le="+Inf"}} {metrics.request_count}\n'
        yield f"{name}_sum{{{label}}} {metrics.duration_sum_s:.6f}\n"
        yield f"{name}_count{{{label}}} {metrics.request_count}\n"

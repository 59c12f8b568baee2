"""Renders a broker's metrics as text for Prometheus (decision).

Gauges have Kafka's names where they exist, in the form that the JMX exporter gives to beans, as in
`kafka_server_ReplicaManager_LeaderCount`. Gauges that Kafka does not have begin with `ottla_`.
Source: Prometheus' text-based exposition format, version 0.0.4.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from broker.network.metrics import RequestMetrics
from kafkawire.apis import APIS, ApiKey

REQUEST_DURATION: Final = "ottla_request_duration_seconds"
"""A histogram. Kafka's `TotalTimeMs` has quantiles, which cannot be summed over brokers."""

KAFKAS_NAMES: Final[Mapping[str, str]] = {
    "broker_state": "kafka_server_KafkaServer_BrokerState",
    "partitions": "kafka_server_ReplicaManager_PartitionCount",
    "leader_count": "kafka_server_ReplicaManager_LeaderCount",
    "under_replicated_partitions": "kafka_server_ReplicaManager_UnderReplicatedPartitions",
    "under_min_isr_partition_count": "kafka_server_ReplicaManager_UnderMinIsrPartitionCount",
    "isr_shrinks": "kafka_server_ReplicaManager_IsrShrinks_total",
    "isr_expands": "kafka_server_ReplicaManager_IsrExpands_total",
    "active_controller_count": "kafka_controller_KafkaController_ActiveControllerCount",
    "controller_state": "kafka_controller_KafkaController_ControllerState",
    "offline_partitions_count": "kafka_controller_KafkaController_OfflinePartitionsCount",
    "unclean_leader_elections": "kafka_controller_ControllerStats_UncleanLeaderElections_total",
    "purgatory_size": "kafka_server_DelayedOperationPurgatory_PurgatorySize",
    "request_queue_size": "kafka_network_RequestChannel_RequestQueueSize",
}


def exposition(values: Mapping[str, int], requests: Mapping[int, RequestMetrics]) -> str:
    """Return the gauges' `values` and the durations of `requests` (by API key) as text."""
    return "".join(f"{line}\n" for line in (*_gauges(values), *_durations(requests)))


def _gauges(values: Mapping[str, int]) -> Iterator[str]:
    for name, value in values.items():
        outside = _outside_name(name)
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


def _outside_name(name: str) -> str:
    return KAFKAS_NAMES.get(name, f"ottla_{name}")

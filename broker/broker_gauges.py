"""Gauges of a whole broker (composition)."""

from __future__ import annotations

from collections.abc import Iterator

from broker.cluster.controller_role import ControllerRole
from broker.metrics import Metrics
from broker.network.metrics import NetworkMetrics
from broker.network.socket_server import SocketServer
from broker.purgatory import Purgatory
from broker.replication.leadership import Leadership
from broker.replication.replica_manager import ReplicaManager
from kafkawire.ids import TopicPartition


def add_gauges(
    metrics: Metrics,
    server: SocketServer,
    purgatory: Purgatory[TopicPartition],
    replicas: ReplicaManager,
    controller: ControllerRole,
) -> None:
    """Add the gauges of the broker's parts to `metrics`."""
    metrics.add_gauge("connections", lambda: server.connection_count)
    metrics.add_gauge("partitions", lambda: replicas.partition_count)
    metrics.add_gauge("waiting_requests", lambda: purgatory.waiting.operation_count)
    metrics.add_gauge("purgatory_size", lambda: purgatory.waiting.watcher_count)
    metrics.add_gauge("leader_count", lambda: sum(1 for _ in _led(replicas)))
    metrics.add_gauge(
        "under_replicated_partitions",
        lambda: sum(len(each.state.isr) < len(each.replicas) for each in _led(replicas)),
    )
    metrics.add_gauge(
        "under_min_isr_partition_count",
        lambda: sum(not each.has_min_isr for each in _led(replicas)),
    )
    metrics.add_gauge("isr_shrinks", lambda: replicas.isr_change_counts[0])
    metrics.add_gauge("isr_expands", lambda: replicas.isr_change_counts[1])
    for name, read in controller.gauges.items():
        metrics.add_gauge(name, read)


def add_network_gauges(metrics: Metrics, network: NetworkMetrics) -> None:
    """Add the gauges of all connections together to `metrics`."""
    metrics.add_gauge("request_queue_size", lambda: network.queue_length)
    metrics.add_gauge("bytes_in_total", lambda: network.bytes_in)
    metrics.add_gauge("bytes_out_total", lambda: network.bytes_out)
    metrics.add_gauge("sendfile_bytes_total", lambda: network.sendfile_bytes)
    metrics.add_gauge("cold_reads_total", lambda: network.cold_reads)
    metrics.add_gauge("connections_accepted_total", lambda: network.connections_accepted)
    metrics.add_gauge("connections_refused_total", lambda: network.connections_refused)
    metrics.add_gauge("connections_dropped_total", lambda: network.connections_dropped)
    metrics.add_gauge("handler_failures_total", lambda: network.handler_failures)
    metrics.add_gauge("read_pauses_total", lambda: network.read_pauses)


def _led(replicas: ReplicaManager) -> Iterator[Leadership]:
    return (each.leadership for each in replicas if each.leadership is not None)

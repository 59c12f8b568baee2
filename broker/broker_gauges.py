"""What is counted of a whole broker (composition)."""

from __future__ import annotations

from broker.metrics import Metrics
from broker.network.socket_server import SocketServer
from broker.purgatory import Purgatory
from broker.replication.replica_manager import ReplicaManager
from controller.controller import Controller
from kafkawire.ids import TopicPartition


def add_gauges(
    metrics: Metrics,
    server: SocketServer,
    purgatory: Purgatory[TopicPartition],
    replicas: ReplicaManager,
    controller: Controller,
) -> None:
    """Let `metrics` tell of the broker's parts."""
    metrics.add_gauge("connections", lambda: server.connection_count)
    metrics.add_gauge("partitions", lambda: replicas.partition_count)
    metrics.add_gauge("waiting_requests", lambda: purgatory.waiting.operation_count)
    metrics.add_gauge("active_controller_count", lambda: int(controller.is_active))

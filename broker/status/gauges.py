"""The gauges of a broker (composition), read only for a snapshot.

The counters behind them are plain attributes of the parts that count, so that counting costs
nothing on the hot path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final

from broker.cluster.controller_role import ControllerRole
from broker.network.metrics import NetworkMetrics
from broker.purgatory import Purgatory
from broker.replication.leadership import Leadership
from broker.replication.replica_manager import ReplicaManager
from broker.status.gauge_families import GAUGE_FAMILIES
from kafkawire.ids import TopicPartition
from storage.directory.logs import Logs

LATE_MS: Final = 5 * 60 * 1000
"""Time for the markers of a transaction that its coordinator has aborted, as in Kafka."""


class BrokerState(IntEnum):
    """Kafka's numbers for the states of a broker."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class Metrics:
    """The broker's state, and gauges by name."""

    def __init__(self) -> None:
        self.state = BrokerState.NOT_RUNNING
        self._gauges: dict[str, Callable[[], int]] = {}

    def add_gauge(self, name: str, read: Callable[[], int]) -> None:
        """Add the gauge `name` of `GAUGE_FAMILIES`, whose value `read` returns."""
        assert name in GAUGE_FAMILIES, f"gauge {name} has no family"
        assert name not in self._gauges, f"duplicate gauge {name}"
        self._gauges[name] = read

    def snapshot(self) -> dict[str, int]:
        """Return all values, by name."""
        values = {name: read() for name, read in self._gauges.items()}
        return {"broker_state": int(self.state), **values}

    def pieces(self) -> Iterator[str]:
        """Yield the text of each metric.

        An empty piece after each lets other work run, because some gauges look at every partition.
        """
        gauges = {"broker_state": lambda: int(self.state), **self._gauges}
        for name, read in gauges.items():
            yield from GAUGE_FAMILIES[name].pieces([((), read())])
            yield ""


def add_gauges(
    metrics: Metrics,
    purgatory: Purgatory[TopicPartition],
    replicas: ReplicaManager,
    controller: ControllerRole,
) -> None:
    """Add the gauges of the broker's parts to `metrics`."""
    metrics.add_gauge("partitions", lambda: len(replicas.table))
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
    metrics.add_gauge(
        "at_min_isr_partition_count",
        lambda: sum(len(each.state.isr) == each.effective_min_isr for each in _led(replicas)),
    )
    metrics.add_gauge("offline_replica_count", lambda: replicas.table.offline_count)
    metrics.add_gauge("max_replica_lag", lambda: _max_lag(replicas))
    metrics.add_gauge("isr_failures", lambda: replicas.isr_failure_count)
    metrics.add_gauge("isr_shrinks", lambda: replicas.isr_change_counts[0])
    metrics.add_gauge("isr_expands", lambda: replicas.isr_change_counts[1])
    for name, read in controller.gauges.items():
        metrics.add_gauge(name, read)


def add_transaction_gauges(
    metrics: Metrics, replicas: ReplicaManager, max_timeout_ms: int, now_ms: Callable[[], int]
) -> None:
    """Add gauges of open transactions; a late one is open after any timeout of its coordinator."""

    def late_count() -> int:
        since_ms = now_ms() - max_timeout_ms - LATE_MS
        return sum(each.log.producers.has_transaction_idle_since(since_ms) for each in replicas)

    metrics.add_gauge(
        "open_transactions",
        lambda: sum(each.log.producers.open_transaction_count for each in replicas),
    )
    metrics.add_gauge("partitions_with_late_transactions_count", late_count)


def add_network_gauges(metrics: Metrics, network: NetworkMetrics) -> None:
    """Add the gauges of all connections together to `metrics`."""
    metrics.add_gauge("request_queue_size", lambda: network.queue_length)
    metrics.add_gauge("bytes_in_total", lambda: network.bytes_in)
    metrics.add_gauge("bytes_out_total", lambda: network.bytes_out)
    metrics.add_gauge("sendfile_bytes_total", lambda: network.sendfile_bytes)
    metrics.add_gauge("cold_reads_total", lambda: network.cold_reads)
    metrics.add_gauge("authentications_total", lambda: network.authentications)
    metrics.add_gauge("authentications_failed_total", lambda: network.authentications_failed)
    metrics.add_gauge("connections_accepted_total", lambda: network.connections_accepted)
    metrics.add_gauge("connections_refused_total", lambda: network.connections_refused)
    metrics.add_gauge("connections_dropped_total", lambda: network.connections_dropped)
    metrics.add_gauge("handler_failures_total", lambda: network.handler_failures)
    metrics.add_gauge("read_pauses_total", lambda: network.read_pauses)


def add_log_gauges(metrics: Metrics, logs: Logs) -> None:
    """Add gauges of disk problems, which should be 0, and of known producer ids."""
    metrics.add_gauge("producer_ids", lambda: sum(len(log.producers) for log in logs))
    metrics.add_gauge("offline_log_dirs", lambda: len(logs.table.offline_paths))
    metrics.add_gauge("full_log_dirs", lambda: len(logs.table.full_paths))
    metrics.add_gauge("damaged_segments", lambda: logs.table.damage_count)


def _max_lag(replicas: ReplicaManager) -> int:
    lags = (lag for _, partitions in replicas.fetcher_lags() for _, lag in partitions)
    return max(lags, default=0)


def _led(replicas: ReplicaManager) -> Iterator[Leadership]:
    return (each.leadership for each in replicas if each.leadership is not None)

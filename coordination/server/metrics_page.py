"""The coordinator's metrics for Prometheus, with ZooKeeper's names (decision).

The names are as in ZooKeeper's PrometheusMetricsProvider; metrics that ZooKeeper does not have
begin with `ottla_coordinator_`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from coordination.server.four_letter import ReportedServer
from monitoring.exposition import COUNTER, GAUGE, SUMMARY, Family, Value, value_text

_GAUGES: Final[Mapping[str, tuple[str, Callable[[ReportedServer], Value]]]] = {
    "uptime": ("Milliseconds since the start.", lambda server: server.uptime_ms),
    "quorum_size": ("Servers of the ensemble: 1.", lambda _server: 1),
    "num_alive_connections": ("Open connections.", lambda server: len(server.connections)),
    "outstanding_requests": (
        "Transactions that wait for a sync of the log.",
        lambda server: server.unsynced_count,
    ),
    "znode_count": ("Nodes of the tree.", lambda server: server.service.state.tree.node_count),
    "watch_count": (
        "Watches that clients have set.",
        lambda server: (
            server.service.watches.data.watch_count + server.service.watches.children.watch_count
        ),
    ),
    "ephemerals_count": (
        "Nodes that end with their session.",
        lambda server: sum(map(len, server.service.state.tree.ephemerals.values())),
    ),
    "approximate_data_size": (
        "Bytes of paths and data of all nodes.",
        lambda server: server.service.state.tree.data_bytes,
    ),
    "global_sessions": ("Sessions.", lambda server: len(server.service.sessions)),
    "avg_latency": (
        "Mean milliseconds from a packet to its reply.",
        lambda server: server.metrics.latency_avg_ms,
    ),
    "min_latency": (
        "Least milliseconds from a packet to its reply.",
        lambda server: server.metrics.latency_min_ms,
    ),
    "max_latency": (
        "Most milliseconds from a packet to its reply.",
        lambda server: server.metrics.latency_max_ms,
    ),
}
_COUNTERS: Final[Mapping[str, tuple[str, Callable[[ReportedServer], Value]]]] = {
    "packets_received": ("Packets of clients.", lambda server: server.metrics.received_count),
    "packets_sent": ("Packets to clients.", lambda server: server.metrics.sent_count),
    "stale_sessions_expired": (
        "Sessions that ended by their timeout.",
        lambda server: server.metrics.expired_count,
    ),
    "connection_rejected": (
        "Connections that were rejected: bad input, limits, clients with a newer transaction id.",
        lambda server: server.metrics.rejected_count,
    ),
    "ottla_coordinator_stalls_total": (
        "Delays of the event loop that were longer than a tick.",
        lambda server: server.metrics.stall_count,
    ),
}
FAMILIES: Final = {
    name: Family(name=name, kind=kind, meaning=rows[name][0])
    for kind, rows in ((GAUGE, _GAUGES), (COUNTER, _COUNTERS))
    for name in rows
}
SYNC_TIME: Final = Family(
    name="fsynctime",
    kind=SUMMARY,
    meaning="Milliseconds from the write of a batch of transactions to the end of its sync.",
    labels=("quantile",),
)
COORDINATOR_FAMILIES: Final = (*FAMILIES.values(), SYNC_TIME)


def coordinator_pieces(server: ReportedServer) -> Iterator[str]:
    """Yield the metrics of `server`."""
    for name, (_, read) in (*_GAUGES.items(), *_COUNTERS.items()):
        yield from FAMILIES[name].pieces([((), read(server))])
    lines = [
        f'{SYNC_TIME.name}{{quantile="{text}"}} {value_text(value)}\n'
        for text, value in server.sync_times_ms.quantiles()
    ]
    yield from SYNC_TIME.pieces_of([*lines, f"{SYNC_TIME.name}_count {server.sync_count}\n"])

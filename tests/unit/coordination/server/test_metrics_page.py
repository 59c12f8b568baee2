"""Metrics of the coordinator: `coordination.server.metrics_page`."""

from types import SimpleNamespace
from typing import cast

from coordination.server.four_letter import Metrics, ReportedServer
from coordination.server.metrics_page import COORDINATOR_FAMILIES, coordinator_pieces
from monitoring.samples import Samples


def server() -> ReportedServer:
    watches = SimpleNamespace(
        data=SimpleNamespace(watch_count=2), children=SimpleNamespace(watch_count=3)
    )
    tree = SimpleNamespace(node_count=7, ephemerals={1: ["/a", "/b"]}, data_bytes=100)
    state = SimpleNamespace(tree=tree)
    times = Samples()
    times.add(1.5)
    made = SimpleNamespace(
        metrics=Metrics(),
        service=SimpleNamespace(state=state, watches=watches, sessions=[1]),
        connections=[1, 2],
        uptime_ms=5,
        unsynced_count=4,
        sync_count=1,
        sync_times_ms=times,
    )
    return cast(ReportedServer, made)


def test_the_metrics_have_zookeepers_names() -> None:
    text = "".join(coordinator_pieces(server()))
    lines = {line for line in text.splitlines() if not line.startswith("#")}
    assert lines >= {
        "znode_count 7",
        "watch_count 5",
        "ephemerals_count 2",
        "approximate_data_size 100",
        "num_alive_connections 2",
        "outstanding_requests 4",
        "global_sessions 1",
        "quorum_size 1",
        "avg_latency 0",
        'fsynctime{quantile="0.99"} 1.5',
        "fsynctime_count 1",
    }
    assert text.count("# TYPE ") == len(COORDINATOR_FAMILIES)

"""The metrics of partitions, topics, quotas and groups of a running broker (composition)."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from broker.cluster.controller_role import ControllerRole
from broker.groups.registry import GroupRegistry
from broker.network.socket_server import SocketServer
from broker.quotas.client_quotas import ClientQuotas
from broker.replication.replica_manager import ReplicaManager
from broker.status.broker_status import BrokerStatus
from broker.status.controller_metrics import controller_pieces
from broker.status.end_offsets import EndOffsets
from broker.status.group_metrics import GroupsShown, collect_groups, group_pieces
from broker.status.partition_metrics import MAX_PARTITIONS, partition_pieces
from broker.status.quota_metrics import quota_pieces
from broker.status.topic_metrics import topic_pieces
from monitoring.exposition import GAUGE, Family

CONNECTIONS: Final = Family(
    name="kafka_server_socket_server_metrics_connection_count",
    kind=GAUGE,
    meaning="Open connections of a listener.",
    labels=("listener",),
)
PARTITIONS_LEFT_OUT: Final = Family(
    name="ottla_metrics_partitions_left_out",
    kind=GAUGE,
    meaning="Partitions beyond the limit of this page.",
)
GROUPS_LEFT_OUT: Final = Family(
    name="ottla_metrics_groups_left_out",
    kind=GAUGE,
    meaning="Groups and offsets of groups beyond the limits of this page.",
)
OTHER_FAMILIES: Final = (CONNECTIONS, PARTITIONS_LEFT_OUT, GROUPS_LEFT_OUT)


def watch_partitions(status: BrokerStatus, replicas: ReplicaManager) -> None:
    """Show the traffic of topics, and the partitions on this broker."""
    status.add(lambda: topic_pieces(replicas.table.traffic))

    def partitions() -> Iterator[str]:
        held = list(replicas)
        yield from partition_pieces(held, replicas.fetcher_lags())
        yield from PARTITIONS_LEFT_OUT.pieces([((), max(0, len(held) - MAX_PARTITIONS))])

    status.add(partitions)


def watch_groups(status: BrokerStatus, groups: GroupRegistry, ends: EndOffsets) -> None:
    """Show the groups that this broker coordinates, with their lags."""

    async def pieces() -> AsyncIterator[str]:
        shown = GroupsShown()
        for _ in collect_groups(list(groups), shown):
            yield ""
        found = await ends.read(shown.partitions)
        yield ""
        for piece in group_pieces(shown, found):
            yield piece
        for piece in GROUPS_LEFT_OUT.pieces([((), shown.left_out_count)]):
            yield piece

    status.add(pieces)


def watch_clients(
    status: BrokerStatus,
    server: SocketServer,
    quotas: ClientQuotas,
    controller: ControllerRole,
    clock_ms: Callable[[], int],
) -> None:
    """Show the connections by listener, the use of quotas, and the controller's timers."""

    def connections() -> Iterator[str]:
        counts: Counter[str] = Counter(dict.fromkeys(server.bound_addresses, 0))
        counts.update(server.connection_counts)
        yield from CONNECTIONS.pieces(((name,), count) for name, count in sorted(counts.items()))

    status.add(connections)
    status.add(lambda: quota_pieces(quotas, clock_ms()))
    status.add(lambda: controller_pieces(controller.timers, controller.queue_time))

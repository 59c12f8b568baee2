"""Notifications from brokers, which the controller reads and then deletes (decision)."""

from collections.abc import Callable
from typing import TypeVar

from clusterstate.errors import MalformedZnodeError
from clusterstate.plans import Delete, read
from clusterstate.znodes import paths
from clusterstate.znodes.notification import decode_log_dir_event, decode_partitions
from controller.cluster import Cluster
from controller.effects import Plan
from controller.fenced_writes import write_fenced
from controller.lost_watches import watch_children
from kafkawire.ids import BrokerId, TopicPartition

_T = TypeVar("_T")


def take_log_dir_events(cluster: Cluster) -> Plan[list[BrokerId]]:
    """Return the brokers that lost a log directory."""
    brokers = yield from _take(cluster, paths.LOG_DIR_EVENTS, decode_log_dir_event)
    return sorted(set(brokers))


def take_isr_changes(cluster: Cluster) -> Plan[list[TopicPartition]]:
    """Return the partitions whose leaders have changed the in-sync set."""
    changes = yield from _take(cluster, paths.ISR_CHANGES, decode_partitions)
    return sorted({partition for partitions in changes for partition in partitions})


def _take(cluster: Cluster, parent: str, decode: Callable[[bytes | None], _T]) -> Plan[list[_T]]:
    """Decode and delete the notifications below `parent`; malformed ones are only deleted."""
    names = (yield from watch_children(parent)) or ()
    found = [f"{parent}/{name}" for name in sorted(names)]
    nodes = yield from read(found)
    notifications: list[_T] = []
    for node in nodes:
        try:
            if node is not None:
                notifications.append(decode(node.data))
        except MalformedZnodeError:
            continue
    yield from write_fenced(cluster, [(Delete(path),) for path in found])
    return notifications

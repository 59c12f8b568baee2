"""Notifications from brokers, which the controller reads and then deletes (decision)."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from controller.cluster import Cluster
from controller.effects import Create, Delete, Plan, list_children, read, write
from controller.errors import MalformedZnodeError
from controller.fenced_writes import write_fenced
from controller.znodes import paths
from controller.znodes.notification import (
    decode_log_dir_event,
    decode_partitions,
    encode_log_dir_event,
    encode_partitions,
)
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


def notify_log_dir_failure(broker_id: BrokerId) -> Plan[None]:
    """Notify the controller that a log directory of this broker has failed."""
    notification = encode_log_dir_event(broker_id)
    yield from write([(Create(paths.LOG_DIR_EVENT_PREFIX, notification, sequential=True),)])


def notify_isr_changes(partitions: Iterable[TopicPartition]) -> Plan[None]:
    """Notify the controller of in-sync sets that their leader has written itself."""
    notification = encode_partitions(partitions)
    yield from write([(Create(paths.ISR_CHANGE_PREFIX, notification, sequential=True),)])


def _take(cluster: Cluster, parent: str, decode: Callable[[bytes | None], _T]) -> Plan[list[_T]]:
    """Decode and delete the notifications below `parent`; malformed ones are only deleted."""
    names = yield from list_children(parent, watch=True)
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

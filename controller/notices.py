"""Notices that brokers leave for the controller, which reads and then deletes them (decision)."""

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
    """Return the partitions whose in-sync sets their leaders have changed."""
    notices = yield from _take(cluster, paths.ISR_CHANGES, decode_partitions)
    return sorted({partition for notice in notices for partition in notice})


def tell_log_dir_failure(broker_id: BrokerId) -> Plan[None]:
    """Leave a notice that a broker has lost a log directory; its broker performs this."""
    notice = encode_log_dir_event(broker_id)
    yield from write([(Create(paths.LOG_DIR_EVENT_PREFIX, notice, sequential=True),)])


def tell_isr_changes(partitions: Iterable[TopicPartition]) -> Plan[None]:
    """Leave a notice of in-sync sets that their leader has changed by itself."""
    notice = encode_partitions(partitions)
    yield from write([(Create(paths.ISR_CHANGE_PREFIX, notice, sequential=True),)])


def _take(cluster: Cluster, parent: str, decode: Callable[[bytes | None], _T]) -> Plan[list[_T]]:
    """Return what the notices below `parent` say; those that cannot be read are only deleted."""
    names = yield from list_children(parent, watch=True)
    found = [f"{parent}/{name}" for name in sorted(names)]
    nodes = yield from read(found)
    notices: list[_T] = []
    for node in nodes:
        try:
            if node is not None:
                notices.append(decode(node.data))
        except MalformedZnodeError:
            continue
    yield from write_fenced(cluster, [(Delete(path),) for path in found])
    return notices

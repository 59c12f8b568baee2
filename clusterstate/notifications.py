"""Notifications from brokers to the controller (decision), which reads and then deletes them."""

from collections.abc import Iterable

from clusterstate.plans import Create, Plan, write
from clusterstate.znodes import paths
from clusterstate.znodes.notification import encode_log_dir_event, encode_partitions
from kafkawire.ids import BrokerId, TopicPartition


def notify_log_dir_failure(broker_id: BrokerId) -> Plan[None]:
    """Notify the controller that a log directory of this broker has failed."""
    notification = encode_log_dir_event(broker_id)
    yield from write([(Create(paths.LOG_DIR_EVENT_PREFIX, notification, sequential=True),)])


def notify_isr_changes(partitions: Iterable[TopicPartition]) -> Plan[None]:
    """Notify the controller of in-sync sets that their leader has written itself."""
    notification = encode_partitions(partitions)
    yield from write([(Create(paths.ISR_CHANGE_PREFIX, notification, sequential=True),)])

"""Deletion of topics (decision).

The controller first sends all brokers metadata in which the partitions have no leader. Each replica
is then stopped and deleted. Once all brokers have confirmed, the controller deletes the topic's
znodes, and the deletion request last. A dead replica or a reassignment halts a deletion until it is
resumed. Until then a partition under reassignment is led and repaired like any other, because its
reassignment could not complete otherwise.

Source: kafka.controller.TopicDeletionManager of Kafka 3.9.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from clusterstate.errors import MalformedZnodeError
from clusterstate.plans import Delete, Transaction, list_children, read
from clusterstate.znodes import paths
from clusterstate.znodes.topic import decode_topic
from controller import reassignment_node
from controller.cluster import Cluster
from controller.effects import Note, Plan
from controller.fenced_writes import write_fenced
from controller.partition_state import PartitionState
from controller.replica_state import PartitionReplica, ReplicaState
from controller.replica_transitions import mark, to_deletion_started, to_offline
from controller.request_batch import RequestBatch
from coordination.errors import NoAuthError

MAX_PARTITIONS_AT_ONCE: Final = 10
"""Most partitions of a topic whose znodes are deleted in one transaction.

With `CHANGES_PER_TRANSACTION` topics and their longest names, that is less than the size limit of
the coordinator.
"""


def enqueue(cluster: Cluster, topics: Iterable[str]) -> Plan[None]:
    """Queue `topics` for deletion, and start each deletion that is not halted."""
    wanted = set(topics)
    if not cluster.config.delete_topic_enable:
        yield from forget_requests(cluster, sorted(wanted))
        return
    cluster.deletions.queued |= wanted
    moving = {partition.topic for partition in cluster.moving}
    cluster.deletions.halted |= wanted & moving
    yield from proceed(cluster)


def forget_requests(cluster: Cluster, topics: Sequence[str]) -> Plan[None]:
    """Delete the requests for deletions that are completed or refused."""
    yield from write_fenced(cluster, [(Delete(paths.topic_deletion(one)),) for one in topics])


def halt(cluster: Cluster, topics: Iterable[str]) -> None:
    """Halt the deletion of `topics` until `resume`."""
    cluster.deletions.halted |= cluster.deletions.queued & set(topics)


def resume(cluster: Cluster, topics: Iterable[str]) -> Plan[None]:
    """Resume the queued deletions among `topics`, except of topics under reassignment."""
    moving = {partition.topic for partition in cluster.moving}
    resumed = (cluster.deletions.queued & set(topics)) - moving
    if resumed:
        cluster.deletions.halted -= resumed
        yield from proceed(cluster)


def on_replicas_deleted(cluster: Cluster, replicas: Iterable[PartitionReplica]) -> Plan[None]:
    """Record that brokers have deleted replicas, and proceed."""
    mark(cluster, _of_queued(cluster, replicas), ReplicaState.DELETION_SUCCESSFUL)
    yield from proceed(cluster)


def on_replicas_failed(cluster: Cluster, replicas: Iterable[PartitionReplica]) -> Plan[None]:
    """Halt the deletion of replicas whose broker died or whose disk failed."""
    failed = _of_queued(cluster, replicas)
    if failed:
        mark(cluster, failed, ReplicaState.DELETION_INELIGIBLE)
        halt(cluster, {replica.partition.topic for replica in failed})
        yield from proceed(cluster)


def _of_queued(cluster: Cluster, replicas: Iterable[PartitionReplica]) -> list[PartitionReplica]:
    return [one for one in replicas if cluster.is_being_deleted(one.partition.topic)]


def proceed(cluster: Cluster) -> Plan[None]:
    """Advance every queued deletion as far as possible."""
    retried: list[PartitionReplica] = []
    eligible: list[str] = []
    deleted: list[str] = []
    for topic in sorted(cluster.deletions.queued):
        states = {
            cluster.replica_state(replica)
            for replica in cluster.replicas_of(cluster.partitions_of(topic))
        }
        if states <= {ReplicaState.DELETION_SUCCESSFUL}:
            deleted.append(topic)
            continue
        if ReplicaState.DELETION_STARTED in states:
            continue
        retried += cluster.replicas_in(topic, ReplicaState.DELETION_INELIGIBLE)
        if topic not in cluster.deletions.halted:
            eligible.append(topic)
    yield from _complete(cluster, deleted)
    batch = RequestBatch(cluster)
    yield from to_offline(cluster, batch, retried)
    yield from batch.send()
    if eligible:
        yield from _start(cluster, eligible)


def _start(cluster: Cluster, topics: Sequence[str]) -> Plan[None]:
    partitions = [one for topic in topics for one in cluster.partitions_of(topic)]
    for topic in topics:
        if topic not in cluster.deletions.started:
            _end_partitions(cluster, topic)
            cluster.deletions.started.add(topic)
    batch = RequestBatch(cluster)
    batch.add_update_metadata(cluster.brokers, partitions)
    yield from batch.send()

    alive: list[PartitionReplica] = []
    dead: list[PartitionReplica] = []
    for replica in cluster.replicas_of(partitions):
        (alive if cluster.is_online(replica.broker, replica.partition) else dead).append(replica)
    done = ReplicaState.DELETION_SUCCESSFUL
    left = [replica for replica in alive if cluster.replica_state(replica) is not done]
    mark(cluster, dead, ReplicaState.DELETION_INELIGIBLE)
    halt(cluster, {replica.partition.topic for replica in dead})
    # Each broker gets two requests in this order: stop, then delete.
    yield from to_offline(cluster, batch, left)
    yield from batch.send()
    to_deletion_started(cluster, batch, left)
    yield from batch.send()


def _end_partitions(cluster: Cluster, topic: str) -> None:
    for partition in cluster.partitions_of(topic):
        if cluster.partition_state(partition) is not PartitionState.NON_EXISTENT:
            cluster.move_partition(partition, PartitionState.OFFLINE)
            cluster.move_partition(partition, PartitionState.NON_EXISTENT)


def _complete(cluster: Cluster, topics: Sequence[str]) -> Plan[None]:
    """Delete the znodes of topics that no broker has a replica of, and the deletion requests."""
    if not topics:
        return
    small = [one for one in topics if len(cluster.partitions_of(one)) <= MAX_PARTITIONS_AT_ONCE]
    left = set(topics)
    configs = yield from read([paths.config(f"topics/{topic}") for topic in small])
    changes = [
        _deletes(cluster, topic, has_config=config is not None)
        for topic, config in zip(small, configs, strict=True)
    ]
    outcomes = yield from write_fenced(cluster, changes)
    left -= {one for one, outcome in zip(small, outcomes, strict=True) if outcome.refusal is None}
    for topic in sorted(left):
        if not (yield from _is_gone(cluster, topic)):
            yield from _delete_by_levels(cluster, topic)
    partitions = [one for topic in topics for one in cluster.partitions_of(topic)]
    yield from reassignment_node.forget_requests(cluster, partitions)
    for topic in topics:
        cluster.remove_topic(topic)
        yield Note("topic.deleted", {"topic": topic})


def _deletes(cluster: Cluster, topic: str, *, has_config: bool) -> Transaction:
    """Return the deletion of all znodes of a topic; refused if there are others or fewer."""
    partitions = cluster.partitions_of(topic)
    nodes = (
        *(paths.partition_state(one) for one in partitions),
        *(paths.partition(one) for one in partitions),
        paths.partitions(topic),
        paths.topic(topic),
        *([paths.config(f"topics/{topic}")] if has_config else ()),
        paths.topic_deletion(topic),
    )
    return tuple(Delete(path) for path in nodes)


def _is_gone(cluster: Cluster, topic: str) -> Plan[bool]:
    """Whether the deletion was applied, but its response was lost.

    The request is the last znode to go. A topic of the same name may have been created since.
    """
    request, node = yield from read((paths.topic_deletion(topic), paths.topic(topic)))
    if request is not None:
        return False
    if node is None:
        return True
    try:
        return decode_topic(node.data).topic_id != cluster.topic_ids.get(topic)
    except MalformedZnodeError:
        return False


def _delete_by_levels(cluster: Cluster, topic: str) -> Plan[None]:
    """Delete a topic's znodes from the leaves up; missing ones are skipped."""
    names: Iterable[str]
    try:
        names = yield from list_children(paths.partitions(topic))
    except NoAuthError:
        names = [str(one.partition) for one in cluster.partitions_of(topic)]
    below: Collection[str] = [f"{paths.partitions(topic)}/{name}" for name in sorted(names)]
    for nodes in (
        [f"{path}/state" for path in below],
        below,
        [paths.partitions(topic)],
        [paths.topic(topic)],
        [paths.config(f"topics/{topic}")],
        [paths.topic_deletion(topic)],
    ):
        yield from write_fenced(cluster, [(Delete(path),) for path in nodes])

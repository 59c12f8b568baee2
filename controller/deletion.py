"""Deleting topics (decision).

A topic goes in this order: brokers hear that its partitions have no leader any more, each replica
is stopped and then deleted, and when all brokers have said so its nodes are deleted, the request
for the deletion last. A dead replica or a reassignment halts a deletion until it is over.
Until then a partition that is being reassigned is led and repaired as any other, or its
reassignment could not end.

Source: kafka.controller.TopicDeletionManager of Kafka 3.9.
"""

from collections.abc import Collection, Iterable, Sequence

from controller import reassignment_node
from controller.cluster import Cluster
from controller.effects import Delete, Note, Plan, list_children
from controller.fenced_writes import write_fenced
from controller.partition_state import PartitionState
from controller.replica_moves import mark, to_deletion_started, to_offline
from controller.replica_state import PartitionReplica, ReplicaState
from controller.request_batch import RequestBatch
from controller.znodes import paths


def enqueue(cluster: Cluster, topics: Iterable[str]) -> Plan[None]:
    """Delete `topics`, as soon as nothing halts it."""
    wanted = set(topics)
    if not cluster.config.delete_topic_enable:
        yield from forget_requests(cluster, sorted(wanted))
        return
    cluster.deletions.queued |= wanted
    moving = {partition.topic for partition in cluster.moving}
    cluster.deletions.halted |= wanted & moving
    yield from proceed(cluster)


def forget_requests(cluster: Cluster, topics: Sequence[str]) -> Plan[None]:
    """Drop requests for deletions that will not be done, or are done."""
    yield from write_fenced(cluster, [(Delete(paths.topic_deletion(one)),) for one in topics])


def halt(cluster: Cluster, topics: Iterable[str]) -> None:
    """Do nothing more about the deletion of `topics` until `resume`."""
    cluster.deletions.halted |= cluster.deletions.queued & set(topics)


def resume(cluster: Cluster, topics: Iterable[str]) -> Plan[None]:
    """Go on with the deletion of those of `topics` that are queued, and not moved any more."""
    moving = {partition.topic for partition in cluster.moving}
    resumed = (cluster.deletions.queued & set(topics)) - moving
    if resumed:
        cluster.deletions.halted -= resumed
        yield from proceed(cluster)


def on_replicas_deleted(cluster: Cluster, replicas: Iterable[PartitionReplica]) -> Plan[None]:
    """Note that brokers have deleted replicas."""
    mark(cluster, _of_queued(cluster, replicas), ReplicaState.DELETION_SUCCESSFUL)
    yield from proceed(cluster)


def on_replicas_failed(cluster: Cluster, replicas: Iterable[PartitionReplica]) -> Plan[None]:
    """Note that replicas cannot be deleted now: their broker died, or its disk failed."""
    failed = _of_queued(cluster, replicas)
    if failed:
        mark(cluster, failed, ReplicaState.DELETION_INELIGIBLE)
        halt(cluster, {replica.partition.topic for replica in failed})
        yield from proceed(cluster)


def _of_queued(cluster: Cluster, replicas: Iterable[PartitionReplica]) -> list[PartitionReplica]:
    return [one for one in replicas if cluster.is_being_deleted(one.partition.topic)]


def proceed(cluster: Cluster) -> Plan[None]:
    """Take every queued deletion as far as it can go now."""
    retried: list[PartitionReplica] = []
    eligible: list[str] = []
    for topic in sorted(cluster.deletions.queued):
        states = {
            cluster.replica_state(replica)
            for replica in cluster.replicas_of(cluster.partitions_of(topic))
        }
        if states <= {ReplicaState.DELETION_SUCCESSFUL}:
            yield from _complete(cluster, topic)
            continue
        if ReplicaState.DELETION_STARTED in states:
            continue
        retried += cluster.replicas_in(topic, ReplicaState.DELETION_INELIGIBLE)
        if topic not in cluster.deletions.halted:
            eligible.append(topic)
    batch = RequestBatch(cluster)
    yield from to_offline(cluster, batch, retried)
    yield from batch.send()
    if eligible:
        yield from _start(cluster, eligible)


def _start(cluster: Cluster, topics: Sequence[str]) -> Plan[None]:
    partitions = [one for topic in topics for one in cluster.partitions_of(topic)]
    for partition in partitions:
        if partition.topic not in cluster.deletions.started:
            _end_partition(cluster, partition.topic)
            cluster.deletions.started.add(partition.topic)
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
    # First stop, then delete: in two requests, for each broker in this order.
    yield from to_offline(cluster, batch, left)
    yield from batch.send()
    to_deletion_started(cluster, batch, left)
    yield from batch.send()


def _end_partition(cluster: Cluster, topic: str) -> None:
    for partition in cluster.partitions_of(topic):
        if cluster.partition_state(partition) is not PartitionState.NON_EXISTENT:
            cluster.move_partition(partition, PartitionState.OFFLINE)
            cluster.move_partition(partition, PartitionState.NON_EXISTENT)


def _complete(cluster: Cluster, topic: str) -> Plan[None]:
    """Delete a topic's nodes from the leaves up; one that is gone already is no fault."""
    partitions = yield from list_children(paths.partitions(topic))
    below: Collection[str] = [f"{paths.partitions(topic)}/{name}" for name in sorted(partitions)]
    for nodes in (
        [f"{path}/state" for path in below],
        below,
        [paths.partitions(topic)],
        [paths.topic(topic)],
        [paths.config(f"topics/{topic}")],
        [paths.topic_deletion(topic)],
    ):
        yield from write_fenced(cluster, [(Delete(path),) for path in nodes])
    yield from reassignment_node.forget_requests(cluster, cluster.partitions_of(topic))
    cluster.remove_topic(topic)
    yield Note("topic.deleted", {"topic": topic})

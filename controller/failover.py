"""Failover: the first steps of a newly elected controller (decision).

The reads set the watches, so no change is missed between the image and the first notification.
Brokers get the list of live brokers before any leaderships. Missing leaders are then elected from
the states that this broker last received (`last_told`), before the states are read. Both updates
are INCREMENTAL: a starting broker serves no clients until it has all partitions. Elections,
deletions and reassignments that the predecessor left unfinished are resumed from their znodes.

Source: kafka.controller.KafkaController.onControllerFailover of Kafka 3.9.
"""

from collections.abc import Iterable
from typing import Final

from clusterstate.plans import Create, list_children, read
from clusterstate.znodes import paths
from clusterstate.znodes.cluster_node import encode_features
from controller import deletion, reassignment, requested_elections
from controller.cluster import Cluster
from controller.effects import Connect, Disconnect, Enqueue, Note, Plan
from controller.events import RebalanceDue
from controller.fenced_writes import write_fenced
from controller.last_told import LastKnown, remember_leaderless
from controller.live_brokers import read_brokers
from controller.lost_watches import watch_children
from controller.partition_state import PartitionState
from controller.partition_state_writes import read_states
from controller.partition_transitions import bring_online, elect_first, repair_in_steps
from controller.received_notifications import take_isr_changes, take_log_dir_events
from controller.replica_state import ReplicaState
from controller.request_batch import RequestBatch
from controller.topics import NewTopicId, adopt_topics
from kafkawire.ids import TopicPartition
from kafkawire.update_type import UpdateType

FIRST_REBALANCE_MS: Final = 5000


def take_over(cluster: Cluster, new_topic_id: NewTopicId, last_known: LastKnown) -> Plan[None]:
    """Load the image of the cluster, repair it, and resume unfinished work."""
    # The image loaded below includes these changes. The reads set watches for later ones.
    yield from take_log_dir_events(cluster)
    yield from take_isr_changes(cluster)
    partitions = yield from _load_assignments(cluster, new_topic_id)
    yield from _load_deletions(cluster)
    yield Disconnect()
    for broker in cluster.brokers.values():
        yield Connect(broker.registration, broker.epoch)
    batch = RequestBatch(cluster)
    batch.add_update_metadata(cluster.brokers)
    yield from batch.send(UpdateType.INCREMENTAL)
    yield from _elect_by_memory(cluster, batch, last_known)
    cluster.leaderships = yield from read_states(partitions)
    yield from _start_states(cluster, batch)
    fields = {"brokers": sorted(cluster.brokers), "topic_count": len(cluster.topics)}
    yield Note("controller.took_over", {**fields, "partition_count": len(partitions)})
    yield from _resume(cluster)
    if cluster.config.has_features:
        # Last, because no partition depends on it.
        yield from _ensure_features(cluster)


def _ensure_features(cluster: Cluster) -> Plan[None]:
    [node] = yield from read((paths.FEATURE,))
    if node is None:
        yield from write_fenced(cluster, [(Create(paths.FEATURE, encode_features({})),)])


def _load_assignments(cluster: Cluster, new_topic_id: NewTopicId) -> Plan[list[TopicPartition]]:
    names = yield from list_children(paths.BROKER_IDS, watch=True)
    cluster.brokers |= yield from read_brokers(names, {})
    topics = yield from list_children(paths.TOPICS, watch=True)
    return (yield from adopt_topics(cluster, sorted(topics), new_topic_id))


def _load_deletions(cluster: Cluster) -> Plan[None]:
    requested = set((yield from watch_children(paths.DELETE_TOPICS)) or ())
    wanted = requested & set(cluster.topics)
    if not cluster.config.delete_topic_enable:
        wanted = set()
    yield from deletion.forget_requests(cluster, sorted(requested - wanted - cluster.unread_topics))
    cluster.deletions.queued |= wanted
    if not cluster.deletions.queued:
        return
    deletion.halt(cluster, {one.topic for one in cluster.moving})
    deletion.halt(cluster, {one.topic for one in cluster.partitions if _is_damaged(cluster, one)})


def _is_damaged(cluster: Cluster, partition: TopicPartition) -> bool:
    return len(cluster.online(partition)) < len(cluster.assignment(partition).replicas)


def _elect_by_memory(cluster: Cluster, batch: RequestBatch, last_known: LastKnown) -> Plan[None]:
    remembered = remember_leaderless(cluster, last_known)
    for partition in remembered:
        cluster.start_partition(partition, PartitionState.OFFLINE)
    yield from elect_first(cluster, batch, remembered)


def _start_states(cluster: Cluster, batch: RequestBatch) -> Plan[None]:
    """Set the first state of partitions and replicas, repair them, and send each broker its own.

    The state of a partition that lost its leader is written once: election and ISR shrink together.
    """
    staying = [one for one in cluster.partitions if cluster.needs_leader(one)]
    for partition in cluster.partitions:
        cluster.start_partition(partition, _found_state(cluster, partition))
    yield from elect_first(cluster, batch, staying)
    for partition in cluster.partitions:
        _start_replicas(cluster, partition)
    yield from repair_in_steps(cluster, batch, staying)
    yield from bring_online(cluster, batch)
    _add_all_states(cluster, batch, staying)
    yield from batch.send(names_all=True)


def _start_replicas(cluster: Cluster, partition: TopicPartition) -> None:
    offline = (
        ReplicaState.DELETION_INELIGIBLE
        if cluster.is_being_deleted(partition.topic)
        else ReplicaState.OFFLINE
    )
    online = cluster.online(partition)
    for replica in cluster.replicas_of((partition,)):
        state = ReplicaState.ONLINE if replica.broker in online else offline
        cluster.start_replica(replica, state)


def _found_state(cluster: Cluster, partition: TopicPartition) -> PartitionState:
    state = cluster.leaderships.get(partition)
    if state is None:
        return PartitionState.NEW
    is_led = cluster.is_online(state.leader, partition)
    return PartitionState.ONLINE if is_led else PartitionState.OFFLINE


def _add_all_states(
    cluster: Cluster, batch: RequestBatch, partitions: Iterable[TopicPartition]
) -> None:
    for partition in partitions:
        if partition in cluster.leaderships:
            batch.add_leader_and_isr(sorted(cluster.online(partition)), partition)
    batch.add_update_metadata(cluster.brokers, list(cluster.leaderships))


def _resume(cluster: Cluster) -> Plan[None]:
    begun = set(cluster.moving)
    yield from reassignment.on_znode(cluster)
    yield from reassignment.resume(cluster, begun & cluster.moving)
    yield from deletion.proceed(cluster)
    yield from requested_elections.on_znode(cluster)
    if cluster.config.auto_leader_rebalance_enable:
        yield Enqueue(RebalanceDue(), FIRST_REBALANCE_MS)

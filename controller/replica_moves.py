"""Moves of replicas between states, and what their brokers must be told (decision).

Moves that the table forbids are left out: a broker that dies twice is dead once. The caller sends
the batch.
"""

from collections.abc import Iterable

from controller import elections
from controller.cluster import Cluster
from controller.effects import Plan
from controller.fenced_writes import change_states
from controller.leader_and_isr import LeaderAndIsr
from controller.replica_state import PartitionReplica, ReplicaState
from controller.request_batch import RequestBatch
from kafkawire.ids import BrokerId, TopicPartition


def mark(
    cluster: Cluster, replicas: Iterable[PartitionReplica], target: ReplicaState
) -> list[PartitionReplica]:
    """Move those of `replicas` that may move, telling nobody, and return them."""
    moved = [replica for replica in replicas if cluster.may_move_replica(replica, target)]
    for replica in moved:
        cluster.move_replica(replica, target)
    return moved


def to_online(cluster: Cluster, batch: RequestBatch, replicas: Iterable[PartitionReplica]) -> None:
    """Let replicas serve; each that is not new is told who leads."""
    listed = list(replicas)
    known = {one for one in listed if cluster.replica_state(one) is not ReplicaState.NEW}
    for replica in mark(cluster, listed, ReplicaState.ONLINE):
        if replica in known and replica.partition in cluster.leaderships:
            batch.add_leader_and_isr((replica.broker,), replica.partition)


def to_offline(
    cluster: Cluster, batch: RequestBatch, replicas: Iterable[PartitionReplica]
) -> Plan[None]:
    """Stop replicas without deleting them, and take them out of their in-sync sets."""
    gone: dict[TopicPartition, set[BrokerId]] = {}
    for replica in mark(cluster, replicas, ReplicaState.OFFLINE):
        batch.add_stop_replica(replica.broker, replica.partition, delete=False)
        # The state of a topic on its way out is deleted soon: no need to write it first.
        if not cluster.is_being_deleted(replica.partition.topic):
            gone.setdefault(replica.partition, set()).add(replica.broker)

    def decide(partition: TopicPartition, state: LeaderAndIsr) -> LeaderAndIsr | None:
        return elections.without_replicas(state, gone[partition])

    known = [partition for partition in gone if partition in cluster.leaderships]
    changes = yield from change_states(cluster, known, decide)
    for partition in changes.changed:
        told = set(cluster.assignment(partition).replicas) - gone[partition]
        batch.add_leader_and_isr(sorted(told), partition)
    for partition in gone:
        batch.add_update_metadata(cluster.brokers, (partition,))


def to_deletion_started(
    cluster: Cluster, batch: RequestBatch, replicas: Iterable[PartitionReplica]
) -> None:
    """Tell brokers to delete replicas."""
    for replica in mark(cluster, replicas, ReplicaState.DELETION_STARTED):
        batch.add_stop_replica(replica.broker, replica.partition, delete=True)

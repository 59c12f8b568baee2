"""Moves of replicas between states, and the requests to their brokers (decision).

Moves that the table of states forbids are skipped: a replica may be reported lost twice. The caller
sends the batch.
"""

from collections.abc import Iterable

from clusterstate.leader_and_isr import LeaderAndIsr
from controller import leader_elections
from controller.cluster import Cluster
from controller.effects import Plan
from controller.partition_state import PartitionState
from controller.partition_state_writes import change_states
from controller.replica_state import PartitionReplica, ReplicaState
from controller.request_batch import RequestBatch
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.sentinels import NO_LEADER


def mark(
    cluster: Cluster, replicas: Iterable[PartitionReplica], target: ReplicaState
) -> list[PartitionReplica]:
    """Move the replicas that may move, without requests to brokers, and return them."""
    moved = [replica for replica in replicas if cluster.may_move_replica(replica, target)]
    for replica in moved:
        cluster.move_replica(replica, target)
    return moved


def to_online(cluster: Cluster, batch: RequestBatch, replicas: Iterable[PartitionReplica]) -> None:
    """Move replicas to ONLINE; each that was not NEW gets a LeaderAndIsr."""
    listed = list(replicas)
    known = {one for one in listed if cluster.replica_state(one) is not ReplicaState.NEW}
    for replica in mark(cluster, listed, ReplicaState.ONLINE):
        if replica in known and replica.partition in cluster.leaderships:
            batch.add_leader_and_isr((replica.broker,), replica.partition)


def to_offline(
    cluster: Cluster, batch: RequestBatch, replicas: Iterable[PartitionReplica]
) -> Plan[None]:
    """Stop replicas without deleting them, and remove them from their in-sync sets.

    A partition whose leader is among them becomes OFFLINE.
    """
    gone: dict[TopicPartition, set[BrokerId]] = {}
    for replica in mark(cluster, replicas, ReplicaState.OFFLINE):
        batch.add_stop_replica(replica.broker, replica.partition, delete=False)
        # The state of a topic under deletion is deleted soon; there is no need to write it.
        if not cluster.is_being_deleted(replica.partition.topic):
            gone.setdefault(replica.partition, set()).add(replica.broker)

    def decide(partition: TopicPartition, state: LeaderAndIsr) -> LeaderAndIsr | None:
        return leader_elections.without_replicas(state, gone[partition])

    known = [partition for partition in gone if partition in cluster.leaderships]
    changes = yield from change_states(cluster, known, decide)
    for partition, state in changes.changed.items():
        if state.leader == NO_LEADER:
            cluster.move_partition(partition, PartitionState.OFFLINE)
        remaining = set(cluster.assignment(partition).replicas) - gone[partition]
        batch.add_leader_and_isr(sorted(remaining), partition)
    for partition in gone:
        batch.add_update_metadata(cluster.brokers, (partition,))


def to_deletion_started(
    cluster: Cluster, batch: RequestBatch, replicas: Iterable[PartitionReplica]
) -> None:
    """Move replicas to DELETION_STARTED, and request their deletion."""
    for replica in mark(cluster, replicas, ReplicaState.DELETION_STARTED):
        batch.add_stop_replica(replica.broker, replica.partition, delete=True)

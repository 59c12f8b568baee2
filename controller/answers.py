"""Reactions to the brokers' responses (decision).

A response of an earlier incarnation says nothing about the current one, and is dropped.
"""

from collections.abc import Mapping, Sequence

from controller import deletion
from controller.cluster import Cluster
from controller.effects import Note, Plan
from controller.events import LeaderAndIsrResponseReceived, StopReplicaResponseReceived
from controller.live_brokers import on_replicas_found, on_replicas_lost
from controller.partition_transitions import MAX_NAMED
from controller.replica_state import PartitionReplica
from kafkawire.errors import ErrorCode, name_of
from kafkawire.ids import BrokerId, TopicPartition


def on_leader_and_isr(cluster: Cluster, event: LeaderAndIsrResponseReceived) -> Plan[None]:
    """Update the set of replicas that are on a failed disk of the broker."""
    if not _is_present(cluster, event.broker_id, event.broker_epoch):
        return
    if event.response.error_code != ErrorCode.NONE:
        yield _refused(event.broker_id, event.response.error_code)
        return
    before = cluster.offline_dirs.get(event.broker_id, set())
    now = set(before)
    for partition, code in _partition_codes(cluster, event):
        if code == ErrorCode.KAFKA_STORAGE_ERROR:
            now.add(partition)
        elif code == ErrorCode.NONE:
            now.discard(partition)
    cluster.offline_dirs[event.broker_id] = now
    if lost := sorted(now - before):
        replicas = [PartitionReplica(one, event.broker_id) for one in lost]
        yield Note("replicas.went_offline", _named(event.broker_id, lost))
        cluster.repair_reason = f"a log dir of broker {event.broker_id} failed"
        yield from on_replicas_lost(cluster, replicas)
    if found := sorted(before - now):
        replicas = [PartitionReplica(one, event.broker_id) for one in found]
        yield Note("replicas.came_back", _named(event.broker_id, found))
        cluster.repair_reason = f"replicas of broker {event.broker_id} came back"
        yield from on_replicas_found(cluster, replicas)


def _named(broker_id: BrokerId, partitions: Sequence[TopicPartition]) -> Mapping[str, object]:
    return {
        "broker_id": broker_id,
        "partition_count": len(partitions),
        "partitions": [str(one) for one in partitions[:MAX_NAMED]],
    }


def _partition_codes(
    cluster: Cluster, event: LeaderAndIsrResponseReceived
) -> list[tuple[TopicPartition, int]]:
    codes = []
    for topic in event.response.topics:
        name = cluster.topic_named(topic.topic_id)
        if name is not None:
            codes += [
                (TopicPartition(name, one.partition_index), one.error_code)
                for one in topic.partition_errors
            ]
    return codes


def on_stop_replica(cluster: Cluster, event: StopReplicaResponseReceived) -> Plan[None]:
    """Continue the deletions that waited for this broker."""
    if not _is_present(cluster, event.broker_id, event.broker_epoch):
        return
    codes = {
        TopicPartition(one.topic_name, one.partition_index): one.error_code
        for one in event.response.partition_errors
    }
    is_refused = event.response.error_code != ErrorCode.NONE
    if is_refused:
        yield _refused(event.broker_id, event.response.error_code)
    failed: list[PartitionReplica] = []
    deleted: list[PartitionReplica] = []
    for partition in event.deleted:
        is_failed = is_refused or codes.get(partition, ErrorCode.NONE) != ErrorCode.NONE
        replica = PartitionReplica(partition, event.broker_id)
        (failed if is_failed else deleted).append(replica)
    if failed:
        yield from deletion.on_replicas_failed(cluster, failed)
    if deleted:
        yield from deletion.on_replicas_deleted(cluster, deleted)


def _is_present(cluster: Cluster, broker_id: BrokerId, broker_epoch: int) -> bool:
    broker = cluster.brokers.get(broker_id)
    return broker is not None and broker.epoch == broker_epoch


def _refused(broker_id: BrokerId, code: int) -> Note:
    return Note("request.refused", {"broker_id": broker_id, "error": name_of(code)})

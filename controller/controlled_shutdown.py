"""Controlled shutdown of a broker (decision): its leaderships are moved away first.

Source: kafka.controller.KafkaController.doControlledShutdown of Kafka 3.9.
"""

from controller.cluster import Cluster
from controller.effects import Plan
from controller.partition_transitions import Strategy, elect
from controller.replica_state import PartitionReplica
from controller.replica_transitions import to_offline
from controller.request_batch import RequestBatch
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.controlled_shutdown import ControlledShutdownResponse, RemainingPartition


def on_request(
    cluster: Cluster, broker_id: BrokerId, broker_epoch: int
) -> Plan[ControlledShutdownResponse]:
    """Move leaderships off a broker, and return the partitions that it still leads."""
    broker = cluster.brokers.get(broker_id)
    if broker is None:
        return ControlledShutdownResponse(error_code=ErrorCode.BROKER_NOT_AVAILABLE)
    if broker_epoch != broker.epoch:
        return ControlledShutdownResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    cluster.shutting_down.add(broker_id)
    partitions = [one for one in cluster.partitions_on((broker_id,)) if _may_move(cluster, one)]
    led = [one for one in partitions if _leads(cluster, broker_id, one)]
    batch = RequestBatch(cluster)
    yield from elect(cluster, batch, led, Strategy.SHUTDOWN)
    yield from batch.send()
    followed = [one for one in partitions if not _leads(cluster, broker_id, one)]
    replicas = [PartitionReplica(one, broker_id) for one in followed]
    yield from to_offline(cluster, batch, replicas)
    yield from batch.send()
    remaining = [one for one in partitions if _leads(cluster, broker_id, one)]
    return ControlledShutdownResponse(
        remaining_partitions=[
            RemainingPartition(topic_name=one.topic, partition_index=one.partition)
            for one in remaining
        ]
    )


def _may_move(cluster: Cluster, partition: TopicPartition) -> bool:
    return (
        len(cluster.assignment(partition).replicas) > 1
        and partition in cluster.leaderships
        and not cluster.is_being_deleted(partition.topic)
    )


def _leads(cluster: Cluster, broker_id: BrokerId, partition: TopicPartition) -> bool:
    return cluster.leaderships[partition].leader == broker_id

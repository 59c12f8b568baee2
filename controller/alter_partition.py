"""In-sync sets that leaders propose with AlterPartition (decision).

A leader proposes and the controller decides: the proposal must come from the current incarnation of
the broker, carry the current leader epoch, and build on the current partition epoch. A proposal
that is already recorded is a retry whose response was lost, and is confirmed.

Source: kafka.controller.KafkaController.processAlterPartition of Kafka 3.9.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from clusterstate.leader_and_isr import LeaderAndIsr, LeaderRecoveryState
from controller import reassignment
from controller.cluster import Cluster
from controller.effects import Plan
from controller.errors import StateChangeFailedError
from controller.partition_state_writes import change_states, read_states
from controller.received_notifications import take_isr_changes
from controller.request_batch import RequestBatch
from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, TopicPartition
from kafkawire.messages.alter_partition import (
    BROKER_EPOCHS_SINCE,
    TOPIC_IDS_SINCE,
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
    ResponseTopicData,
)
from kafkawire.sentinels import UNKNOWN_BROKER_EPOCH


@dataclass(frozen=True, slots=True)
class Proposal:
    """One in-sync set proposed by a leader; `broker_epochs` holds -1 for an unknown epoch."""

    state: LeaderAndIsr
    broker_epochs: tuple[int, ...]


class _RefusedError(StateChangeFailedError):
    """The proposal is invalid, or builds on an outdated state; `code` is the response's error."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


def on_request(
    cluster: Cluster, request: AlterPartitionRequest, version: int
) -> Plan[AlterPartitionResponse]:
    """Record the valid proposals, update all brokers, and return the response to the leader."""
    broker = cluster.brokers.get(BrokerId(request.broker_id))
    if broker is None or broker.epoch != request.broker_epoch:
        return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    proposals = _proposals(cluster, request, version)
    results: dict[TopicPartition, LeaderAndIsr | ErrorCode] = {}

    def decide(partition: TopicPartition, current: LeaderAndIsr) -> LeaderAndIsr | None:
        proposal = proposals[partition]
        if code := _rejection(cluster, proposal, current, version):
            raise _RefusedError(code)
        wanted = proposal.state
        if _is_recorded(wanted, current):
            return None
        return current._replace(isr=wanted.isr, recovery_state=wanted.recovery_state)

    changes = yield from change_states(cluster, proposals, decide)
    for partition, error in changes.failed.items():
        known = partition in cluster.leaderships
        missing = ErrorCode.UNKNOWN_SERVER_ERROR if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        results[partition] = error.code if isinstance(error, _RefusedError) else missing
    results |= changes.unchanged
    results |= changes.changed
    batch = RequestBatch(cluster)
    if changes.changed:
        batch.add_update_metadata(cluster.brokers, changes.changed)
        yield from batch.send()
        yield from reassignment.complete_if_in_sync(cluster, changes.changed)
    return _response(cluster, request, version, results)


def on_isr_changes(cluster: Cluster) -> Plan[None]:
    """Read in-sync sets that leaders have written to the znodes, and update all brokers."""
    partitions = yield from take_isr_changes(cluster)
    known = [one for one in partitions if cluster.assignment(one).replicas]
    cluster.leaderships |= yield from read_states(known)
    batch = RequestBatch(cluster)
    if known:
        batch.add_update_metadata(cluster.brokers, known)
        yield from batch.send()
        yield from reassignment.complete_if_in_sync(cluster, known)


def _proposals(
    cluster: Cluster, request: AlterPartitionRequest, version: int
) -> dict[TopicPartition, Proposal]:
    return {
        TopicPartition(name, data.partition_index): _proposal(request.broker_id, data, version)
        for topic in request.topics
        if (name := _name(cluster, topic, version)) is not None
        for data in topic.partitions
    }


def _name(cluster: Cluster, topic: RequestTopicData, version: int) -> str | None:
    if version >= TOPIC_IDS_SINCE:
        return cluster.topic_named(topic.topic_id)
    return topic.topic_name


def _proposal(leader: int, data: RequestPartitionData, version: int) -> Proposal:
    if version >= BROKER_EPOCHS_SINCE:
        isr = [one.broker_id for one in data.new_isr_with_epochs]
        epochs = tuple(one.broker_epoch for one in data.new_isr_with_epochs)
    else:
        isr, epochs = list(data.new_isr), (UNKNOWN_BROKER_EPOCH,) * len(data.new_isr)
    state = LeaderAndIsr(
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(data.leader_epoch),
        isr=tuple(BrokerId(one) for one in isr),
        recovery_state=LeaderRecoveryState(data.leader_recovery_state != 0),
        partition_epoch=data.partition_epoch,
        controller_epoch=0,
    )
    return Proposal(state, epochs)


def _rejection(
    cluster: Cluster, proposal: Proposal, current: LeaderAndIsr, version: int
) -> ErrorCode | None:
    """Return the error that rejects a proposal; None if it is valid or already recorded."""
    wanted = proposal.state
    if (
        wanted.partition_epoch > current.partition_epoch
        or wanted.leader_epoch > current.leader_epoch
    ):
        # The leader knows a newer state than we do, so there is a newer controller.
        return ErrorCode.NOT_CONTROLLER
    if wanted.leader_epoch < current.leader_epoch or wanted.leader != current.leader:
        return ErrorCode.FENCED_LEADER_EPOCH
    if _is_recorded(wanted, current):
        return None
    if wanted.partition_epoch < current.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if not wanted.isr or wanted.leader not in wanted.isr:
        return ErrorCode.INVALID_REQUEST
    if wanted.recovery_state is LeaderRecoveryState.RECOVERING and (
        len(wanted.isr) > 1 or current.recovery_state is LeaderRecoveryState.RECOVERED
    ):
        return ErrorCode.INVALID_REQUEST
    if _ineligible(cluster, proposal):
        has_code = version >= TOPIC_IDS_SINCE
        return ErrorCode.INELIGIBLE_REPLICA if has_code else ErrorCode.OPERATION_NOT_ATTEMPTED
    return None


def _ineligible(cluster: Cluster, proposal: Proposal) -> list[BrokerId]:
    """Return the proposed members that are dead, shutting down, or a newer incarnation by now."""
    live: Collection[BrokerId] = cluster.live
    return [
        broker
        for broker, epoch in zip(proposal.state.isr, proposal.broker_epochs, strict=True)
        if broker not in live or epoch not in (UNKNOWN_BROKER_EPOCH, cluster.brokers[broker].epoch)
    ]


def _is_recorded(wanted: LeaderAndIsr, current: LeaderAndIsr) -> bool:
    return current.same_content(wanted) and wanted.partition_epoch <= current.partition_epoch


def _response(
    cluster: Cluster,
    request: AlterPartitionRequest,
    version: int,
    results: dict[TopicPartition, LeaderAndIsr | ErrorCode],
) -> AlterPartitionResponse:
    topics = []
    for topic in request.topics:
        name = _name(cluster, topic, version)
        topic_id = topic.topic_id if version >= TOPIC_IDS_SINCE else ZERO_TOPIC_ID
        partitions = [
            _partition_response(
                data.partition_index,
                ErrorCode.UNKNOWN_TOPIC_ID
                if name is None
                else results[TopicPartition(name, data.partition_index)],
            )
            for data in topic.partitions
        ]
        topics.append(
            ResponseTopicData(topic_name=name or "", topic_id=topic_id, partitions=partitions)
        )
    return AlterPartitionResponse(topics=topics)


def _partition_response(partition: int, result: LeaderAndIsr | ErrorCode) -> ResponsePartitionData:
    if isinstance(result, ErrorCode):
        return ResponsePartitionData(partition_index=partition, error_code=result)
    isr: Iterable[int] = result.isr
    return ResponsePartitionData(
        partition_index=partition,
        leader_id=result.leader,
        leader_epoch=result.leader_epoch,
        isr=list(isr),
        leader_recovery_state=int(result.recovery_state),
        partition_epoch=result.partition_epoch,
    )

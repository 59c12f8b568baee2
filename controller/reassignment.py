"""Reassignment of partitions to other brokers (decision).

Until the target is in sync, both origin and target replicas hold the partition. Phases:

- U: the new assignment is written.
- A: the leader gets a new epoch and the enlarged assignment, and the adding replicas are started.
- B: once the target is in sync and can lead, a leader in the target is chosen, the replicas to
  remove are stopped and deleted, and the assignment becomes the target. (Kafka removes them even if
  the target cannot lead, and leaves the partition without a leader.)

The next controller can repeat each step. Invariant: replicas dropped by a changed or cancelled
reassignment are never the whole in-sync set, unless the topic allows unclean elections. If the
leader or the whole set is dropped, another replica is elected first.

Source: kafka.controller.KafkaController.onPartitionReassignment of Kafka 3.9; for the invariant
ReplicationControlManager.cancelPartitionReassignment.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from clusterstate.errors import MalformedZnodeError
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.plans import MAX_ATTEMPTS, Refusal, SetData, read
from clusterstate.replica_assignment import ReplicaAssignment
from clusterstate.znodes import paths
from clusterstate.znodes.topic import TopicAssignment, decode_topic
from controller import deletion
from controller.cluster import Cluster
from controller.effects import Note, Plan
from controller.errors import StateChangeFailedError
from controller.fenced_writes import write_fenced
from controller.partition_state_writes import change_states, read_states
from controller.partition_transitions import (
    Strategy,
    create_partitions,
    elect,
    topics_allowing_unclean,
)
from controller.reassignment_node import forget_requests, requests
from controller.replica_state import PartitionReplica, ReplicaState
from controller.replica_transitions import mark, to_deletion_started, to_offline, to_online
from controller.request_batch import RequestBatch
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition

Target = Sequence[BrokerId] | None
"""Requested replicas of a partition; None cancels the reassignment in progress."""
MAX_ROUNDS = 100
"""Maximum of successive contents of the reassignment znode that one event handles."""


class MoveResult(NamedTuple):
    """Result of the requested reassignment of one partition; `text` adds details to the code."""

    code: ErrorCode
    text: str = ""


BEGUN: Final = MoveResult(ErrorCode.NONE)


def refusal_of(cluster: Cluster, partition: TopicPartition, target: Target) -> MoveResult | None:
    """Return the error that refuses a requested reassignment; None if it is valid."""
    if cluster.is_being_deleted(partition.topic) or not cluster.assignment(partition).replicas:
        return MoveResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if target is None:
        moving = cluster.assignment(partition).is_moving
        return None if moving else MoveResult(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    if not target or len(set(target)) < len(target) or min(target) < 0:
        text = f"{list(target)} is not a list of distinct broker ids"
        return MoveResult(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    added = cluster.assignment(partition).reassign_to(target).adding
    if missing := sorted(set(added) - set(cluster.live)):
        text = f"brokers that are not alive: {', '.join(map(str, missing))}"
        return MoveResult(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return None


def on_api_request(
    cluster: Cluster, targets: Mapping[TopicPartition, Target]
) -> Plan[dict[TopicPartition, MoveResult]]:
    """Begin or cancel reassignments that a client requests, and return the result of each."""
    refusals = {one: refusal_of(cluster, one, target) for one, target in targets.items()}
    accepted = [one for one, refusal in refusals.items() if refusal is None]
    # The client's request replaces an earlier request of a tool through the znode.
    yield from forget_requests(cluster, accepted)
    results = {one: refusal or BEGUN for one, refusal in refusals.items()}
    for partition in accepted:
        results[partition] = yield from _begin(cluster, partition, targets[partition])
    return results


def on_znode(cluster: Cluster) -> Plan[None]:
    """Begin the reassignments that a tool requests through the znode."""
    for _ in range(MAX_ROUNDS):
        targets = yield from requests(cluster)
        fresh = {
            partition: target
            for partition, target in targets.items()
            if partition not in cluster.moving or cluster.assignment(partition).target != target
        }
        if not fresh:
            return
        failed = {one for one, target in fresh.items() if refusal_of(cluster, one, target)}
        for partition in fresh.keys() - failed:
            result = yield from _begin(cluster, partition, fresh[partition])
            if result != BEGUN:
                failed.add(partition)
        if failed:
            yield from forget_requests(cluster, failed)


def resume(cluster: Cluster, partitions: Iterable[TopicPartition]) -> Plan[None]:
    """Continue the reassignments of `partitions`; a failed one is retried at the next event."""
    for partition in sorted(partitions):
        if partition in cluster.moving:
            try:
                yield from proceed(cluster, partition, cluster.assignment(partition))
            except StateChangeFailedError as error:
                fields = {"partition": str(partition), "error": str(error)}
                yield Note("reassignment.failed", fields)


def complete_if_in_sync(cluster: Cluster, partitions: Iterable[TopicPartition]) -> Plan[None]:
    """Complete the reassignments among `partitions` whose target is in sync."""
    for partition in sorted(partitions):
        if partition in cluster.moving:
            assignment = cluster.assignment(partition)
            if _is_complete(cluster, partition, assignment):
                yield from resume(cluster, (partition,))


def _begin(cluster: Cluster, partition: TopicPartition, target: Target) -> Plan[MoveResult]:
    current = cluster.assignment(partition)
    wanted = current.reassign_to(current.origin if target is None else target)
    # A leader of an older protocol writes its in-sync set itself, and informs the controller later.
    cluster.leaderships |= yield from read_states((partition,))
    state = cluster.leaderships.get(partition)
    if state is not None and set(state.isr).isdisjoint(wanted.replicas):
        unclean = yield from topics_allowing_unclean(cluster, (partition,), Strategy.OFFLINE)
        if not unclean or cluster.online(partition).isdisjoint(wanted.replicas):
            text = (
                f"the reassignment removes all in-sync replicas {list(state.isr)}: "
                "it requires an unclean leader election"
            )
            return MoveResult(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    try:
        yield from proceed(cluster, partition, wanted)
    except StateChangeFailedError as error:
        return MoveResult(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    return BEGUN


def proceed(
    cluster: Cluster, partition: TopicPartition, assignment: ReplicaAssignment
) -> Plan[None]:
    """Advance one reassignment as far as possible.

    Raises:
        StateChangeFailedError: the state or assignment of the partition cannot be written, or no
            replica is eligible to lead.
    """
    deletion.halt(cluster, (partition.topic,))
    yield from _record(cluster, partition, assignment)
    mark(cluster, _replicas(partition, assignment.adding), ReplicaState.NEW)
    if partition not in cluster.leaderships:
        yield from _create(cluster, partition)
        if partition not in cluster.leaderships:
            # No replica is online. The reassignment continues when one returns.
            return
    if not _is_complete(cluster, partition, assignment):
        yield from _start_adding(cluster, partition, assignment)
        return
    batch = RequestBatch(cluster)
    to_online(cluster, batch, _replicas(partition, assignment.adding))
    yield from batch.send()
    final = ReplicaAssignment(replicas=assignment.target)
    cluster.assign(partition, final)
    try:
        yield from _move_leader(cluster, partition, assignment)
        yield from _remove(cluster, partition, assignment.removing)
        yield from _write_assignment(cluster, partition)
    except StateChangeFailedError:
        _keep_moving(cluster, partition, assignment)
        raise
    yield from forget_requests(cluster, (partition,), final.replicas)
    cluster.moving.discard(partition)
    fields = {"partition": str(partition), "replicas": final.replicas}
    yield Note("reassignment.completed", fields)
    batch.add_update_metadata(cluster.brokers, (partition,))
    yield from batch.send()
    yield from deletion.resume(cluster, (partition.topic,))


def _keep_moving(
    cluster: Cluster, partition: TopicPartition, assignment: ReplicaAssignment
) -> None:
    """Restore the assignment of the znode, so that the next attempt knows the removing replicas.

    It stops and deletes them again: a broker may have got a LeaderAndIsr for one meanwhile.
    """
    cluster.assign(partition, assignment)
    mark(cluster, _replicas(partition, assignment.removing), ReplicaState.NEW)


def _record(
    cluster: Cluster, partition: TopicPartition, assignment: ReplicaAssignment
) -> Plan[None]:
    """Phase U: write the new assignment, and drop replicas that an earlier target was adding."""
    current = cluster.assignment(partition)
    if current != assignment:
        cluster.assign(partition, assignment)
        try:
            yield from _write_assignment(cluster, partition)
        except StateChangeFailedError:
            cluster.assign(partition, current)
            raise
        fields = {"partition": str(partition), "to": assignment.target}
        yield Note("reassignment.began", {**fields, "origin": assignment.origin})
        dropped = [one for one in current.replicas if one not in assignment.replicas]
        yield from _remove(cluster, partition, dropped)
    cluster.moving.add(partition)


def _create(cluster: Cluster, partition: TopicPartition) -> Plan[None]:
    """Elect the first leader of a partition that had no online replica before."""
    batch = RequestBatch(cluster)
    yield from create_partitions(cluster, batch, (partition,))
    yield from batch.send()


def _start_adding(
    cluster: Cluster, partition: TopicPartition, assignment: ReplicaAssignment
) -> Plan[None]:
    """Phase A: send the leader the assignment in a new epoch, and start the adding replicas.

    An adding replica in the recorded in-sync set exists, although its log directory may have
    failed: as a new one it would start with an empty log, and could lead with it.
    """
    batch = RequestBatch(cluster)
    yield from _raise_epoch(cluster, partition)
    batch.add_leader_and_isr(assignment.origin, partition)
    isr = cluster.leaderships[partition].isr
    for broker in assignment.adding:
        batch.add_leader_and_isr((broker,), partition, is_new=broker not in isr)
    yield from batch.send()


def _is_complete(
    cluster: Cluster, partition: TopicPartition, assignment: ReplicaAssignment
) -> bool:
    """Whether the target is in sync, and can lead without the replicas to remove."""
    if not assignment.is_moving:
        return True
    state = cluster.leaderships.get(partition)
    if state is None or not set(assignment.target) <= set(state.isr):
        return False
    return any(cluster.is_online(broker, partition) for broker in assignment.target)


def _move_leader(
    cluster: Cluster, partition: TopicPartition, assignment: ReplicaAssignment
) -> Plan[None]:
    """Phase B: keep or elect a leader in the target, and send it the final assignment.

    Raises:
        StateChangeFailedError: no replica of the target can lead, so that none may be removed.
    """
    batch = RequestBatch(cluster)
    leader = cluster.leaderships[partition].leader
    if leader in assignment.target and cluster.is_online(leader, partition):
        yield from _raise_epoch(cluster, partition)
        batch.add_leader_and_isr(assignment.target, partition)
    else:
        changes = yield from elect(cluster, batch, (partition,), Strategy.REASSIGNED)
        # Without replicas to remove, as after a cancellation, the partition loses nothing.
        if assignment.removing and partition in changes.failed:
            raise changes.failed[partition]
    yield from batch.send()


def _raise_epoch(cluster: Cluster, partition: TopicPartition) -> Plan[None]:
    def decide(_: TopicPartition, state: LeaderAndIsr) -> LeaderAndIsr:
        return state.led_by(state.leader)

    changes = yield from change_states(cluster, (partition,), decide)
    if partition in changes.failed:
        raise changes.failed[partition]


def _remove(cluster: Cluster, partition: TopicPartition, gone: Sequence[BrokerId]) -> Plan[None]:
    """Stop and delete replicas, and forget them without waiting for their brokers.

    Raises:
        StateChangeFailedError: no other replica is in sync; these are stopped, but keep their logs.
    """
    replicas = _replicas(partition, gone)
    batch = RequestBatch(cluster)
    state = cluster.leaderships.get(partition)
    is_leader_gone = state is not None and state.leader in gone
    if is_leader_gone or _is_all_in_sync(cluster, partition, gone):
        yield from elect(cluster, batch, (partition,), Strategy.OFFLINE)
    yield from to_offline(cluster, batch, replicas)
    yield from batch.send()
    if _is_all_in_sync(cluster, partition, gone):
        raise StateChangeFailedError(f"{partition} has no in-sync replica outside {list(gone)}")
    to_deletion_started(cluster, batch, replicas)
    yield from batch.send()
    mark(cluster, replicas, ReplicaState.DELETION_SUCCESSFUL)
    mark(cluster, replicas, ReplicaState.NON_EXISTENT)


def _is_all_in_sync(cluster: Cluster, partition: TopicPartition, gone: Sequence[BrokerId]) -> bool:
    state = cluster.leaderships.get(partition)
    return state is not None and set(state.isr) <= set(gone)


def _write_assignment(cluster: Cluster, partition: TopicPartition) -> Plan[None]:
    """Write one partition's assignment; keep partitions that a tool adds concurrently."""
    path = paths.topic(partition.topic)
    for _ in range(MAX_ATTEMPTS):
        [node] = yield from read((path,))
        if node is None:
            break
        try:
            topic = decode_topic(node.data)
        except MalformedZnodeError:
            break
        partitions = {**topic.partitions, partition.partition: cluster.assignment(partition)}
        data = TopicAssignment(topic.topic_id, partitions).encode()
        [outcome] = yield from write_fenced(cluster, [(SetData(path, data, node.version),)])
        if outcome.refusal is None:
            return
        if outcome.refusal is not Refusal.BAD_VERSION:
            break
    raise StateChangeFailedError(f"the assignment of {partition} cannot be written")


def _replicas(partition: TopicPartition, brokers: Iterable[BrokerId]) -> list[PartitionReplica]:
    return [PartitionReplica(partition, broker) for broker in brokers]

"""Moving partitions to other brokers (decision).

Until the target is in sync the partition is held by origin and target. Phases: the new assignment
is written (U); the new replicas are started and the leader, in a new epoch, knows them (A); when
the target is in sync, the leader is moved into it, what remains is stopped and deleted, and the
assignment becomes the target (B). Each step can be repeated by the next controller. Invariant: the
replicas that a change of plan drops are never all that are in sync, unless the topic allows unclean
elections; then another one is elected first.

Source: kafka.controller.KafkaController.onPartitionReassignment of Kafka 3.9; for the invariant
ReplicationControlManager.cancelPartitionReassignment.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from controller import deletion
from controller.cluster import Cluster
from controller.effects import Note, Plan, Refusal, SetData, read
from controller.errors import MalformedZnodeError, StateChangeFailedError
from controller.fenced_writes import MAX_ATTEMPTS, change_states, write_fenced
from controller.leader_and_isr import LeaderAndIsr
from controller.partition_moves import (
    Strategy,
    create_partitions,
    elect,
    topics_allowing_unclean,
)
from controller.reassignment_node import forget_requests, requests
from controller.replica_assignment import ReplicaAssignment
from controller.replica_moves import mark, to_deletion_started, to_offline, to_online
from controller.replica_state import PartitionReplica, ReplicaState
from controller.request_batch import RequestBatch
from controller.znodes import paths
from controller.znodes.topic import TopicAssignment, decode_topic
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition

Wish = Sequence[BrokerId] | None
"""Where a partition shall be; None takes back the move that is under way."""
MAX_ROUNDS = 100
"""How many requests of tools are taken one after the other in one event."""


class MoveAnswer(NamedTuple):
    """The answer to a requested move of one partition; `text` adds details to the code."""

    code: ErrorCode
    text: str = ""


BEGUN: Final = MoveAnswer(ErrorCode.NONE)


def fault_of(cluster: Cluster, partition: TopicPartition, wish: Wish) -> MoveAnswer | None:
    """Return why a partition cannot be moved as asked, or None."""
    if cluster.is_being_deleted(partition.topic) or not cluster.assignment(partition).replicas:
        return MoveAnswer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if wish is None:
        moving = cluster.assignment(partition).is_moving
        return None if moving else MoveAnswer(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    if not wish or len(set(wish)) < len(wish) or min(wish) < 0:
        text = f"{list(wish)} is not a list of different brokers"
        return MoveAnswer(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    added = cluster.assignment(partition).reassign_to(wish).adding
    if missing := sorted(set(added) - set(cluster.live)):
        text = f"brokers that are not alive: {', '.join(map(str, missing))}"
        return MoveAnswer(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return None


def on_api_request(
    cluster: Cluster, wishes: Mapping[TopicPartition, Wish]
) -> Plan[dict[TopicPartition, MoveAnswer]]:
    """Begin or take back moves that a client asks for, and return what came of each."""
    answers = {one: fault_of(cluster, one, wish) for one, wish in wishes.items()}
    accepted = [one for one, fault in answers.items() if fault is None]
    # What the client asks for now replaces what a tool asked for through the node.
    yield from forget_requests(cluster, accepted)
    results = {one: fault or BEGUN for one, fault in answers.items()}
    for partition in accepted:
        wish = wishes[partition]
        results[partition] = yield from _begin(cluster, partition, wish)
    return results


def on_znode(cluster: Cluster) -> Plan[None]:
    """Begin the moves that a tool asks for through the node."""
    for _ in range(MAX_ROUNDS):
        targets = yield from requests(cluster)
        fresh = {
            partition: target
            for partition, target in targets.items()
            if partition not in cluster.moving or cluster.assignment(partition).target != target
        }
        if not fresh:
            return
        failed = {one for one, wish in fresh.items() if fault_of(cluster, one, wish)}
        for partition in fresh.keys() - failed:
            result = yield from _begin(cluster, partition, fresh[partition])
            if result != BEGUN:
                failed.add(partition)
        if failed:
            yield from forget_requests(cluster, failed)


def resume(cluster: Cluster, partitions: Iterable[TopicPartition]) -> Plan[None]:
    """Go on with the moves under way of `partitions`; one that fails is left for the next time."""
    for partition in sorted(partitions):
        if partition in cluster.moving:
            try:
                yield from proceed(cluster, partition, cluster.assignment(partition))
            except StateChangeFailedError as error:
                fields = {"partition": str(partition), "error": str(error)}
                yield Note("reassignment.failed", fields)


def complete_if_in_sync(cluster: Cluster, partitions: Iterable[TopicPartition]) -> Plan[None]:
    """End the moves among `partitions` whose target has caught up."""
    for partition in sorted(partitions):
        if partition in cluster.moving:
            assignment = cluster.assignment(partition)
            if _is_complete(cluster, partition, assignment):
                yield from resume(cluster, (partition,))


def _begin(cluster: Cluster, partition: TopicPartition, wish: Wish) -> Plan[MoveAnswer]:
    current = cluster.assignment(partition)
    target = current.reassign_to(current.origin if wish is None else wish)
    state = cluster.leaderships.get(partition)
    if state is not None and set(state.isr).isdisjoint(target.replicas):
        unclean = yield from topics_allowing_unclean(cluster, (partition,), Strategy.OFFLINE)
        if not unclean or cluster.online(partition).isdisjoint(target.replicas):
            text = (
                f"all in-sync replicas {list(state.isr)} would go: "
                "that requires an unclean leader election"
            )
            return MoveAnswer(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    try:
        yield from proceed(cluster, partition, target)
    except StateChangeFailedError as error:
        return MoveAnswer(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    return BEGUN


def proceed(
    cluster: Cluster, partition: TopicPartition, assignment: ReplicaAssignment
) -> Plan[None]:
    """Take one move as far as it can go now.

    Raises:
        StateChangeFailedError: the partition's nodes are not as they must be.
    """
    deletion.halt(cluster, (partition.topic,))
    yield from _record(cluster, partition, assignment)
    mark(cluster, _replicas(partition, assignment.adding), ReplicaState.NEW)
    if partition not in cluster.leaderships:
        yield from _create(cluster, partition)
        if partition not in cluster.leaderships:
            # It has no online replica. The move goes on when one returns.
            return
    if not _is_complete(cluster, partition, assignment):
        yield from _start_adding(cluster, partition, assignment)
        return
    batch = RequestBatch(cluster)
    to_online(cluster, batch, _replicas(partition, assignment.adding))
    yield from batch.send()
    final = ReplicaAssignment(replicas=assignment.target)
    cluster.assign(partition, final)
    yield from _move_leader(cluster, partition, final)
    yield from _remove(cluster, partition, assignment.removing)
    yield from _write_assignment(cluster, partition)
    yield from forget_requests(cluster, (partition,), final.replicas)
    cluster.moving.discard(partition)
    fields = {"partition": str(partition), "replicas": final.replicas}
    yield Note("reassignment.completed", fields)
    batch.add_update_metadata(cluster.brokers, (partition,))
    yield from batch.send()
    yield from deletion.resume(cluster, (partition.topic,))


def _record(
    cluster: Cluster, partition: TopicPartition, assignment: ReplicaAssignment
) -> Plan[None]:
    """Phase U: write what shall be, and drop what an earlier move was adding."""
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
    """Give a partition its first leader that had no online replica before the move."""
    batch = RequestBatch(cluster)
    yield from create_partitions(cluster, batch, (partition,))
    yield from batch.send()


def _start_adding(
    cluster: Cluster, partition: TopicPartition, assignment: ReplicaAssignment
) -> Plan[None]:
    """Phase A: tell the leader, in a new epoch, and start the new replicas."""
    batch = RequestBatch(cluster)
    yield from _raise_epoch(cluster, partition)
    batch.add_leader_and_isr(assignment.origin, partition)
    batch.add_leader_and_isr(assignment.adding, partition, is_new=True)
    yield from batch.send()


def _is_complete(
    cluster: Cluster, partition: TopicPartition, assignment: ReplicaAssignment
) -> bool:
    state = cluster.leaderships.get(partition)
    if not assignment.is_moving:
        return True
    return state is not None and set(assignment.target) <= set(state.isr)


def _move_leader(
    cluster: Cluster, partition: TopicPartition, final: ReplicaAssignment
) -> Plan[None]:
    """Phase B: a leader within the target, that knows who the replicas are now."""
    batch = RequestBatch(cluster)
    leader = cluster.leaderships[partition].leader
    if leader in final.replicas and cluster.is_online(leader, partition):
        yield from _raise_epoch(cluster, partition)
        batch.add_leader_and_isr(final.replicas, partition)
    else:
        yield from elect(cluster, batch, (partition,), Strategy.REASSIGNED)
    yield from batch.send()


def _raise_epoch(cluster: Cluster, partition: TopicPartition) -> Plan[None]:
    def decide(_: TopicPartition, state: LeaderAndIsr) -> LeaderAndIsr:
        return state.led_by(state.leader)

    changes = yield from change_states(cluster, (partition,), decide)
    if partition in changes.failed:
        raise changes.failed[partition]


def _remove(cluster: Cluster, partition: TopicPartition, gone: Sequence[BrokerId]) -> Plan[None]:
    """Stop replicas, delete them, and forget them without waiting for their brokers.

    Raises:
        StateChangeFailedError: nobody else is in sync; they are stopped, and keep what they have.
    """
    replicas = _replicas(partition, gone)
    batch = RequestBatch(cluster)
    if _is_all_in_sync(cluster, partition, gone):
        yield from elect(cluster, batch, (partition,), Strategy.OFFLINE)
    yield from to_offline(cluster, batch, replicas)
    yield from batch.send()
    if _is_all_in_sync(cluster, partition, gone):
        raise StateChangeFailedError(f"only {list(gone)} are in sync with {partition}")
    to_deletion_started(cluster, batch, replicas)
    yield from batch.send()
    mark(cluster, replicas, ReplicaState.DELETION_SUCCESSFUL)
    mark(cluster, replicas, ReplicaState.NON_EXISTENT)


def _is_all_in_sync(cluster: Cluster, partition: TopicPartition, gone: Sequence[BrokerId]) -> bool:
    state = cluster.leaderships.get(partition)
    return state is not None and set(state.isr) <= set(gone)


def _write_assignment(cluster: Cluster, partition: TopicPartition) -> Plan[None]:
    """Write one partition's assignment; partitions that a tool adds meanwhile are kept."""
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

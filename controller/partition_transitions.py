"""Moves of partitions between states, and the elections that they need (decision).

Each function changes the image and the znodes, and adds the requests to brokers to a batch. The
caller sends the batch; only `elect_first` sends it itself.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from itertools import islice
from typing import Final

from clusterstate.errors import MalformedZnodeError
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.plans import Create, Outcome, Refusal, Transaction, read
from clusterstate.znodes import paths
from clusterstate.znodes.config import decode_config
from clusterstate.znodes.partition_node import encode_partition_state
from controller import leader_elections
from controller.cluster import Cluster
from controller.effects import AwaitWriters, Note, Plan, Send
from controller.errors import StateChangeFailedError
from controller.fenced_writes import CHANGES_PER_TRANSACTION, write_fenced
from controller.partition_state import PartitionState
from controller.partition_state_writes import Changes, Decide, change_states, read_states
from controller.request_batch import RequestBatch
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.sentinels import NO_LEADER
from kafkawire.update_type import UpdateType

UNCLEAN_KEY = "unclean.leader.election.enable"
MAX_NAMED: Final = 20
"""Maximum of partitions named in a log event, beside their total count."""
FIRST_ELECTIONS_TIMEOUT_MS: Final = 300
"""Timeout of the wait for brokers and producers after the first elections."""


class Strategy(Enum):
    """Reason for an election, which determines the eligible replicas."""

    OFFLINE = auto()
    UNCLEAN = auto()
    """As OFFLINE, but unclean regardless of the topic's config, by an operator's request."""
    PREFERRED = auto()
    REASSIGNED = auto()
    SHUTDOWN = auto()


def create_partitions(
    cluster: Cluster, batch: RequestBatch, partitions: Sequence[TopicPartition]
) -> Plan[None]:
    """Give NEW partitions their first leader, the first online replica, with all online in sync.

    A partition without an online replica stays NEW until a broker returns.
    """
    states: dict[TopicPartition, LeaderAndIsr] = {}
    for partition in partitions:
        assert cluster.partition_state(partition) is PartitionState.NEW
        replicas = cluster.assignment(partition).replicas
        try:
            states[partition] = leader_elections.initial_state(
                replicas, cluster.online(partition), cluster.epoch
            )
        except StateChangeFailedError:
            continue
    outcomes = yield from _write_first_states(cluster, states)
    existing: list[TopicPartition] = []
    created: dict[TopicPartition, LeaderAndIsr] = {}
    for (partition, state), outcome in zip(states.items(), outcomes, strict=True):
        if outcome.refusal is None:
            created[partition] = state
            _lead(cluster, batch, partition, state, is_new=True)
        elif outcome.refusal is Refusal.NODE_EXISTS:
            existing.append(partition)
    yield from _log_leaders("new partition", {}, created)
    yield from _adopt_existing(cluster, batch, existing, states)


def _write_first_states(
    cluster: Cluster, states: Mapping[TopicPartition, LeaderAndIsr]
) -> Plan[list[Outcome]]:
    """Write the states below their parents; return the outcome of each state."""
    topics = dict.fromkeys(partition.topic for partition in states)
    # The parents may exist already, from an interrupted creation. Then their changes are refused,
    # and each change that shared a transaction with them is retried in this order.
    parents: list[Transaction] = [
        *((Create(paths.partitions(one), None),) for one in topics),
        *((Create(paths.partition(one), None),) for one in states),
    ]
    creations: list[Transaction] = [
        (Create(paths.partition_state(one), encode_partition_state(state, cluster.epoch)),)
        for one, state in states.items()
    ]
    outcomes = yield from write_fenced(cluster, [*parents, *creations])
    return outcomes[len(parents) :]


def _adopt_existing(
    cluster: Cluster,
    batch: RequestBatch,
    partitions: Sequence[TopicPartition],
    wanted: Mapping[TopicPartition, LeaderAndIsr],
) -> Plan[None]:
    """Adopt states that exist already, including our own whose response was lost."""
    found = yield from read_states(partitions)
    foreign: list[TopicPartition] = []
    for partition, state in found.items():
        if state.controller_epoch == cluster.epoch and state.same_content(wanted[partition]):
            _lead(cluster, batch, partition, state, is_new=True)
        elif state.controller_epoch <= cluster.epoch:
            cluster.leaderships[partition] = state
            cluster.move_partition(partition, PartitionState.OFFLINE)
            foreign.append(partition)
    changes = yield from repair_partitions(cluster, batch, foreign)
    for partition, state in changes.unchanged.items():
        if state.leader in cluster.online(partition):
            _lead(cluster, batch, partition, state)


def elect(
    cluster: Cluster,
    batch: RequestBatch,
    partitions: Iterable[TopicPartition],
    strategy: Strategy,
) -> Plan[Changes]:
    """Elect a leader for each partition that has a state, by `strategy`."""

    def decide_with(unclean: set[str]) -> Decide:
        return _by_strategy(cluster, strategy, unclean)

    reason = strategy.name.lower()
    return (yield from _change(cluster, batch, list(partitions), strategy, decide_with, reason))


def _change(
    cluster: Cluster,
    batch: RequestBatch,
    partitions: Sequence[TopicPartition],
    strategy: Strategy,
    decide_with: Callable[[set[str]], Decide],
    reason: str,
) -> Plan[Changes]:
    """Change the states of partitions; `decide_with` gets the topics allowing unclean elections."""
    hopeless = _without_online_isr(cluster, partitions, strategy)
    unclean = yield from topics_allowing_unclean(cluster, hopeless, strategy)
    before = _leaders(cluster, partitions)
    changes = yield from change_states(cluster, partitions, decide_with(unclean))
    for partition, state in changes.changed.items():
        _lead(cluster, batch, partition, state)
    _count_unclean(cluster, hopeless, changes)
    yield from _log_leaders(reason, before, changes.changed)
    return changes


def _by_strategy(cluster: Cluster, strategy: Strategy, unclean: set[str]) -> Decide:
    def decide(partition: TopicPartition, state: LeaderAndIsr) -> LeaderAndIsr:
        assignment, online = cluster.assignment(partition), cluster.online(partition)
        match strategy:
            case Strategy.PREFERRED:
                return leader_elections.elect_preferred(assignment.replicas, state, online)
            case Strategy.REASSIGNED:
                return leader_elections.elect_reassigned(assignment.target, state, online)
            case Strategy.SHUTDOWN:
                online = cluster.online(partition, include_shutting_down=True)
                return leader_elections.elect_for_shutdown(
                    assignment.replicas, state, online, cluster.shutting_down
                )
            case Strategy.OFFLINE | Strategy.UNCLEAN:
                return leader_elections.elect_offline(
                    assignment.replicas,
                    state,
                    online,
                    adding=assignment.adding,
                    allow_unclean=partition.topic in unclean,
                )

    return decide


def repair_partitions(
    cluster: Cluster, batch: RequestBatch, partitions: Iterable[TopicPartition]
) -> Plan[Changes]:
    """Replace dead leaders and drop dead members of in-sync sets, in one change per partition.

    Every online replica of a changed partition gets a LeaderAndIsr. A partition without an eligible
    leader becomes OFFLINE.
    """
    listed = [one for one in partitions if one in cluster.leaderships]

    def decide_with(unclean: set[str]) -> Decide:
        def decide(partition: TopicPartition, state: LeaderAndIsr) -> LeaderAndIsr | None:
            assignment = cluster.assignment(partition)
            return leader_elections.repair(
                assignment.replicas,
                state,
                cluster.online(partition),
                adding=assignment.adding,
                stopping=cluster.stopping(partition),
                allow_unclean=partition.topic in unclean,
            )

        return decide

    changes = yield from _change(
        cluster, batch, listed, Strategy.OFFLINE, decide_with, cluster.repair_reason
    )
    for partition, state in changes.unchanged.items():
        if state.leader == NO_LEADER:
            cluster.move_partition(partition, PartitionState.OFFLINE)
    for partition in changes.failed:
        if cluster.leaderships[partition].leader not in cluster.online(partition):
            cluster.move_partition(partition, PartitionState.OFFLINE)
    return changes


def elect_first(
    cluster: Cluster, batch: RequestBatch, partitions: Iterable[TopicPartition]
) -> Plan[None]:
    """Replace dead leaders, and wait until brokers and producers have acted on it.

    All producers wait for these partitions. On the others, which have a leader, only producers with
    acks=all wait. Repairs of the others would take processor time from the first writes.
    """
    waiting = [
        one
        for one in partitions
        if (state := cluster.leaderships.get(one))
        and state.leader != NO_LEADER
        and not cluster.is_online(state.leader, one)
    ]
    yield from repair_partitions(cluster, batch, waiting)
    if requests := batch.take(UpdateType.INCREMENTAL):
        yield Send(requests)
    if waiting:
        yield AwaitWriters(waiting, FIRST_ELECTIONS_TIMEOUT_MS)


def repair_in_steps(
    cluster: Cluster, batch: RequestBatch, partitions: Sequence[TopicPartition]
) -> Plan[None]:
    """Repair partitions in small groups, so that this broker can serve requests in between."""
    for start in range(0, len(partitions), CHANGES_PER_TRANSACTION):
        some = partitions[start : start + CHANGES_PER_TRANSACTION]
        yield from repair_partitions(cluster, batch, some)


def bring_online(cluster: Cluster, batch: RequestBatch) -> Plan[None]:
    """Elect leaders for all partitions that need one and have none."""
    waiting = list(cluster.partitions_without_leader())
    new = [one for one in waiting if cluster.partition_state(one) is PartitionState.NEW]
    yield from create_partitions(cluster, batch, new)
    yield from repair_partitions(
        cluster,
        batch,
        [one for one in waiting if cluster.partition_state(one) is PartitionState.OFFLINE],
    )


def _leaders(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, BrokerId]:
    states = cluster.leaderships
    return {one: states[one].leader for one in partitions if one in states}


def _log_leaders(
    reason: str,
    before: Mapping[TopicPartition, BrokerId],
    changed: Mapping[TopicPartition, LeaderAndIsr],
) -> Plan[None]:
    """Log the partitions that changed or lost their leader, with the reason."""
    moved = {one: state for one, state in changed.items() if state.leader != before.get(one)}
    elected = {one: state for one, state in moved.items() if state.leader != NO_LEADER}
    offline = moved.keys() - elected.keys()
    if elected:
        texts = [
            f"{one}: leader {state.leader}, epoch {state.leader_epoch}, isr {list(state.isr)}"
            for one, state in islice(elected.items(), MAX_NAMED)
        ]
        fields = {"reason": reason, "partition_count": len(elected), "partitions": texts}
        yield Note("leaders.elected", fields)
    if offline:
        texts = [str(one) for one in sorted(offline)[:MAX_NAMED]]
        fields = {"reason": reason, "partition_count": len(offline), "partitions": texts}
        yield Note("partitions.went_offline", fields)


def _lead(
    cluster: Cluster,
    batch: RequestBatch,
    partition: TopicPartition,
    state: LeaderAndIsr,
    *,
    is_new: bool = False,
) -> None:
    cluster.leaderships[partition] = state
    is_led = state.leader != NO_LEADER
    cluster.move_partition(partition, PartitionState.ONLINE if is_led else PartitionState.OFFLINE)
    receivers = cluster.online(partition, include_shutting_down=True)
    batch.add_leader_and_isr(sorted(receivers), partition, is_new=is_new)


def topics_allowing_unclean(
    cluster: Cluster, hopeless: Iterable[TopicPartition], strategy: Strategy
) -> Plan[set[str]]:
    """Return the topics in which an election may lose records.

    Configs are read only for topics with a partition that has no in-sync replica online.
    """
    topics = dict.fromkeys(partition.topic for partition in hopeless if cluster.online(partition))
    if strategy is Strategy.UNCLEAN:
        return set(topics)
    if strategy is not Strategy.OFFLINE:
        return set()
    nodes = yield from read([paths.config(f"topics/{topic}") for topic in topics])
    default = cluster.config.unclean_leader_election_enable
    return {
        topic
        for topic, node in zip(topics, nodes, strict=True)
        if _allows_unclean(node.data if node else None, default)
    }


def _count_unclean(cluster: Cluster, hopeless: Iterable[TopicPartition], changes: Changes) -> None:
    """Count the partitions that got a leader although no in-sync replica was online."""
    for partition in hopeless:
        state = changes.changed.get(partition)
        cluster.unclean_election_count += state is not None and state.leader != NO_LEADER


def _without_online_isr(
    cluster: Cluster, partitions: Iterable[TopicPartition], strategy: Strategy
) -> dict[TopicPartition, None]:
    """Return the partitions without an online in-sync replica, in their order.

    A leader that is shutting down counts as online, unless an operator requests the election.
    """
    keeps_leader = strategy is Strategy.OFFLINE
    return {
        partition: None
        for partition in partitions
        if (state := cluster.leaderships.get(partition)) is None
        or (
            cluster.online(partition).isdisjoint(state.isr)
            and not (keeps_leader and state.leader in cluster.stopping(partition))
        )
    }


def _allows_unclean(data: bytes | None, default: bool) -> bool:
    try:
        value = decode_config(data).get(UNCLEAN_KEY)
    except MalformedZnodeError:
        return False
    return default if value is None else value.strip().lower() == "true"

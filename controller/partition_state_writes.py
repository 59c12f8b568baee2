"""Changes of partitions' leaders, leader epochs and in-sync sets in their znodes (decision).

Each write is conditional on the version of the znode, which is the partition epoch, and fenced by
the controller epoch.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from clusterstate.errors import MalformedZnodeError
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.plans import MAX_ATTEMPTS, Node, Refusal, SetData, Transaction, read
from clusterstate.znodes import paths
from clusterstate.znodes.partition_node import decode_partition_state, encode_partition_state
from controller.cluster import Cluster
from controller.effects import Plan
from controller.errors import StateChangeFailedError
from controller.fenced_writes import write_fenced
from kafkawire.ids import TopicPartition

Decide: TypeAlias = Callable[[TopicPartition, LeaderAndIsr], LeaderAndIsr | None]
"""Returns a partition's next state, or None to keep it; raises StateChangeFailedError."""


@dataclass(slots=True)
class Changes:
    """Result per partition of a change of states."""

    changed: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    unchanged: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    failed: dict[TopicPartition, StateChangeFailedError] = field(default_factory=dict)


def change_states(
    cluster: Cluster, partitions: Iterable[TopicPartition], decide: Decide
) -> Plan[Changes]:
    """Write the state of each partition that `decide` returns for its current one.

    The first attempt uses the image's state. If the znode has another version, it is read and
    `decide` is called again, so that no concurrent change is lost.

    Raises:
        ControllerMovedError: see `write_fenced`.
    """
    changes, remaining = Changes(), list(partitions)
    for _ in range(MAX_ATTEMPTS):
        wanted = _decide(cluster, remaining, decide, changes)
        outcomes = yield from write_fenced(cluster, _set_states(cluster, wanted))
        stale: list[TopicPartition] = []
        for (partition, state), outcome in zip(wanted.items(), outcomes, strict=True):
            if outcome.refusal is None:
                _adopt(cluster, partition, state.written(outcome.versions[0], cluster.epoch))
                changes.changed[partition] = cluster.leaderships[partition]
            elif outcome.refusal is Refusal.BAD_VERSION:
                stale.append(partition)
            else:
                text = f"the state of {partition} cannot be written: {outcome.refusal.name}"
                changes.failed[partition] = StateChangeFailedError(text)
        if not stale:
            return changes
        remaining = yield from _refresh(cluster, stale, wanted, changes)
    for partition in remaining:
        text = f"the state of {partition} changed {MAX_ATTEMPTS} times meanwhile"
        changes.failed[partition] = StateChangeFailedError(text)
    return changes


def _decide(
    cluster: Cluster, partitions: Iterable[TopicPartition], decide: Decide, changes: Changes
) -> dict[TopicPartition, LeaderAndIsr]:
    wanted: dict[TopicPartition, LeaderAndIsr] = {}
    for partition in partitions:
        state = cluster.leaderships.get(partition)
        try:
            if state is None:
                raise StateChangeFailedError(f"{partition} has no state yet")
            new = decide(partition, state)
        except StateChangeFailedError as error:
            changes.failed[partition] = error
            continue
        if new is None:
            changes.unchanged[partition] = state
        else:
            wanted[partition] = new
    return wanted


def _set_states(
    cluster: Cluster, wanted: Mapping[TopicPartition, LeaderAndIsr]
) -> list[Transaction]:
    encoded = {
        state: encode_partition_state(state, cluster.epoch) for state in set(wanted.values())
    }
    return [
        (SetData(paths.partition_state(partition), encoded[state], state.partition_epoch),)
        for partition, state in wanted.items()
    ]


def _refresh(
    cluster: Cluster,
    stale: list[TopicPartition],
    wanted: Mapping[TopicPartition, LeaderAndIsr],
    changes: Changes,
) -> Plan[list[TopicPartition]]:
    """Read the current states of `stale`, and return the partitions to retry."""
    again: list[TopicPartition] = []
    states = yield from read_states(stale)
    for partition in stale:
        state = states.get(partition)
        if state is None:
            text = f"the state of {partition} is gone"
            changes.failed[partition] = StateChangeFailedError(text)
        elif state.controller_epoch > cluster.epoch:
            text = f"{partition} was written by the controller of epoch {state.controller_epoch}"
            changes.failed[partition] = StateChangeFailedError(text)
        elif state.controller_epoch == cluster.epoch and state.same_content(wanted[partition]):
            # Our own write: its response was lost, and the retry was refused.
            _adopt(cluster, partition, state)
            changes.changed[partition] = state
        else:
            _adopt(cluster, partition, state)
            again.append(partition)
    return again


def _adopt(cluster: Cluster, partition: TopicPartition, state: LeaderAndIsr) -> None:
    cluster.leaderships[partition] = state


def read_states(
    partitions: Sequence[TopicPartition],
) -> Plan[dict[TopicPartition, LeaderAndIsr]]:
    """Return the states in the znodes, except for missing and malformed ones."""
    nodes = yield from read([paths.partition_state(partition) for partition in partitions])
    # Decoded once per distinct state: there are fewer than partitions.
    known: dict[tuple[bytes | None, int], LeaderAndIsr | None] = {}
    states: dict[TopicPartition, LeaderAndIsr] = {}
    for partition, node in zip(partitions, nodes, strict=True):
        if node is None:
            continue
        content = (node.data, node.version)
        if content not in known:
            known[content] = _readable(node)
        if (state := known[content]) is not None:
            states[partition] = state
    return states


def _readable(node: Node) -> LeaderAndIsr | None:
    try:
        return decode_partition_state(node.data, node.version)
    except MalformedZnodeError:
        return None

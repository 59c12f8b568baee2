"""Reads and writes of the offsets of version 0 of OffsetCommit and OffsetFetch (decision).

They lie in the nodes of groups whose members meet in the coordinator. Kafka's brokers serve them up
to the last version with ZooKeeper. Writes are unconditional, as its own are.
"""

from collections.abc import Collection, Mapping
from typing import Final

from clusterstate.plans import MAX_ATTEMPTS, Create, Plan, Refusal, SetData, read, write
from clusterstate.znodes import consumer_nodes, paths
from kafkawire.ids import TopicPartition

ANY_VERSION: Final = -1


def read_old_offsets(
    group: str, partitions: Collection[TopicPartition]
) -> Plan[dict[TopicPartition, int | None]]:
    """Return the offset of each partition; None where there is none."""
    asked = list(partitions)
    nodes = yield from read([_path(group, each) for each in asked])
    return {
        each: None if node is None else consumer_nodes.decode_offset(node.data)
        for each, node in zip(asked, nodes, strict=True)
    }


def write_old_offsets(
    group: str, offsets: Mapping[TopicPartition, int]
) -> Plan[set[TopicPartition]]:
    """Write these offsets, with the missing nodes above them; return the refused ones."""
    left = dict(offsets)
    may_exist = True
    for _ in range(MAX_ATTEMPTS):
        if not left:
            break
        if not may_exist:
            parents = dict.fromkeys(
                parent for each in left for parent in paths.parents(_path(group, each))
            )
            yield from write([(Create(parent, None),) for parent in parents])
        changes: list[tuple[SetData | Create]] = []
        for each, offset in left.items():
            data = consumer_nodes.encode_offset(offset)
            path = _path(group, each)
            changes.append((SetData(path, data, ANY_VERSION) if may_exist else Create(path, data),))
        outcomes = yield from write(changes)
        repeated = (Refusal.NO_NODE, Refusal.NODE_EXISTS)
        left = {
            each: left[each]
            for each, outcome in zip(list(left), outcomes, strict=True)
            if outcome.refusal is not None
        }
        if any(
            outcome.refusal is not None and outcome.refusal not in repeated for outcome in outcomes
        ):
            break
        may_exist = not may_exist
    return set(left)


def _path(group: str, partition: TopicPartition) -> str:
    return consumer_nodes.offset(group, partition.topic, str(partition.partition))

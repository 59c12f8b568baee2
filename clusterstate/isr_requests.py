"""Writes of in-sync sets by a leader itself, below inter-broker protocol 2.7 (decision).

Source: kafka.utils.ReplicationUtils.updateLeaderAndIsr of Kafka 3.9.
"""

from clusterstate.errors import MalformedZnodeError
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.plans import Plan, SetData, read, write
from clusterstate.znodes import paths
from clusterstate.znodes.partition_node import decode_partition_state, encode_partition_state
from kafkawire.ids import TopicPartition


def change_isr(partition: TopicPartition, wanted: LeaderAndIsr) -> Plan[LeaderAndIsr | None]:
    """Write `wanted` if the znode has its partition epoch; return it as written, None if refused.

    A refused write still succeeded if the znode holds the same state: then its first copy was
    applied and the response was lost.
    """
    path = paths.partition_state(partition)
    data = encode_partition_state(wanted, wanted.controller_epoch)
    [outcome] = yield from write([(SetData(path, data, wanted.partition_epoch),)])
    if outcome.refusal is None:
        return wanted._replace(partition_epoch=outcome.versions[0])
    [node] = yield from read((path,))
    if node is None:
        return None
    try:
        found = decode_partition_state(node.data, node.version)
    except MalformedZnodeError:
        return None
    is_ours = (found.leader, found.leader_epoch, found.isr) == (
        wanted.leader,
        wanted.leader_epoch,
        wanted.isr,
    )
    return wanted._replace(partition_epoch=node.version) if is_ours else None

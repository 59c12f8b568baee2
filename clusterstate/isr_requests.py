"""Writes of in-sync sets by a leader itself, below inter-broker protocol 2.7 (decision).

Source: kafka.utils.ReplicationUtils.updateLeaderAndIsr of Kafka 3.9.
"""

from clusterstate.errors import MalformedZnodeError
from clusterstate.leader_and_isr import LeaderAndIsr, LeaderRecoveryState
from clusterstate.plans import Plan, SetData, read, write
from clusterstate.replica_assignment import Replicas
from clusterstate.znodes import paths
from clusterstate.znodes.partition_state import decode_partition_state, encode_partition_state
from kafkawire.ids import BrokerId, LeaderEpoch, TopicPartition


def change_isr(
    partition: TopicPartition,
    *,
    leader: BrokerId,
    leader_epoch: LeaderEpoch,
    isr: Replicas,
    version: int,
    controller_epoch: int,
) -> Plan[int | None]:
    """Write an in-sync set if the znode has `version`; return the new version, None if refused.

    A refused write still succeeded if the znode holds the same state: then its first copy was
    applied and the response was lost.
    """
    state = LeaderAndIsr(
        leader=leader,
        leader_epoch=leader_epoch,
        isr=isr,
        recovery_state=LeaderRecoveryState.RECOVERED,
        partition_epoch=version,
        controller_epoch=controller_epoch,
    )
    path = paths.partition_state(partition)
    data = encode_partition_state(state, controller_epoch)
    [outcome] = yield from write([(SetData(path, data, version),)])
    if outcome.refusal is None:
        return outcome.versions[0]
    [node] = yield from read((path,))
    if node is None:
        return None
    try:
        found = decode_partition_state(node.data, node.version)
    except MalformedZnodeError:
        return None
    is_ours = (found.leader, found.leader_epoch, found.isr) == (leader, leader_epoch, isr)
    return node.version if is_ours else None

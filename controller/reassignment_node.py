"""`/admin/reassign_partitions`: the moves that tools ask for (decision)."""

from collections.abc import Collection

from controller.cluster import Cluster
from controller.effects import Delete, Enqueue, Plan, SetData, read
from controller.errors import MalformedZnodeError
from controller.events import ReassignmentNode
from controller.fenced_writes import write_fenced
from controller.replica_assignment import Replicas
from controller.znodes import paths
from controller.znodes.admin import decode_reassignment, encode_reassignment
from kafkawire.ids import TopicPartition


def requests(cluster: Cluster) -> Plan[dict[TopicPartition, Replicas]]:
    """Return what tools ask for; a node that cannot be read is deleted."""
    [node] = yield from read((paths.REASSIGN_PARTITIONS,), watch=True)
    if node is None:
        return {}
    try:
        return decode_reassignment(node.data)
    except MalformedZnodeError:
        yield from write_fenced(cluster, [(Delete(paths.REASSIGN_PARTITIONS, node.version),)])
        return {}


def forget_requests(
    cluster: Cluster, partitions: Collection[TopicPartition], target: Replicas | None = None
) -> Plan[None]:
    """Drop the requests of tools for `partitions`: those for `target`, or (None) all."""
    [node] = yield from read((paths.REASSIGN_PARTITIONS,))
    if node is None:
        return
    try:
        wanted = decode_reassignment(node.data)
    except MalformedZnodeError:
        return
    left = {
        one: wish
        for one, wish in wanted.items()
        if one not in partitions or (target is not None and wish != target)
    }
    if left == wanted:
        return
    if left:
        data = encode_reassignment(left)
        change = SetData(paths.REASSIGN_PARTITIONS, data, node.version)
        yield from write_fenced(cluster, [(change,)])
    else:
        yield from write_fenced(cluster, [(Delete(paths.REASSIGN_PARTITIONS, node.version),)])
        # The next request may be there before anybody watches for it.
        yield Enqueue(ReassignmentNode())

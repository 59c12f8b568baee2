"""`/admin/reassign_partitions`: reassignments that tools request (decision)."""

from collections.abc import Collection

from clusterstate.errors import MalformedZnodeError
from clusterstate.plans import Delete, SetData, read
from clusterstate.replica_assignment import Replicas
from clusterstate.znodes import paths
from clusterstate.znodes.admin import decode_reassignment, encode_reassignment
from controller.cluster import Cluster
from controller.effects import Plan
from controller.fenced_writes import write_fenced
from kafkawire.ids import TopicPartition


def requests(cluster: Cluster) -> Plan[dict[TopicPartition, Replicas]]:
    """Return the requested reassignments, and watch for more; a malformed znode is deleted."""
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
    """Delete the requests for `partitions`: only requests for `target`, or all if it is None."""
    [node] = yield from read((paths.REASSIGN_PARTITIONS,))
    if node is None:
        return
    try:
        wanted = decode_reassignment(node.data)
    except MalformedZnodeError:
        return
    left = {
        one: requested
        for one, requested in wanted.items()
        if one not in partitions or (target is not None and requested != target)
    }
    if left == wanted:
        return
    if left:
        data = encode_reassignment(left)
        change = SetData(paths.REASSIGN_PARTITIONS, data, node.version)
        yield from write_fenced(cluster, [(change,)])
    else:
        yield from write_fenced(cluster, [(Delete(paths.REASSIGN_PARTITIONS, node.version),)])

"""Blocks of producer ids for brokers (decision): no id is allocated twice."""

from clusterstate.errors import MalformedZnodeError
from clusterstate.plans import MAX_ATTEMPTS, Create, Refusal, SetData, read
from clusterstate.znodes import paths
from clusterstate.znodes.cluster_node import (
    ProducerIdBlock,
    decode_producer_id_block,
    next_producer_id_block,
)
from controller.cluster import Cluster
from controller.effects import Plan
from controller.fenced_writes import write_fenced
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId


def on_request(
    cluster: Cluster, broker_id: BrokerId, broker_epoch: int
) -> Plan[ProducerIdBlock | ErrorCode]:
    """Allocate the next block; its ids stay unused if the response is lost."""
    broker = cluster.brokers.get(broker_id)
    if broker is None:
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    if broker.epoch != broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    path = paths.PRODUCER_ID_BLOCK
    for _ in range(MAX_ATTEMPTS):
        [node] = yield from read((path,))
        try:
            latest = decode_producer_id_block(node.data) if node and node.data else None
            block = next_producer_id_block(broker_id, latest)
        except MalformedZnodeError:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        write = (
            SetData(path, block.encode(), node.version) if node else Create(path, block.encode())
        )
        [outcome] = yield from write_fenced(cluster, [(write,)])
        if outcome.refusal is None:
            return block
        if outcome.refusal not in (Refusal.BAD_VERSION, Refusal.NODE_EXISTS):
            break
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

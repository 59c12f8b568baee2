"""Elections requested by a client, by a tool through the znode, or by the balance (decision).

Source: kafka.controller.KafkaController.processReplicaLeaderElection,
checkAndTriggerAutoLeaderRebalance of Kafka 3.9.
"""

from collections.abc import Iterable, Sequence

from clusterstate.errors import MalformedZnodeError
from clusterstate.plans import Delete, read
from clusterstate.znodes import paths
from clusterstate.znodes.notification import decode_partitions
from controller import leader_elections
from controller.cluster import Cluster
from controller.effects import Plan
from controller.fenced_writes import write_fenced
from controller.partition_state import PartitionState
from controller.partition_transitions import Strategy, elect
from controller.request_batch import RequestBatch
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.sentinels import NO_LEADER

Results = dict[TopicPartition, ErrorCode]


def on_request(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None, *, is_unclean: bool = False
) -> Plan[Results]:
    """Elect leaders where needed, and return the error code of each partition."""
    listed = sorted(cluster.partitions if partitions is None else partitions)
    results = {one: _check(cluster, one, is_unclean=is_unclean) for one in listed}
    wanted = [one for one, code in results.items() if code is ErrorCode.NONE]
    strategy = Strategy.UNCLEAN if is_unclean else Strategy.PREFERRED
    batch = RequestBatch(cluster)
    changes = yield from elect(cluster, batch, wanted, strategy)
    yield from batch.send()
    failure = (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        if is_unclean
        else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    )
    return results | dict.fromkeys(changes.failed, failure)


def _check(cluster: Cluster, partition: TopicPartition, *, is_unclean: bool) -> ErrorCode:
    """Return the reason why no election is needed or possible; NONE if one is needed."""
    state = cluster.leaderships.get(partition)
    if state is None or cluster.partition_state(partition) is PartitionState.NON_EXISTENT:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if cluster.is_being_deleted(partition.topic):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if is_unclean:
        has_leader = state.leader != NO_LEADER and state.leader in cluster.brokers
    else:
        has_leader = state.leader == cluster.assignment(partition).replicas[0]
    return ErrorCode.ELECTION_NOT_NEEDED if has_leader else ErrorCode.NONE


def on_znode(cluster: Cluster) -> Plan[None]:
    """Perform the elections that a tool requests through the znode, and delete the znode."""
    [node] = yield from read((paths.PREFERRED_ELECTION,), watch=True)
    if node is None:
        return
    try:
        partitions: Sequence[TopicPartition] = decode_partitions(node.data)
    except MalformedZnodeError:
        partitions = ()
    yield from on_request(cluster, partitions)
    yield from write_fenced(cluster, [(Delete(paths.PREFERRED_ELECTION, node.version),)])


def on_rebalance(cluster: Cluster) -> Plan[None]:
    """Elect the preferred leaders of each broker whose imbalance exceeds the limit.

    A reassignment in progress elects its own leader at its end.
    """
    preferred: dict[BrokerId, list[TopicPartition]] = {}
    for partition in sorted(cluster.partitions):
        if partition in cluster.moving or cluster.is_being_deleted(partition.topic):
            continue
        if partition in cluster.leaderships:
            first = cluster.assignment(partition).replicas[0]
            preferred.setdefault(first, []).append(partition)
    limit = cluster.config.leader_imbalance_per_broker_percentage / 100
    for broker, partitions in preferred.items():
        elsewhere = [one for one in partitions if cluster.leaderships[one].leader != broker]
        if len(elsewhere) > limit * len(partitions):
            candidates = [one for one in elsewhere if _may_return(cluster, one)]
            yield from on_request(cluster, candidates)


def _may_return(cluster: Cluster, partition: TopicPartition) -> bool:
    return leader_elections.may_lead_as_preferred(
        cluster.assignment(partition).replicas,
        cluster.leaderships[partition],
        cluster.online(partition),
    )

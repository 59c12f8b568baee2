"""Brokers that join, leave, restart and change endpoints (decision).

A broker's epoch is the czxid of its registration. The same id with a larger epoch is a new
incarnation: the earlier one has failed, even if the controller never saw its registration missing.
A registration that names the first epoch of a known process belongs to this process, which has
only begun a new session. It has all its records and roles, so no leader or in-sync set changes.
Requests to it may have been lost, so it gets them again.

When the coordinator has failed and returns, all living brokers register again, while the
registration of a dead one remains for another session timeout. If the living ones lost their
places, the dead one would be the last member of its in-sync sets.

Source: kafka.controller.KafkaController.processBrokerChange of Kafka 3.9, where a session outlives
a failure of the coordinator.
"""

from collections.abc import Collection, Mapping

from clusterstate.errors import MalformedZnodeError
from clusterstate.plans import UNREADABLE_VERSION, read
from clusterstate.znodes import paths
from clusterstate.znodes.registration import decode_registration
from controller import deletion, reassignment
from controller.cluster import Cluster, LiveBroker
from controller.effects import Connect, Disconnect, Note, Plan
from controller.lost_watches import watch_children
from controller.partition_transitions import bring_online, elect_first, repair_in_steps
from controller.received_notifications import take_log_dir_events
from controller.replica_state import PartitionReplica, ReplicaState
from controller.replica_transitions import mark, to_online
from controller.request_batch import RequestBatch
from kafkawire.ids import BrokerId


def read_brokers(
    names: Collection[str], known: Mapping[BrokerId, LiveBroker]
) -> Plan[dict[BrokerId, LiveBroker]]:
    """Return the registered brokers among `names`, and watch for changes.

    A broker in `known` whose registration is there but may not be read stays as it is known.
    """
    ids = sorted(BrokerId(int(name)) for name in names if name.isdecimal())
    nodes = yield from read([paths.broker(one) for one in ids], watch=True)
    brokers: dict[BrokerId, LiveBroker] = {}
    for broker_id, node in zip(ids, nodes, strict=True):
        if node is None:
            continue
        if node.version == UNREADABLE_VERSION and broker_id in known:
            brokers[broker_id] = known[broker_id]
            continue
        try:
            registration = decode_registration(broker_id, node.data)
        except MalformedZnodeError as error:
            yield Note("broker.ignored", {"broker_id": broker_id, "error": str(error)})
            continue
        brokers[broker_id] = LiveBroker(registration, node.czxid)
    return brokers


def on_change(cluster: Cluster) -> Plan[None]:
    """Update the image to the brokers registered now."""
    names = yield from watch_children(paths.BROKER_IDS)
    if names is None:
        return
    current = yield from read_brokers(names, cluster.brokers)
    known = {broker_id: broker.epoch for broker_id, broker in cluster.brokers.items()}
    new = current.keys() - known.keys()
    dead = known.keys() - current.keys()
    again = {one for one in current.keys() & known.keys() if current[one].epoch > known[one]}
    alive = {one for one in again if current[one].first_epoch == cluster.brokers[one].first_epoch}
    bounced = again - alive

    if alive:
        yield from on_new_sessions(cluster, {one: current[one] for one in sorted(alive)})
    gone = dead | bounced
    if gone:
        yield Disconnect(tuple(sorted(gone)))
        for broker_id in sorted(gone):
            epoch = cluster.brokers.pop(broker_id).epoch
            yield Note("broker.left", {"broker_id": broker_id, "broker_epoch": epoch})
        cluster.repair_reason = f"{_named(gone)} left"
        yield from on_failure(cluster, gone)
    if came := {one: current[one] for one in sorted(new | bounced)}:
        cluster.repair_reason = f"{_named(came)} joined"
        yield from on_startup(cluster, came)


def _named(brokers: Collection[BrokerId]) -> str:
    return f"{'broker' if len(brokers) == 1 else 'brokers'} {', '.join(map(str, sorted(brokers)))}"


def on_failure(cluster: Cluster, dead: Collection[BrokerId]) -> Plan[None]:
    """Handle the failure of brokers that have been removed from the image already."""
    for broker_id in dead:
        cluster.offline_dirs.pop(broker_id, None)
        cluster.shutting_down.discard(broker_id)
    yield from on_replicas_lost(cluster, cluster.replicas_on(dead))


def on_new_sessions(cluster: Cluster, brokers: Mapping[BrokerId, LiveBroker]) -> Plan[None]:
    """Send brokers with a new session all metadata, and their roles and deletions once more."""
    yield from deletion.on_replicas_failed(cluster, cluster.replicas_on(brokers))
    yield from on_startup(cluster, brokers)


def on_replicas_lost(cluster: Cluster, lost: Collection[PartitionReplica]) -> Plan[None]:
    """Elect new leaders where the leader is lost, and shrink the in-sync sets."""
    batch = RequestBatch(cluster)
    batch.add_update_metadata(cluster.brokers)
    staying = [one for one in lost if cluster.needs_leader(one.partition)]
    partitions = dict.fromkeys(replica.partition for replica in staying)
    waiting = dict.fromkeys(cluster.partitions_without_leader())
    yield from elect_first(cluster, batch, partitions)
    yield from repair_in_steps(cluster, batch, [*{**partitions, **waiting}])
    mark(cluster, staying, ReplicaState.OFFLINE)
    # Brokers without another update still must learn which replicas are offline.
    batch.add_update_metadata(cluster.brokers, partitions)
    yield from batch.send()
    yield from deletion.on_replicas_failed(cluster, lost)


def on_startup(cluster: Cluster, came: Mapping[BrokerId, LiveBroker]) -> Plan[None]:
    """Send new brokers all metadata, bring their replicas online, and resume waiting work."""
    existing = cluster.brokers.keys() - came.keys()
    for broker_id, broker in came.items():
        cluster.brokers[broker_id] = broker
        yield Note("broker.joined", {"broker_id": broker_id, "broker_epoch": broker.epoch})
        yield Connect(broker.registration, broker.epoch)
    batch = RequestBatch(cluster)
    batch.add_update_metadata(existing)
    yield from batch.send()
    batch.add_update_metadata(came, list(cluster.leaderships))
    yield from batch.send(names_all=True)

    yield from on_replicas_found(cluster, cluster.replicas_on(came))


def on_replicas_found(cluster: Cluster, found: Collection[PartitionReplica]) -> Plan[None]:
    """Bring replicas online whose broker or log directory works again; resume waiting work."""
    batch = RequestBatch(cluster)
    staying = [one for one in found if cluster.needs_leader(one.partition)]
    yield from bring_online(cluster, batch)
    to_online(cluster, batch, staying)
    yield from batch.send()
    joining = {
        one.partition for one in found if one.broker in cluster.assignment(one.partition).target
    }
    yield from reassignment.resume(cluster, joining & cluster.moving)
    yield from deletion.resume(cluster, {one.partition.topic for one in found})


def on_modification(cluster: Cluster, broker_id: BrokerId) -> Plan[None]:
    """Update all brokers if one has changed its registered endpoints."""
    [node] = yield from read((paths.broker(broker_id),), watch=True)
    known = cluster.brokers.get(broker_id)
    if node is None or known is None or node.czxid != known.epoch:
        return
    try:
        registration = decode_registration(broker_id, node.data)
    except MalformedZnodeError as error:
        yield Note("broker.ignored", {"broker_id": broker_id, "error": str(error)})
        return
    if registration != known.registration:
        cluster.brokers[broker_id] = LiveBroker(registration, node.czxid)
        batch = RequestBatch(cluster)
        batch.add_update_metadata(cluster.brokers)
        yield from batch.send()


def on_log_dir_events(cluster: Cluster) -> Plan[None]:
    """Send LeaderAndIsr to brokers with a failed directory; the responses name the replicas."""
    brokers = yield from take_log_dir_events(cluster)
    batch = RequestBatch(cluster)
    to_online(cluster, batch, cluster.replicas_on(brokers))
    yield from batch.send()

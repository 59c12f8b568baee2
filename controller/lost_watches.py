"""Watches that are lost without notice (decision).

While a broker lacks the permission to read a znode, a change uses up its watch and notifies nobody,
and a refused read sets no watch. A controller therefore reads each watched znode again at times.
"""

from clusterstate.plans import list_children, read
from clusterstate.znodes import paths
from controller.cluster import Cluster
from controller.effects import Enqueue, Note, Plan
from controller.events import CHANGES, BrokerModification, PartitionModification
from coordination.errors import NoAuthError


def watch_children(path: str) -> Plan[tuple[str, ...] | None]:
    """Return the names below `path`, and watch for changes; None if this broker may not read it.

    The image then stays as it is until `read_again`.
    """
    try:
        return (yield from list_children(path, watch=True))
    except NoAuthError as error:
        yield Note("watch.not_read", {"path": path, "error": str(error)})
        return None


def read_again(cluster: Cluster) -> Plan[None]:
    """Read all watched znodes again, as if each had changed.

    There may be many topics, so the watch of a topic is set again only if its znode has changed
    since the watch was set.
    """
    for event in CHANGES:
        yield Enqueue(event)
    for broker_id in sorted(cluster.brokers):
        yield Enqueue(BrokerModification(broker_id))
    topics = sorted(cluster.topic_versions)
    nodes = yield from read([paths.topic(topic) for topic in topics])
    for topic, node in zip(topics, nodes, strict=True):
        if node is not None and node.version != cluster.topic_versions[topic]:
            yield Enqueue(PartitionModification(topic))

"""New topics and partitions (decision).

A broker or tool creates a topic by writing its znode. The controller finds it and elects leaders
for its partitions. Partitions are added by rewriting the znode.

Source: kafka.controller.KafkaController.processTopicChange, processPartitionModifications.
"""

from collections.abc import Callable, Iterable, Sequence

from clusterstate.errors import MalformedZnodeError
from clusterstate.plans import SetData, read
from clusterstate.znodes import paths
from clusterstate.znodes.topic import TopicAssignment, decode_topic
from controller.cluster import Cluster
from controller.effects import Enqueue, Note, Plan
from controller.events import TopicDeletion
from controller.fenced_writes import write_fenced
from controller.lost_watches import watch_children
from controller.partition_state import PartitionState
from controller.partition_transitions import create_partitions
from controller.replica_state import ReplicaState
from controller.replica_transitions import mark, to_online
from controller.request_batch import RequestBatch
from kafkawire.ids import TopicId, TopicPartition

NewTopicId = Callable[[], TopicId]


def on_topic_change(cluster: Cluster, new_topic_id: NewTopicId) -> Plan[None]:
    """Start new topics, and forget topics whose znodes are gone."""
    listed = yield from watch_children(paths.TOPICS)
    if listed is None:
        return
    names = set(listed)
    for unread in cluster.unread_topics - names:
        cluster.unread_topics.discard(unread)
        cluster.topic_versions.pop(unread, None)
    for gone in set(cluster.topics) - names:
        cluster.remove_topic(gone)
        yield Note("topic.vanished", {"topic": gone})
    new = sorted(names - set(cluster.topics))
    partitions = yield from adopt_topics(cluster, new, new_topic_id)
    yield from begin_partitions(cluster, partitions)


def adopt_topics(
    cluster: Cluster, topics: Sequence[str], new_topic_id: NewTopicId
) -> Plan[list[TopicPartition]]:
    """Add topics to the image, watch them, and return their partitions.

    A topic without an id, created by an old tool, gets one. A malformed topic is left out until its
    znode changes.
    """
    nodes = yield from read([paths.topic(topic) for topic in topics], watch=True)
    partitions: list[TopicPartition] = []
    unnamed: dict[str, TopicAssignment] = {}
    changes: list[tuple[SetData]] = []
    for topic, node in zip(topics, nodes, strict=True):
        if node is None:
            continue
        cluster.topic_versions[topic] = node.version
        cluster.unread_topics.add(topic)
        try:
            assignment = decode_topic(node.data)
        except MalformedZnodeError as error:
            yield Note("topic.not_read", {"topic": topic, "error": str(error)})
            continue
        if assignment.topic_id is None:
            unnamed[topic] = TopicAssignment(new_topic_id(), assignment.partitions)
            change = SetData(paths.topic(topic), unnamed[topic].encode(), node.version)
            changes.append((change,))
        else:
            partitions += _adopt(cluster, topic, assignment)
    outcomes = yield from write_fenced(cluster, changes)
    for (topic, assignment), outcome in zip(unnamed.items(), outcomes, strict=True):
        # If refused, the znode has changed meanwhile and its watch sends a notification.
        if outcome.refusal is None:
            partitions += _adopt(cluster, topic, assignment)
    return partitions


def _adopt(cluster: Cluster, topic: str, assignment: TopicAssignment) -> list[TopicPartition]:
    cluster.unread_topics.discard(topic)
    cluster.add_topic(topic, assignment.topic_id)
    for number, replicas in assignment.partitions.items():
        partition = TopicPartition(topic, number)
        cluster.assign(partition, replicas)
        if replicas.is_moving:
            cluster.moving.add(partition)
    return cluster.partitions_of(topic)


def begin_partitions(cluster: Cluster, partitions: Iterable[TopicPartition]) -> Plan[None]:
    """Elect the first leaders of new partitions."""
    new = [one for one in partitions if one not in cluster.leaderships]
    for partition in new:
        cluster.move_partition(partition, PartitionState.NEW)
    batch = RequestBatch(cluster)
    replicas = cluster.replicas_of(new)
    mark(cluster, replicas, ReplicaState.NEW)
    yield from create_partitions(cluster, batch, new)
    to_online(cluster, batch, replicas)
    yield from batch.send()


def on_partition_modification(cluster: Cluster, topic: str, new_topic_id: NewTopicId) -> Plan[None]:
    """Start partitions added to a topic; remove them again if the topic is being deleted."""
    [node] = yield from read((paths.topic(topic),), watch=True)
    if node is None:
        return
    if topic not in cluster.topics:
        partitions = yield from adopt_topics(cluster, (topic,), new_topic_id)
        yield from begin_partitions(cluster, partitions)
        if partitions:
            # A deletion may have been requested while the topic was malformed.
            yield Enqueue(TopicDeletion())
        return
    cluster.topic_versions[topic] = node.version
    try:
        assignment = decode_topic(node.data)
    except MalformedZnodeError:
        return
    added = {
        TopicPartition(topic, number): replicas
        for number, replicas in assignment.partitions.items()
        if not cluster.assignment(TopicPartition(topic, number)).replicas
    }
    if not added:
        return
    if cluster.is_being_deleted(topic):
        existing = {one.partition: cluster.assignment(one) for one in cluster.partitions_of(topic)}
        data = TopicAssignment(cluster.topic_ids.get(topic), existing).encode()
        yield from write_fenced(cluster, [(SetData(paths.topic(topic), data, node.version),)])
        return
    for partition, replicas in added.items():
        cluster.assign(partition, replicas)
    yield from begin_partitions(cluster, sorted(added))

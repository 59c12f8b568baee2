"""Applies an UpdateMetadata request to the cluster image (decision).

The request lists all live brokers. Unless it is of the FULL type it lists only some partitions; a
FULL request drops topics that it does not name. A partition whose leader is `LEADER_DURING_DELETE`
is removed, and its topic with the last of them. Topics with illegal names are skipped.

A controller that takes over sends INCREMENTAL requests, with a few partitions, before it has read
all of them. Such a request only changes partitions that the image has already. If its predecessor
died before it announced a topic, that topic would otherwise appear with some of its partitions.
Clients take these for the whole topic; while it is missing, they retry. The image is complete from
the first request on that is not INCREMENTAL.

Source: kafka.server.metadata.ZkMetadataCache of Kafka 3.9; KIP-866 for the FULL type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

from broker.cluster.metadata_cache import (
    ClusterImage,
    Endpoint,
    LiveBroker,
    PartitionState,
    TopicState,
)
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.ids import (
    ZERO_TOPIC_ID,
    BrokerId,
    LeaderEpoch,
    TopicPartition,
    validate_topic_name,
)
from kafkawire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kafkawire.update_type import UpdateType

LEADER_DURING_DELETE: Final = -2


def updated(image: ClusterImage, message: UpdateMetadataRequest) -> ClusterImage:
    """Return `image` after the update in `message`."""
    may_add = message.type != UpdateType.INCREMENTAL
    topics = dict(image.topics)
    if message.type == UpdateType.FULL:
        named = {state.topic_name for state in message.topic_states}
        topics = {name: topic for name, topic in topics.items() if name in named}
    for state in message.topic_states:
        if validate_topic_name(state.topic_name) is not None:
            continue
        topic = _updated_topic(topics.get(state.topic_name), state, may_add=may_add)
        if topic is None:
            topics.pop(state.topic_name, None)
        else:
            topics[state.topic_name] = topic
    return ClusterImage(
        brokers=_brokers(message.live_brokers),
        topics=topics,
        topic_names={topic.topic_id: topic.name for topic in topics.values()},
        controller_id=BrokerId(message.controller_id),
        is_complete=image.is_complete or may_add,
    )


def deleted_partitions(
    before: ClusterImage, message: UpdateMetadataRequest, after: ClusterImage
) -> list[TopicPartition]:
    """Return the partitions that are being deleted, or have been, by `message`.

    A FULL request does not name a topic whose deletion this broker has missed. Another id of a
    topic that is named proves nothing: an old tool may have dropped the id, so that the topic got a
    new one, and the offsets may be about the topic that was created again.
    """
    deleted = [
        TopicPartition(state.topic_name, each.partition_index)
        for state in message.topic_states
        for each in state.partition_states
        if each.leader == LEADER_DURING_DELETE
    ]
    if message.type == UpdateType.FULL:
        gone = [topic for name, topic in before.topics.items() if name not in after.topics]
        missed = {TopicPartition(topic.name, index) for topic in gone for index in topic.partitions}
        deleted += sorted(missed.difference(deleted))
    return deleted


def _updated_topic(
    known: TopicState | None, state: UpdateMetadataTopicState, *, may_add: bool
) -> TopicState | None:
    """Return the topic after the update, None if no partition is left."""
    same = known if known and state.topic_id in (ZERO_TOPIC_ID, known.topic_id) else None
    if not (same or may_add):
        return known
    partitions = dict(same.partitions) if same else {}
    for each in state.partition_states:
        if each.leader == LEADER_DURING_DELETE:
            partitions.pop(each.partition_index, None)
        elif may_add or each.partition_index in partitions:
            partitions[each.partition_index] = _partition(each)
    if not partitions:
        return None
    topic_id = same.topic_id if same else state.topic_id
    ordered = {index: partitions[index] for index in sorted(partitions)}
    return TopicState(name=state.topic_name, topic_id=topic_id, partitions=ordered)


def _partition(state: UpdateMetadataPartitionState) -> PartitionState:
    return PartitionState(
        index=state.partition_index,
        leader_and_isr=LeaderAndIsr(
            leader=BrokerId(state.leader),
            isr=_ids(state.isr),
            controller_epoch=state.controller_epoch,
            leader_epoch=LeaderEpoch(state.leader_epoch),
            partition_epoch=state.zk_version,
        ),
        replicas=_ids(state.replicas),
        offline_replicas=_ids(state.offline_replicas),
    )


def _brokers(alive: Iterable[UpdateMetadataBroker]) -> Mapping[BrokerId, LiveBroker]:
    return {
        BrokerId(broker.id): LiveBroker(
            broker_id=BrokerId(broker.id),
            endpoints={each.listener: Endpoint(each.host, each.port) for each in broker.endpoints},
            rack=broker.rack,
        )
        for broker in alive
    }


def _ids(numbers: Iterable[int]) -> tuple[BrokerId, ...]:
    # A call of BrokerId for each number takes most of the time of an update.
    return cast("tuple[BrokerId, ...]", tuple(numbers))

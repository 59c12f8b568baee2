"""Applies an UpdateMetadata request to the cluster image (decision).

The request lists all live brokers. Unless it is of the FULL type it lists only some partitions; a
FULL request drops topics that it does not name. A partition whose leader is `LEADER_DURING_DELETE`
is removed, and its topic with the last of them. Topics with illegal names are skipped. The image is
complete from the first request on that is not INCREMENTAL: a controller that takes over sends
INCREMENTAL ones, with a few partitions, before it has read all of them. Until then the image has no
topics: a client takes a topic with some of its partitions for the whole topic, but retries while it
is missing.

Source: kafka.server.metadata.ZkMetadataCache of Kafka 3.9; KIP-866 for the FULL type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

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
    is_complete = image.is_complete or message.type != UpdateType.INCREMENTAL
    topics = dict(image.topics)
    if message.type == UpdateType.FULL:
        named = {state.topic_name for state in message.topic_states}
        topics = {name: topic for name, topic in topics.items() if name in named}
    for state in message.topic_states if is_complete else ():
        if validate_topic_name(state.topic_name) is not None:
            continue
        topic = _updated_topic(topics.get(state.topic_name), state)
        if topic is None:
            topics.pop(state.topic_name, None)
        else:
            topics[state.topic_name] = topic
    return ClusterImage(
        brokers=_brokers(message.live_brokers),
        topics=topics,
        topic_names={topic.topic_id: topic.name for topic in topics.values()},
        controller_id=BrokerId(message.controller_id),
        is_complete=is_complete,
    )


def deleted_partitions(message: UpdateMetadataRequest) -> list[TopicPartition]:
    """Return the partitions that are being deleted, by `message`."""
    return [
        TopicPartition(state.topic_name, each.partition_index)
        for state in message.topic_states
        for each in state.partition_states
        if each.leader == LEADER_DURING_DELETE
    ]


def _updated_topic(known: TopicState | None, state: UpdateMetadataTopicState) -> TopicState | None:
    """Return the topic after the update, None if no partition is left."""
    is_same = known is not None and state.topic_id in (ZERO_TOPIC_ID, known.topic_id)
    partitions = dict(known.partitions) if known is not None and is_same else {}
    for each in state.partition_states:
        if each.leader == LEADER_DURING_DELETE:
            partitions.pop(each.partition_index, None)
        else:
            partitions[each.partition_index] = _partition(each)
    if not partitions:
        return None
    topic_id = known.topic_id if known is not None and is_same else state.topic_id
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
    return tuple(BrokerId(number) for number in numbers)

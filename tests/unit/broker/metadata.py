"""Fills a metadata cache without a controller."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from broker.cluster.metadata_cache import (
    UNKNOWN_EPOCH,
    LiveBroker,
    MetadataCache,
    PartitionState,
    TopicState,
)
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.ids import BrokerId, LeaderEpoch


def partition_state(
    index: int, leader: int, *replicas: int, leader_epoch: int = 0, offline: Iterable[int] = ()
) -> PartitionState:
    """Return a partition whose replicas are all in sync, with an unknown partition epoch."""
    members = tuple(map(BrokerId, replicas))
    return PartitionState(
        index=index,
        leader_and_isr=LeaderAndIsr(
            leader=BrokerId(leader),
            isr=members,
            controller_epoch=UNKNOWN_EPOCH,
            leader_epoch=LeaderEpoch(leader_epoch),
            partition_epoch=UNKNOWN_EPOCH,
        ),
        replicas=members,
        offline_replicas=tuple(map(BrokerId, offline)),
    )


def set_brokers(
    cache: MetadataCache, brokers: Iterable[LiveBroker], controller_id: BrokerId
) -> None:
    """Set the live brokers and the controller."""
    by_id = {broker.broker_id: broker for broker in brokers}
    cache.adopt(replace(cache.image, brokers=by_id, controller_id=controller_id))


def put_topics(cache: MetadataCache, topics: Iterable[TopicState]) -> None:
    """Add topics; a topic replaces an existing one of the same name."""
    _set_topics(cache, {**cache.image.topics, **{topic.name: topic for topic in topics}})


def remove_topics(cache: MetadataCache, *names: str) -> None:
    """Remove topics."""
    left = {name: topic for name, topic in cache.image.topics.items() if name not in names}
    _set_topics(cache, left)


def _set_topics(cache: MetadataCache, topics: Mapping[str, TopicState]) -> None:
    by_id = {topic.topic_id: topic.name for topic in topics.values()}
    cache.adopt(replace(cache.image, topics=topics, topic_names=by_id))

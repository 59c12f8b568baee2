"""The client's picture of the cluster: brokers, topics, leaders. Decision: no I/O.

A `ClusterMetadata` never changes; `merge` makes the next one from a broker's answer.
Invariant: a partition's leader epoch never goes back while its topic keeps its id. A broker that
lags may answer with an older leader, which must not replace a newer one (KIP-320).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from kafkawire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.client.config import Address
from ottla.client.errors import known_code

NO_LEADER: Final = BrokerId(-1)
NO_EPOCH: Final = LeaderEpoch(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """Who holds one partition. `leader` is -1 while there is none."""

    partition: int
    leader: BrokerId = NO_LEADER
    leader_epoch: LeaderEpoch = NO_EPOCH
    replicas: tuple[BrokerId, ...] = ()
    isr: tuple[BrokerId, ...] = ()
    offline_replicas: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """One topic, or why there is none: `error` is then not NONE and `partitions` empty."""

    name: str
    topic_id: TopicId = ZERO_TOPIC_ID
    error: ErrorCode = ErrorCode.NONE
    is_internal: bool = False
    partitions: Mapping[int, PartitionMetadata] = field(default_factory=dict)

    def available(self) -> list[int]:
        """Return the partitions that have a leader."""
        return [number for number, held in self.partitions.items() if held.leader != NO_LEADER]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """One consistent picture of the cluster."""

    cluster_id: str | None = None
    controller_id: BrokerId = NO_LEADER
    brokers: Mapping[BrokerId, Address] = field(default_factory=dict)
    racks: Mapping[BrokerId, str | None] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)

    def partition(self, topic_partition: TopicPartition) -> PartitionMetadata | None:
        """Return what is known of `topic_partition`, None when nothing."""
        topic = self.topics.get(topic_partition.topic)
        return topic.partitions.get(topic_partition.partition) if topic else None

    def leader(self, topic_partition: TopicPartition) -> BrokerId | None:
        """Return the leader of `topic_partition` when there is one that can be reached."""
        held = self.partition(topic_partition)
        return held.leader if held is not None and held.leader in self.brokers else None


def merge(
    old: ClusterMetadata, answer: MetadataResponse, wanted: Iterable[str] | None
) -> ClusterMetadata:
    """Return the picture after `answer`. `wanted` are the topics kept; None keeps all.

    A topic that the answer leaves out keeps its old entry; one answered with an error that will
    pass keeps its old partitions, so that sending can go on during an election.
    """
    topics = {name: held for name, held in old.topics.items() if wanted is None or name in wanted}
    for answered in answer.topics:
        if answered.name is not None:
            topics[answered.name] = _merge_topic(topics.get(answered.name), answered)
    brokers = {
        BrokerId(broker.node_id): Address(broker.host, broker.port) for broker in answer.brokers
    }
    return ClusterMetadata(
        cluster_id=answer.cluster_id or old.cluster_id,
        controller_id=BrokerId(answer.controller_id),
        brokers=brokers or old.brokers,
        racks={BrokerId(broker.node_id): broker.rack for broker in answer.brokers} or old.racks,
        topics=topics,
    )


def _merge_topic(old: TopicMetadata | None, answered: MetadataResponseTopic) -> TopicMetadata:
    error = known_code(answered.error_code)
    if error.retriable and not answered.partitions and old is not None and old.partitions:
        return replace(old, error=error)
    # A topic deleted and made again starts its epochs anew: compare only within one topic id.
    is_same = old is not None and old.topic_id == answered.topic_id
    known = old.partitions if old is not None and is_same else {}
    partitions = {}
    for held in answered.partitions:
        before = known.get(held.partition_index)
        # Most stand as they stood, and answers come again and again while a leader is awaited.
        if before is not None and _says_the_same(before, held):
            partitions[before.partition] = before
            continue
        fresh = PartitionMetadata(
            partition=held.partition_index,
            leader=BrokerId(held.leader_id),
            leader_epoch=LeaderEpoch(held.leader_epoch),
            replicas=tuple(map(BrokerId, held.replica_nodes)),
            isr=tuple(map(BrokerId, held.isr_nodes)),
            offline_replicas=tuple(map(BrokerId, held.offline_replicas)),
        )
        partitions[fresh.partition] = _newer(before, fresh)
    return TopicMetadata(
        name=answered.name or "",
        topic_id=answered.topic_id,
        error=error,
        is_internal=answered.is_internal,
        partitions=partitions,
    )


def _says_the_same(known: PartitionMetadata, held: MetadataResponsePartition) -> bool:
    return (
        known.leader == held.leader_id
        and known.leader_epoch == held.leader_epoch
        and [*known.isr] == held.isr_nodes
        and [*known.replicas] == held.replica_nodes
        and [*known.offline_replicas] == held.offline_replicas
    )


def _newer(old: PartitionMetadata | None, fresh: PartitionMetadata) -> PartitionMetadata:
    if old is None or fresh.leader_epoch == NO_EPOCH or fresh.leader_epoch >= old.leader_epoch:
        return fresh
    return old

"""The client's metadata of the cluster: brokers, topics, leaders (decision).

A `ClusterMetadata` never changes; `merge` builds the next one from a broker's response.
Invariant: the leader epoch of a partition never decreases while its topic keeps its id. A broker
that lags may report an older leader, which must not replace a newer one (KIP-320), or a topic of
the same name that was deleted. Topic ids have no order, so the newer of two may be the unknown one
that a lagging broker reports. Repeated responses correct this.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from kafkawire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkawire.sentinels import NO_EPOCH, NO_LEADER
from ottla.client.client_config import Address
from ottla.client.errors import BrokerError, OttlaError, broker_error, known_code

NO_BROKERS: Final[Mapping[BrokerId, Address]] = {}
MAX_FORMER_IDS: Final = 8
"""Number of ids of deleted topics that are remembered per name."""
BELIEVED_RESPONSES: Final = 3
"""Number of responses in a row after which a topic that seemed deleted is the current one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """Leader and replicas of one partition. `leader` is -1 while there is none."""

    partition: int
    leader: BrokerId = NO_LEADER
    leader_epoch: LeaderEpoch = NO_EPOCH
    replicas: tuple[BrokerId, ...] = ()
    isr: tuple[BrokerId, ...] = ()
    offline_replicas: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """One topic, or the `error` of a topic that could not be described; then without partitions."""

    name: str
    topic_id: TopicId = ZERO_TOPIC_ID
    former_ids: tuple[TopicId, ...] = ()
    """The ids of earlier topics of this name, the last one first."""
    doubt_count: int = field(default=0, compare=False)
    """Number of responses in a row that have described an earlier topic."""
    error: ErrorCode = ErrorCode.NONE
    is_internal: bool = False
    partitions: Mapping[int, PartitionMetadata] = field(default_factory=dict)

    def available(self) -> list[int]:
        """Return the partitions that have a leader."""
        return [number for number, held in self.partitions.items() if held.leader != NO_LEADER]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """One consistent snapshot of the cluster."""

    cluster_id: str | None = None
    controller_id: BrokerId = NO_LEADER
    brokers: Mapping[BrokerId, Address] = field(default_factory=dict)
    racks: Mapping[BrokerId, str | None] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    is_complete: bool = False
    """Whether `topics` are all topics of the cluster."""

    def partition(self, topic_partition: TopicPartition) -> PartitionMetadata | None:
        """Return the metadata of `topic_partition`, None if it is unknown."""
        topic = self.topics.get(topic_partition.topic)
        return topic.partitions.get(topic_partition.partition) if topic else None

    def leader(self, topic_partition: TopicPartition) -> BrokerId | None:
        """Return the leader of `topic_partition`, None if there is none in `brokers`."""
        held = self.partition(topic_partition)
        return held.leader if held is not None and held.leader in self.brokers else None

    def leader_epoch(self, topic_partition: TopicPartition) -> LeaderEpoch:
        """Return the leader epoch of `topic_partition`, NO_EPOCH if it is unknown."""
        held = self.partition(topic_partition)
        return NO_EPOCH if held is None else held.leader_epoch


def merge(
    old: ClusterMetadata,
    response: MetadataResponse,
    wanted: Iterable[str] | None,
    *,
    is_complete: bool = False,
) -> ClusterMetadata:
    """Return the metadata after `response`. `wanted` names the topics to keep; None keeps all.

    With `is_complete` the response lists all topics of the cluster, and others are gone.

    A topic missing in the response keeps its old entry. A topic with a retriable error keeps its
    old partitions, so that sending can continue during an election.
    """
    if is_complete:
        wanted = {described.name for described in response.topics if described.name is not None}
    topics = {name: held for name, held in old.topics.items() if wanted is None or name in wanted}
    for described in response.topics:
        if described.name is not None:
            topics[described.name] = _merge_topic(topics.get(described.name), described)
    brokers = {
        BrokerId(broker.node_id): Address(broker.host, broker.port) for broker in response.brokers
    }
    return ClusterMetadata(
        cluster_id=response.cluster_id or old.cluster_id,
        controller_id=BrokerId(response.controller_id),
        brokers=brokers or old.brokers,
        racks={BrokerId(broker.node_id): broker.rack for broker in response.brokers} or old.racks,
        topics=topics,
        is_complete=is_complete,
    )


def with_leader(
    old: ClusterMetadata,
    topic_partition: TopicPartition,
    leader: BrokerId,
    epoch: LeaderEpoch,
    named: Mapping[BrokerId, Address],
) -> ClusterMetadata:
    """Return the metadata after a response that names a newer leader (KIP-951).

    A leader that is neither among the known brokers nor `named` with an address by the response, or
    has no newer epoch, changes nothing.
    """
    held = old.partition(topic_partition)
    brokers = old.brokers
    if leader not in brokers and leader in named:
        brokers = {**brokers, leader: named[leader]}
    if held is None or leader not in brokers or epoch <= held.leader_epoch:
        return old
    topic = old.topics[topic_partition.topic]
    changed = replace(held, leader=leader, leader_epoch=epoch)
    partitions = {**topic.partitions, topic_partition.partition: changed}
    topics = {**old.topics, topic.name: replace(topic, partitions=partitions)}
    return replace(old, brokers=brokers, topics=topics)


def without_topics(old: ClusterMetadata, names: Collection[str]) -> ClusterMetadata:
    """Return the metadata without the topics in `names`."""
    topics = {name: held for name, held in old.topics.items() if name not in names}
    return replace(old, topics=topics)


def _merge_topic(old: TopicMetadata | None, described: MetadataResponseTopic) -> TopicMetadata:
    error = known_code(described.error_code)
    if error.retriable and not described.partitions and old is not None and old.partitions:
        return replace(old, error=error)
    former_ids: tuple[TopicId, ...] = ()
    known: Mapping[int, PartitionMetadata] = {}
    if old is not None and described.topic_id == old.topic_id:
        former_ids, known = old.former_ids, old.partitions
    elif old is not None and described.topic_id != ZERO_TOPIC_ID:
        if described.topic_id in old.former_ids and old.doubt_count + 1 < BELIEVED_RESPONSES:
            return replace(old, doubt_count=old.doubt_count + 1)
        # The epochs of a recreated topic restart at 0: nothing of the old one is compared.
        former_ids = _with_former(old, described.topic_id)
    partitions = {}
    for held in described.partitions:
        before = known.get(held.partition_index)
        # Most partitions are unchanged, and during an election the client refreshes often.
        if before is not None and _is_unchanged(before, held):
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
        name=described.name or "",
        topic_id=described.topic_id,
        former_ids=former_ids,
        error=error,
        is_internal=described.is_internal,
        partitions=partitions,
    )


def _with_former(old: TopicMetadata, current_id: TopicId) -> tuple[TopicId, ...]:
    """Return the ids of the topics before the one with `current_id`."""
    earlier = (each for each in (old.topic_id, *old.former_ids) if each != current_id)
    return tuple(islice(earlier, MAX_FORMER_IDS))


def _is_unchanged(known: PartitionMetadata, held: MetadataResponsePartition) -> bool:
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


def refusal(metadata: ClusterMetadata, names: Iterable[str]) -> BrokerError | None:
    """Return the error of the first of these topics that this client can never use, if any.

    Source: the errors that Metadata of the Java client throws from `poll`.
    """
    for name in sorted(names):
        held = metadata.topics.get(name)
        if held is not None and held.error in _REFUSALS:
            return broker_error(held.error, f"topic {name}")
    return None


_REFUSALS: Final = {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION}


def needs_metadata(error: OttlaError) -> bool:
    """Whether `error` suggests that the leader has changed."""
    return not isinstance(error, BrokerError) or error.code in _LEADER_ERRORS


_LEADER_ERRORS = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.LISTENER_NOT_FOUND,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.NETWORK_EXCEPTION,
}

"""This broker's image of the cluster: brokers, topics, leaders (decision).

Only the controller fills the cache, by UpdateMetadata (`metadata_update`), and requests for
brokers, topics and leaders read it. Invariant: a `ClusterImage` never changes; an update replaces
it as a whole, so a response is built from one image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.replica_assignment import Replicas
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId, TopicId, TopicPartition, validate_topic_name
from kafkawire.internal_topic import INTERNAL_TOPICS
from kafkawire.sentinels import NO_LEADER

UNKNOWN_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of a broker for the clients of one listener."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBroker:
    """A broker that accepts requests; `endpoints` by listener name."""

    broker_id: BrokerId
    endpoints: Mapping[str, Endpoint]
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """Leader, in-sync set and replicas of a partition, as the controller sent them.

    The leader is NO_LEADER while there is none. The recovery state is not sent.
    """

    index: int
    leader_and_isr: LeaderAndIsr
    replicas: Replicas
    offline_replicas: Replicas = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """A topic and its partitions, by index."""

    name: str
    topic_id: TopicId
    partitions: Mapping[int, PartitionState]

    @property
    def is_internal(self) -> bool:
        """Whether brokers use this topic for their own state."""
        return self.name in INTERNAL_TOPICS


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    """The cluster at one moment."""

    brokers: Mapping[BrokerId, LiveBroker] = field(default_factory=dict)
    topics: Mapping[str, TopicState] = field(default_factory=dict)
    topic_names: Mapping[TopicId, str] = field(default_factory=dict)
    controller_id: BrokerId = NO_LEADER
    is_complete: bool = False
    """Whether a controller has sent all partitions, not just some of them so far."""

    def partition(self, topic_partition: TopicPartition) -> PartitionState | None:
        """Return the state of a partition, None if it is unknown."""
        topic = self.topics.get(topic_partition.topic)
        return topic.partitions.get(topic_partition.partition) if topic else None

    def known_states(self, topic: str, topic_id: TopicId) -> Mapping[int, LeaderAndIsr]:
        """Return the states of a topic's partitions; see `controller.last_told.LastKnown`."""
        known = self.topics.get(topic)
        if known is None or known.topic_id != topic_id:
            return {}
        return {
            index: partition.leader_and_isr
            for index, partition in known.partitions.items()
            if partition.leader_and_isr.partition_epoch != UNKNOWN_EPOCH
        }

    def check_topic(self, name: str) -> None:
        """Check that a topic exists.

        Raises:
            ApiError: it does not exist, or its name is invalid.
        """
        if (reason := validate_topic_name(name)) is not None:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
        if name not in self.topics:
            text = f"topic {name} does not exist"
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)

    def endpoint(self, broker_id: BrokerId, listener_name: str) -> Endpoint | None:
        """Return the endpoint of `broker_id` on `listener_name`, None if unknown."""
        broker = self.brokers.get(broker_id)
        return broker.endpoints.get(listener_name) if broker else None


class MetadataCache:
    """The current image. Only its owner calls the methods that change it."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change."""
        self._listeners.append(listener)

    def adopt(self, image: ClusterImage) -> None:
        """Replace the image."""
        self.image = image
        for listener in self._listeners:
            listener()

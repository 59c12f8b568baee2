"""What the admin client is given and returns. Decision: values only."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kafkawire.ids import BrokerId, TopicId, TopicPartition
from ottla.client.config import Address
from ottla.client.metadata import PartitionMetadata

BROKER_DEFAULT: Final = -1


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; without `partitions` or `replication_factor` the broker's default."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)
    assignment: Mapping[int, tuple[int, ...]] | None = None
    """Brokers by partition, the preferred leader first; instead of the two numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic and its partitions, in their order."""

    name: str
    topic_id: TopicId
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The brokers that are alive, and who controls them (-1: nobody at the moment)."""

    cluster_id: str | None
    controller_id: BrokerId
    brokers: Mapping[BrokerId, Address]
    racks: Mapping[BrokerId, str | None]


class ResourceType(enum.IntEnum):
    """What has configs."""

    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One configuration key of a topic or broker. `value` is None when it must not be shown."""

    name: str
    value: str | None
    source: int
    """Kafka's number: 1 topic, 2 dynamic broker, 3 cluster, 4 server.properties, 5 default."""
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog:
    """One replica's log in a log directory."""

    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool
    """Being moved here from another directory of the same broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """A log directory of a broker. Sizes are -1 when the broker is too old to tell."""

    broker_id: BrokerId
    path: str
    total_bytes: int
    usable_bytes: int
    replicas: tuple[ReplicaLog, ...]


class ElectionType(enum.IntEnum):
    """Who becomes leader."""

    PREFERRED = 0
    """The first of the replicas, when it is in sync."""
    UNCLEAN = 1
    """Where nobody in sync is left, any replica: records may be lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition that moves: its replicas now, those that come, and those that go."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


class OffsetSpec(enum.IntEnum):
    """Ends of a log, for `Admin.list_offsets`; a timestamp in ms asks for a time."""

    EARLIEST = -2
    LATEST = -1
    MAX_TIMESTAMP = -3


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """A group as its coordinator lists it; `state` is None where the broker is too old to tell."""

    group_id: str
    protocol_type: str
    state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a group; `partitions` is None where what it was given cannot be read."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group and its members. A group that does not exist is in state Dead, and has none."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]

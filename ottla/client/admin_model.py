"""Arguments and results of the admin client (decision)."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kafkawire.ids import BrokerId, Offset, TopicId, TopicPartition
from ottla.client.client_config import Address
from ottla.client.cluster_metadata import PartitionMetadata
from ottla.client.errors import BrokerError

BROKER_DEFAULT: Final = -1
SCRAM_ITERATIONS: Final = 8_192
"""Default number of hashes per login; brokers allow 4,096 to 16,384."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 means the broker's default.

    NewTopic("orders", partitions=6, replication_factor=3, configs={"retention.ms": "60000"})
    """

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)
    assignment: Mapping[int, tuple[int, ...]] | None = None
    """Broker ids by partition, preferred leader first. Replaces the two numbers above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic and its partitions, in ascending order."""

    name: str
    topic_id: TopicId
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The live brokers of a cluster and its controller. `controller_id` is -1 without one."""

    cluster_id: str | None
    controller_id: BrokerId
    brokers: Mapping[BrokerId, Address]
    racks: Mapping[BrokerId, str | None]


class ResourceType(enum.IntEnum):
    """A kind of resource that has configs."""

    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One config key of a topic or broker. `value` is None if it is sensitive."""

    name: str
    value: str | None
    source: int
    """Kafka's code: 1 topic, 2 dynamic broker, 3 cluster, 4 server.properties, 5 default."""
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
    """Whether the replica is being moved here from another directory of the same broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """A log directory of a broker. Sizes are -1 if the broker does not report them."""

    broker_id: BrokerId
    path: str
    total_bytes: int
    usable_bytes: int
    replicas: tuple[ReplicaLog, ...]
    error: BrokerError | None = None
    """The failure that took the directory offline: its replicas and sizes are not known then."""


class ElectionType(enum.IntEnum):
    """The rule that an election follows."""

    PREFERRED = 0
    """The first replica in assignment order becomes leader, if it is in sync."""
    UNCLEAN = 1
    """If no in-sync replica is left, any live replica becomes leader. Records may be lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition on the move: its current replicas, and the replicas being added or removed."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


class OffsetSpec(enum.IntEnum):
    """Special timestamps for `Admin.list_offsets`: the ends of a log, and its latest record."""

    EARLIEST = -2
    LATEST = -1
    MAX_TIMESTAMP = -3


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """One group in a listing. `state` is None if the broker is too old to report it."""

    group_id: str
    protocol_type: str
    state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a group. `partitions` is None if its assignment cannot be decoded."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group and its members. A group that does not exist is "Dead" and has no members."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUpsertion:
    """A password to set: the mechanism's credential of the user is made, or replaced."""

    user: str
    mechanism: str
    """`SCRAM-SHA-256` or `SCRAM-SHA-512`."""
    password: str = field(repr=False)
    iterations: int = SCRAM_ITERATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramDeletion:
    """A credential to delete."""

    user: str
    mechanism: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """One transactional id in a listing, with the broker that coordinates it."""

    transactional_id: str
    coordinator_id: BrokerId
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """The state of a transactional id, as its coordinator knows it."""

    transactional_id: str
    coordinator_id: BrokerId
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    """Start of the current or last transaction; None if there was none."""
    partitions: tuple[TopicPartition, ...]
    """The partitions of the open transaction; while it ends, the ones without a marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """An active producer of a partition, as a replica knows it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """Epoch of the coordinator that wrote its last marker, -1 without one."""
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: Offset | None
    """First offset of its open transaction; None if no transaction is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction in one partition, to be aborted by `Admin.abort_transaction`."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction:
    """A transaction that no coordinator will end; readers at read_committed stop before it."""

    partition: TopicPartition
    producer: ProducerState
    transactional_id: str | None
    """The id to which the producer belongs; None if no coordinator knows the producer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuota:
    """The quotas of one entity: its names by kind, where None is the default of the kind."""

    entity: Mapping[str, str | None]
    """Kinds are "user" and "client-id", alone or together, and "ip"."""
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """A token with which a client logs in on behalf of its owner. Times are in ms."""

    token_id: str
    hmac: bytes = field(repr=False)
    """The secret of the token."""
    owner: str
    """Principals are written as `User:alice`."""
    renewers: tuple[str, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int
    """Time beyond which the token cannot be renewed."""

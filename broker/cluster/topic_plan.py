"""Checks the creation or growth of a topic, and plans its partitions (decision).

The checks are in Kafka's order, so a request with two errors gets Kafka's code.
`clusterstate.replica_placement` places the replicas. Source: ZkAdminManager.createTopics,
AdminZkClient.validateTopicCreate of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from broker.cluster.metadata_cache import ClusterImage
from broker.config.broker_config import BrokerConfig
from broker.config.config_change import check_configs
from clusterstate.replica_assignment import ReplicaAssignment, Replicas
from clusterstate.replica_placement import Racks, RandomStart, assign_replicas, grow_assignment
from clusterstate.topic_requests import check_clash
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId, validate_topic_name
from kafkawire.internal_topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from storage.config.log_config import LogConfig

DEFAULT: Final = -1
"""As a number of partitions or replicas: use the broker's default."""
FORBIDDEN_TOPIC: Final = "__cluster_metadata"
MAX_PARTITIONS: Final = 10_000
"""Limit for one topic: each partition costs open files."""
MAX_REQUEST_PARTITIONS: Final = 10_000
"""Limit for the new partitions of all topics in one request, as in Kafka 4."""

_KEYED_TOPICS: Final = {
    OFFSETS_TOPIC: ("groups", "offsets.topic.num.partitions"),
    TRANSACTIONS_TOPIC: ("transactional ids", "transaction.state.log.num.partitions"),
}
"""The keys of which a topic keeps the state, and the config of its number of partitions."""

DrawStart = Callable[[int], RandomStart]
"""Returns random starting points for a number of brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """Settings of a topic that a client requests, with brokers by partition if it chose them."""

    name: str
    partition_count: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """A topic that may be created: the brokers of each partition, and its configs."""

    name: str
    assignments: tuple[tuple[BrokerId, ...], ...]
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """The broker's values for settings that a client leaves open."""

    partition_count: int
    replication_factor: int
    log_config: LogConfig


def topic_defaults_of(config: BrokerConfig) -> TopicDefaults:
    """Return the topic defaults in a broker's config."""
    return TopicDefaults(
        partition_count=config.server.num_partitions,
        replication_factor=config.server.default_replication_factor,
        log_config=config.topic_defaults,
    )


def plan_topic(
    spec: TopicSpec, image: ClusterImage, defaults: TopicDefaults, roll: DrawStart
) -> TopicPlan:
    """Return the topic that `spec` would create.

    Raises:
        ApiError: the topic must not be created.
    """
    if spec.name == FORBIDDEN_TOPIC:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"topic {FORBIDDEN_TOPIC} must not be created")
    if spec.name in image.topics:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {spec.name} exists already")
    configs = _given_configs(spec.configs)
    assignments = _assign(spec, image, defaults, roll)
    _check_name(spec.name, image)
    _check_assignments(assignments, image)
    check_configs(configs, defaults.log_config)
    ordered = tuple(tuple(BrokerId(b) for b in assignments[i]) for i in range(len(assignments)))
    return TopicPlan(name=spec.name, assignments=ordered, configs=configs)


def partition_count_of(spec: TopicSpec, default: int) -> int:
    """Return the number of partitions that `spec` requests; 0 if it is illegal."""
    if spec.assignments:
        return len(spec.assignments)
    return max(0, default if spec.partition_count == DEFAULT else spec.partition_count)


def check_total(partition_counts: Iterable[int]) -> None:
    """Refuse a request for too many partitions, before any of them is planned.

    Raises:
        ApiError: POLICY_VIOLATION.
    """
    total = sum(partition_counts)
    if total > MAX_REQUEST_PARTITIONS:
        text = f"a request may add at most {MAX_REQUEST_PARTITIONS} partitions, got {total}"
        raise ApiError(ErrorCode.POLICY_VIOLATION, text)


def check_may_grow(name: str) -> None:
    """Refuse to add partitions to a topic in which the hash of a key selects the partition.

    Kafka adds them, and its brokers use the old number up to their restart. Then many keys have
    another partition, and another coordinator, without their records.

    Raises:
        ApiError: the topic is one of these.
    """
    if name in _KEYED_TOPICS:
        keys, setting = _KEYED_TOPICS[name]
        text = (
            f"its number of partitions is fixed, because {keys} would get other partitions, "
            f"without their state; {setting} sets the number before the topic is created"
        )
        raise ApiError(ErrorCode.POLICY_VIOLATION, text)


def plan_growth(
    partition_count: int,
    chosen: Sequence[Sequence[int]] | None,
    existing: Mapping[int, ReplicaAssignment],
    image: ClusterImage,
) -> Mapping[int, Replicas]:
    """Return the brokers of each partition that is added to reach `partition_count`.

    Raises:
        ApiError: no partition would be added, or `chosen` is invalid.
    """
    if partition_count <= len(existing):
        text = f"the topic has {len(existing)} partitions, cannot change to {partition_count}"
        raise ApiError(ErrorCode.INVALID_PARTITIONS, text)
    _check_partition_count(partition_count)
    if chosen is None:
        return grow_assignment(racks_of(image), existing, partition_count)
    added = partition_count - len(existing)
    if len(chosen) != added:
        text = f"{added} partitions would be added, but {len(chosen)} assignments are given"
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    _check_assignments(dict(enumerate(chosen)), image)
    replication_factor = len(existing[0].replicas) if 0 in existing else len(chosen[0])
    if len(chosen[0]) != replication_factor:
        text = f"the topic has {replication_factor} replicas, but {len(chosen[0])} are assigned"
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return {
        len(existing) + index: tuple(BrokerId(broker) for broker in brokers)
        for index, brokers in enumerate(chosen)
    }


def racks_of(image: ClusterImage) -> Racks:
    """Return the live brokers, each with its rack."""
    return {broker.broker_id: broker.rack for broker in image.brokers.values()}


def _given_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    if missing := [name for name, value in configs.items() if value is None]:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"config {', '.join(missing)} has no value")
    return {name: value for name, value in configs.items() if value is not None}


def _assign(
    spec: TopicSpec, image: ClusterImage, defaults: TopicDefaults, roll: DrawStart
) -> Mapping[int, Sequence[int]]:
    if spec.assignments:
        if (spec.partition_count, spec.replication_factor) != (DEFAULT, DEFAULT):
            text = "with assignments, the numbers of partitions and replicas must be -1"
            raise ApiError(ErrorCode.INVALID_REQUEST, text)
        return spec.assignments
    partition_count, replication_factor = spec.partition_count, spec.replication_factor
    if partition_count == DEFAULT:
        partition_count = defaults.partition_count
    if replication_factor == DEFAULT:
        replication_factor = defaults.replication_factor
    _check_partition_count(partition_count)
    racks = racks_of(image)
    return assign_replicas(racks, partition_count, replication_factor, roll(len(racks)))


def _check_partition_count(partition_count: int) -> None:
    if partition_count < 1:
        text = f"the number of partitions must be at least 1, got {partition_count}"
        raise ApiError(ErrorCode.INVALID_PARTITIONS, text)
    if partition_count > MAX_PARTITIONS:
        text = f"a topic has at most {MAX_PARTITIONS} partitions, got {partition_count}"
        raise ApiError(ErrorCode.POLICY_VIOLATION, text)


def _check_name(name: str, image: ClusterImage) -> None:
    if (reason := validate_topic_name(name)) is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    check_clash(name, image.topics)


def _check_assignments(assignments: Mapping[int, Sequence[int]], image: ClusterImage) -> None:
    if reason := _assignment_fault(assignments, image):
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)


def _assignment_fault(assignments: Mapping[int, Sequence[int]], image: ClusterImage) -> str | None:
    if sorted(assignments) != list(range(len(assignments))):
        return "partitions must be numbered from 0 without gaps"
    if len({len(brokers) for brokers in assignments.values()}) != 1:
        return "all partitions must have the same number of replicas"
    if any(not brokers or len(set(brokers)) < len(brokers) for brokers in assignments.values()):
        return "a partition must have replicas, each on a different broker"
    if unknown := _unknown_brokers(assignments.values(), image):
        return f"brokers {', '.join(map(str, unknown))} are not alive"
    return None


def _unknown_brokers(assigned: Iterable[Sequence[int]], image: ClusterImage) -> list[int]:
    return sorted({broker for brokers in assigned for broker in brokers} - image.brokers.keys())

"""Creation and growth of topics: `broker.cluster.topic_plan`."""

import uuid
from collections.abc import Mapping, Sequence

import pytest

from broker.cluster.metadata_cache import ClusterImage, LiveBroker, TopicState
from broker.cluster.topic_plan import (
    MAX_PARTITIONS,
    TopicDefaults,
    TopicPlan,
    TopicSpec,
    plan_growth,
    plan_topic,
    topic_defaults_of,
)
from broker.config.broker_config import BrokerConfig
from broker.config.server_keys import ServerKeys
from clusterstate.replica_assignment import ReplicaAssignment
from clusterstate.replica_placement import RandomStart
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId
from storage.config.log_config import LogConfig
from tests.unit.broker.metadata import partition_state

B1, B2 = BrokerId(1), BrokerId(2)
DEFAULTS = TopicDefaults(partition_count=3, replication_factor=1, log_config=LogConfig())


def image(*brokers: BrokerId, topics: Mapping[str, int] | None = None) -> ClusterImage:
    """Return a cluster of these brokers, and topics with these numbers of partitions."""
    states = {
        name: TopicState(
            name=name,
            topic_id=uuid.uuid4(),
            partitions={index: partition_state(index, B1, B1) for index in range(count)},
        )
        for name, count in (topics or {}).items()
    }
    live = {broker: LiveBroker(broker_id=broker, endpoints={}) for broker in brokers}
    return ClusterImage(brokers=live, topics=states)


def plan(spec: TopicSpec, cluster: ClusterImage) -> TopicPlan:
    """Plan with starting points of zero."""
    return plan_topic(spec, cluster, DEFAULTS, lambda _count: RandomStart(0, 0))


def holding(*replicas: tuple[int, ...]) -> dict[int, ReplicaAssignment]:
    """Return a topic's partitions, one per tuple of brokers."""
    return {
        number: ReplicaAssignment(replicas=tuple(map(BrokerId, one)))
        for number, one in enumerate(replicas)
    }


def test_open_settings_take_the_brokers_defaults() -> None:
    assert plan(TopicSpec(name="t"), image(B1)).assignments == ((B1,), (B1,), (B1,))


def test_replicas_are_spread_round_robin() -> None:
    spec = TopicSpec(name="t", partition_count=2, replication_factor=2)
    assert plan(spec, image(B1, B2)).assignments == ((B1, B2), (B2, B1))


def test_client_may_choose_the_brokers() -> None:
    spec = TopicSpec(name="t", assignments={1: [2], 0: [1]})
    assert plan(spec, image(B1, B2)).assignments == ((B1,), (B2,))


def test_configs_are_copied_to_the_plan() -> None:
    spec = TopicSpec(name="t", configs={"retention.ms": "5"})
    assert plan(spec, image(B1)).configs == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (TopicSpec(name="__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (TopicSpec(name="old.topic"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (TopicSpec(name="old_topic"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TopicSpec(name="a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TopicSpec(name=""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TopicSpec(name="t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (TopicSpec(name="t", configs={"retention.ms": "-2"}), ErrorCode.INVALID_CONFIG),
        (TopicSpec(name="t", configs={"retention": "1"}), ErrorCode.INVALID_CONFIG),
        (TopicSpec(name="t", partition_count=0), ErrorCode.INVALID_PARTITIONS),
        (TopicSpec(name="t", partition_count=-2), ErrorCode.INVALID_PARTITIONS),
        (TopicSpec(name="t", partition_count=MAX_PARTITIONS + 1), ErrorCode.POLICY_VIOLATION),
        (TopicSpec(name="t", replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (TopicSpec(name="t", replication_factor=3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (TopicSpec(name="t", partition_count=1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST),
        (
            TopicSpec(name="t", replication_factor=1, assignments={0: [1]}),
            ErrorCode.INVALID_REQUEST,
        ),
        (TopicSpec(name="t", assignments={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (
            TopicSpec(name="t", assignments={0: [1], 1: [1, 2]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (TopicSpec(name="t", assignments={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (TopicSpec(name="t", assignments={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (TopicSpec(name="t", assignments={0: [9]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
    ids=repr,
)
def test_forbidden_topic_is_refused_with_kafkas_code(spec: TopicSpec, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as caught:
        plan(spec, image(B1, B2, topics={"old.topic": 1}))
    assert caught.value.code is code


def test_replicas_are_spread_over_racks() -> None:
    brokers = {
        broker: LiveBroker(broker_id=broker, endpoints={}, rack=rack)
        for broker, rack in zip(map(BrokerId, (1, 2, 3, 4)), "aabb", strict=True)
    }
    spec = TopicSpec(name="t", partition_count=8, replication_factor=2)
    for replicas in plan(spec, ClusterImage(brokers=brokers)).assignments:
        assert {brokers[replica].rack for replica in replicas} == {"a", "b"}


def test_defaults_come_from_the_broker_config() -> None:
    config = BrokerConfig(server=ServerKeys(num_partitions=5, default_replication_factor=2))
    defaults = topic_defaults_of(config)
    assert (defaults.partition_count, defaults.replication_factor) == (5, 2)


def test_growth_assigns_only_the_new_partitions() -> None:
    assert plan_growth(4, None, holding((1,)), image(B1, B2)) == {1: (B2,), 2: (B1,), 3: (B2,)}
    assert plan_growth(2, [[1]], holding((1,)), image(B1, B2)) == {1: (B1,)}


@pytest.mark.parametrize(
    ("count", "chosen", "code"),
    [
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (0, None, ErrorCode.INVALID_PARTITIONS),
        (MAX_PARTITIONS + 1, None, ErrorCode.POLICY_VIOLATION),
        (3, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_impossible_growth_is_refused(
    count: int, chosen: Sequence[Sequence[int]] | None, code: ErrorCode
) -> None:
    with pytest.raises(ApiError) as caught:
        plan_growth(count, chosen, holding((1,)), image(B1, B2))
    assert caught.value.code is code


def test_growth_needs_as_many_brokers_as_the_topic_has_replicas() -> None:
    with pytest.raises(ApiError) as caught:
        plan_growth(2, None, holding((1, 2)), image(B1))
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR

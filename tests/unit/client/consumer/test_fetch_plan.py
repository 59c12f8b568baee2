"""The fetch plan: partitions, leaders and sizes of the next requests."""

from dataclasses import replace
from math import inf
from uuid import uuid4

import pytest

from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, TopicPartition
from kafkawire.sentinels import NO_LEADER
from ottla.client.client_config import ConsumerConfig
from ottla.client.cluster_metadata import ClusterMetadata
from ottla.client.consumer.fetch_plan import (
    LANE_COUNT,
    Plan,
    fetch_max_bytes,
    fetch_request,
    make_plan,
    paused_to_drop,
    wanted_partitions,
)
from ottla.client.consumer.fetch_session import FetchKey, SessionPart, sessionless
from ottla.client.consumer.partition_state import PartitionState
from ottla.client.errors import ConsumeError
from tests.unit.client.client_fakes import T0, T1, metadata, state_at, topic

CONFIG = ConsumerConfig(max_partition_fetch_bytes=100, prefetch_max_bytes=1_000)
CLUSTER = metadata(topic(0, 1))


def plan_of(*states: PartitionState, now_s: float = 0.0) -> Plan:
    return make_plan(states, CLUSTER, CONFIG, now_s)


def test_partitions_are_grouped_by_leader() -> None:
    first, second = state_at(5), state_at(7, T1)
    plan = plan_of(first, second)
    assert plan.fetches == {BrokerId(0): [first], BrokerId(1): [second]}
    assert plan.leaders == {BrokerId(0), BrokerId(1)}


def test_a_partition_without_position_is_looked_up() -> None:
    state = PartitionState(T0)
    plan = plan_of(state)
    assert (plan.fetches, plan.lookups) == ({}, [state])


def test_busy_paused_and_failed_partitions_are_not_fetched() -> None:
    busy, paused, failed = state_at(0), state_at(0), state_at(0)
    busy.has_request = True
    paused.is_paused = True
    failed.error = ConsumeError("x")
    assert plan_of(busy, paused, failed).fetches == {}


def test_a_failed_partition_is_not_fetched_before_its_retry() -> None:
    state = state_at(0)
    state.on_failure(retry_at_s=3.0)
    assert plan_of(state, now_s=2.0).look_again_at_s == 3.0
    plan = plan_of(state, now_s=3.0)
    assert (plan.fetches[BrokerId(0)], plan.look_again_at_s) == ([state], inf)


def test_a_suspended_partition_needs_no_timer() -> None:
    state = state_at(0)
    state.suspend()
    assert plan_of(state).look_again_at_s == inf


def test_a_partition_with_enough_buffered_is_not_fetched() -> None:
    state = state_at(0)
    state.buffered_bytes = 100
    assert plan_of(state).fetches == {BrokerId(0): [state]}
    state.buffered_bytes = 101
    assert plan_of(state).fetches == {}


def test_a_missing_leader_is_reported() -> None:
    assert plan_of(state_at(0, TopicPartition("u", 0))).is_leaderless


def test_the_request_names_positions_epochs_and_limits() -> None:
    cluster = metadata(topic(0, 0, epoch=4))
    wanted = wanted_partitions(
        [state_at(5), state_at(7, T1)], cluster, CONFIG, may_use_topic_ids=True
    )
    request = fetch_request(sessionless(wanted), CONFIG, 500, 30)
    (requested,) = request.topics
    assert [
        (each.partition, each.fetch_offset, each.current_leader_epoch, each.partition_max_bytes)
        for each in requested.partitions
    ] == [(0, 5, 4, 100), (1, 7, 4, 100)]
    assert (request.max_bytes, request.max_wait_ms, request.isolation_level) == (500, 30, 0)
    assert (request.session_id, request.session_epoch, request.rack_id) == (0, -1, "")
    committed = ConsumerConfig(isolation_level="read_committed", client_rack="r1")
    request = fetch_request(sessionless(wanted), committed, 500, 30)
    assert (request.isolation_level, request.rack_id) == (1, "r1")


def test_a_request_in_a_session_names_changed_and_forgotten_partitions() -> None:
    wanted = wanted_partitions([state_at(5)], CLUSTER, CONFIG, may_use_topic_ids=False)
    gone = FetchKey(ZERO_TOPIC_ID, "t", 1)
    request = fetch_request(SessionPart(9, 4, wanted, [gone]), CONFIG, 500, 30)
    assert (request.session_id, request.session_epoch) == (9, 4)
    assert [each.topic for each in request.topics] == ["t"]
    (forgotten,) = request.forgotten_topics_data
    assert (forgotten.topic, list(forgotten.partitions)) == ("t", [1])


def test_a_request_names_topics_by_id_if_all_ids_are_known() -> None:
    known, position_id = uuid4(), uuid4()
    cluster = metadata(topic(0, 0, topic_id=known), topic(0, name="u"))
    first, second = state_at(5), state_at(7, T1)
    # The position is about the topic that the metadata showed before.
    second.adopt_topic(position_id, 1)
    nameless = state_at(0, TopicPartition("u", 0))

    def keys(*states: PartitionState, may_use_topic_ids: bool = True) -> list[FetchKey]:
        return [*wanted_partitions(states, cluster, CONFIG, may_use_topic_ids=may_use_topic_ids)]

    assert keys(first, second) == [FetchKey(known, "", 0), FetchKey(position_id, "", 1)]
    by_name = [FetchKey(ZERO_TOPIC_ID, "t", 0), FetchKey(ZERO_TOPIC_ID, "u", 0)]
    assert keys(first, nameless) == by_name
    assert keys(first, may_use_topic_ids=False) == by_name[:1]


def test_a_request_by_ids_groups_partitions_by_topic() -> None:
    known, gone = uuid4(), uuid4()
    cluster = metadata(topic(0, 0, topic_id=known))
    wanted = wanted_partitions(
        [state_at(5), state_at(7, T1)], cluster, CONFIG, may_use_topic_ids=True
    )
    part = SessionPart(9, 4, wanted, [FetchKey(gone, "", 0), FetchKey(gone, "", 3)])
    request = fetch_request(part, CONFIG, 500, 30)
    (topic_,) = request.topics
    assert (topic_.topic_id, topic_.topic, len(topic_.partitions)) == (known, "", 2)
    (forgotten,) = request.forgotten_topics_data
    assert (forgotten.topic_id, forgotten.topic, forgotten.partitions) == (gone, "", [0, 3])


def in_sync(*brokers: int) -> ClusterMetadata:
    """Partition T0, led by broker 0, with these brokers in sync."""
    held = topic(0)
    isr = tuple(map(BrokerId, brokers))
    return metadata(replace(held, partitions={0: replace(held.partitions[0], isr=isr)}))


def test_a_preferred_replica_is_read_while_it_is_in_sync_and_named_lately() -> None:
    state = state_at(0)
    state.prefer(BrokerId(2), until_s=10.0)
    plan = make_plan([state], in_sync(0, 2), CONFIG, 9.0)
    assert plan.fetches == {BrokerId(2): [state]}
    assert plan.leaders == {BrokerId(0), BrokerId(2)}


@pytest.mark.parametrize(
    ("cluster", "now_s"),
    [(in_sync(0, 2), 10.0), (in_sync(0, 1), 9.0)],
    ids=["named long ago", "out of sync"],
)
def test_otherwise_the_leader_decides_again(cluster: ClusterMetadata, now_s: float) -> None:
    state = state_at(0)
    state.prefer(BrokerId(2), until_s=10.0)
    assert make_plan([state], cluster, CONFIG, now_s).fetches == {BrokerId(0): [state]}
    assert state.preferred_replica == NO_LEADER


@pytest.mark.parametrize(
    ("leader_count", "held_bytes", "expected"),
    [
        pytest.param(1, 0, 500, id="half of the room per lane"),
        pytest.param(2, 0, 250, id="a quarter with two brokers"),
        pytest.param(1, 600, 400, id="what is left"),
        pytest.param(1, 900, 100, id="one partition's worth"),
        pytest.param(1, 901, 0, id="too little to bother"),
        pytest.param(20, 976, 0, id="less than the share of one of many"),
        pytest.param(20, 975, 25, id="the share of one of many"),
        pytest.param(9_999, 0, 1, id="never nothing"),
    ],
)
def test_the_room_limits_a_fetch(leader_count: int, held_bytes: int, expected: int) -> None:
    assert fetch_max_bytes(CONFIG, leader_count, held_bytes) == expected


def test_paused_partitions_keep_half_of_the_prefetch_limit() -> None:
    states = [state_at(0, TopicPartition("t", index)) for index in range(5)]
    for state, is_paused, buffered_bytes in zip(
        states, [True, False, True, True, True], [0, 700, 300, 300, 200], strict=True
    ):
        state.is_paused, state.buffered_bytes = is_paused, buffered_bytes
    assert paused_to_drop(states, CONFIG) == [states[2]]
    states[4].buffered_bytes = 201
    assert paused_to_drop(states, CONFIG) == [states[2], states[3]]
    assert paused_to_drop(states[:4], CONFIG) == [states[2]]
    assert paused_to_drop(states[:3], CONFIG) == []


def test_fetch_max_bytes_limits_every_fetch() -> None:
    config = ConsumerConfig(fetch_max_bytes=7)
    assert fetch_max_bytes(config, 1, 0) == 7


def test_all_lanes_together_stay_within_the_prefetch_limit() -> None:
    for leader_count in range(1, 40):
        held_bytes = 0
        for _ in range(LANE_COUNT * leader_count):
            held_bytes += fetch_max_bytes(CONFIG, leader_count, held_bytes)
        assert held_bytes <= CONFIG.prefetch_max_bytes


def test_a_jump_to_the_committed_offset_is_looked_up_again() -> None:
    state = state_at(5)
    state.on_failure(retry_at_s=3.0)
    state.jump_to_committed(reset_to=-2)
    assert (state.wants_committed, state.reset_to, state.next_offset) == (True, -2, None)
    assert plan_of(state).lookups == [state]

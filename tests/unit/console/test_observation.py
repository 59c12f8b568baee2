"""The samples of a cluster, and the rows that pages make of them."""

from dataclasses import replace

from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from ottla.client.errors import BrokerError
from ottla.console.observation.broker_row import broker_rows, cluster_totals
from ottla.console.observation.group_row import (
    GROUP_COLUMNS,
    LAG_COLUMNS,
    group_row,
    group_rows,
    lag_rows,
)
from ottla.console.observation.observation import Observation, Probe
from ottla.console.observation.topic_row import (
    PARTITION_COLUMNS,
    TOPIC_COLUMNS,
    partition_rows,
    topic_row,
    topic_rows,
)
from tests.unit.console.stand_ins import (
    ORDERS_0,
    ORDERS_1,
    cluster,
    group,
    log_directory,
    member,
    observed,
    partition,
    ranges,
    topic,
)


def test_nothing_is_known_before_the_first_sample() -> None:
    assert broker_rows(Observation()) == []
    assert cluster_totals(Observation()).rate is None


def test_offline_broker_with_replicas_has_a_row() -> None:
    observation = observed()
    observation.on_log_dirs(1, [log_directory(1, (ORDERS_0, 70))])
    one, two, three = broker_rows(observation)
    assert (one.is_controller, one.rack, one.address) == (True, "r1", "127.0.0.1:9093")
    assert (one.leaders, one.replicas, one.out_of_sync, one.size_bytes) == (1, 1, 0, 70)
    assert (two.is_alive, two.size_bytes, two.directories) == (True, None, ())
    assert (three.is_alive, three.address, three.out_of_sync) == (False, "", 1)


def test_used_share_of_a_disk_is_unknown_if_the_broker_does_not_report_it() -> None:
    observation = observed()
    observation.on_log_dirs(1, [log_directory(1), log_directory(2)])
    one, two, _ = broker_rows(observation)
    assert [each.used_share for each in (*one.directories, *two.directories)] == [0.75, None]


def test_a_failed_disk_of_a_live_broker_is_offline() -> None:
    observation = observed()
    failed = replace(
        log_directory(2), error=BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "log directory /data/2")
    )
    observation.on_log_dirs(1, [log_directory(1, (ORDERS_0, 70)), failed])
    one, two, _ = broker_rows(observation)
    assert [each.is_online for each in (*one.directories, *two.directories)] == [True, False]


def test_totals_count_troubled_partitions() -> None:
    observation = observed()
    observation.on_log_dirs(1, [log_directory(1, (ORDERS_0, 70)), log_directory(2, (ORDERS_1, 5))])
    observation.on_offsets(1_000, ranges((ORDERS_0, 0, 10)))
    observation.on_offsets(2_000, ranges((ORDERS_0, 0, 30)))
    observation.on_groups(2_000, {"billing": group("billing", {ORDERS_0: 25})})
    totals = cluster_totals(observation)
    assert (totals.brokers, totals.offline_brokers, totals.topics, totals.partitions) == (
        2,
        1,
        2,
        3,
    )
    assert (totals.under_replicated, totals.offline, totals.size_bytes) == (1, 1, 75)
    assert (totals.rate, totals.groups, totals.lag) == (20, 1, 5)


def test_topic_has_sums_once_all_partitions_are_known() -> None:
    observation = observed()
    observation.on_offsets(1_000, ranges((ORDERS_0, 0, 10)))
    assert topic_row(observation, observation.topics["orders"]).records is None
    observation.on_offsets(2_000, ranges((ORDERS_1, 5, 9)))
    observation.on_log_dirs(
        1_000, [log_directory(1, (ORDERS_0, 70)), log_directory(2, (ORDERS_0, 60), (ORDERS_1, 5))]
    )
    row = topic_row(observation, observation.topics["orders"])
    assert (row.records, row.size_bytes, row.partitions, row.replicas) == (14, 135, 2, 2)
    assert (row.under_replicated, row.offline, row.byte_rate) == (1, 0, None)
    observation.on_log_dirs(
        2_000, [log_directory(1, (ORDERS_0, 75)), log_directory(2, (ORDERS_1, 6))]
    )
    assert topic_row(observation, observation.topics["orders"]).byte_rate == 6
    assert [each.name for each in topic_rows(observation)] == ["orders", "__state"]


def test_replica_that_moves_to_another_directory_has_no_size_of_its_own() -> None:
    observation = observed()
    observation.on_log_dirs(1, [log_directory(1, (ORDERS_0, -1))])
    assert observation.sizes == {}


def test_partitions_have_the_size_of_the_leader() -> None:
    observation = observed()
    observation.on_offsets(1, ranges((ORDERS_0, 3, 10)))
    observation.on_log_dirs(1, [log_directory(1, (ORDERS_0, 70)), log_directory(2, (ORDERS_0, 5))])
    first, second = partition_rows(observation, observation.topics["orders"])
    assert (first.leader, first.start, first.end, first.records) == (1, 3, 10, 7)
    assert (first.size_bytes, first.is_under_replicated) == (70, False)
    assert (second.size_bytes, second.is_under_replicated, second.records) == (None, True, None)
    [without] = partition_rows(observation, observation.topics["__state"])
    assert without.leader is None


def test_offsets_stay_while_a_partition_has_no_leader_and_vanish_with_it() -> None:
    observation = observed()
    observation.on_offsets(1, ranges((ORDERS_0, 0, 10), (ORDERS_1, 0, 4)))
    observation.on_offsets(2, ranges((ORDERS_0, 0, 12)))
    assert observation.ranges[ORDERS_1].end == 4
    observation.on_metadata(cluster(1), {"orders": topic("orders", partition(0, 1))})
    observation.on_offsets(3, {})
    assert ORDERS_1 not in observation.ranges


def test_history_of_deleted_topics_and_groups_is_forgotten() -> None:
    observation = observed()
    observation.on_offsets(1, ranges((ORDERS_0, 0, 10)))
    observation.on_groups(1, {"billing": group("billing", {ORDERS_0: 4})})
    observation.on_metadata(cluster(1), {})
    observation.on_groups(2, {})
    assert (observation.written, observation.lags) == ({}, {})


def test_failure_of_a_sample_is_shown_until_the_next_success() -> None:
    observation = observed()
    version = observation.version
    observation.on_failure(Probe.GROUPS, "no answer")
    assert (observation.failures, observation.version) == (
        {Probe.GROUPS: "no answer"},
        version + 1,
    )
    observation.on_groups(1, {})
    assert observation.failures == {}


def test_only_partitions_with_a_leader_are_asked_for_offsets() -> None:
    assert observed().led_partitions() == [ORDERS_0, ORDERS_1]


def test_group_has_the_lag_of_its_known_partitions() -> None:
    observation = observed()
    observation.on_offsets(1, ranges((ORDERS_0, 5, 10)))
    elsewhere = TopicPartition("gone", 0)
    observation.on_groups(
        1,
        {
            "billing": group("billing", {ORDERS_0: 2, elsewhere: 1}, member(ORDERS_1), member()),
            "new": group("new", {}),
        },
    )
    billing, new = group_rows(observation)
    # Records before the start of the log can no longer be read.
    assert (billing.lag, billing.members, billing.topics) == (5, 2, ("gone", "orders"))
    assert (new.lag, new.lags, new.state) == (None, (), "Empty")
    assert group_row(observation, "billing") == billing
    gone, first, second = lag_rows(observation, "billing")
    assert (gone.lag, gone.end, gone.committed) == (None, None, 1)
    assert (first.lag, first.metadata, first.member) == (5, "m", None)
    assert (second.committed, second.lag, second.metadata) == (None, None, "")
    assert second.member is not None


def test_every_column_sorts_known_and_unknown_values() -> None:
    observation = observed()
    observation.on_offsets(1_000, ranges((ORDERS_0, 5, 10)))
    observation.on_offsets(2_000, ranges((ORDERS_0, 5, 11)))
    observation.on_groups(
        1, {"a": group("a", {ORDERS_0: 2}), "b": group("b", {}, member(ORDERS_1))}
    )
    for topic_key in TOPIC_COLUMNS.values():
        assert len(sorted(topic_rows(observation), key=topic_key)) == 2
    for partition_key in PARTITION_COLUMNS.values():
        rows = partition_rows(observation, observation.topics["orders"])
        rows += partition_rows(observation, observation.topics["__state"])
        assert len(sorted(rows, key=partition_key)) == 3
    for group_key in GROUP_COLUMNS.values():
        assert len(sorted(group_rows(observation), key=group_key)) == 2
    for lag_key in LAG_COLUMNS.values():
        lags = lag_rows(observation, "a") + lag_rows(observation, "b")
        assert len(sorted(lags, key=lag_key)) == 2


def test_topic_without_partitions_has_no_replicas() -> None:
    empty = topic("empty")
    assert topic_row(observed(), empty).replicas == 0

"""Brokers whose logs may lack records leave the in-sync sets: `clusterstate.doubtful_replicas`."""

import pytest

from clusterstate.doubtful_replicas import Standing, assigned_partitions, look, standing
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.plans import Write
from clusterstate.znodes import paths
from clusterstate.znodes.partition_node import encode_partition_state
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.sentinels import NO_LEADER
from tests.plans.driver import Driver, empty_cluster, put_topic

ME, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)


def led_by(leader: BrokerId, *isr: BrokerId) -> LeaderAndIsr:
    return LeaderAndIsr(leader=leader, isr=isr, controller_epoch=1)


def put_state(driver: Driver, partition: TopicPartition, state: LeaderAndIsr) -> None:
    driver.coordinator.put(paths.partition_state(partition), encode_partition_state(state, 1))


@pytest.mark.parametrize(
    ("state", "registered", "announced", "expected"),
    [
        pytest.param(led_by(B2, B2, B3), {B2, B3}, set(), "OUT", id="not a member"),
        pytest.param(led_by(B2, ME, B2), {B2}, set(), "LEAVES", id="follower of a live leader"),
        pytest.param(led_by(ME, ME, B2), {B2}, set(), "LEAVES", id="last leader: another follows"),
        pytest.param(led_by(B3, ME, B2, B3), {B2}, set(), "LEAVES", id="dead leader"),
        pytest.param(led_by(B2, ME, B2), {B2}, {B2}, "LEAVES", id="one that has returned before"),
        pytest.param(led_by(ME, ME, B2), set(), set(), "AWAITS_MEMBERS", id="all are down"),
        pytest.param(led_by(ME, ME, B2), {B3}, set(), "AWAITS_MEMBERS", id="all members are down"),
        pytest.param(
            led_by(NO_LEADER, ME, B2), {B2}, {B2}, "AWAITS_MEMBERS", id="its disk has failed"
        ),
        pytest.param(
            led_by(ME, ME, B2, B3), set(), {B2}, "AWAITS_MEMBERS", id="one may be complete"
        ),
        pytest.param(led_by(ME, ME, B2, B3), set(), {B2, B3}, "STAYS", id="all are doubtful"),
        pytest.param(led_by(ME, ME), {B2}, set(), "STAYS", id="the only member"),
    ],
)
def test_standing(
    state: LeaderAndIsr, registered: set[BrokerId], announced: set[BrokerId], expected: str
) -> None:
    found = standing(ME, state, registered=registered, announced=announced, has_log=True)
    assert found is Standing[expected]


def test_broker_without_a_log_awaits_even_doubtful_members() -> None:
    state = led_by(ME, ME, B2)
    found = standing(ME, state, registered=set(), announced={B2}, has_log=False)
    assert found is Standing.AWAITS_MEMBERS
    found = standing(ME, led_by(ME, ME), registered=set(), announced={B2}, has_log=False)
    assert found is Standing.STAYS


def test_assigned_partitions() -> None:
    driver = empty_cluster()
    put_topic(driver.coordinator, (1, 2), (2, 3), (3, 1))
    driver.coordinator.put(paths.topic("damaged"), b"{")
    assert driver.run(assigned_partitions(ME)) == [
        TopicPartition("orders", 0),
        TopicPartition("orders", 2),
    ]


def test_look_at_all_partitions() -> None:
    driver = empty_cluster(2)
    out, leaving, kept, new, damaged = put_topic(driver.coordinator, *[(1, 2)] * 5)
    put_state(driver, out, led_by(B2, B2))
    put_state(driver, leaving, led_by(B2, B2, ME))
    put_state(driver, kept, led_by(NO_LEADER, ME))
    driver.coordinator.put(paths.partition_state(damaged), b"{")
    found = driver.run(look(ME, [out, leaving, kept, new, damaged], set()))
    assert found.standings == {
        out: Standing.OUT,
        leaving: Standing.LEAVES,
        kept: Standing.STAYS,
    }
    assert found.partitions(Standing.LEAVES) == [leaving]
    assert not found.is_id_taken


def test_topics_that_are_being_deleted_do_not_count() -> None:
    driver = empty_cluster(2)
    [partition] = put_topic(driver.coordinator, (1, 2))
    put_state(driver, partition, led_by(B2, B2, ME))
    driver.coordinator.put(paths.topic_deletion("orders"))
    assert driver.run(look(ME, [partition], set())).standings == {}


def test_brokers_that_lost_power_together_wait_for_those_that_did_not() -> None:
    first = empty_cluster()
    second, third = Driver(first.coordinator), Driver(first.coordinator)
    [partition] = put_topic(first.coordinator, (1, 2, 3))
    put_state(first, partition, led_by(ME, ME, B2, B3))
    awaits, stays = {partition: Standing.AWAITS_MEMBERS}, {partition: Standing.STAYS}
    assert first.run(look(ME, [partition], set())).standings == awaits
    assert first.run(look(ME, [partition], set())).standings == awaits
    assert second.run(look(B2, [partition], set())).standings == awaits
    assert third.run(look(B3, [partition], {partition})).standings == awaits
    assert first.run(look(ME, [partition], set())).standings == stays
    assert first.coordinator.children(paths.DOUBTFUL_BROKERS) == ["1", "2", "3"]
    # A broker announces itself once, as long as its session lives.
    assert len([one for one in first.requests if isinstance(one, Write)]) == 2
    first.coordinator.end_session(third.session)
    assert first.run(look(ME, [partition], set())).standings == awaits


@pytest.mark.parametrize("member", [ME, B2])
def test_only_member_and_a_broker_that_is_none_announce_nothing(member: BrokerId) -> None:
    driver = empty_cluster(2)
    [partition] = put_topic(driver.coordinator, (1, 2))
    put_state(driver, partition, led_by(member, member))
    driver.run(look(ME, [partition], set()))
    assert driver.coordinator.read(paths.DOUBTFUL_BROKERS) is None


def test_id_of_another_process_is_noticed() -> None:
    driver = empty_cluster(1)
    assert driver.run(look(ME, [], set())).is_id_taken

"""Known pitfalls of replication and control, each as a scenario without time (T2 to T14).

The simulated worlds meet the others by chance.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import pytest

from broker.replication.divergence import divergence, truncation_offset
from broker.replication.leadership import Limits
from clusterstate.broker_registration import Registered, Sessions, Taken, register
from clusterstate.znodes.registration import Endpoint, Registration
from controller import events as e
from controller.controller_config import ControllerConfig
from controller.effects import Send
from controller.failover import take_over
from controller.last_told import nothing_known
from controller.plan import Planner
from kafkawire.errors import ErrorCode
from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.messages.leader_and_isr import LeaderAndIsrRequest
from kafkawire.messages.update_metadata import UpdateMetadataRequest
from storage.log.leader_epochs import LeaderEpochs
from tests.plans.driver import (
    ORDERS_ID,
    Driver,
    empty_cluster,
    empty_image,
    join,
    put_topic,
)
from tests.simulation.world.scenarios import (
    B1,
    B2,
    B3,
    SCENARIOS,
    leadership,
)


class Record(NamedTuple):
    """A record; `value` is unique in a test."""

    epoch: LeaderEpoch
    value: int


class FakeLog:
    """Records of one replica, with the real implementation of the epoch history."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.epochs = LeaderEpochs()

    @property
    def end(self) -> Offset:
        return Offset(len(self.records))

    def append(self, record: Record) -> None:
        self.epochs.assign(record.epoch, self.end)
        self.records.append(record)

    def truncate(self, offset: Offset) -> None:
        del self.records[offset:]
        self.epochs.truncate_from_end(offset)


@pytest.mark.parametrize("leaders", list(itertools.product(range(3), repeat=3)))
def test_t2_logs_agree_after_fast_unclean_elections(leaders: tuple[int, ...]) -> None:
    for copies in itertools.product(itertools.product((False, True), repeat=2), repeat=3):
        logs = [FakeLog() for _ in range(3)]
        for epoch, (leader, copied) in enumerate(zip(leaders, copies, strict=True)):
            logs[leader].append(Record(LeaderEpoch(epoch), epoch))
            others = [one for one in range(3) if one != leader]
            for other, is_copied in zip(others, copied, strict=True):
                if is_copied:
                    follow(logs[other], logs[leader])
        for log in logs:
            follow(log, logs[leaders[-1]])
        assert logs[0].records == logs[1].records == logs[2].records


def follow(log: FakeLog, leader: FakeLog) -> None:
    """Fetch until the log equals the leader's, as a follower does."""
    if log is leader:
        return
    for _ in range(20):
        found = divergence(
            leader.epochs, leader.end, last_epoch=log.epochs.latest, fetch_offset=log.end
        )
        if found is not None:
            log.truncate(truncation_offset(log.epochs, log.end, Offset(0), found))
        elif log.end < leader.end:
            log.append(leader.records[log.end])
        else:
            return
    raise AssertionError("the logs never agree")


def test_t4_an_epoch_without_records_counts() -> None:
    log = FakeLog()
    log.append(Record(LeaderEpoch(0), 1))
    log.epochs.assign(LeaderEpoch(3), log.end)
    assert log.epochs.end_offset_for(2, log.end) == (0, 1)
    log.truncate(Offset(1))
    assert log.epochs.latest == 0, "truncation to the end removes the empty epoch"


def sent_by(driver: Driver) -> dict[int, list[type]]:
    """Return the kinds of requests that a plan has sent, by broker."""
    sent: dict[int, list[type]] = {}
    for effect in driver.take(Send):
        for one in effect.requests:
            sent.setdefault(one.broker_id, []).append(type(one.message))
    return sent


def test_t5_an_unnoticed_restart_gets_the_full_state_again() -> None:
    driver = empty_cluster(1)
    former = join(driver.coordinator, B2)
    put_topic(driver.coordinator, (1, 2), (2, 1))
    planner = Planner(ControllerConfig(broker_id=B1), lambda: ORDERS_ID)
    driver.run(planner.plan(e.Reelect(), 0))
    driver.take(Send)
    driver.coordinator.end_session(former.session)
    join(driver.coordinator, B2)
    driver.run(planner.plan(e.BrokerChange(), 0))
    assert {UpdateMetadataRequest, LeaderAndIsrRequest} <= set(sent_by(driver)[B2])


def registration_of(driver: Driver, sessions: Sessions) -> Registered | Taken:
    endpoints = (Endpoint("PLAINTEXT", "h", 1),)
    data = Registration(broker_id=B1, endpoints=endpoints).encode(timestamp_ms=0)
    return driver.run(register(B1, data, sessions))


def test_t7_a_registration_of_an_earlier_session_is_replaced() -> None:
    cluster = empty_cluster()
    former = Driver(cluster.coordinator)
    first = registration_of(former, Sessions(former.session))
    now = Driver(cluster.coordinator)
    assert registration_of(now, Sessions(now.session)) == Taken(former.session)
    again = registration_of(now, Sessions(now.session, {former.session}))
    assert isinstance(first, Registered)
    assert isinstance(again, Registered)
    assert again.broker_epoch > first.broker_epoch


def test_t7_a_registration_whose_response_was_lost_is_recognised() -> None:
    driver = Driver(empty_cluster().coordinator, repeats=True)
    assert isinstance(registration_of(driver, Sessions(driver.session)), Registered)


def test_t8_writes_whose_responses_were_lost_are_recognised() -> None:
    driver = empty_cluster(1, 2, 3, repeats=True)
    [partition] = put_topic(driver.coordinator, (1, 2, 3))
    planner = Planner(ControllerConfig(broker_id=B1), lambda: ORDERS_ID)
    driver.run(planner.plan(e.Reelect(), 0))
    assert planner.cluster is not None
    assert planner.cluster.leaderships[partition].leader == B1
    assert driver.run(planner.plan(e.ElectLeadersRequested(None), 0)) == {
        partition: ErrorCode.ELECTION_NOT_NEEDED
    }


def test_t9_brokers_get_live_brokers_before_leaderships() -> None:
    driver = empty_cluster(1, 2)
    put_topic(driver.coordinator, (1, 2), (2, 1))
    driver.run(take_over(empty_image(), lambda: ORDERS_ID, nothing_known))
    for kinds in sent_by(driver).values():
        assert kinds[:2] == [UpdateMetadataRequest, LeaderAndIsrRequest]


def test_joining_brokers_get_the_full_metadata() -> None:
    driver = empty_cluster(1)
    put_topic(driver.coordinator, (1,), (1,))
    cluster = empty_image()
    driver.run(take_over(cluster, lambda: ORDERS_ID, nothing_known))
    join(driver.coordinator, B3)
    driver.effects.clear()
    planner = Planner(ControllerConfig(broker_id=B1), lambda: ORDERS_ID)
    planner.cluster = cluster
    driver.run(planner.plan(e.BrokerChange(), 0))
    sent_partitions = {
        one.broker_id: [len(topic.partition_states) for topic in one.message.topic_states]
        for sent in driver.take(Send)
        for one in sent.requests
        if isinstance(one.message, UpdateMetadataRequest)
    }
    assert sent_partitions == {B1: [], B3: [2]}
    assert B2 not in cluster.brokers


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_a_scenario_without_time(scenario: Callable[[], None]) -> None:
    scenario()


def test_t12_the_watermark_of_a_new_leader_is_never_above_its_log() -> None:
    assert leadership(1, 2, end=3, mark=7).high_watermark == 3


def test_t14_nothing_is_committed_below_min_isr() -> None:
    led = leadership(1, mark=10, limits=Limits(min_insync_replicas=2, max_lag_ms=1000))
    led.on_append(Offset(30), 1)
    assert (led.high_watermark, led.has_min_isr) == (10, False)
    led.on_limits(Limits(min_insync_replicas=1, max_lag_ms=1000), now_ms=5000)
    assert led.high_watermark == 30

"""Known pitfalls of replication and control, each as a scenario (T1 to T16)."""

import itertools
from collections.abc import Callable

import pytest

from broker.cluster.control_fence import ControlFence, refuse_leadership, refuse_stop
from broker.replication.divergence import divergence, truncation_offset
from broker.replication.leadership import Limits
from clusterstate.broker_registration import Registered, Sessions, Taken, register
from clusterstate.znodes import paths
from clusterstate.znodes.config import encode_config
from clusterstate.znodes.partition_node import decode_partition_state
from clusterstate.znodes.registration import Endpoint, Registration
from controller import events as e
from controller.cluster import Cluster
from controller.controller_config import ControllerConfig
from controller.effects import Send
from controller.failover import take_over
from controller.last_told import nothing_known
from controller.plan import Planner
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafkawire.messages.leader_and_isr import LeaderAndIsrRequest
from kafkawire.messages.update_metadata import UpdateMetadataRequest
from tests.simulation.cluster import scenarios
from tests.simulation.cluster.driver import (
    ORDERS_ID,
    Driver,
    empty_cluster,
    empty_image,
    join,
    put_topic,
)
from tests.simulation.cluster.fake_log import FakeLog, Record
from tests.simulation.cluster.network import Faults
from tests.simulation.cluster.process import COORDINATOR
from tests.simulation.cluster.quiescence import settle
from tests.simulation.cluster.scenarios import B1, B2, B3, leadership
from tests.simulation.cluster.world import TOPIC, World

T0 = TopicPartition(TOPIC, 0)


def calm_world(replication_factor: int = 3, **options: bool) -> World:
    """Return a cluster with one topic of one partition, and no faults."""
    world = World(5, min_insync_replicas=1, **options)
    world.network.faults = Faults(lose=0, repeat=0, slow=0)
    world.run(300)
    world.create_topic(partition_count=1, replication_factor=replication_factor)
    world.run_until(lambda: len(world.checker.committed.get(T0, [])) > 5)
    return world


def leader_of(world: World) -> BrokerId:
    node = world.coordinator.nodes[paths.partition_state(T0)]
    return decode_partition_state(node.data, node.version).leader


def test_t1_a_follower_without_its_watermark_keeps_committed_records() -> None:
    world = calm_world(replication_factor=2)
    leader = leader_of(world)
    replicas = [one for one, disk in world.disks.items() if T0 in disk.logs]
    [follower] = [one for one in replicas if one != leader]
    world.kill(follower, is_seen=True)
    world.disks[follower].high_watermarks.pop(T0, None)
    world.start(follower)
    world.run_until(
        lambda: (
            (replica := world.processes[follower].replicas.get(T0)) is not None
            and replica.leader_epoch is not None
        )
    )
    world.kill(leader, is_seen=True)
    world.run(1000)
    settle(world)


@pytest.mark.parametrize("leaders", list(itertools.product(range(3), repeat=3)))
def test_t2_logs_agree_after_fast_unclean_elections(leaders: tuple[int, ...]) -> None:
    for copies in itertools.product(itertools.product((False, True), repeat=2), repeat=3):
        logs = [FakeLog() for _ in range(3)]
        for epoch, (leader, copied) in enumerate(zip(leaders, copies, strict=True)):
            logs[leader].begin_epoch(LeaderEpoch(epoch))
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


def test_t3_a_diverging_fetch_does_not_advance_the_watermark() -> None:
    world = calm_world()
    led = world.processes[leader_of(world)].replicas[T0]
    [follower] = [one for one in world.brokers if one not in (leader_of(world), B1)][:1]
    before = led.high_watermark
    assert led.leader_epoch is not None
    unknown = LeaderEpoch(led.leader_epoch - 1)
    ahead = Offset(led.log.end + 5)
    answer = led.on_fetch(follower, led.leader_epoch, ahead, led.log.epochs.latest, -1, 0)
    assert answer.diverging is not None
    assert answer.records == ()
    assert led.high_watermark == before
    refused = led.on_fetch(follower, unknown, ahead, led.log.epochs.latest, -1, 0)
    assert refused.error is ErrorCode.FENCED_LEADER_EPOCH


def test_t4_an_epoch_without_records_counts() -> None:
    log = FakeLog()
    log.begin_epoch(LeaderEpoch(0))
    assert log.epochs.latest == 0
    log.append(Record(LeaderEpoch(0), 1))
    log.begin_epoch(LeaderEpoch(3))
    assert log.epochs.end_offset_for(2, log.end) == (0, 1)
    log.truncate(Offset(1))
    assert log.epochs.latest == 0, "truncation to the end removes the empty epoch"


def test_t5_an_unnoticed_restart_gets_the_full_state_again() -> None:
    world = calm_world()
    [controller] = world.controllers
    [bounced] = [one for one in world.brokers if one not in (controller.broker_id, 1)][:1]
    former = world.processes[bounced]
    epoch_before = former.fence_epoch
    # The notification is delayed while the broker dies and restarts.
    world.network.cut.add(frozenset((COORDINATOR, controller.broker_id)))
    world.kill(bounced, is_seen=True)
    world.start(bounced)
    world.run_until(lambda: world.processes[bounced].fence is not None)
    world.network.cut.clear()
    settle(world)
    assert world.processes[bounced].fence_epoch > epoch_before
    refused: list[ErrorCode] = []
    stale = LeaderAndIsrRequest(controller_epoch=99, broker_epoch=epoch_before)
    world.processes[bounced].on_control(
        stale, lambda response: refused.append(ErrorCode(response.error_code))
    )
    assert refused == [ErrorCode.STALE_BROKER_EPOCH]


def test_t6_brokers_refuse_an_older_controller() -> None:
    fence = ControlFence(broker_epoch=10)
    assert fence.refuse(5, 10) is None
    assert fence.refuse(4, 10) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert fence.refuse(6, 9) is ErrorCode.STALE_BROKER_EPOCH
    assert fence.controller_epoch == 5, "a refused request does not change the epoch"
    assert fence.refuse(5, -1) is None


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


def test_t8_no_update_is_lost() -> None:
    scenarios.no_update_is_lost()


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


def test_t8_a_partitioned_leader_leads_again_after_it_reconnects() -> None:
    world = calm_world()
    leader = leader_of(world)
    followers = [one for one in world.brokers if one != leader]
    for other in world.brokers:
        world.network.cut.add(frozenset((leader, other)))
    world.run(700)
    world.network.cut.clear()
    world.run_until(lambda: world.processes[leader].replicas[T0].leadership is not None)
    settle(world)
    assert followers, "a cluster of one proves nothing"


def test_t9_brokers_get_live_brokers_before_leaderships() -> None:
    driver = empty_cluster(1, 2)
    put_topic(driver.coordinator, (1, 2), (2, 1))
    driver.run(take_over(empty_image(), lambda: ORDERS_ID, nothing_known))
    kinds = [type(one.message) for sent in driver.take(Send) for one in sent.requests]
    first = kinds.index(LeaderAndIsrRequest)
    assert kinds[:first] == [UpdateMetadataRequest] * 2


def test_t9_late_and_repeated_requests_change_nothing() -> None:
    assert refuse_leadership(LeaderEpoch(4), ORDERS_ID, 4, ORDERS_ID) is not None
    assert refuse_leadership(LeaderEpoch(4), ORDERS_ID, 3, ORDERS_ID) is not None
    assert refuse_leadership(LeaderEpoch(4), ORDERS_ID, 5, ORDERS_ID) is None
    assert refuse_leadership(None, None, 0, ORDERS_ID) is None


def test_t10_a_follower_joins_at_the_epoch_start() -> None:
    scenarios.late_joiner_waits_for_the_epoch_start()


def test_t10_below_min_isr_a_joining_follower_must_keep_up() -> None:
    led = leadership(1, mark=10, limits=Limits(min_insync_replicas=2, max_lag_ms=1000))
    led.on_append(Offset(20), 1)
    assert not led.on_fetch(B2, Offset(12), 2), "it is at the watermark, which does not advance"
    led.on_append(Offset(25), 3)
    assert led.on_fetch(B2, Offset(20), 4), "it has the records that existed at its first fetch"


def test_t11_an_unclear_refusal_keeps_the_joiner() -> None:
    scenarios.unclear_refusal_keeps_the_joiner()


def test_t12_the_watermark_of_a_new_leader_is_never_above_its_log() -> None:
    assert leadership(1, 2, end=3, mark=7).high_watermark == 3


def test_t13_only_in_sync_replicas_lead_unless_unclean_is_allowed() -> None:
    world = calm_world(replication_factor=2)
    leader = leader_of(world)
    [follower] = [one for one, disk in world.disks.items() if T0 in disk.logs and one != leader]
    world.kill(follower, is_seen=True)
    world.run_until(lambda: len(isr_of(world)) == 1)
    world.kill(leader, is_seen=True)
    world.run_until(lambda: leader_of(world) == -1)
    world.start(follower)
    world.run(1000)
    assert (leader_of(world), isr_of(world)) == (-1, (leader,))

    allowed = encode_config({"unclean.leader.election.enable": "true"})
    world.coordinator.put(paths.config(f"topics/{TOPIC}"), allowed)
    [controller] = world.controllers
    controller.put(e.UncleanElectionEnabled(TOPIC))
    world.run_until(lambda: leader_of(world) == follower)
    assert T0 in world.checker.unclean
    assert isr_of(world) == (follower,)
    world.run(300)
    settle(world)


def isr_of(world: World) -> tuple[BrokerId, ...]:
    node = world.coordinator.nodes[paths.partition_state(T0)]
    return decode_partition_state(node.data, node.version).isr


def test_t14_nothing_is_committed_below_min_isr() -> None:
    led = leadership(1, mark=10, limits=Limits(min_insync_replicas=2, max_lag_ms=1000))
    led.on_append(Offset(30), 1)
    assert (led.high_watermark, led.has_min_isr) == (10, False)
    led.on_limits(Limits(min_insync_replicas=1, max_lag_ms=1000), now_ms=5000)
    assert led.high_watermark == 30


def test_t15_a_stop_for_an_older_leadership_is_refused() -> None:
    assert refuse_stop(LeaderEpoch(5), 4) is ErrorCode.FENCED_LEADER_EPOCH
    assert [refuse_stop(LeaderEpoch(5), epoch) for epoch in (5, 6, -1, -2)] == [None] * 4
    assert refuse_stop(None, 0) is None


def test_t15_a_deletion_waits_for_a_dead_broker_and_removes_everything() -> None:
    world = calm_world()
    [controller] = world.controllers
    dead = next(one for one in world.brokers if one != controller.broker_id)
    world.kill(dead, is_seen=True)
    world.run(300)
    world.delete_topic()
    world.run(1000)
    assert paths.topic(TOPIC) in world.coordinator.nodes, "a replica is left on a dead broker"
    world.start(dead)
    world.run_until(lambda: paths.topic_deletion(TOPIC) not in world.coordinator.nodes)
    assert paths.topic(TOPIC) not in world.coordinator.nodes
    assert all(T0 not in disk.logs for disk in world.disks.values())

    before = world.appended
    world.create_topic(partition_count=1)
    world.run_until(lambda: len(world.checker.committed.get(T0, [])) > 2)
    assert all(one.value > before for one in world.checker.committed[T0])


def test_t16_a_topic_with_another_id_is_refused() -> None:
    code = refuse_leadership(LeaderEpoch(0), ORDERS_ID, 5, TopicId(int=99))
    assert code is ErrorCode.INCONSISTENT_TOPIC_ID


def test_a_process_replaces_the_registration_of_its_earlier_session() -> None:
    world = calm_world()
    [controller] = world.controllers
    other = next(one for one in world.brokers if one != controller.broker_id)
    world.kill(other)
    world.start(other)
    # Before its earlier session can expire.
    world.run_until(lambda: world.processes[other].fence is not None, limit_ms=300)
    settle(world)


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


def test_a_late_copy_of_a_request_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(5)
    copies: list[Callable[[], None]] = []
    send = world.network.send

    def keep(source: int, target: int, deliver: Callable[[], None]) -> None:
        if target == COORDINATOR:
            copies.append(deliver)
        send(source, target, deliver)

    monkeypatch.setattr(world.network, "send", keep)
    world.run(300)
    world.coordinator.remove(paths.broker(B1))
    for deliver in copies:
        deliver()
    assert paths.broker(B1) not in world.coordinator.nodes


def test_a_deletion_behind_a_reassignment_survives_a_dead_leader() -> None:
    world = calm_world(replication_factor=2)
    leader = leader_of(world)
    replicas = [one for one, disk in world.disks.items() if T0 in disk.logs]
    [added] = set(world.brokers) - set(replicas)
    # It cannot catch up, so the reassignment stays in progress.
    world.network.cut |= {frozenset((added, one)) for one in replicas}
    world.reassign(T0, [added])
    world.run_until(lambda: any(cluster_of(world).moving))
    world.delete_topic()
    world.run_until(lambda: TOPIC in cluster_of(world).deletions.halted)
    world.kill(leader, is_seen=True)
    world.run(1000)
    world.start(leader)
    settle(world)
    assert paths.topic(TOPIC) not in world.coordinator.nodes


def cluster_of(world: World) -> Cluster:
    [controller] = world.controllers
    assert controller.planner.cluster is not None
    return controller.planner.cluster

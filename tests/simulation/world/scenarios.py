"""Small scenarios without time, for planted bugs that are too unlikely to appear in a world."""

from collections.abc import Callable, Mapping
from typing import Final

from broker.replication.leadership import Leadership, Limits
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.znodes import paths
from clusterstate.znodes.partition_node import decode_partition_state, encode_partition_state
from controller.channel import Channel
from controller.effects import BrokerRequest
from controller.failover import take_over
from controller.last_told import nothing_known
from controller.partition_state_writes import change_states
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafkawire.messages.update_metadata import UpdateMetadataRequest
from tests.plans.driver import ORDERS_ID, Driver, empty_cluster, empty_image, put_topic

B1, B2, B3 = map(BrokerId, (1, 2, 3))
LIMITS = Limits(min_insync_replicas=1, max_lag_ms=1000)


def leadership(
    *isr: int, end: int = 10, mark: int = 5, limits: Limits = LIMITS, replicas: int = 3
) -> Leadership:
    """Return broker 1's leadership of three replicas."""
    return Leadership(
        B1,
        LeaderAndIsr(
            leader=B1,
            isr=tuple(map(BrokerId, isr)),
            controller_epoch=1,
            leader_epoch=LeaderEpoch(4),
            partition_epoch=9,
        ),
        replicas={BrokerId(number) for number in range(1, replicas + 1)},
        log_end_offset=Offset(end),
        high_watermark=Offset(mark),
        limits=limits,
        live_epoch=lambda _: -1,
        now_ms=0,
    )


def late_joiner_waits_for_the_epoch_start() -> None:
    """T10: the predecessor may have committed up to 10, but the new leader only knows of 5."""
    led = leadership(1, 2)
    assert not led.on_fetch(B3, Offset(7), now_ms=1)
    assert led.proposal is None
    assert led.on_fetch(B3, Offset(10), now_ms=2)
    assert led.proposal is not None


def unclear_refusal_keeps_the_joiner() -> None:
    """T11: the proposal was recorded, its response was lost, and the retry is refused."""
    led = leadership(1, mark=10)
    led.on_fetch(B2, Offset(10), now_ms=1)
    proposal = led.proposal
    assert proposal is not None
    led.on_refused(proposal, ErrorCode.INVALID_UPDATE_VERSION, now_ms=2)
    # After any lag limit, so that only the pending proposal holds the watermark.
    led.on_append(Offset(12), now_ms=5000)
    # Broker 2 may be elected at any time, so records that it lacks are not committed.
    assert led.high_watermark == 10
    assert led.proposal_to_send is None, "a retry proves nothing"


def no_update_is_lost() -> None:
    """C7, T8: the in-sync set shrinks between the read and the write."""
    driver = empty_cluster(1, 2, 3)
    [partition] = put_topic(driver.coordinator, (1, 2, 3))
    cluster = empty_image()
    driver.run(take_over(cluster, lambda: ORDERS_ID, nothing_known))
    _shrink_behind(driver, partition)

    def raise_epoch(_: TopicPartition, state: LeaderAndIsr) -> LeaderAndIsr:
        return state.led_by(state.leader)

    changes = driver.run(change_states(cluster, [partition], raise_epoch))
    assert changes.changed[partition].isr == (B1, B2)
    node = driver.coordinator.nodes[paths.partition_state(partition)]
    assert decode_partition_state(node.data, node.version) == changes.changed[partition]


def _shrink_behind(driver: Driver, partition: TopicPartition) -> None:
    path = paths.partition_state(partition)
    node = driver.coordinator.nodes[path]
    state = decode_partition_state(node.data, node.version)
    smaller = LeaderAndIsr(
        leader=state.leader, leader_epoch=state.leader_epoch, isr=(B1, B2), controller_epoch=1
    )
    driver.coordinator.put(path, encode_partition_state(smaller, 1))


def requests_are_repeated() -> None:
    """B10: a lost request is sent again, before any later one."""
    channel = Channel(B1, 5)
    first, second = (BrokerRequest(B1, 5, UpdateMetadataRequest()) for _ in range(2))
    channel.put(first)
    channel.put(second)
    assert channel.next() is first
    assert channel.next() is None, "one is in flight"
    channel.on_failure()
    assert channel.next() is first


def members_outside_the_assignment_count() -> None:
    """Last step of a reassignment: 2 and 3 are recorded as in sync, but no longer assigned."""
    led = leadership(1, 2, 3, mark=10, replicas=1)
    led.on_append(Offset(12), now_ms=5000)
    assert led.high_watermark == 10, "2 or 3 can still be elected"


def a_joiner_counts_before_it_is_recorded() -> None:
    """T11: the controller may have recorded the joiner already, and may elect it."""
    led = leadership(1, mark=10)
    led.on_fetch(B2, Offset(10), now_ms=1)
    led.on_append(Offset(12), now_ms=5000)
    assert led.high_watermark == 10


SCENARIOS: Final[Mapping[str, Callable[[], None]]] = {
    "any_version": no_update_is_lost,
    "early_join": late_joiner_waits_for_the_epoch_start,
    "joining_does_not_count": a_joiner_counts_before_it_is_recorded,
    "lost_requests": requests_are_repeated,
    "refusal_resets": unclear_refusal_keeps_the_joiner,
    "removed_members_do_not_count": members_outside_the_assignment_count,
}
"""A scenario for each of these mutants."""

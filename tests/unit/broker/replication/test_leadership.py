"""A leader's decisions: in-sync set, high watermark and proposals."""

import pytest

from broker.replication.isr.isr_state import (
    Committed,
    PendingExpand,
    PendingShrink,
    on_refusal,
)
from broker.replication.leadership import Leadership, Limits
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, Offset
from kafkawire.sentinels import UNKNOWN_BROKER_EPOCH

B1, B2, B3, B4 = map(BrokerId, range(1, 5))
LIMITS = Limits(min_insync_replicas=2, max_lag_ms=1000)
EPOCH = LeaderEpoch(4)


def recorded(*isr: int, epoch: int = 9, leader_epoch: int = 4) -> LeaderAndIsr:
    return LeaderAndIsr(
        leader=B1,
        isr=tuple(map(BrokerId, isr)),
        controller_epoch=1,
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=epoch,
    )


def lead(*isr: int, live: dict[BrokerId, int] | None = None, end: int = 10) -> Leadership:
    alive = {B1: 11, B2: 12, B3: 13} if live is None else live
    return Leadership(
        B1,
        recorded(*isr),
        replicas={B1, B2, B3},
        log_end_offset=Offset(end),
        high_watermark=Offset(end),
        limits=LIMITS,
        live_epoch=alive.get,
        now_ms=0,
    )


def test_slowest_in_sync_replica_determines_the_high_watermark() -> None:
    led = lead(1, 2, 3)
    led.on_append(Offset(20), 1)
    assert led.high_watermark == 10
    led.on_fetch(B2, Offset(20), 2, 12)
    assert led.high_watermark == 10
    led.on_fetch(B3, Offset(15), 3, 13)
    assert led.high_watermark == 15


def test_absent_replica_does_not_count_on_a_machine_that_has_just_started() -> None:
    led = lead(1, 2)
    led.on_append(Offset(20), 1)
    led.on_fetch(B2, Offset(20), 2, 12)
    assert led.high_watermark == 20


def test_lagging_follower_counts_until_its_removal_is_recorded() -> None:
    led = lead(1, 2, 3)
    led.on_append(Offset(20), 1)
    led.on_fetch(B2, Offset(20), 1400, 12)
    assert not led.on_tick(1000)
    assert led.on_tick(1500)
    assert led.state == PendingShrink(frozenset({B1, B2, B3}), frozenset({B3}))
    assert not led.on_tick(1600), "one change at a time"
    sent = led.proposal_to_send
    assert sent is not None
    assert sent.isr == ((B1, 11), (B2, UNKNOWN_BROKER_EPOCH))
    assert led.high_watermark == 10
    led.on_recorded(sent, recorded(1, 2, epoch=10), 1700)
    assert (led.high_watermark, led.partition_epoch) == (20, 10)
    assert led.proposal_to_send is None


def test_caught_up_follower_joins() -> None:
    led = lead(1, 2)
    assert not led.on_fetch(B3, Offset(9), 1, 13)
    assert led.on_fetch(B3, Offset(10), 2, 13)
    assert led.state == Committed(frozenset({B1, B2})).expand(B3, 13)
    led.on_append(Offset(11), 3)
    led.on_fetch(B2, Offset(11), 4, 12)
    assert led.high_watermark == 10, "broker 3 may be recorded as in sync already"


def test_former_incarnation_of_a_follower_does_not_join() -> None:
    assert not lead(1, 2).on_fetch(B3, Offset(10), 1, 7)
    assert not lead(1, 2, live={B1: 11, B2: 12}).on_fetch(B3, Offset(10), 1, 13)
    assert lead(1, 2, live={B1: -1, B2: -1, B3: -1}).on_fetch(B3, Offset(10), 1, 13)


def test_member_that_is_no_longer_a_replica_does_not_join_again() -> None:
    led = Leadership(
        B1,
        recorded(1, 3),
        replicas={B1, B2},
        log_end_offset=Offset(10),
        high_watermark=Offset(10),
        limits=LIMITS,
        live_epoch=lambda _: -1,
        now_ms=0,
    )
    led.on_append(Offset(11), 5000)
    assert led.on_tick(5000)
    sent = led.proposal_to_send
    assert sent is not None
    led.on_recorded(sent, recorded(1, epoch=10), 5001)
    assert not led.on_fetch(B3, Offset(11), 5002)


def test_fetch_of_a_broker_without_replica_is_ignored() -> None:
    led = lead(1, 2)
    assert not led.on_fetch(B4, Offset(10), 1)
    assert led.proposal is None


def test_outdated_responses_change_nothing() -> None:
    led = lead(1, 2)
    led.on_fetch(B3, Offset(10), 1, 13)
    sent = led.proposal
    assert sent is not None
    led.on_recorded(sent, recorded(1, 2, 3, epoch=8), 2)
    led.on_recorded(sent, recorded(1, 2, 3, epoch=10, leader_epoch=3), 2)
    assert isinstance(led.state, PendingExpand)
    led.on_recorded(sent, recorded(1, 2, 3, epoch=10), 2)
    led.on_refused(sent, ErrorCode.INELIGIBLE_REPLICA, 3)
    assert led.proposal is None
    assert led.state.isr == {B1, B2, B3}


@pytest.mark.parametrize(
    ("code", "is_committed", "may_retry"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, True, False),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, True, False),
        (ErrorCode.INVALID_UPDATE_VERSION, False, False),
        (ErrorCode.FENCED_LEADER_EPOCH, False, False),
        (ErrorCode.NOT_CONTROLLER, False, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False, True),
    ],
)
def test_refusal_settles_or_keeps_the_proposal(
    code: ErrorCode, is_committed: bool, may_retry: bool
) -> None:
    pending = Committed(frozenset({B1, B2})).expand(B3, 13)
    refused = on_refusal(pending, code)
    assert refused.may_retry is may_retry
    assert refused.state == (Committed(frozenset({B1, B2})) if is_committed else pending)
    led = lead(1, 2)
    led.on_fetch(B3, Offset(10), 1, 13)
    sent = led.proposal_to_send
    assert sent is not None
    led.on_refused(sent, code, 2)
    assert (led.proposal_to_send is not None) is may_retry
    assert (led.proposal is None) is is_committed


def test_pending_shrink_counts_the_whole_set() -> None:
    shrinking = Committed(frozenset({B1, B2})).shrink({B2})
    assert shrinking.maximal == {B1, B2}
    assert shrinking.proposed == {B1}
    assert Committed(frozenset({B1})).maximal == {B1}


def test_min_isr_is_at_most_the_number_of_replicas() -> None:
    led = Leadership(
        B1,
        recorded(1),
        replicas={B1},
        log_end_offset=Offset(0),
        high_watermark=Offset(0),
        limits=LIMITS,
        live_epoch=lambda _: None,
        now_ms=0,
    )
    assert (led.effective_min_isr, led.has_min_isr) == (1, True)
    led.on_append(Offset(3), 1)
    assert led.high_watermark == 3
    assert led.proposal_to_send is None


def test_idle_follower_at_the_log_end_stays_caught_up_without_reads() -> None:
    led = lead(1, 2, 3)
    for one in (B2, B3):
        led.on_fetch(one, Offset(10), 1, 10 + one)
    assert not led.on_idle_fetch(B2, 5000, 12)
    led.on_append(Offset(11), 5001)
    assert led.on_tick(5002)
    assert led.state == PendingShrink(frozenset({B1, B2, B3}), frozenset({B3}))


def test_idle_fetch_of_a_lagging_follower_does_not_count_as_caught_up() -> None:
    led = lead(1, 2, 3)
    led.on_append(Offset(20), 1)
    led.on_fetch(B2, Offset(15), 2, 12)
    assert not led.on_idle_fetch(B2, 5000, 12)
    assert led.on_tick(5000)
    assert led.state == PendingShrink(frozenset({B1, B2, B3}), frozenset({B2, B3}))


def test_follower_that_waits_at_the_log_end_joins_once_it_is_eligible() -> None:
    alive = {B1: 11, B2: 12}
    led = lead(1, 2, live=alive)
    assert not led.on_fetch(B3, Offset(10), 1, 13)
    assert not led.on_idle_fetch(B3, 2, 13)
    alive[B3] = 13
    assert led.on_idle_fetch(B3, 3, 13)
    assert led.state == Committed(frozenset({B1, B2})).expand(B3, 13)


def test_follower_that_registered_again_joins_with_its_new_epoch() -> None:
    alive = {B1: 11, B2: 12, B3: 33}
    led = lead(1, 2, live=alive)
    led.on_fetch(B2, Offset(10), 1, 12)
    assert not led.on_fetch(B3, Offset(10), 1, 13)
    assert not led.on_idle_fetch(B3, 2, 13)
    assert led.on_idle_fetch(B3, 3, 33)
    assert led.proposal_to_send is not None
    assert led.proposal_to_send.isr == ((B1, 11), (B2, UNKNOWN_BROKER_EPOCH), (B3, 33))


def test_next_incarnation_does_not_join_with_the_proposal_of_the_former_one() -> None:
    alive = {B1: 11, B2: 12, B3: 13}
    led = lead(1, 2, live=alive)
    assert led.on_fetch(B3, Offset(10), 1, 13)
    sent = led.proposal_to_send
    assert sent is not None
    alive[B3] = 33
    assert not led.on_fetch(B3, Offset(0), 2, 33), "the log was wiped"
    assert led.proposal_to_send == sent
    assert sent.isr == ((B1, 11), (B2, UNKNOWN_BROKER_EPOCH), (B3, 13))
    led.on_refused(sent, ErrorCode.INELIGIBLE_REPLICA, 3)
    assert led.state == Committed(frozenset({B1, B2}))
    assert not led.on_fetch(B3, Offset(5), 4, 33)
    assert led.on_fetch(B3, Offset(10), 5, 33)
    assert led.proposal_to_send is not None
    assert led.proposal_to_send.isr == ((B1, 11), (B2, UNKNOWN_BROKER_EPOCH), (B3, 33))


def test_member_that_registered_again_does_not_block_a_joining_one() -> None:
    """A new controller confirms such a member, which fetches an idle partition by its session."""
    alive = {B1: 11, B2: 12, B3: 13}
    led = lead(1, 2, live=alive)
    led.on_fetch(B2, Offset(10), 1, 12)
    alive[B2] = 22
    assert led.on_fetch(B3, Offset(10), 2, 13)
    assert led.proposal_to_send is not None
    assert led.proposal_to_send.isr == ((B1, 11), (B2, UNKNOWN_BROKER_EPOCH), (B3, 13))


def test_only_other_replicas_are_followers() -> None:
    led = lead(1, 2)
    assert not led.on_idle_fetch(B4, 1, 14)
    assert not led.on_idle_fetch(B3, 1, 13), "broker 3 has never fetched"
    assert [led.is_follower(one) for one in (B1, B2, B3, B4)] == [False, True, True, False]


def test_high_watermark_does_not_wait_for_a_dead_replica_outside_the_isr() -> None:
    alive = {B1: 11, B2: 12, B3: 13}
    led = lead(1, 2, live=alive, end=10)
    led.on_fetch(B3, Offset(9), 1, 13)
    led.on_fetch(B3, Offset(9), 2, 13)
    led._followers[B3].caught_up_at_ms = 2
    led.on_append(Offset(20), 3)
    led.on_fetch(B2, Offset(20), 4, 12)
    assert led.high_watermark == 10
    assert not led.reconsider(5)
    del alive[B3]
    assert led.reconsider(5)
    assert led.high_watermark == 20
    assert not led.reconsider(6), "every record is committed"


def test_high_watermark_does_not_wait_for_an_ineligible_replica() -> None:
    alive = {B1: 11, B2: 12, B3: 13}
    led = lead(1, 2, live=alive, end=10)
    led.on_fetch(B2, Offset(10), 1, 12)
    assert led.on_fetch(B3, Offset(10), 1, 13)
    led.on_append(Offset(20), 2)
    led.on_fetch(B2, Offset(20), 3, 12)
    assert led.high_watermark == 10, "broker 3 may have been recorded as in sync"
    del alive[B3]
    assert led.proposal is not None
    led.on_refused(led.proposal, ErrorCode.INELIGIBLE_REPLICA, 4)
    assert led.high_watermark == 20


def test_low_watermark_ignores_dead_replicas() -> None:
    alive = {B1: 11, B2: 12, B3: 13}
    led = lead(1, 2, 3, live=alive)
    led.on_fetch(B2, Offset(10), 1, 12, Offset(5))
    led.on_fetch(B3, Offset(10), 1, 13, Offset(3))
    assert led.low_watermark(Offset(7)) == 3
    del alive[B3]
    assert led.low_watermark(Offset(7)) == 5


def test_below_min_isr_only_a_follower_that_keeps_up_joins() -> None:
    led = lead(1)
    led.on_append(Offset(20), 1)
    assert not led.on_fetch(B2, Offset(15), 2, 12), (
        "the high watermark does not move and proves little"
    )
    led.on_append(Offset(30), 3)
    assert led.on_fetch(B2, Offset(20), 4, 12), (
        "the follower has every record that existed at its last fetch"
    )


def test_follower_under_load_is_caught_up_without_reaching_the_log_end() -> None:
    led = lead(1, 2, 3)
    for now_ms in range(0, 5000, 100):
        had = led.log_end_offset
        led.on_append(Offset(had + 10), now_ms)
        for one in (B2, B3):
            assert not led.on_fetch(one, had, now_ms, 10 + one)
    assert not led.on_tick(5000)


def test_in_sync_followers_are_listed_with_their_progress() -> None:
    led = lead(1, 2)
    led.on_fetch(B2, Offset(7), 2, 12)
    assert [(one, progress.log_end_offset) for one, progress in led.in_sync_followers()] == [
        (B2, 7)
    ]

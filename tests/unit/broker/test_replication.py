"""Which records are committed: `broker.replication`."""

import random

import pytest

from broker.replication import Replication
from kafkawire.ids import BrokerId, Offset

B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)


def leader(
    isr: set[BrokerId],
    *,
    log_end_offset: int = 0,
    high_watermark: int = 0,
    min_insync_replicas: int = 1,
) -> Replication:
    return Replication(
        B1,
        replicas={B1, B2, B3} if len(isr) > 1 else isr,
        isr=isr,
        log_end_offset=Offset(log_end_offset),
        high_watermark=Offset(high_watermark),
        min_insync_replicas=min_insync_replicas,
    )


def test_a_lone_leader_commits_what_it_appends() -> None:
    replication = leader({B1})
    replication.on_append(Offset(7))
    assert (replication.high_watermark, replication.log_end_offset) == (7, 7)


def test_a_lone_leader_takes_over_what_its_predecessor_left() -> None:
    assert leader({B1}, log_end_offset=9, high_watermark=4).high_watermark == 9


def test_a_checkpointed_high_watermark_above_the_log_is_cut_to_its_end() -> None:
    replication = leader({B1, B2}, log_end_offset=5, high_watermark=8)
    assert replication.high_watermark == 5


def test_the_slowest_in_sync_follower_holds_the_high_watermark() -> None:
    replication = leader({B1, B2, B3})
    replication.on_append(Offset(10))
    replication.on_fetch(B2, Offset(10))
    assert replication.high_watermark == 0
    replication.on_fetch(B3, Offset(6))
    assert replication.high_watermark == 6


def test_a_follower_outside_the_in_sync_set_is_not_waited_for() -> None:
    replication = leader({B1, B2})
    replication.on_append(Offset(10))
    replication.on_fetch(B3, Offset(1))
    replication.on_fetch(B2, Offset(10))
    assert replication.high_watermark == 10


def test_shrinking_the_in_sync_set_commits_what_the_others_hold() -> None:
    replication = leader({B1, B2, B3})
    replication.on_append(Offset(10))
    replication.on_fetch(B2, Offset(8))
    replication.on_isr_change({B1, B2})
    assert replication.high_watermark == 8


def test_the_high_watermark_never_goes_back() -> None:
    replication = leader({B1, B2})
    replication.on_append(Offset(10))
    replication.on_fetch(B2, Offset(10))
    replication.on_isr_change({B1, B2, B3})
    replication.on_fetch(B2, Offset(3))
    assert replication.high_watermark == 10


def test_below_min_isr_nothing_is_committed_until_enough_replicas_are_back() -> None:
    replication = leader({B1, B2}, min_insync_replicas=2)
    replication.on_isr_change({B1})
    replication.on_append(Offset(5))
    assert (replication.has_min_isr, replication.high_watermark) == (False, 0)
    replication.on_fetch(B2, Offset(5))
    replication.on_isr_change({B1, B2})
    assert (replication.has_min_isr, replication.high_watermark) == (True, 5)


def test_lowering_min_isr_commits_what_was_held_back() -> None:
    replication = leader({B1, B2}, min_insync_replicas=2)
    replication.on_isr_change({B1})
    replication.on_append(Offset(5))
    replication.on_config_change(min_insync_replicas=1)
    assert replication.high_watermark == 5


def test_min_isr_is_never_more_than_there_are_replicas() -> None:
    replication = leader({B1}, min_insync_replicas=3)
    assert (replication.effective_min_isr, replication.has_min_isr) == (1, True)


@pytest.mark.parametrize(
    ("fetch_offset", "may_join"),
    [
        pytest.param(None, False, id="never fetched"),
        pytest.param(11, False, id="below the start of the leader's epoch"),
        pytest.param(12, True, id="at the start of the epoch"),
    ],
)
def test_a_follower_may_join_only_with_all_that_its_leader_began_with(
    fetch_offset: int | None, may_join: bool
) -> None:
    replication = leader({B1, B2}, log_end_offset=12, high_watermark=4)
    if fetch_offset is not None:
        replication.on_fetch(B3, Offset(fetch_offset))
    assert replication.may_join_isr(B3) is may_join


def test_a_follower_below_the_high_watermark_may_not_join() -> None:
    replication = leader({B1})
    replication.on_append(Offset(5))
    assert not replication.may_join_isr(B2)


@pytest.mark.parametrize("seed", range(20), ids=lambda seed: f"seed{seed}")
def test_every_in_sync_replica_holds_all_that_is_committed(seed: int) -> None:
    dice = random.Random(seed)
    replication = leader({B1, B2, B3}, min_insync_replicas=2)
    ends = {B2: 0, B3: 0}
    committed = 0
    for _ in range(300):
        follower = dice.choice([B2, B3])
        match dice.randrange(4):
            case 0:
                replication.on_append(Offset(replication.log_end_offset + dice.randint(1, 3)))
            case 1:
                ends[follower] = dice.randint(ends[follower], replication.log_end_offset)
                replication.on_fetch(follower, Offset(ends[follower]))
            case 2:
                replication.on_isr_change(replication.isr - {follower})
            case _:
                if replication.may_join_isr(follower):
                    replication.on_isr_change(replication.isr | {follower})
        assert replication.high_watermark >= committed, "a committed record was taken back"
        committed = replication.high_watermark
        for member in replication.isr - {B1}:
            assert ends[member] >= committed, f"broker {member} lacks a committed record"
    assert committed > 0, "nothing was committed, so nothing was proved"

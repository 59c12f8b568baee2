"""How long moves wait: `broker.logs.move_rate`."""

import random

import pytest

from broker.logs.move_rate import MoveRate


def test_without_a_limit_nothing_waits() -> None:
    rate = MoveRate()
    rate.on_bytes(10**15, now_s=5.0)
    assert rate.wait_s(5.0) == 0.0


def test_what_was_copied_is_paid_before_more_is() -> None:
    rate = MoveRate()
    rate.limit(100.0, now_s=10.0)
    assert rate.wait_s(10.0) == 0.0
    rate.on_bytes(50, now_s=10.0)
    assert rate.wait_s(10.0) == pytest.approx(0.5)
    rate.on_bytes(100, now_s=10.2)
    assert rate.wait_s(10.2) == pytest.approx(1.3)
    assert rate.wait_s(11.5) == 0.0


def test_a_pause_is_not_followed_by_a_burst() -> None:
    rate = MoveRate()
    rate.limit(100.0, now_s=0.0)
    rate.on_bytes(100, now_s=1_000.0)
    assert rate.wait_s(1_000.0) == pytest.approx(1.0)


def test_a_new_limit_counts_at_once() -> None:
    rate = MoveRate()
    rate.limit(1.0, now_s=0.0)
    rate.on_bytes(10**9, now_s=0.0)
    rate.limit(1e9, now_s=1.0)
    assert rate.wait_s(1.0) == 0.0
    rate.limit(0, now_s=2.0)
    rate.on_bytes(1, now_s=2.0)
    assert rate.wait_s(10**9) == float("inf")


def test_no_time_sees_more_than_the_rate_and_one_chunk() -> None:
    dice, rate, now_s, copied = random.Random(1), MoveRate(), 0.0, 0
    rate.limit(1_000.0, now_s)
    for _ in range(1_000):
        now_s += rate.wait_s(now_s) + dice.choice([0.0, dice.random()])
        assert copied <= 1_000 * now_s + 1
        size = dice.randrange(1, 500)
        rate.on_bytes(size, now_s)
        copied += size

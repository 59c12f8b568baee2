"""Rate limit of moves: `broker.logs.move_rate`."""

import random

import pytest

from broker.logs.move_rate import MoveRate


def test_no_move_waits_without_a_limit() -> None:
    rate = MoveRate()
    rate.on_bytes(10**15, now_s=5.0)
    assert rate.wait_s(5.0) == 0.0


def test_move_waits_until_its_rate_is_back_at_the_limit() -> None:
    rate = MoveRate()
    rate.limit(100.0, now_s=10.0)
    assert rate.wait_s(10.0) == 0.0
    rate.on_bytes(50, now_s=10.0)
    assert rate.wait_s(10.0) == pytest.approx(0.5)
    rate.on_bytes(100, now_s=10.2)
    assert rate.wait_s(10.2) == pytest.approx(1.3)
    assert rate.wait_s(11.5) == 0.0


def test_pause_is_not_followed_by_a_burst() -> None:
    rate = MoveRate()
    rate.limit(100.0, now_s=0.0)
    rate.on_bytes(100, now_s=1_000.0)
    assert rate.wait_s(1_000.0) == pytest.approx(1.0)


def test_new_limit_applies_at_once() -> None:
    rate = MoveRate()
    rate.limit(1.0, now_s=0.0)
    rate.on_bytes(10**9, now_s=0.0)
    rate.limit(1e9, now_s=1.0)
    assert rate.wait_s(1.0) == 0.0
    rate.limit(0, now_s=2.0)
    rate.on_bytes(1, now_s=2.0)
    assert rate.wait_s(10**9) == float("inf")


def test_copied_bytes_never_exceed_the_rate_by_more_than_a_chunk() -> None:
    dice, rate, now_s, copied = random.Random(1), MoveRate(), 0.0, 0
    rate.limit(1_000.0, now_s)
    for _ in range(1_000):
        now_s += rate.wait_s(now_s) + dice.choice([0.0, dice.random()])
        assert copied <= 1_000 * now_s + 1
        size = dice.randrange(1, 500)
        rate.on_bytes(size, now_s)
        copied += size

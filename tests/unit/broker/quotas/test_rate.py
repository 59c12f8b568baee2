"""Rates, and the delays that enforce a limit: `broker.quotas.rate`."""

import pytest

from broker.quotas.rate import BURST_S, MAX_PAUSE_MS, WINDOW_COUNT, WINDOW_MS, Rate

BEGIN_MS = 1_000_000


def test_burst_of_ten_seconds_worth_is_no_excess() -> None:
    rate = Rate()
    rate.add(100 * BURST_S, BEGIN_MS)
    assert rate.pause_ms(100, BEGIN_MS) == 0
    rate.add(100, BEGIN_MS)
    # 1100 in a window of ten seconds: 110 per second exceed the limit by a tenth.
    assert rate.per_second(BEGIN_MS) == 110
    assert rate.pause_ms(100, BEGIN_MS) == 1000


@pytest.mark.parametrize("amount", [10, 150, 900, 12_345])
def test_client_that_obeys_the_delays_stays_within_the_limit(amount: int) -> None:
    rate, now_ms, total = Rate(), BEGIN_MS, 0
    while now_ms < BEGIN_MS + 600_000:
        rate.add(amount, now_ms)
        total += amount
        now_ms += rate.pause_ms(100, now_ms) or 1
    per_second = total * 1000 / (now_ms - BEGIN_MS)
    assert 60 < per_second < 110 + amount / 100


@pytest.mark.parametrize("limit", [1, 5e-324])
def test_the_delay_after_a_far_too_large_amount_fits_into_a_response(limit: float) -> None:
    rate = Rate()
    rate.add(7_200_000, BEGIN_MS)
    assert rate.pause_ms(limit, BEGIN_MS) == MAX_PAUSE_MS == 2**31 - 1


def test_expired_window_does_not_count() -> None:
    rate = Rate()
    rate.add(5000, BEGIN_MS)
    rate.add(1, BEGIN_MS + WINDOW_MS)
    assert not rate.is_idle(BEGIN_MS + WINDOW_COUNT * WINDOW_MS)
    assert rate.per_second(BEGIN_MS + WINDOW_COUNT * WINDOW_MS) == 0.1
    assert rate.is_idle(BEGIN_MS + (WINDOW_COUNT + 1) * WINDOW_MS)
    assert rate.per_second(BEGIN_MS + (WINDOW_COUNT + 1) * WINDOW_MS) == 0


def test_zero_limit_delays_by_the_whole_window() -> None:
    rate = Rate()
    rate.add(1, BEGIN_MS)
    assert rate.pause_ms(0, BEGIN_MS) == 10 * WINDOW_MS

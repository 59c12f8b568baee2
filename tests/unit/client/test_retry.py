"""Retries, their delays and limits, and the errors that are not retried."""

import pytest

from ottla.client.errors import ConnectionLostError, ProduceError
from ottla.client.retry import Backoff, retry

QUICK = Backoff(initial_s=0.001, max_s=0.001, random=lambda: 0.5)


class Flaky:
    """Raises the given errors, then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.call_count = 0

    async def __call__(self) -> str:
        self.call_count += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


async def test_a_transient_error_is_retried() -> None:
    work = Flaky(ConnectionLostError("1"), ConnectionLostError("2"))
    assert await retry(work, QUICK, timeout_s=5) == "done"
    assert work.call_count == 3


async def test_a_permanent_error_is_raised() -> None:
    work = Flaky(ProduceError("no"))
    with pytest.raises(ProduceError):
        await retry(work, QUICK, timeout_s=5)
    assert work.call_count == 1


async def test_the_last_error_is_raised_after_the_timeout() -> None:
    work = Flaky(*[ConnectionLostError(str(number)) for number in range(1_000)])
    with pytest.raises(ConnectionLostError):
        await retry(work, QUICK, timeout_s=0.02)
    assert 1 < work.call_count < 1_000


async def test_the_caller_may_restrict_the_retried_errors() -> None:
    work = Flaky(ConnectionLostError("no"))
    with pytest.raises(ConnectionLostError):
        await retry(work, QUICK, timeout_s=5, may_pass=lambda _: False)


@pytest.mark.parametrize(
    ("failure_count", "dice", "expected"),
    [
        pytest.param(1, 0.5, 0.1, id="first"),
        pytest.param(2, 0.5, 0.2, id="second"),
        pytest.param(3, 0.0, 0.32, id="least jitter"),
        pytest.param(3, 1.0, 0.48, id="most jitter"),
        pytest.param(5, 0.5, 1.0, id="limited"),
        pytest.param(10_000, 0.5, 1.0, id="no overflow"),
        pytest.param(0, 0.5, 0.1, id="nothing failed yet"),
    ],
)
def test_delay(failure_count: int, dice: float, expected: float) -> None:
    backoff = Backoff(initial_s=0.1, max_s=1.0, random=lambda: dice)
    assert backoff.delay_s(failure_count) == pytest.approx(expected)

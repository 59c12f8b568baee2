"""Back-off delays grow exponentially, within jitter and limit."""

import pytest

from ottla.client.backoff import Backoff


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

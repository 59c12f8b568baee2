"""Retries an operation until it succeeds, times out or fails permanently (edge).

Invariant: the n-th delay is `initial_s * 2**(n - 1)`, limited by `max_s`, plus or minus a share of
`JITTER`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from ottla.client.errors import OttlaError

T = TypeVar("T")

GROWTH: Final = 2.0
JITTER: Final = 0.2
MAX_EXPONENT: Final = 40
"""Limit that keeps the growth from overflowing a float; every real `max_s` is far below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential back-off with jitter, as in Kafka's clients (KIP-580)."""

    initial_s: float
    max_s: float
    random: Callable[[], float]
    """Uniform within [0, 1)."""

    def delay_s(self, failure_count: int) -> float:
        """Return the delay after the `failure_count`-th failure in a row (from 1)."""
        exponent = min(max(failure_count - 1, 0), MAX_EXPONENT)
        base_s = min(self.initial_s * GROWTH**exponent, self.max_s)
        return base_s * (1 - JITTER + 2 * JITTER * self.random())


def is_retriable(error: OttlaError) -> bool:
    """Whether the error is marked as retriable."""
    return error.retriable


async def retry(
    attempt: Callable[[], Awaitable[T]],
    backoff: Backoff,
    timeout_s: float,
    may_pass: Callable[[OttlaError], bool] = is_retriable,
) -> T:
    """Return the result of `attempt`; retry it with back-off after errors that `may_pass`.

    Raises:
        OttlaError: the last error, if it is permanent or the next retry would exceed `timeout_s`.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    failure_count = 0
    while True:
        try:
            return await attempt()
        except OttlaError as error:
            failure_count += 1
            delay_s = backoff.delay_s(failure_count)
            if not may_pass(error) or loop.time() + delay_s > deadline_s:
                raise
        await asyncio.sleep(delay_s)

"""Retries an operation until it succeeds, times out or fails permanently. Edge: waits."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ottla.client.backoff import Backoff
from ottla.client.errors import OttlaError

T = TypeVar("T")


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

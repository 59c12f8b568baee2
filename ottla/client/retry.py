"""Does something again until it works, time is up or trying is pointless. Edge: waits."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ottla.client.backoff import Backoff
from ottla.client.errors import OttlaError

T = TypeVar("T")


def is_retriable(error: OttlaError) -> bool:
    """Whether the error says of itself that it may pass."""
    return error.retriable


async def retry(
    attempt: Callable[[], Awaitable[T]],
    backoff: Backoff,
    timeout_s: float,
    may_pass: Callable[[OttlaError], bool] = is_retriable,
) -> T:
    """Return what `attempt` returns, trying again after errors that `may_pass`.

    Raises:
        OttlaError: the last one, when it will not pass or `timeout_s` is over.
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

"""Waiting for what other tasks bring about. Nothing is waited for longer than its deadline."""

import asyncio
from collections.abc import Callable

DEADLINE_S = 20.0
LOOK_INTERVAL_S = 0.002


async def until(condition: Callable[[], bool], what: str = "the condition") -> None:
    """Return when `condition` holds.

    Raises:
        AssertionError: it does not within the deadline.
    """
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # noqa: ASYNC110 - what is waited for is not a thing of the loop's
                await asyncio.sleep(LOOK_INTERVAL_S)
    except TimeoutError:
        raise AssertionError(f"in vain waited for {what}") from None

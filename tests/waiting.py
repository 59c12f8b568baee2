"""Waiting for conditions that other tasks bring about, with a deadline."""

import asyncio
import time
from collections.abc import Callable

# A process of low priority gets little time on a busy machine.
DEADLINE_S = 60.0
POLL_INTERVAL_S = 0.002


async def until(condition: Callable[[], bool], name: str = "the condition") -> None:
    """Wait until `condition` holds.

    Raises:
        AssertionError: the condition does not hold within `DEADLINE_S`.
    """
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # noqa: ASYNC110 - the condition has no event to await
                await asyncio.sleep(POLL_INTERVAL_S)
    except TimeoutError:
        raise AssertionError(f"waited {DEADLINE_S} s in vain for {name}") from None


def until_sync(condition: Callable[[], bool], name: str = "the condition") -> None:
    """Wait until `condition` holds, in a test without an event loop.

    Raises:
        AssertionError: the condition does not hold within `DEADLINE_S`.
    """
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {DEADLINE_S} s in vain for {name}"
        time.sleep(POLL_INTERVAL_S)

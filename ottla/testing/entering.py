"""Starts servers from an event loop (edge)."""

import asyncio
from typing import Protocol, TypeVar


class Servers(Protocol):
    """Servers that start and stop while their caller waits."""

    def __enter__(self) -> object:
        """Start them."""

    def close(self) -> None:
        """End them."""


S = TypeVar("S", bound=Servers)


async def enter_in_thread(servers: S) -> S:
    """Start servers in a thread; a cancelled start closes them, and waits for that."""
    entering = asyncio.create_task(asyncio.to_thread(servers.__enter__))
    try:
        await asyncio.shield(entering)
    except asyncio.CancelledError:
        # The thread continues, and nothing else closes the servers: `async with` has not begun.
        await asyncio.wait([entering])
        if not entering.cancelled() and entering.exception() is None:
            await asyncio.to_thread(servers.close)
        raise
    return servers

"""Starts and ends servers from an event loop (edge).

A thread cannot be cancelled. Its caller waits for it even so: a server that nothing else knows must
not outlive a cancelled start. However often the caller is cancelled, it is so once, at the end.
"""

import asyncio
import threading
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
    entry = _Entry(servers)
    entering = asyncio.get_running_loop().run_in_executor(None, entry.enter)
    try:
        await asyncio.shield(entering)
    except asyncio.CancelledError:
        # Nothing else closes the servers: `async with` has not begun.
        if entry.abandon():
            await leave_in_thread(servers)
        else:
            await _to_the_end(entering)
        raise
    return servers


async def leave_in_thread(servers: Servers) -> None:
    """Close servers in a thread; a cancelled caller waits for that, too."""
    closing = asyncio.get_running_loop().run_in_executor(None, servers.close)
    await _to_the_end(closing)
    closing.result()


class _Entry:
    """A start in a thread, which the event loop may abandon meanwhile."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._lock = threading.Lock()
        self._has_entered = False
        self._is_abandoned = False

    def enter(self) -> None:
        """Start the servers, and close them at once if the start was abandoned; in the thread.

        The thread itself does so, because the event loop may end before it.
        """
        self._servers.__enter__()
        with self._lock:
            self._has_entered = True
            is_abandoned = self._is_abandoned
        if is_abandoned:
            self._servers.close()

    def abandon(self) -> bool:
        """Let the thread close the servers; return whether it has ended already."""
        with self._lock:
            self._is_abandoned = True
            return self._has_entered


async def _to_the_end(work: "asyncio.Future[None]") -> None:
    """Wait until `work` is done, and only then for a cancellation of the caller to take effect."""
    cancellation: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        # So that no error of the work counts as overlooked.
        work.exception()
        raise cancellation

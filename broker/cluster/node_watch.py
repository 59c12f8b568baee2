"""Repeats a read whenever a node of the coordinator changes (edge)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog

from broker.cluster.coordinator_session import CoordinatorSession
from coordination.errors import OperationError, SessionExpiredError

RETRY_S: Final = 1.0
"""Back-off after a read that has failed; it doubles up to `REREAD_S`."""
REREAD_S: Final = 60.0
"""Longest time between reads.

While a broker lacks the permission to read a node, a change uses up its watch and notifies nobody.
"""

log = structlog.get_logger(__name__)


class NodeWatch:
    """Calls `read` at the start, after each change of the node, and in each new session.

    It also reads after `REREAD_S` without a change, which sets a lost watch again. One `read` runs
    at a time; changes during it cause one more. A `read` that fails is repeated with a back-off.
    """

    def __init__(
        self, session: CoordinatorSession, path: str, read: Callable[[], Awaitable[None]]
    ) -> None:
        self._session = session
        self._path = path
        self._read = read
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, *, is_read: bool = False) -> None:
        """Read now, unless the caller has just done so, and again after each change."""
        self._session.watch(self._path, self._changed.set)
        if not is_read:
            self._changed.set()
        self._task = asyncio.create_task(self._follow(), name=f"watch of {self._path}")

    def wake(self) -> None:
        """Read once more, for a reason other than the node."""
        self._changed.set()

    async def stop(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        delay_s, failure = REREAD_S, ""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._changed.wait()
            self._changed.clear()
            try:
                await self._read()
            except SessionExpiredError:
                # The next session sets `_changed` again.
                continue
            except Exception as error:
                delay_s = min(2 * delay_s if failure else RETRY_S, REREAD_S)
                if repr(error) != failure:
                    failure = repr(error)
                    self._log(error)
            else:
                if failure:
                    log.info("watch.read_again", path=self._path)
                delay_s, failure = REREAD_S, ""

    def _log(self, error: Exception) -> None:
        if isinstance(error, OperationError):
            # Such as a missing permission, which an operator can grant.
            log.error("watch.not_read", path=self._path, error=str(error))
        else:
            # A bug in one read must not end the watch until a restart.
            log.error("watch.failed", path=self._path, exc_info=error)

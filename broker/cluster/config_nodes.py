"""The configs of topics, brokers and clients in the coordinator's nodes, and news of them (edge).

The truth lies in the nodes. Each change is announced by a notice; whoever keeps what he has read
registers for a kind of entity, and reads again what was announced. Invariants: notices are taken
one after the other, so that an older reading never replaces a newer one; one counts as taken when
all who registered have read, so that nothing is missed when a session ends meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.node_watch import NodeWatch
from controller.config_requests import (
    NO_CHANGE,
    change_config,
    read_config,
    read_entity_paths,
    take_config_changes,
)
from controller.errors import MalformedZnodeError
from controller.znodes import paths
from coordination.errors import SessionExpiredError
from kafkawire.errors import ApiError, ErrorCode

Configs = Mapping[str, str]
OnChange = Callable[[Sequence[str]], Awaitable[None]]


class ConfigNodes:
    """Reads and changes configs of any entity, such as `topics/orders`."""

    def __init__(self, session: CoordinatorSession, now_ms: Callable[[], int]) -> None:
        self.session = session
        self._now_ms = now_ms
        self._last_notice = NO_CHANGE
        self._turn = asyncio.Lock()
        self._on_change: dict[str, OnChange] = {}
        self._watch = NodeWatch(session, paths.CONFIG_CHANGES, self._take_notices)

    async def catch_up(self) -> None:
        """Learn from when on changes have to be heard of: before anything is read and kept."""
        notices = await self.session.run(take_config_changes(self._last_notice, self._now_ms()))
        self._last_notice = notices.last_number

    def on_change(self, kind: str, callback: OnChange) -> None:
        """Have `callback` told which entities of a kind, such as `topics`, were changed."""
        self._on_change[kind] = callback

    def listen(self) -> None:
        """Hear of all changes from now on."""
        self._watch.start()

    async def stop(self) -> None:
        """Hear of nothing any more."""
        await self._watch.stop()

    async def read(self, entity_path: str) -> Configs:
        """Return what an entity overrides at this moment.

        Raises:
            ApiError: the coordinator does not say.
        """
        try:
            return await self.session.run(read_config(entity_path))
        except (SessionExpiredError, MalformedZnodeError) as error:
            raise _unavailable(error) from error

    async def paths(self, kinds: Iterable[str]) -> list[str]:
        """Return the path of every entity of `kinds` that has a node at this moment.

        Raises:
            ApiError: the coordinator does not say.
        """
        try:
            return await self.session.run(read_entity_paths(kinds))
        except SessionExpiredError as error:
            raise _unavailable(error) from error

    async def change(self, entity_path: str, change: Callable[[Configs], Configs]) -> Configs:
        """Let an entity override what `change` makes of its overrides; return that.

        This broker follows it when this returns, others soon.

        Raises:
            ApiError: what `change` raises; or the coordinator does not say.
        """
        try:
            changed = await self.session.run(change_config(entity_path, change))
            await self._take_notices()
            return changed
        except (SessionExpiredError, MalformedZnodeError) as error:
            raise _unavailable(error) from error

    async def _take_notices(self) -> None:
        async with self._turn:
            notices = await self.session.run(take_config_changes(self._last_notice, self._now_ms()))
            announced: dict[str, list[str]] = {}
            for path in notices.entity_paths:
                kind, _, name = path.partition("/")
                announced.setdefault(kind, []).append(name)
            for kind, names in announced.items():
                if kind in self._on_change:
                    await self._on_change[kind](names)
            self._last_notice = notices.last_number


def _unavailable(error: Exception) -> ApiError:
    return ApiError(ErrorCode.REQUEST_TIMED_OUT, f"the coordinator did not answer: {error}")

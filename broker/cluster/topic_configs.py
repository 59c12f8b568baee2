"""What topics override, as far as this broker holds logs of them (edge).

The truth lies in the coordinator's nodes. This broker reads it when it opens or creates a log, and
again whenever a notice says that it has changed; everything else that is asked about a topic's
configs is read from there at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import structlog

from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.node_watch import NodeWatch
from controller.config_requests import (
    NO_CHANGE,
    change_config,
    read_all_topic_configs,
    read_config,
    read_topic_configs,
    take_notices,
)
from controller.errors import MalformedZnodeError
from controller.znodes import paths
from coordination.errors import SessionExpiredError
from kafkawire.errors import ApiError, ErrorCode
from storage.config import LogConfig

TOPICS: Final = "topics/"
Overrides = Mapping[str, str]

log = structlog.get_logger(__name__)


class TopicConfigs:
    """Knows the overrides of topics, and hears of changes once it listens."""

    def __init__(
        self, session: CoordinatorSession, defaults: LogConfig, now_ms: Callable[[], int]
    ) -> None:
        self._session = session
        self._defaults = defaults
        self._now_ms = now_ms
        self._overrides: dict[str, Overrides] = {}
        self._last_notice = NO_CHANGE
        # Notices are taken one after the other, so that an older reading never replaces a newer.
        self._turn = asyncio.Lock()
        self._on_change: Callable[[str, Overrides], None] = lambda _name, _overrides: None
        self._watch = NodeWatch(session, paths.CONFIG_CHANGES, self._take_notices)

    async def load(self) -> None:
        """Learn what all topics override, and from when on changes have to be heard of."""
        notices = await self._session.run(take_notices(self._last_notice, self._now_ms()))
        self._last_notice = notices.last_number
        self._overrides = dict(await self._session.run(read_all_topic_configs()))

    async def refresh(self, topics: Iterable[str]) -> None:
        """Read again what `topics` override: no notice tells that of a topic that is created."""
        wanted = set(topics)
        found = await self._session.run(read_topic_configs(wanted))
        for name in wanted:
            self._overrides.pop(name, None)
        self._overrides |= found

    def log_config(self, topic: str) -> LogConfig:
        """Return the configs of a topic's logs; an override that is not legal is left out."""
        overrides = self._overrides.get(topic)
        if not overrides:
            return self._defaults
        try:
            return LogConfig.from_properties(overrides, self._defaults)
        except ValueError as error:
            log.error("config.ignored", topic=topic, error=str(error))
            return self._defaults

    async def read(self, topic: str) -> Overrides:
        """Return what `topic` overrides at this moment.

        Raises:
            ApiError: the coordinator does not say.
        """
        try:
            return await self._session.run(read_config(TOPICS + topic))
        except (SessionExpiredError, MalformedZnodeError) as error:
            raise _unavailable(error) from error

    async def change(self, topic: str, change: Callable[[Overrides], Overrides]) -> Overrides:
        """Let `topic` override what `change` makes of its overrides; return that.

        This broker's logs follow it when this returns, those of others soon.

        Raises:
            ApiError: what `change` raises; or the coordinator does not say.
        """
        try:
            changed = await self._session.run(change_config(TOPICS + topic, change))
            await self._take_notices()
            return changed
        except (SessionExpiredError, MalformedZnodeError) as error:
            raise _unavailable(error) from error

    def listen(self, on_change: Callable[[str, Overrides], None]) -> None:
        """Tell `on_change` of every topic whose overrides change from now on."""
        self._on_change = on_change
        self._watch.start()

    async def stop(self) -> None:
        """Hear of nothing any more."""
        await self._watch.stop()

    async def _take_notices(self) -> None:
        async with self._turn:
            await self._take_notices_alone()

    async def _take_notices_alone(self) -> None:
        notices = await self._session.run(take_notices(self._last_notice, self._now_ms()))
        topics = [
            path.removeprefix(TOPICS) for path in notices.entity_paths if path.startswith(TOPICS)
        ]
        await self.refresh(topics)
        # Now, and not before: after a lost session the same notices are taken again.
        self._last_notice = notices.last_number
        for name in topics:
            log.info("config.changed", topic=name, configs=self._overrides.get(name, {}))
            self._on_change(name, self._overrides.get(name, {}))


def _unavailable(error: Exception) -> ApiError:
    return ApiError(ErrorCode.REQUEST_TIMED_OUT, f"the coordinator did not answer: {error}")

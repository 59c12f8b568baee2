"""The finalized features of the cluster, as `/feature` says and ApiVersions tells (edge).

Source: KIP-584; kafka.server.FinalizedFeatureChangeListener of Kafka 3.9.
"""

from __future__ import annotations

import asyncio

import structlog

from broker.cluster.coordinator_session import CoordinatorSession
from controller.effects import Plan, read
from controller.errors import MalformedZnodeError
from controller.znodes import paths
from controller.znodes.cluster import Features, decode_features
from coordination.errors import SessionExpiredError

log = structlog.get_logger(__name__)


class FinalizedFeatures:
    """Knows the features once it listens; None until there are some."""

    def __init__(self, session: CoordinatorSession) -> None:
        self.current: Features | None = None
        self._session = session
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def listen(self) -> None:
        """Follow the node from now on."""
        self._session.watch(paths.FEATURE, self._news.set)
        self._news.set()
        self._task = asyncio.create_task(self._listen(), name="feature-changes")

    async def stop(self) -> None:
        """Follow it no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                self.current = await self._session.run(_read_features())
            except SessionExpiredError:
                # The next session sets `_news` again.
                continue
            except MalformedZnodeError as error:
                log.error("features.not_read", error=str(error))


def _read_features() -> Plan[Features | None]:
    [node] = yield from read((paths.FEATURE,), watch=True)
    return None if node is None else decode_features(node.data, node.version)

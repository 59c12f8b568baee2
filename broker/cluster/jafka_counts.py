"""Keeps this broker's nodes in Jafka's layout equal to the metadata (edge).

They are written before the broker serves requests, after each change of the metadata, and in each
new session.
"""

from __future__ import annotations

import asyncio

import structlog

from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.metadata_cache import MetadataCache
from clusterstate.jafka_registration import publish
from clusterstate.znodes import paths
from clusterstate.znodes.jafka_nodes import JafkaBroker, counts_of, names_of
from coordination.errors import SessionExpiredError
from kafkawire.ids import BrokerId

log = structlog.get_logger(__name__)


class JafkaCounts:
    """Call `start` once, then `stop`."""

    def __init__(
        self,
        chroot: str,
        session: CoordinatorSession,
        metadata: MetadataCache,
        broker_id: BrokerId,
        broker: JafkaBroker,
    ) -> None:
        self._chroot = chroot
        self._session = session
        self._metadata = metadata
        self._broker_id = broker_id
        self._data = broker.encode()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Write the nodes, and again after each change."""
        self._session.watch(f"{self._chroot}{paths.broker(self._broker_id)}", self._changed.set)
        self._metadata.on_change(self._changed.set)
        try:
            await self._publish()
        except SessionExpiredError:
            # The next session sets `_changed`.
            log.warning("jafka.delayed", chroot=self._chroot)
        self._task = asyncio.create_task(self._follow(), name="nodes in Jafka's layout")

    async def stop(self) -> None:
        """Stop writing; the nodes end with the session."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._publish()
            except SessionExpiredError:
                continue

    async def _publish(self) -> None:
        counts = {}
        for topic in self._metadata.image.topics.values():
            if topic.is_internal:
                continue
            names = names_of({index: each.replicas for index, each in topic.partitions.items()})
            if count := counts_of(names).get(self._broker_id):
                counts[topic.name] = count
        session = self._session.client.session_id
        await self._session.run(publish(self._chroot, self._broker_id, self._data, counts, session))
        log.info("jafka.published", chroot=self._chroot, topics=len(counts))

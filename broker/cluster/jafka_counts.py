"""Keeps this broker's nodes in Jafka's layout equal to the metadata (edge).

They are written before the broker serves requests, after each change of the metadata, and in each
new session.
"""

from __future__ import annotations

import structlog

from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.node_watch import NodeWatch
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
        # The session and the counts.
        self._published: tuple[int, dict[str, int]] | None = None
        self._watch = NodeWatch(session, f"{chroot}{paths.broker(broker_id)}", self._publish)

    async def start(self) -> None:
        """Write the nodes, and again after each change."""
        self._metadata.on_change(self._watch.wake)
        try:
            await self._publish()
        except SessionExpiredError:
            log.warning("jafka.delayed", chroot=self._chroot)
            self._watch.start()
        else:
            self._watch.start(is_read=True)

    async def stop(self) -> None:
        """Stop writing; the nodes end with the session."""
        await self._watch.stop()

    async def _publish(self) -> None:
        counts: dict[str, int] = {}
        for topic in self._metadata.image.topics.values():
            if topic.is_internal:
                continue
            names = names_of({index: each.replicas for index, each in topic.partitions.items()})
            if count := counts_of(names).get(self._broker_id):
                counts[topic.name] = count
        session = self._session.client.session_id
        await self._session.run(publish(self._chroot, self._broker_id, self._data, counts, session))
        if (session, counts) != self._published:
            self._published = session, counts
            log.info("jafka.published", chroot=self._chroot, topics=len(counts))

"""The cluster's finalized features, from the node `/feature` for ApiVersions (edge).

Source: KIP-584; kafka.server.FinalizedFeatureChangeListener of Kafka 3.9.
"""

from __future__ import annotations

import structlog

from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.node_watch import NodeWatch
from clusterstate.errors import MalformedZnodeError
from clusterstate.plans import Plan, read
from clusterstate.znodes import paths
from clusterstate.znodes.cluster_node import Features, decode_features

log = structlog.get_logger(__name__)


class FinalizedFeatures:
    """Holds the features once it listens; None while there are none."""

    def __init__(self, session: CoordinatorSession) -> None:
        self.current: Features | None = None
        self._session = session
        self._error = ""
        self._watch = NodeWatch(session, paths.FEATURE, self._read)

    def listen(self) -> None:
        """Start to follow the node."""
        self._watch.start()

    async def stop(self) -> None:
        """Stop following the node."""
        await self._watch.stop()

    async def _read(self) -> None:
        error = ""
        try:
            self.current = await self._session.run(_read_features())
        except MalformedZnodeError as malformed:
            error = str(malformed)
        if error and error != self._error:
            log.error("features.not_read", error=error)
        self._error = error


def _read_features() -> Plan[Features | None]:
    [node] = yield from read((paths.FEATURE,), watch=True)
    return None if node is None else decode_features(node.data, node.version)

"""Observations of a running cluster for its table (edge): from brokers, and from /proc."""

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kafkawire.ids import TopicPartition
from ottla.cli.up.cluster_table import Observation, Usage
from ottla.client.admin.admin_topics import describe_all
from ottla.client.admin_model import OffsetSpec
from ottla.client.client_config import NO_SECURITY, ClientConfig, Security, parse_bootstrap
from ottla.client.cluster_metadata import ClusterMetadata
from ottla.client.errors import OttlaError
from ottla.client.network.cluster import Cluster
from ottla.client.network.offset_lookup import list_offsets

REQUEST_TIMEOUT_S: Final = 1.0
MAX_RATED_PARTITIONS: Final = 5_000
"""Largest number of partitions with rates; more ListOffsets work would burden the brokers."""
_USER_TIME_FIELD: Final = 11


class TableObservations:
    """A client that observes one cluster repeatedly. Its creator must call `close`."""

    def __init__(self, bootstrap: str, login: Security = NO_SECURITY) -> None:
        self._cluster = Cluster(
            ClientConfig(
                bootstrap=parse_bootstrap(bootstrap),
                client_id="ottla-up",
                security=login,
                request_timeout_ms=round(1000 * REQUEST_TIMEOUT_S),
            ),
            allow_auto_topic_creation=False,
        )

    async def close(self) -> None:
        """Disconnect."""
        await self._cluster.close()

    async def observe(self, pids: Mapping[str, int]) -> Observation:
        """Return the current state; parts that take longer than the timeout are missing."""
        metadata, offsets = None, {}
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                metadata = await describe_all(self._cluster, REQUEST_TIMEOUT_S)
                offsets = await self._end_offsets(metadata)
        except (OttlaError, TimeoutError):
            # A broker died a moment ago; the next observation has the new leaders.
            pass
        usage = {name: found for name, pid in pids.items() if (found := usage_of(pid))}
        return Observation(time.monotonic(), metadata, offsets, usage)

    async def _end_offsets(self, metadata: ClusterMetadata) -> dict[TopicPartition, int]:
        wanted = {
            TopicPartition(topic.name, number): int(OffsetSpec.LATEST)
            for topic in metadata.topics.values()
            for number in topic.available()
        }
        if not wanted or len(wanted) > MAX_RATED_PARTITIONS:
            return {}
        await self._cluster.refresh()
        found = await list_offsets(self._cluster, wanted, timeout_s=REQUEST_TIMEOUT_S)
        return {where: place.offset for where, place in found.items()}


def usage_of(pid: int) -> Usage | None:
    """Return the usage of process `pid`, or None if it has exited or the system has no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    ticks = int(fields[_USER_TIME_FIELD]) + int(fields[_USER_TIME_FIELD + 1])
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE"))

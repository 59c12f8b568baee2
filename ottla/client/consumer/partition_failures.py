"""Handles the failure of a fetch or a lookup for one partition (edge)."""

import asyncio
import logging
from collections.abc import Callable

from ottla.client.cluster_metadata import needs_metadata
from ottla.client.consumer.fetch_buffer import FetchBuffer
from ottla.client.consumer.partition_state import PartitionState
from ottla.client.errors import ConsumeError, OttlaError
from ottla.client.network.cluster import Cluster

log = logging.getLogger(__name__)


class PartitionFailures:
    """The failures of all partitions of a consumer."""

    def __init__(
        self, cluster: Cluster, buffer: FetchBuffer, on_arrival: Callable[[], None]
    ) -> None:
        """Call `on_arrival` whenever the buffer gets an error."""
        self._cluster = cluster
        self._buffer = buffer
        self._on_arrival = on_arrival
        self._loop = asyncio.get_running_loop()

    def note(self, state: PartitionState, error: OttlaError) -> None:
        """Try again after a back-off, or make the next read raise `error`."""
        retry_at_s = self._loop.time() + self._cluster.backoff.delay_s(state.failure_count + 1)
        if needs_metadata(error):
            self._cluster.request_refresh()
        if error.retriable:
            log.info("fetch.failed partition=%s error=%s", state.topic_partition, error)
            state.on_failure(retry_at_s)
        else:
            self._buffer.fail(state, error, retry_at_s)
            self._on_arrival()

    def note_internal(self, state: PartitionState, error: Exception) -> None:
        """Make the next read raise `error`, which no broker can have caused; then try again."""
        log.error("fetch.not_handled partition=%s", state.topic_partition, exc_info=error)
        raised = ConsumeError(
            f"{state.topic_partition}: {type(error).__name__} inside this client: {error}. The "
            "next read continues at the same position. Please report this error."
        )
        raised.__cause__ = error
        self.note(state, raised)

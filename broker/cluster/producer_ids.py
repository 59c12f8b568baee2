"""Ids for idempotent producers, unique in the cluster (edge).

The controller allocates each block of ids once (`/latest_producer_id_block`). A broker requests its
first block at the start, so that producers can begin while there is no controller, and each further
block before the current one is used up. Ids that are left when the broker stops are never used.

Source: KIP-730; kafka.coordinator.transaction.RPCProducerIdManager of Kafka 3.9.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from broker.cluster.controller_link import ControllerLink
from kafkawire.errors import ApiError, ErrorCode, name_of
from kafkawire.ids import BrokerId, ProducerId
from kafkawire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

PREFETCH_SHARE: Final = 0.9
"""Used share of a block at which the next one is requested."""
RETRY_BACKOFF_S: Final = 0.05
MAX_WAIT_S: Final = 5.0
"""Longest wait of a producer for an id before it gets a retriable error."""

MAX_PRODUCER_ID: Final = 2**63 - 1

log = structlog.get_logger(__name__)


class ProducerIds:
    """Hands out ids from blocks that the controller allocates."""

    def __init__(
        self, broker_id: BrokerId, broker_epoch: Callable[[], int], controller: ControllerLink
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._block = range(0)
        self._next_block = range(0)
        self._used_count = 0
        self._fetching: asyncio.Task[None] | None = None
        self._last_failure = ""

    def start(self) -> None:
        """Request the first block, before a producer needs an id."""
        self._fetch()

    async def allocate(self) -> ProducerId:
        """Return a fresh id.

        Raises:
            ApiError: COORDINATOR_LOAD_IN_PROGRESS, as no controller has allocated a block in time.
        """
        while self._used_count == len(self._block):
            if self._next_block:
                self._block, self._next_block, self._used_count = self._next_block, range(0), 0
                break
            fetching = self._fetch()
            done, _ = await asyncio.wait([fetching], timeout=MAX_WAIT_S)
            if not done:
                text = f"the controller has allocated no producer ids within {MAX_WAIT_S:g} s"
                raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, text)
        allocated = self._block[self._used_count]
        self._used_count += 1
        if self._used_count >= len(self._block) * PREFETCH_SHARE and not self._next_block:
            self._fetch()
        return ProducerId(allocated)

    async def stop(self) -> None:
        """Stop requesting blocks."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)

    def _fetch(self) -> asyncio.Task[None]:
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.create_task(self._fetch_block(), name="producer-ids")
        return self._fetching

    async def _fetch_block(self) -> None:
        while not self._next_block:
            block = await self._request_block()
            if block is None:
                await asyncio.sleep(RETRY_BACKOFF_S)
            else:
                self._next_block = block

    async def _request_block(self) -> range | None:
        """Return a block, None if no controller allocates one now."""
        request = AllocateProducerIdsRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch()
        )
        try:
            response = await self._controller.ask(request, AllocateProducerIdsResponse)
        except OSError as error:
            self._log_failure(str(error))
            return None
        if response.error_code != ErrorCode.NONE:
            self._log_failure(name_of(response.error_code))
            return None
        first = response.producer_id_start
        block = range(first, first + response.producer_id_len)
        refusal = reason_to_refuse(block, self._block.stop)
        if refusal is not None:
            self._log_failure(f"the block of {response.producer_id_len} ids from {first} {refusal}")
            return None
        self._last_failure = ""
        log.info("producer_ids.allocated", first=first, count=response.producer_id_len)
        return block

    def _log_failure(self, error: str) -> None:
        """Log a failure once, not at each of twenty retries per second."""
        if error != self._last_failure:
            self._last_failure = error
            log.info("producer_ids.not_allocated", error=error)


def reason_to_refuse(block: range, end_id: int) -> str | None:
    """Return the reason not to use `block` after earlier ids, all below `end_id`; None if it fits.

    Two producers with one id would lose records: a broker takes the batches of one for duplicates
    of the other's.
    """
    if not block:
        return "is empty"
    if block.start < end_id:
        return f"begins below {end_id}"
    if block[-1] > MAX_PRODUCER_ID:
        return f"ends above {MAX_PRODUCER_ID}"
    return None

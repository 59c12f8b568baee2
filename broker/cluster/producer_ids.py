"""Ids for idempotent producers, none ever given out twice in the cluster (edge).

The controller gives out blocks of ids, each once (`/latest_producer_id_block`); a broker takes one
when it starts, so that producers can begin while there is no controller, gives out the ids in it,
and asks for the next one before the last is used up. What is left of a block
when the broker stops is never used.

Source: KIP-730; kafka.coordinator.transaction.RPCProducerIdManager of Kafka 3.9.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from broker.cluster.controller_link import ControllerLink
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId, ProducerId
from kafkawire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

PREFETCH_SHARE: Final = 0.9
"""The next block is asked for when this share of a block is used."""
RETRY_BACKOFF_S: Final = 0.05
MAX_WAIT_S: Final = 5.0
"""How long a producer waits for an id before it is told to come back."""

log = structlog.get_logger(__name__)


class ProducerIds:
    """Gives out ids from blocks that the controller allocates."""

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
        self._last_trouble = ""

    def start(self) -> None:
        """Ask for the first block, before there is a producer that wants an id."""
        self._fetch()

    async def allocate(self) -> ProducerId:
        """Return a fresh id.

        Raises:
            ApiError: COORDINATOR_LOAD_IN_PROGRESS: no controller has given a block in time.
        """
        while self._used_count == len(self._block):
            if self._next_block:
                self._block, self._next_block, self._used_count = self._next_block, range(0), 0
                break
            fetching = self._fetch()
            done, _ = await asyncio.wait([fetching], timeout=MAX_WAIT_S)
            if not done:
                text = "the controller gives out no producer ids at the moment"
                raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, text)
        allocated = self._block[self._used_count]
        self._used_count += 1
        if self._used_count >= len(self._block) * PREFETCH_SHARE and not self._next_block:
            self._fetch()
        return ProducerId(allocated)

    async def stop(self) -> None:
        """Ask for nothing any more."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)
        await self._controller.close()

    def _fetch(self) -> asyncio.Task[None]:
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.create_task(self._ask_until_given(), name="producer-ids")
        return self._fetching

    async def _ask_until_given(self) -> None:
        while not self._next_block:
            block = await self._ask()
            if block is None:
                await asyncio.sleep(RETRY_BACKOFF_S)
            else:
                self._next_block = block

    async def _ask(self) -> range | None:
        """Return a block, None if there is none to be had just now."""
        request = AllocateProducerIdsRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch()
        )
        try:
            answer = await self._controller.ask(request, AllocateProducerIdsResponse)
        except OSError as error:
            self._tell_trouble(str(error))
            return None
        if answer.error_code != ErrorCode.NONE or answer.producer_id_len <= 0:
            self._tell_trouble(ErrorCode(answer.error_code).name)
            return None
        self._last_trouble = ""
        first = answer.producer_id_start
        log.info("producer_ids.allocated", first=first, count=answer.producer_id_len)
        return range(first, first + answer.producer_id_len)

    def _tell_trouble(self, error: str) -> None:
        """Say why there is no block: once, not at each of twenty tries in a second."""
        if error != self._last_trouble:
            self._last_trouble = error
            log.info("producer_ids.not_allocated", error=error)

"""Accepts a controller's request only if the coordinator confirms the sender (edge).

A claim (controller, its epoch, this broker's epoch, the sender's address) is checked once; later
requests with the same claim pass at once. A claim older than the nodes is refused for good. A claim
newer than the nodes, or from an address that is not the controller's, is indistinguishable from a
forgery: its connection is closed, so a real controller sends the request again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Final, NamedTuple

import structlog

from broker.cluster.control_fence import ControlFence
from broker.cluster.peer_addresses import PeerAddresses, Sender
from clusterstate.control_claim import Claim, Evidence, is_ahead, refuse
from coordination.errors import SessionExpiredError
from kafkawire.errors import ErrorCode
from kafkawire.sentinels import UNKNOWN_BROKER_EPOCH

LOOK_COUNT: Final = 5
"""Number of reads of the nodes for a claim that is newer than they are."""
LOOK_PAUSE_S: Final = 0.1
"""Pause between these reads."""

log = structlog.get_logger(__name__)


class _Known(NamedTuple):
    claim: Claim
    listener_name: str
    client_host: str


class ControlProof:
    """Remembers the last confirmed claim."""

    def __init__(
        self,
        look: Callable[[], Coroutine[object, object, Evidence]],
        fence: ControlFence,
        addresses: PeerAddresses,
    ) -> None:
        """Read the nodes with `look`."""
        self._look = look
        self._fence = fence
        self._addresses = addresses
        self._confirmed: _Known | None = None
        # The last read, which may be in progress.
        self._looking: asyncio.Task[Evidence] | None = None

    def is_known(self, claim: Claim, sender: Sender) -> bool:
        """Whether the claim is confirmed, or so old that the fence refuses it anyway."""
        if claim.controller_epoch < self._fence.controller_epoch:
            return True
        if UNKNOWN_BROKER_EPOCH < claim.broker_epoch < self._fence.broker_epoch:
            return True
        return self.is_confirmed(claim, sender)

    def is_confirmed(self, claim: Claim, sender: Sender) -> bool:
        """Whether the claim is the last one that was confirmed."""
        return self._confirmed == _Known(claim, sender.listener_name, sender.client_host)

    async def check(self, claim: Claim, sender: Sender) -> ErrorCode | None:
        """Check the claim of a request against the nodes.

        Returns NONE if it is confirmed, another code to refuse it, None if it can be neither.
        """
        for count in range(LOOK_COUNT):
            try:
                evidence = await self._look_together(accepts_past=not count)
            except SessionExpiredError:
                # The registration that the controller refers to ended with the session.
                return ErrorCode.STALE_BROKER_EPOCH
            refusal = refuse(claim, evidence)
            if refusal is None:
                return await self._check_sender(claim, sender, evidence)
            if not is_ahead(claim, evidence):
                return refusal
            if count:
                await asyncio.sleep(LOOK_PAUSE_S)
        log.warning("control_request.unproven", client_host=sender.client_host, **claim._asdict())
        return None

    def look_ahead(self) -> None:
        """Read the nodes after an election, before the first request of the new controller."""
        self._start_look()

    async def stop(self) -> None:
        """Cancel a pending read."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])

    async def _check_sender(
        self, claim: Claim, sender: Sender, evidence: Evidence
    ) -> ErrorCode | None:
        if not await self._addresses.is_from(sender, evidence.hosts):
            log.warning(
                "control_request.from_elsewhere",
                client_host=sender.client_host,
                controller_hosts=evidence.hosts,
            )
            return None
        self._confirmed = _Known(claim, sender.listener_name, sender.client_host)
        return ErrorCode.NONE

    async def _look_together(self, *, accepts_past: bool) -> Evidence:
        """Read the nodes. Concurrent callers share one read.

        With `accepts_past`, the last read is good enough: controller epochs and broker epochs only
        grow, so its confirmations and refusals stay valid.
        """
        looking = self._looking
        if looking is None or (looking.done() and not (accepts_past and _has_succeeded(looking))):
            looking = self._start_look()
        return await asyncio.shield(looking)

    def _start_look(self) -> asyncio.Task[Evidence]:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="look-for-controller")
            # Nobody may be waiting for it.
            self._looking.add_done_callback(_has_succeeded)
        return self._looking


def _has_succeeded(task: asyncio.Task[Evidence]) -> bool:
    return not task.cancelled() and task.exception() is None

"""Lets a request of a controller through only if the coordinator confirms the sender (edge).

A claim (controller, its epoch, the epoch of this broker, the sender's address) is checked once; the
requests that repeat it pass at once. One that is behind the nodes is refused for good. One that is
ahead of them, or whose sender is reached elsewhere, cannot be told from a forgery: its connection
is closed, which has a real controller send it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol

import structlog

from broker.cluster.peer_addresses import PeerAddresses
from broker.replication.control_fence import UNKNOWN_BROKER_EPOCH, ControlFence
from controller.control_claim import Claim, Evidence, is_ahead, refuse
from coordination.errors import SessionExpiredError
from kafkawire.errors import ErrorCode

LOOK_COUNT: Final = 5
LOOK_PAUSE_S: Final = 0.1
"""How often, and how long apart, the nodes are looked at for a claim that is ahead of them."""

log = structlog.get_logger(__name__)


class ControlRequest(Protocol):
    """The common fields of LeaderAndIsr, StopReplica and UpdateMetadata."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int


class Sender(Protocol):
    """Where a request came from."""

    @property
    def listener_name(self) -> str:
        """Name of the listener that it came by."""

    @property
    def client_host(self) -> str:
        """Address of the client that sent it."""


class _Known(NamedTuple):
    claim: Claim
    listener_name: str
    client_host: str


class ControlProof:
    """Knows the claim that was confirmed last."""

    def __init__(
        self,
        look: Callable[[], Awaitable[Evidence]],
        fence: ControlFence,
        addresses: PeerAddresses,
    ) -> None:
        """`look` reads the nodes."""
        self._look = look
        self._fence = fence
        self._addresses = addresses
        self._confirmed: _Known | None = None
        self._looking: asyncio.Task[Evidence] | None = None

    def is_known(self, message: ControlRequest, sender: Sender) -> bool:
        """Whether the claim is confirmed, or so old that the fence refuses it anyway."""
        claim = _claim_of(message)
        if claim.controller_epoch < self._fence.controller_epoch:
            return True
        if UNKNOWN_BROKER_EPOCH < claim.broker_epoch < self._fence.broker_epoch:
            return True
        return self._confirmed == _Known(claim, sender.listener_name, sender.client_host)

    async def check(self, message: ControlRequest, sender: Sender) -> ErrorCode | None:
        """Confirm the claim of a request: NONE. Any other code refuses it, None cannot tell."""
        claim = _claim_of(message)
        for _ in range(LOOK_COUNT):
            try:
                evidence = await self._look_together()
            except SessionExpiredError:
                # With it went the registration that the controller means.
                return ErrorCode.STALE_BROKER_EPOCH
            refusal = refuse(claim, evidence)
            if refusal is None:
                return await self._check_sender(claim, sender, evidence)
            if not is_ahead(claim, evidence):
                return refusal
            await asyncio.sleep(LOOK_PAUSE_S)
        log.warning("control_request.unproven", client_host=sender.client_host, **claim._asdict())
        return None

    async def stop(self) -> None:
        """Look no more."""
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

    async def _look_together(self) -> Evidence:
        """Read the nodes; however many wait for it, they are read once at a time."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look())
        return await asyncio.shield(self._looking)


def _claim_of(message: ControlRequest) -> Claim:
    return Claim(message.controller_id, message.controller_epoch, message.broker_epoch)

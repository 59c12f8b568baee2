"""Guards for requests between brokers: only brokers may send them (edge)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from broker.cluster.control_proof import ControlProof, ControlRequest
from broker.cluster.peer_addresses import PeerAddresses
from broker.network.reply import Reply
from broker.network.request_channel import Request
from broker.network.request_tasks import CloseConnection, RequestTasks
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId

Handle = Callable[[Request, Any], Reply]


class FromController:
    """Guards `handle` against senders other than the controller; `refused` makes the refusal."""

    def __init__(
        self,
        proof: ControlProof,
        tasks: RequestTasks,
        handle: Handle,
        refused: Callable[[ErrorCode], object],
    ) -> None:
        self._proof = proof
        self._tasks = tasks
        self._handle = handle
        self._refused = refused

    def handle(self, request: Request, message: ControlRequest) -> Reply:
        """Call the guarded handler, now or once the sender is proven to be the controller."""
        if self._proof.is_known(message, request):
            return self._handle(request, message)
        return self._tasks.run(partial(self._check, request, message))

    async def _check(self, request: Request, message: ControlRequest) -> object:
        code = await self._proof.check(message, request)
        if code is None:
            raise CloseConnection("cannot verify that the controller has sent the request")
        if code is not ErrorCode.NONE:
            return self._refused(code)
        return await _message(self._handle(request, message))


class AsksController(Protocol):
    """The common fields of AlterPartition, ControlledShutdown and AllocateProducerIds."""

    broker_id: int


class FromBroker:
    """Guards `handle` against senders other than brokers; `refused` makes the refusal."""

    def __init__(
        self, addresses: PeerAddresses, handle: Handle, refused: Callable[[ErrorCode], object]
    ) -> None:
        self._addresses = addresses
        self._handle = handle
        self._refused = refused

    def handle(self, request: Request, message: AsksController) -> Reply:
        """Call the guarded handler, or respond with CLUSTER_AUTHORIZATION_FAILED."""
        if self._addresses.may_be(BrokerId(message.broker_id), request):
            return self._handle(request, message)
        return Reply(self._refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))


async def _message(reply: Reply) -> object:
    """Wait until a reply is complete; return its message."""
    if not reply.is_done:
        done = asyncio.get_running_loop().create_future()
        reply.on_done(partial(done.set_result, None))
        await done
    if reply.message is None:
        raise CloseConnection(reply.close_reason)
    return reply.message

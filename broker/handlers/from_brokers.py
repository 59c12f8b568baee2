"""Guards for requests between brokers: only brokers may send them (edge)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from broker.cluster.control_proof import ControlProof, ControlRequest
from broker.cluster.peer_addresses import PeerAddresses
from broker.handlers.handler_table import Parts
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import CloseConnection, RequestTasks
from broker.network.router import Handler
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId

Refusal = Callable[..., object]
"""The type of an API's response, which has a field `error_code`."""


def from_controller(parts: Parts, handle: Handler, refusal: Refusal) -> Handler:
    """Return `handle`, guarded against senders other than the controller."""
    return FromController(parts.proof, parts.tasks, handle, refusal).handle


def from_broker(parts: Parts, handle: Handler, refusal: Refusal) -> Handler:
    """Return `handle`, guarded against senders other than brokers."""
    return FromBroker(parts.peers, handle, refusal).handle


class FromController:
    """Guards `handle` against senders other than the controller."""

    def __init__(
        self, proof: ControlProof, tasks: RequestTasks, handle: Handler, refusal: Refusal
    ) -> None:
        self._proof = proof
        self._tasks = tasks
        self._handle = handle
        self._refusal = refusal

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
            return self._refusal(error_code=code)
        return await _message(self._handle(request, message))


class AsksController(Protocol):
    """The common fields of AlterPartition, ControlledShutdown and AllocateProducerIds."""

    broker_id: int


class FromBroker:
    """Guards `handle` against senders other than brokers."""

    def __init__(self, addresses: PeerAddresses, handle: Handler, refusal: Refusal) -> None:
        self._addresses = addresses
        self._handle = handle
        self._refusal = refusal

    def handle(self, request: Request, message: AsksController) -> Reply:
        """Call the guarded handler, or respond with CLUSTER_AUTHORIZATION_FAILED."""
        if self._addresses.may_be(BrokerId(message.broker_id), request):
            return self._handle(request, message)
        return Reply(self._refusal(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))


async def _message(reply: Reply) -> object:
    """Wait until a reply is complete; return its message."""
    if not reply.is_done:
        done = asyncio.get_running_loop().create_future()
        reply.on_done(partial(done.set_result, None))
        await done
    if reply.message is None:
        raise CloseConnection(reply.close_reason)
    return reply.message

"""Guards for requests between brokers: only brokers may send them (edge)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

from broker.cluster.control_proof import ControlProof
from broker.cluster.controller_role import ControllerRole
from broker.cluster.peer_addresses import PeerAddresses
from broker.handlers.handler_table import Parts
from broker.network.receive_memory import ReceiveMemoryExhaustedError
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import CloseConnection, RequestTasks
from broker.network.router import Handler
from clusterstate.control_claim import NO_EPOCH, Claim
from kafkawire.apis import APIS, ApiKey
from kafkawire.errors import DecodeError, ErrorCode
from kafkawire.ids import BrokerId
from kafkawire.schema import leading_numbers

Refusal = Callable[..., object]
"""The type of an API's response, which has a field `error_code`."""


def from_controller(parts: Parts, handle: Handler, refusal: Refusal) -> Handler:
    """Return `handle`, guarded against senders other than the controller."""
    return FromController(parts.proof, parts.tasks, handle, refusal).handle


def from_broker(parts: Parts, handle: Handler, refusal: Refusal) -> Handler:
    """Return `handle`, guarded against senders other than brokers."""
    return FromBroker(parts.peers, handle, refusal).handle


class ControlRequest(Protocol):
    """The common fields of LeaderAndIsr, StopReplica and UpdateMetadata."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int


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
        claim = Claim(message.controller_id, message.controller_epoch, message.broker_epoch)
        if self._proof.is_known(claim, request):
            return self._handle(request, message)
        return self._tasks.run(partial(self._check, claim, request, message))

    async def _check(self, claim: Claim, request: Request, message: ControlRequest) -> object:
        code = await prove(self._proof, claim, request)
        if code is not ErrorCode.NONE:
            return self._refusal(error_code=code)
        return self._handle(request, message)


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


class LargeRequests:
    """Admits large requests between brokers, by the first fields, before they are decoded.

    Their senders know a broker epoch, which clients never receive.
    """

    def __init__(
        self, proof: ControlProof, controller: ControllerRole, tasks: RequestTasks
    ) -> None:
        self._proof = proof
        self._controller = controller
        self._tasks = tasks

    def admit(self, request: Request, handle_body: Callable[[memoryview], Reply]) -> Reply:
        """Call `handle_body`, now or once the sender is proven, or refuse the request.

        A request whose connection is lost before the proof is not decoded: its sender repeats it.
        """
        key = ApiKey(request.header.api_key)
        refusal = cast(Refusal, APIS[key].response)
        try:
            fields = leading_numbers(APIS[key].request, request.body, request.header.api_version)
            broker_epoch = fields.get("broker_epoch", NO_EPOCH)
            if key is ApiKey.ALTER_PARTITION:
                code = self._controller.check_sender(BrokerId(fields["broker_id"]), broker_epoch)
                if code is not ErrorCode.NONE:
                    return Reply(refusal(error_code=code))
                return handle_body(request.body)
            claim = Claim(fields["controller_id"], fields["controller_epoch"], broker_epoch)
            if self._proof.is_confirmed(claim, request):
                return handle_body(request.body)
            body, release = request.take_body()
        except (DecodeError, ReceiveMemoryExhaustedError) as error:
            return Reply.close(str(error))

        async def check() -> object:
            try:
                code = await prove(self._proof, claim, request)
                if reply.cancelled:
                    raise CloseConnection("the connection was lost before the proof of its sender")
                if code is not ErrorCode.NONE:
                    return refusal(error_code=code)
                return handle_body(body)
            finally:
                release()

        reply = self._tasks.run(check)
        return reply


async def prove(proof: ControlProof, claim: Claim, request: Request) -> ErrorCode:
    """Return NONE if the controller has sent a request, or the code of its refusal.

    Raises:
        CloseConnection: neither is certain.
    """
    code = await proof.check(claim, request)
    if code is None:
        raise CloseConnection("cannot verify that the controller has sent the request")
    return code

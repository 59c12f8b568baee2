"""Guards of requests between brokers: `broker.handlers.from_brokers`."""

import asyncio
from typing import cast

import pytest

from broker.cluster.control_fence import ControlFence
from broker.cluster.control_proof import ControlProof
from broker.cluster.controller_role import ControllerRole
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.peer_addresses import PeerAddresses
from broker.handlers.from_brokers import FromBroker, FromController, LargeRequests
from broker.network.receive_memory import ReceiveMemoryExhaustedError
from broker.network.reply import Reply, ReplyState
from broker.network.request import Connection, Request
from broker.network.request_tasks import RequestTasks
from clusterstate.control_claim import Claim, Evidence
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId
from kafkawire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kafkawire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kafkawire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkawire.messages.update_metadata import UpdateMetadataRequest
from tests.unit.broker.replicas import turn
from tests.unit.broker.requests import request
from tests.waiting import until

MESSAGE = UpdateMetadataRequest(topic_states=[], live_brokers=[])
REQUEST = request(ApiKey.UPDATE_METADATA, 8, MESSAGE)


class Judge:
    """A fake of the control proof and the peer addresses."""

    def __init__(self, code: ErrorCode | None, *, is_known: bool = False) -> None:
        self.code = code
        self.known = is_known
        self.claims: list[Claim] = []

    def is_known(self, *_: object) -> bool:
        return self.known

    def is_confirmed(self, claim: Claim, *_: object) -> bool:
        self.claims.append(claim)
        return self.known

    def may_be(self, *_: object) -> bool:
        return self.known

    async def check(self, *_: object) -> ErrorCode | None:
        await asyncio.sleep(0)
        return self.code


class Handler:
    def __init__(self) -> None:
        self.reply = Reply()
        self.handled = 0

    def handle(self, request: Request, message: object) -> Reply:
        del request, message
        self.handled += 1
        return self.reply


def refuse(error_code: ErrorCode) -> str:
    return error_code.name


def guarded(judge: Judge, handler: Handler) -> tuple[Reply, RequestTasks]:
    tasks = RequestTasks(asyncio.get_running_loop())
    guard = FromController(cast(ControlProof, judge), tasks, handler.handle, refuse)
    return guard.handle(REQUEST, MESSAGE), tasks


async def test_a_request_of_a_known_controller_is_handled_at_once() -> None:
    handler = Handler()
    reply, _ = guarded(Judge(None, is_known=True), handler)
    assert reply is handler.reply


async def test_a_request_of_a_controller_is_handled_once_it_is_proven() -> None:
    handler = Handler()
    reply, _ = guarded(Judge(ErrorCode.NONE), handler)
    await turn()
    assert (handler.handled, reply.is_done) == (1, False)
    handler.reply.complete("done")
    await turn()
    assert reply.message == "done"


async def test_a_complete_reply_is_passed_on() -> None:
    handler = Handler()
    handler.reply.complete("done")
    reply, _ = guarded(Judge(ErrorCode.NONE), handler)
    await turn()
    assert reply.message == "done"


async def test_a_refusal_names_its_code() -> None:
    handler = Handler()
    reply, _ = guarded(Judge(ErrorCode.STALE_CONTROLLER_EPOCH), handler)
    await turn()
    assert (reply.message, handler.handled) == ("STALE_CONTROLLER_EPOCH", 0)


async def test_the_connection_of_an_unproven_sender_is_closed() -> None:
    handler = Handler()
    reply, _ = guarded(Judge(None), handler)
    await turn()
    assert (reply.state, handler.handled) == (ReplyState.CLOSE, 0)


async def test_a_closing_reply_of_the_handler_closes_the_connection() -> None:
    handler = Handler()
    handler.reply.complete_by_closing("the broker stops")
    reply, _ = guarded(Judge(ErrorCode.NONE), handler)
    await turn()
    assert reply.state is ReplyState.CLOSE


async def test_a_connection_whose_sender_is_being_proven_is_closed_at_the_stop() -> None:
    reply, tasks = guarded(Judge(ErrorCode.NONE), Handler())
    await tasks.stop()
    assert reply.state is ReplyState.CLOSE


async def test_a_connection_lost_meanwhile_gets_no_response() -> None:
    reply, _ = guarded(Judge(None), Handler())
    reply.cancel()
    await turn()
    assert reply.cancelled


async def test_a_stranger_may_not_send_requests_in_a_brokers_name() -> None:
    message = AllocateProducerIdsRequest(broker_id=2, broker_epoch=5)
    for is_known, handled in ((True, 1), (False, 0)):
        handler = Handler()
        addresses = cast(PeerAddresses, Judge(None, is_known=is_known))
        guard = FromBroker(addresses, handler.handle, refuse)
        reply = guard.handle(request(ApiKey.ALLOCATE_PRODUCER_IDS, 0, message), message)
        assert handler.handled == handled
        assert reply is handler.reply or reply.message == "CLUSTER_AUTHORIZATION_FAILED"


class Body:
    """The continuation of the router: it notes the bodies that it decodes."""

    def __init__(self) -> None:
        self.handled: list[bytes] = []
        self.reply = Reply("done")

    def handle(self, body: memoryview) -> Reply:
        self.handled.append(bytes(body))
        return self.reply


class Memory:
    """A connection that keeps bodies, as long as there is room."""

    listener_name, client_host = "PLAINTEXT", "127.0.0.1"

    def __init__(self, *, is_full: bool = False) -> None:
        self.is_full = is_full
        self.kept_count = 0

    def keep(self, kept: Request) -> None:
        if self.is_full:
            raise ReceiveMemoryExhaustedError("no room for the request")
        self.kept_count += 1
        kept.release = self.drop

    def drop(self) -> None:
        self.kept_count -= 1


class Controller:
    """A fake of the controller's role, which knows broker 1 with epoch 50."""

    def check_sender(self, broker_id: int, broker_epoch: int) -> ErrorCode:
        is_known = (broker_id, broker_epoch) == (1, 50)
        return ErrorCode.NONE if is_known else ErrorCode.STALE_BROKER_EPOCH


def admitted(
    judge: Judge, body: Body, asked: Request, memory: Memory | None = None
) -> tuple[Reply, RequestTasks]:
    asked.queue.connection = cast(Connection, memory or Memory())
    tasks = RequestTasks(asyncio.get_running_loop())
    large = LargeRequests(cast(ControlProof, judge), cast(ControllerRole, Controller()), tasks)
    return large.admit(asked, body.handle), tasks


def stop_replica() -> Request:
    message = StopReplicaRequest(
        controller_id=1, controller_epoch=7, broker_epoch=50, topic_states=[]
    )
    return request(ApiKey.STOP_REPLICA, 3, message)


async def test_large_request_of_a_confirmed_controller_is_decoded_at_once() -> None:
    body, asked = Body(), stop_replica()
    judge = Judge(None, is_known=True)
    reply, _ = admitted(judge, body, asked)
    assert (reply.message, body.handled) == ("done", [bytes(asked.body)])
    assert judge.claims == [Claim(1, 7, 50)]


async def test_large_request_is_kept_until_its_sender_is_proven() -> None:
    body, asked, memory = Body(), stop_replica(), Memory()
    content = bytes(asked.body)
    reply, _ = admitted(Judge(ErrorCode.NONE), body, asked, memory)
    asked.give_back()
    assert (body.handled, memory.kept_count) == ([], 1)
    await turn()
    assert (reply.message, body.handled, memory.kept_count) == ("done", [content], 0)


@pytest.mark.parametrize("code", [ErrorCode.STALE_CONTROLLER_EPOCH, None])
async def test_large_request_of_anybody_else_is_never_decoded(code: ErrorCode | None) -> None:
    body, memory = Body(), Memory()
    reply, _ = admitted(Judge(code), body, stop_replica(), memory)
    await turn()
    assert (body.handled, memory.kept_count) == ([], 0)
    if code is None:
        assert reply.state is ReplyState.CLOSE
    else:
        assert isinstance(reply.message, StopReplicaResponse)
        assert reply.message.error_code == code


class Pause(Judge):
    """A proof that does not end before `is_over`, as in a process that is stopped meanwhile."""

    def __init__(self, code: ErrorCode | None) -> None:
        super().__init__(code)
        self.is_over = asyncio.Event()

    async def check(self, *_: object) -> ErrorCode | None:
        await self.is_over.wait()
        return self.code


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.STALE_BROKER_EPOCH, None])
async def test_large_request_whose_connection_is_lost_meanwhile_is_not_decoded(
    code: ErrorCode | None,
) -> None:
    """The controller has given it up, and sends it again on its next connection."""
    body, memory, pause = Body(), Memory(), Pause(code)
    reply, tasks = admitted(pause, body, stop_replica(), memory)
    await turn()
    assert memory.kept_count == 1
    reply.cancel()
    pause.is_over.set()
    await turn()
    assert (body.handled, memory.kept_count, reply.cancelled) == ([], 0, True)
    await tasks.stop()


async def test_stop_gives_back_the_memory_of_a_large_request_that_waits_for_its_proof() -> None:
    body, memory = Body(), Memory()
    reply, tasks = admitted(Pause(ErrorCode.NONE), body, stop_replica(), memory)
    await turn()
    await tasks.stop()
    assert (body.handled, memory.kept_count, reply.state) == ([], 0, ReplyState.CLOSE)


async def test_large_request_that_waited_while_another_controller_came_meets_the_fence() -> None:
    """Its proof was read before the pause, so it is decoded; no part of it is applied."""
    fence, looked = ControlFence(50), asyncio.Event()
    refusals: list[ErrorCode | None] = []

    async def look() -> Evidence:
        await looked.wait()
        return Evidence(BrokerId(1), 7, 50, ("127.0.0.1",))

    def handle(_body: memoryview) -> Reply:
        refusals.append(fence.refuse(7, 50, 1))
        return Reply("done")

    addresses = PeerAddresses(MetadataCache(), (), loop=asyncio.get_running_loop())
    proof, asked = ControlProof(look, fence, addresses), stop_replica()
    memory = Memory()
    asked.queue.connection = cast(Connection, memory)
    tasks = RequestTasks(asyncio.get_running_loop())
    large = LargeRequests(proof, cast(ControllerRole, Controller()), tasks)
    reply = large.admit(asked, handle)
    await turn()
    assert fence.refuse(8, 50, 2) is None
    looked.set()
    await until(lambda: reply.is_done)
    assert (refusals, memory.kept_count) == ([ErrorCode.STALE_CONTROLLER_EPOCH], 0)
    await proof.stop()


async def test_large_request_without_memory_to_keep_it_closes_the_connection() -> None:
    reply, _ = admitted(Judge(ErrorCode.NONE), Body(), stop_replica(), Memory(is_full=True))
    assert reply.close_reason == "no room for the request"


async def test_large_request_that_ends_before_its_claim_closes_the_connection() -> None:
    reply, _ = admitted(Judge(ErrorCode.NONE), Body(), request(ApiKey.STOP_REPLICA, 3, bytes(15)))
    assert reply.close_reason == "StopReplicaRequest v3 is too short"


@pytest.mark.parametrize(("epoch", "is_admitted"), [(50, True), (49, False)])
async def test_large_proposals_come_from_registered_brokers(epoch: int, is_admitted: bool) -> None:
    body = Body()
    message = AlterPartitionRequest(broker_id=1, broker_epoch=epoch, topics=[])
    reply, _ = admitted(Judge(None), body, request(ApiKey.ALTER_PARTITION, 0, message))
    assert bool(body.handled) is is_admitted
    if not is_admitted:
        assert reply.message == AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)

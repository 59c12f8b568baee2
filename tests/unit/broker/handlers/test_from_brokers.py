"""Guards of requests between brokers: `broker.handlers.from_brokers`."""

import asyncio
from typing import cast

from broker.cluster.control_proof import ControlProof
from broker.cluster.peer_addresses import PeerAddresses
from broker.handlers.from_brokers import FromBroker, FromController
from broker.network.reply import Reply, ReplyState
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kafkawire.messages.update_metadata import UpdateMetadataRequest
from tests.unit.broker.replicas import turn
from tests.unit.broker.requests import request

MESSAGE = UpdateMetadataRequest(topic_states=[], live_brokers=[])
REQUEST = request(ApiKey.UPDATE_METADATA, 8, MESSAGE)


class Judge:
    """A fake of the control proof and the peer addresses."""

    def __init__(self, code: ErrorCode | None, *, is_known: bool = False) -> None:
        self.code = code
        self.known = is_known

    def is_known(self, *_: object) -> bool:
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

"""Requests that are lost, or too large for a coordinator: `clusterstate.coordinator_edge`."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import pytest

from clusterstate.coordinator_edge import READS_PER_REQUEST, RETRY_BACKOFF_S, CoordinatorEdge
from clusterstate.plans import (
    Children,
    Create,
    ListChildren,
    Nodes,
    Outcome,
    Outcomes,
    Read,
    Refusal,
    Write,
)
from coordination.client import Client, SessionState
from coordination.client.client_connection import MAX_REPLY_BYTES
from coordination.errors import (
    ConnectionLossError,
    ErrorCode,
    RequestTooLargeError,
    ResponseTooLargeError,
)
from coordination.protocol import frames
from coordination.protocol.messages import OPEN_ACL, Acl, GetDataResponse, OpCode, Stat
from coordination.protocol.multi import Op, Result, error_result

PATHS = tuple(f"/{number}" for number in range(READS_PER_REQUEST + 10))


class NarrowClient:
    """Client that performs at most `room` reads of a multi-read.

    The others are throttled, or with `loses` the whole response is lost.
    """

    state = SessionState.CONNECTED

    def default_acl(self, _path: str) -> Sequence[Acl]:
        return OPEN_ACL

    def __init__(self, room: int, *, loses: bool) -> None:
        self.room = room
        self.loses = loses
        self.sizes: list[int] = []

    async def multi_read(self, ops: Sequence[Op]) -> list[Result]:
        self.sizes.append(len(ops))
        if self.loses and len(ops) > self.room:
            raise ConnectionLossError
        stat = Stat(*range(11))
        found = [
            Result(OpCode.GET_DATA, GetDataResponse(op.request[0].encode(), stat))
            for op in ops[: self.room]
        ]
        return found + [error_result(ErrorCode.THROTTLED_OP)] * (len(ops) - len(found))

    async def multi(self, ops: Sequence[Op]) -> list[Result]:
        raise RequestTooLargeError(len(ops) << 20, frames.MAX_REQUEST_BYTES)


def edge_of(client: NarrowClient) -> CoordinatorEdge:
    return CoordinatorEdge(cast(Client, client), lambda _event: None)


@pytest.mark.parametrize("loses", [False, True])
async def test_reads_that_do_not_fit_into_a_response_are_sent_again(loses: bool) -> None:
    client = NarrowClient(7, loses=loses)
    async with asyncio.timeout(10):
        found = await edge_of(client).perform(Read(PATHS))
    assert isinstance(found, Nodes)
    assert [node and node.data for node in found.nodes] == [path.encode() for path in PATHS]
    assert max(client.sizes) == READS_PER_REQUEST


class RefusingClient(NarrowClient):
    """Client that refuses the response to more than `room` reads."""

    async def multi_read(self, ops: Sequence[Op]) -> list[Result]:
        if len(ops) > self.room:
            self.sizes.append(len(ops))
            raise ResponseTooLargeError(MAX_REPLY_BYTES + 1, MAX_REPLY_BYTES)
        return await super().multi_read(ops)


async def test_reads_whose_response_is_refused_are_sent_again_in_parts() -> None:
    client = RefusingClient(7, loses=False)
    async with asyncio.timeout(10):
        found = await edge_of(client).perform(Read(PATHS))
    assert isinstance(found, Nodes)
    assert [node and node.data for node in found.nodes] == [path.encode() for path in PATHS]
    assert max(client.sizes) == READS_PER_REQUEST


async def test_every_transaction_that_is_too_large_is_refused() -> None:
    write = Write(((Create("/a", b""), Create("/b", b"")), (Create("/c", b""),)))
    async with asyncio.timeout(10):
        answer = await edge_of(NarrowClient(1, loses=False)).perform(write)
    # The index is never 0 in a fenced transaction, where 0 is the check of the epoch.
    refused = (Outcome((), Refusal.TOO_LARGE, 1), Outcome((), Refusal.TOO_LARGE, 0))
    assert answer == Outcomes(refused)


class LosingClient:
    """Client that loses requests for children: it does not send the first, and gets no replies."""

    state = SessionState.CONNECTED

    def __init__(self, loss_count: int) -> None:
        self.loss_count = loss_count
        self.asked_at_s: list[float] = []

    async def get_children(self, path: str, _watch: object) -> list[str]:
        self.asked_at_s.append(asyncio.get_running_loop().time())
        if len(self.asked_at_s) <= self.loss_count:
            raise ConnectionLossError(path=path, maybe_applied=len(self.asked_at_s) > 1)
        return ["child"]


async def test_a_request_that_is_lost_again_and_again_waits_longer_each_time() -> None:
    client = LosingClient(4)
    edge = CoordinatorEdge(cast(Client, client), lambda _event: None)
    async with asyncio.timeout(10):
        assert await edge.perform(ListChildren("/", watch=False)) == Children(("child",))
    waits_s = [later - earlier for earlier, later in pairwise(client.asked_at_s)]
    # The clock of the loop is rounded.
    assert waits_s[-1] > 3.9 * RETRY_BACKOFF_S

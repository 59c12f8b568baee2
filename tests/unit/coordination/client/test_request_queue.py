"""Requests of a session without a connection."""

import asyncio

from coordination.client.request_queue import Pending, RequestQueue
from coordination.protocol.messages import OpCode


async def test_a_held_request_that_its_caller_has_cancelled_is_not_sent() -> None:
    queue = RequestQueue()
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[bytes]] = [loop.create_future() for _ in range(3)]
    for future in futures:
        queue.hold(Pending(queue.next_xid(), OpCode.CREATE, b"", "/a", future, bytes, None))
    futures[1].cancel()
    assert [pending.xid for pending in queue.take_held()] == [1, 3]
    assert queue.take_held() == []

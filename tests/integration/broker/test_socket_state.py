"""Ends of connections that nothing reads: `broker.network.socket_state`."""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import cast

import pytest
import uvloop

from broker.network.socket_state import has_gone
from tests.waiting import until

Loop = Callable[[], asyncio.AbstractEventLoop]


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("end", [socket.socket.close, reset], ids=["close", "reset"])
def test_a_client_that_goes_is_noticed_although_its_connection_is_not_read(
    new_loop: Loop, end: Callable[[socket.socket], None]
) -> None:
    async def scenario() -> None:
        accepted: asyncio.Future[asyncio.Transport] = asyncio.get_running_loop().create_future()

        class Muted(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                muted = cast(asyncio.Transport, transport)
                muted.pause_reading()
                accepted.set_result(muted)

        server = await asyncio.get_running_loop().create_server(Muted, "127.0.0.1", 0)
        client = socket.create_connection(server.sockets[0].getsockname())
        client.sendall(b"a request that is not read")
        transport = await accepted
        assert not has_gone(transport)
        end(client)
        await until(lambda: has_gone(transport), "the end of the connection")
        transport.abort()
        server.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())

"""Ports of the servers of tests: `tests.ports`."""

import asyncio
import socket

import pytest

from tests.ports import free_port


async def test_server_can_listen_on_a_free_port_that_nobody_else_gets() -> None:
    port = free_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
    server.close()
    await server.wait_closed()

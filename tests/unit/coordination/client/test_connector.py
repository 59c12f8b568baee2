"""Attempts to connect: `coordination.client.connector`."""

from __future__ import annotations

import ssl
from random import Random

from coordination.client.client_connection import ClientConnection
from coordination.client.connector import Connector
from coordination.client.hosts import Host, Rotation
from coordination.protocol.messages import ConnectResponse
from tests.ports import free_port


async def test_each_attempt_gets_the_context_of_its_time() -> None:
    contexts: list[ssl.SSLContext] = []

    def context() -> ssl.SSLContext:
        contexts.append(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        return contexts[-1]

    rotation = Rotation([Host("127.0.0.1", free_port())], Random(0))
    connector = Connector(rotation, context)
    for _ in range(2):
        assert not await connector.attempt(unused, never, 1000)
    assert len(contexts) == 2
    assert connector.failure is not None


def unused() -> ClientConnection:
    raise AssertionError("nothing listens there")


async def never(_connection: ClientConnection, _response: ConnectResponse) -> bool:
    return False

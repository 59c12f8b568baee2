"""Attempts to connect: `coordination.client.connector`."""

from __future__ import annotations

import asyncio
import ssl
from random import Random

import pytest

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


async def test_a_lack_of_threads_is_a_failed_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start_no_thread(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", start_no_thread)
    connector = Connector(Rotation([Host("127.0.0.1", 1)], Random(0)), None)
    assert not await connector.attempt(unused, never, 1000)
    assert connector.failure is not None
    assert "starts no more threads" in connector.failure


async def test_other_errors_of_the_runtime_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        await Connector(Rotation([Host("127.0.0.1", 1)], Random(0)), None).attempt(
            unused, never, 1000
        )


def unused() -> ClientConnection:
    raise AssertionError("nothing listens there")


async def never(_connection: ClientConnection, _response: ConnectResponse) -> bool:
    return False

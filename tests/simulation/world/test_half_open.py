"""Connections whose other host has lost its power."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from tests.simulation.world.loop import WorldLoop
from tests.simulation.world.process import Process

IDLE_S = 60


class Ends(asyncio.Protocol):
    """Records when a connection was lost."""

    def __init__(self, lost_s: list[float]) -> None:
        self._lost_s = lost_s

    def connection_lost(self, exc: Exception | None) -> None:
        assert isinstance(exc, TimeoutError)
        self._lost_s.append(asyncio.get_running_loop().time())


@pytest.mark.parametrize("keeps_alive", [True, False])
def test_a_listener_that_keeps_alive_loses_half_open_connections(*, keeps_alive: bool) -> None:
    lost_s: list[float] = []

    async def live() -> float:
        server, client = Process("b1"), Process("b2")
        loop.network.address_of("b2")
        listener: Any = await loop.create_task(
            loop.create_server(lambda: Ends(lost_s), "b1", 9092), context=server.context
        )
        if keeps_alive:
            [listening] = listener.sockets
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_S)
        await loop.create_task(
            loop.create_connection(asyncio.Protocol, "b1", 9092), context=client.context
        )
        await asyncio.sleep(1)
        client.death.set()
        loop.network.on_power_lost(client)
        died_s = loop.time()
        await asyncio.sleep(10 * IDLE_S)
        return died_s

    loop = WorldLoop(1)
    died_s = loop.run_until_complete(live())
    loop.end_tasks()
    loop.close()
    assert lost_s == ([died_s + IDLE_S] if keeps_alive else [])

"""Thousands of connections open and close in every way, and leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import struct
import tracemalloc
from typing import Final

from broker.network.processor import Processor
from broker.network.reply import Reply
from broker.network.request import Request
from tests.integration.broker.network_support import (
    DEADLINE_S,
    HOST,
    Served,
    echo,
    held_bytes,
    on_every_loop,
    serving,
)
from tests.unit.broker.network_fakes import request_frame
from tests.waiting import until

CONNECTIONS: Final = 5_000
WARM_UP: Final = 500
AT_ONCE: Final = 100
SOURCES: Final = 50
PARK: Final = b"park"
# Memory that a run may leave behind for any number of connections: caches, free lists.
ALLOWED_BYTES: Final = 200_000


def handle(request: Request) -> Reply:
    """Leave requests with the body `PARK` pending forever; echo all others."""
    return Reply() if bytes(request.body) == PARK else echo(request)


def come_and_go(port: int, number: int) -> None:
    """Open and close one connection, of a kind chosen by `number`; blocking, in a thread."""
    kind = number % 5
    with socket.socket() as client:
        # Without a limit, a failed test would wait for its threads forever.
        client.settimeout(DEADLINE_S)
        # Several source addresses, so that ports in TIME_WAIT never run out.
        client.bind((f"127.0.0.{2 + number % SOURCES}", 0))
        client.connect((HOST, port))
        if kind == 1:
            client.sendall(request_frame(1, b"x" * 2000))
            assert client.recv(4, socket.MSG_WAITALL) == struct.pack(">i", 2004)
        elif kind == 2:
            client.sendall(request_frame(1, b"half a frame")[:-3])
        elif kind == 3:
            client.sendall(request_frame(1, PARK) + request_frame(2, b"behind it"))
        elif kind == 4:
            client.sendall(request_frame(1, bytes(200_000))[:100_000])
        if number % 2:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def come_and_go_many(port: int, numbers: range) -> None:
    for number in numbers:
        come_and_go(port, number)


async def run(served: Served, count: int) -> None:
    """Open and close `count` connections, with `AT_ONCE` rounds in threads."""
    accepted = served.server.metrics.connections_accepted
    step = count // AT_ONCE
    await asyncio.gather(
        *(
            asyncio.to_thread(come_and_go_many, served.port(), range(start, start + step))
            for start in range(0, count, step)
        )
    )
    await until(
        lambda: (
            served.server.metrics.connections_accepted == accepted + count
            and served.server.connection_count == 0
        ),
        "all have come and gone",
    )


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def live_processors() -> int:
    gc.collect()
    return sum(isinstance(each, Processor) for each in gc.get_objects())


@on_every_loop
async def test_connections_that_come_and_go_leave_nothing() -> None:
    async with serving(handle) as served:
        await run(served, WARM_UP)
        descriptors, processors = open_descriptors(), live_processors()
        tracemalloc.start()
        try:
            await run(served, WARM_UP)
            gc.collect()
            before_bytes, _ = tracemalloc.get_traced_memory()
            await run(served, CONNECTIONS)
            gc.collect()
            after_bytes, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert held_bytes(served.server) == 0
        assert live_processors() <= processors + 1
        assert open_descriptors() <= descriptors
        assert after_bytes - before_bytes < ALLOWED_BYTES

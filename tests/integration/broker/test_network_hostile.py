"""Broken, slow, greedy or vanished clients must not affect other clients."""

from __future__ import annotations

import asyncio
import random
import struct
import tracemalloc
from collections.abc import Iterable, Mapping
from typing import cast

import pytest
from structlog.testing import capture_logs

from broker.network.limits import NetworkLimits
from broker.network.reply import EncodedMessage, Reply
from tests.integration.broker.network_support import (
    Client,
    Served,
    on_every_loop,
    serving,
)
from tests.unit.broker.network_fakes import request_frame
from tests.waiting import until

MIB = 1024 * 1024
RANDOM_STREAMS = 60


def events(logs: Iterable[Mapping[str, object]]) -> list[object]:
    return [each["event"] for each in logs]


def has_read(served: Served, byte_count: int) -> bool:
    return served.server.metrics.bytes_in >= byte_count


def stop_reading(client: Client) -> asyncio.Transport:
    """Stop reading, so that responses pile up in the client's socket."""
    transport = client.writer.transport
    transport.pause_reading()  # type: ignore[attr-defined]
    return cast(asyncio.Transport, transport)


@on_every_loop
async def test_random_bytes_close_only_their_own_connection() -> None:
    dice = random.Random(7)
    async with serving() as served:
        good = await served.connect()
        with capture_logs() as logs:
            for number in range(RANDOM_STREAMS):
                bad = await served.connect()
                bad.send_raw(request_frame(1, b"good") + b"\xff" + dice.randbytes(500))
                assert await bad.receive() == (1, b"good")
                assert await bad.is_closed_by_broker()
                assert await good.ask(number, b"still here") == b"still here"
        assert events(logs) == ["connection.dropped"] * RANDOM_STREAMS


@on_every_loop
async def test_announced_large_frames_cost_no_memory() -> None:
    """A hundred clients announce 100 MiB each; small requests of others are still served."""
    async with serving() as served:
        good = await served.connect()
        tracemalloc.start()
        try:
            for _ in range(100):
                client = await served.connect()
                client.send_raw(struct.pack(">i", 100 * MIB) + bytes(5000))
            await until(lambda: served.server.metrics.bytes_in >= 100 * 5004, "all the promises")
            assert await good.ask(1, b"small") == b"small"
            assert tracemalloc.get_traced_memory()[1] < 40 * MIB
        finally:
            tracemalloc.stop()
        assert served.server._network.memory.reserved_bytes <= NetworkLimits().receive_memory_bytes


@on_every_loop
async def test_a_client_that_never_reads_costs_a_bounded_amount() -> None:
    body = bytes(100_000)
    async with serving(lambda _request: Reply(EncodedMessage(body))) as served:
        greedy, good = await served.connect(), await served.connect()
        stop_reading(greedy)
        for number in range(5_000):
            greedy.send((number, b""))
        await until(
            lambda: any(each._sender.is_blocked for each in served.server._connections),
            "a full socket",
        )
        for number in range(200):
            assert len(await good.ask(number)) == len(body)
        (stuck,) = (each for each in served.server._connections if each._sender.is_blocked)
        in_batch = stuck._transport.get_write_buffer_size()
        assert 0 < in_batch < 1 * MIB
        assert not stuck._sender.parts
        assert len(stuck._in_flight) <= NetworkLimits().max_in_flight_requests_per_connection
        greedy.writer.transport.abort()


@pytest.mark.parametrize("body_bytes", [0, 3_000, 300_000])
@on_every_loop
async def test_requests_in_random_pieces_are_answered(body_bytes: int) -> None:
    dice = random.Random(body_bytes)
    bodies = [dice.randbytes(dice.randint(0, body_bytes)) for _ in range(40)]
    data = b"".join(request_frame(number, body) for number, body in enumerate(bodies))
    async with serving() as served:
        client = await served.connect()

        async def send() -> None:
            position = 0
            while position < len(data):
                step = dice.choice([1, 7, 100, 5_000, 70_000])
                client.send_raw(data[position : position + step])
                position += step
                await client.writer.drain()
                await asyncio.sleep(0)

        sending = asyncio.create_task(send())
        for number, body in enumerate(bodies):
            assert await client.receive() == (number, body)
        await sending

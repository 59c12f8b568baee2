"""Broken, slow, greedy or vanished clients must not affect other clients."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import tracemalloc
from collections.abc import Iterable, Mapping
from functools import partial
from typing import cast

import pytest
from structlog.testing import capture_logs

from broker.network.limits import NetworkLimits
from broker.network.reply import EncodedMessage, Reply
from broker.network.request import Request
from kafkawire.apis import ApiKey
from tests.integration.broker.network_support import (
    Client,
    Parking,
    Served,
    echo,
    held_bytes,
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
async def test_requests_that_arrive_byte_by_byte_are_answered() -> None:
    async with serving() as served:
        client = await served.connect()
        ours = client.writer.get_extra_info("socket")
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        frames = b"".join(request_frame(number, b"slow") for number in range(3))
        for number, byte in enumerate(frames):
            client.send_raw(bytes([byte]))
            await until(partial(has_read, served, number + 1), "a byte")
        assert [await client.receive() for _ in range(3)] == [(n, b"slow") for n in range(3)]


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
async def test_a_client_that_leaves_after_half_a_frame_leaves_nothing() -> None:
    async with serving() as served:
        for size in (10, 10_000, 10 * MIB):
            client = await served.connect()
            client.send_raw(request_frame(1, bytes(size))[: size // 2])
            await until(lambda: held_bytes(served.server) > 0, "half a frame")
            await client.close()
            await until(lambda: held_bytes(served.server) == 0, "the end")


@on_every_loop
async def test_an_idle_connection_with_half_a_frame_is_closed() -> None:
    async with serving(limits=NetworkLimits(connections_max_idle_ms=100)) as served:
        client = await served.connect()
        client.send_raw(request_frame(1, bytes(1000))[:-1])
        with capture_logs() as logs:
            assert await client.is_closed_by_broker()
        assert events(logs) == ["connection.dropped"]
        assert held_bytes(served.server) == 0


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
async def test_large_requests_wait_for_memory_and_small_ones_pass_them() -> None:
    limits = NetworkLimits(socket_request_max_bytes=MIB, queued_max_request_bytes=MIB)
    large = request_frame(1, bytes(MIB - 100))
    async with serving(limits=limits) as served:
        slow = await served.connect()
        slow.send_raw(large[:-200])
        await until(lambda: held_bytes(served.server) >= MIB - 300, "a reservation")
        waiting = [await served.connect() for _ in range(5)]
        for client in waiting:
            client.send_raw(large)
        small = await served.connect()
        for number in range(20):
            assert await small.ask(number, b"small") == b"small"
        assert not any(client.reader._buffer for client in waiting)  # type: ignore[attr-defined]
        slow.send_raw(large[-200:])
        for client in (slow, *waiting):
            correlation_id, body = await client.receive()
            assert (correlation_id, len(body)) == (1, MIB - 100)


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


@on_every_loop
async def test_a_client_that_reads_late_gets_everything() -> None:
    body = bytes(range(250)) * 400
    async with serving(lambda _request: Reply(EncodedMessage(body))) as served:
        client = await served.connect()
        paused = stop_reading(client)
        client.send(*((number, b"") for number in range(300)))
        await until(
            lambda: any(each._sender.is_blocked for each in served.server._connections),
            "a full socket",
        )
        paused.resume_reading()
        for number in range(300):
            assert await client.receive() == (number, body)


@on_every_loop
async def test_a_flood_stays_within_the_queue_and_is_answered() -> None:
    """Twenty clients pipeline 500 requests each, many times the limit of the queue."""
    queued: list[int] = []

    def handle(request: Request) -> Reply:
        queued.append(500 - served.channel.free_count)
        return echo(request)

    async with serving(handle) as served:
        clients = [await served.connect() for _ in range(20)]
        for client in clients:
            client.send(*((number, b"flood") for number in range(500)))

        async def receive_all(index: int) -> None:
            for number in range(500):
                assert await clients[index].receive() == (number, b"flood")

        await asyncio.gather(*(receive_all(index) for index in range(20)))
        assert 0 < max(queued) <= 500
        assert served.server.metrics.read_pauses > 0


@on_every_loop
async def test_a_client_that_vanishes_during_its_fetch_does_not_affect_others() -> None:
    """The client leaves in the turn in which a produce request wakes its fetch."""
    parking = Parking()

    def handle(request: Request) -> Reply:
        """Keep fetches pending; complete all of them on a produce, like the high watermark."""
        if request.header.api_key is ApiKey.FETCH:
            return parking.handle(request)
        while parking.replies:
            parking.replies.popitem()[1].complete(EncodedMessage(bytes(200_000)))
        return echo(request)

    async with serving(handle) as served:
        producer = await served.connect()
        with capture_logs() as logs:
            for number, is_reset in enumerate([True, False] * 10):
                fetcher = await served.connect()
                fetcher.send_raw(request_frame(number, api_key=ApiKey.FETCH))
                await until(lambda: bool(parking.replies), "a parked fetch")
                vanish(fetcher, is_reset=is_reset)
                assert await producer.ask(number, b"record") == b"record"
        await until(lambda: served.server.connection_count == 1, "the others are gone")
        assert events(logs) == []


def vanish(client: Client, *, is_reset: bool) -> None:
    """Disconnect by a reset, like a crashed process, or by an orderly close."""
    if is_reset:
        ours = client.writer.get_extra_info("socket")
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.writer.transport.abort()


@on_every_loop
async def test_a_cancelled_fetch_is_not_woken() -> None:
    parking = Parking()
    waiting: set[int] = set()

    def handle(request: Request) -> Reply:
        reply = parking.handle(request)
        number = request.header.correlation_id
        waiting.add(number)
        reply.on_cancel(lambda: waiting.discard(number))
        return reply

    async with serving(handle) as served:
        clients = [await served.connect() for _ in range(50)]
        for number, client in enumerate(clients):
            client.send((number, b""))
        await until(lambda: len(waiting) == 50, "parked fetches")
        for client in clients:
            client.writer.transport.abort()
        await until(lambda: not waiting, "cancelled fetches")


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

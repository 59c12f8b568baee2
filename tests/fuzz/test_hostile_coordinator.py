"""The coordinator's client against hostile servers: no hang, bounded memory, clear errors.

The behaviour of the servers is drawn from a printed seed; `OTTLA_SEED` repeats it. `OTTLA_FUZZ_S`
sets the duration in seconds.
"""

import asyncio
import contextlib
import os
import random
import secrets
import struct
import time
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import pytest

from coordination.client import Client, ops
from coordination.client.client_connection import MAX_REPLY_BYTES
from coordination.errors import CoordinationError
from coordination.protocol import frames, jute
from coordination.protocol.frames import Handshake
from coordination.protocol.messages import (
    XID_AUTH,
    XID_NOTIFICATION,
    XID_PING,
    XID_SET_WATCHES,
    ConnectResponse,
    CountResponse,
    ErrorResponse,
    GetDataResponse,
    PathResponse,
    Stat,
    WatcherEvent,
)

EVERYDAY_S: Final = 5.0
SOAK_S: Final = 120.0
TIMEOUT_MS: Final = 300
LIMIT_S: Final = 20.0
"""Limit of one operation, far above the timeouts of a session: a longer operation hangs."""
MEMORY_BYTES: Final = 4 * MAX_REPLY_BYTES
INTS: Final = (0, 1, -1, 2, 7, 20, 300, 0x7FFFFFFF, -0x80000000)
LONGS: Final = (0, 1, -1, (1 << 63) - 1, -(1 << 63))
STAT: Final = Stat(*[0] * 11)


class HostileServer:
    """Server with random responses; each connection gets a few, then silence or its end."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._read_frame(reader)
            writer.write(self._handshake())
            await writer.drain()
            for _ in range(self._rng.randrange(8)):
                xid, _op = struct.unpack_from(">ii", await self._read_frame(reader))
                writer.write(self._answer(xid))
                await writer.drain()
            if self._rng.random() < 0.5:
                await reader.read()
        writer.close()

    async def _read_frame(self, reader: asyncio.StreamReader) -> bytes:
        size = int.from_bytes(await reader.readexactly(4))
        return await reader.readexactly(size)

    def _handshake(self) -> bytes:
        rng = self._rng
        answer = ConnectResponse(0, TIMEOUT_MS, 0x1234, b"p" * 16)
        if rng.random() < 0.3:
            timeout_ms = rng.choice([0, -1, 1, 50, 500, -0x80000000])
            password = rng.choice([None, b"", bytes(500), bytes(2_000)])
            answer = ConnectResponse(rng.choice(INTS), timeout_ms, rng.choice(LONGS), password)
        packet = frames.encode_handshake(Handshake(answer, rng.choice([None, True, False])))
        return self._damaged(packet) if rng.random() < 0.1 else packet

    def _answer(self, xid: int) -> bytes:
        rng = self._rng
        match rng.randrange(10):
            case 0:
                return rng.randbytes(rng.choice([1, 4, 15, 16, 40, 5_000]))
            case 1:
                return struct.pack(">i", rng.choice(INTS)) + rng.randbytes(rng.choice([0, 3]))
            case 2:
                return struct.pack(">i", MAX_REPLY_BYTES) + bytes(MAX_REPLY_BYTES - 10)
            case 3:
                special = (XID_AUTH, XID_PING, XID_SET_WATCHES, *INTS)
                return self._reply(rng.choice(special), rng.choice(INTS))
            case 4:
                return self._event() * rng.choice([1, 1, 2_000])
            case 5:
                return self._damaged(self._reply(xid, 0))
            case 6:
                return self._reply(xid, rng.choice(INTS))
            case _:
                return self._reply(xid, 0)

    def _reply(self, xid: int, err: int) -> bytes:
        rng = self._rng
        body = rng.choice(
            [
                b"",
                jute.encode(GetDataResponse(b"x", STAT)),
                jute.encode(PathResponse("/a")),
                jute.encode(CountResponse(rng.choice(INTS))),
                struct.pack(">i?i", rng.choice(INTS), False, rng.choice(INTS)) * 50,
                struct.pack(">i?i", -1, False, 0) + jute.encode(ErrorResponse(rng.choice(INTS))),
                struct.pack(">i?i", 2, False, 0) * 1_000_000,
                rng.randbytes(100),
                struct.pack(">i", rng.choice(INTS)) * 30,
                struct.pack(">i", 1_000_000) + struct.pack(">i", 0) * 1_000_000,
            ]
        )
        return frames.encode_reply(xid, rng.choice(LONGS), err, body)

    def _event(self) -> bytes:
        rng = self._rng
        kind, path = rng.choice([*INTS, 3, 4]), rng.choice(["", "/a", "/a" * 100_000, "a"])
        event = jute.encode(WatcherEvent(kind, rng.choice(INTS), path))
        return frames.encode_reply(XID_NOTIFICATION, -1, 0, event)

    def _damaged(self, packet: bytes) -> bytes:
        damaged, rng = bytearray(packet), self._rng
        place = rng.randrange(4, max(5, min(len(damaged), 60)))
        if rng.random() < 0.5:
            damaged[place : place + 4] = struct.pack(">i", rng.choice(INTS))
        else:
            del damaged[place:]
            damaged[:4] = struct.pack(">i", len(damaged) - 4)
        return bytes(damaged)

    def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def serving(rng: random.Random) -> AsyncIterator[HostileServer]:
    hostile = HostileServer(rng)
    server = await asyncio.start_server(hostile.on_client, "127.0.0.1")
    hostile.port = server.sockets[0].getsockname()[1]
    try:
        yield hostile
    finally:
        server.close()
        hostile.close()
        await asyncio.sleep(0)


async def use(client: Client, rng: random.Random, endings: Counter[str]) -> None:
    """Connect, send random requests, close; every step must end with a result or an error."""
    requests: list[Callable[[], Awaitable[Any]]] = [
        lambda: client.get_data("/a", lambda _event: None),
        lambda: client.exists("/a", lambda _event: None),
        lambda: client.get_children("/a"),
        lambda: client.get_acl("/a"),
        lambda: client.create("/a", b""),
        lambda: client.create_with_stat("/a", b""),
        lambda: client.set_data("/a", b"x"),
        lambda: client.multi([ops.check("/a", 1), ops.create("/b")]),
        lambda: client.multi_read([ops.get_data("/a"), ops.get_children("/b")]),
        lambda: client.add_watch("/", lambda _event: None),
        lambda: client.remove_watches("/a"),
        lambda: client.sync(),
    ]
    await ended(client.connect(timeout_s=1.0), endings)
    for request in rng.choices(requests, k=6):
        await ended(request(), endings)
    await ended(client.close(), endings)


async def ended(work: Awaitable[Any], endings: Counter[str]) -> None:
    async with asyncio.timeout(LIMIT_S):
        try:
            await work
            endings["answered"] += 1
        except CoordinationError as error:
            endings[f"{type(error).__name__}{'' if str(error) else ' without a text'}"] += 1


def survive(duration_s: float) -> None:
    seed = int(os.environ.get("OTTLA_SEED", secrets.randbits(32)))
    print(f"OTTLA_SEED={seed}")  # noqa: T201 - shown when it fails
    rng, endings = random.Random(seed), Counter[str]()
    end_s = time.monotonic() + duration_s

    async def run() -> None:
        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, each: failures.append(each))
        async with serving(rng) as server:
            client = Client(f"127.0.0.1:{server.port}", session_timeout_ms=TIMEOUT_MS, random=rng)
            await use(client, rng, endings)
        assert failures == []

    rounds = 0
    while time.monotonic() < end_s:
        rounds += 1
        asyncio.run(run())
    print(f"{rounds} servers: {dict(endings)}")  # noqa: T201
    assert rounds > 0
    assert endings["answered"] > 0
    assert not [each for each in endings if each.endswith("without a text")]


def test_no_hostile_server_breaks_the_client() -> None:
    survive(float(os.environ.get("OTTLA_FUZZ_S", EVERYDAY_S)))


@pytest.mark.soak
def test_no_hostile_server_breaks_the_client_in_minutes() -> None:
    survive(float(os.environ.get("OTTLA_FUZZ_S", SOAK_S)))


async def test_endless_data_takes_limited_memory() -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        answer = ConnectResponse(0, TIMEOUT_MS, 0x1234, b"p" * 16)
        writer.write(frames.encode_handshake(Handshake(answer, False)))
        writer.write(struct.pack(">i", MAX_REPLY_BYTES))
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(bytes(1 << 20))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(flood, "127.0.0.1")
    client = Client(
        f"127.0.0.1:{server.sockets[0].getsockname()[1]}", session_timeout_ms=TIMEOUT_MS
    )
    tracemalloc.start()
    try:
        async with asyncio.timeout(LIMIT_S):
            await client.connect()
            with pytest.raises(CoordinationError):
                await client.get_data("/a")
        assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES
    finally:
        tracemalloc.stop()
        await client.abandon()
        server.close()

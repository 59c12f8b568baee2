"""The network's process (edge): passes data between the parties of a cluster.

It has a listening port per route. A route leads to the listener of a broker for clients, to its
listener for other brokers, or from a broker to the coordinator. On a link that is cut, connections
stay open and no data passes, not even the end of a connection, as in a network that loses all
packets; data that has arrived passes when the link is healed.

Commands are JSON, one per line, on a Unix socket whose path is the argument.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from ottla.testing.network.links import (
    CLIENTS,
    Link,
    Links,
    Party,
    link_between,
    missing_bytes,
    sender_of,
)

HOST: Final = "127.0.0.1"
PIECE_BYTES: Final = 65_536
READY_LINE: Final = '{"event": "network.ready"}'


class Network:
    """All routes, and the faults of their links."""

    def __init__(self) -> None:
        self._links = Links()
        self._changed = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def carry_out(self, command: dict[str, Any]) -> dict[str, object]:
        """Carry out a command and return its reply."""
        links = None
        if "links" in command:
            links = [link_between(Party(one), Party(other)) for one, other in command["links"]]
        match command["do"]:
            case "route":
                source = None if command["source"] is None else Party(command["source"])
                return {"port": await self._open(source, Party(command["to"]), command["port"])}
            case "cut" if links:
                self._links.cut(links)
            case "slow" if links:
                self._links.slow(links, command["delay_s"])
            case "heal":
                self._links.heal(links)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        return {}

    async def _open(self, source: Party | None, to: Party, port: int) -> int:
        """Listen for connections to a party's `port`; return the port to connect to.

        Without a source, each connection's first request shows the broker that opened it.
        """

        async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    await self._join(source, to, port, reader, writer)
            finally:
                writer.close()
                self._tasks.discard(task)

        server = await asyncio.start_server(on_connection, HOST, 0)
        self._servers.append(server)
        number: int = server.sockets[0].getsockname()[1]
        return number

    async def _join(
        self,
        source: Party | None,
        to: Party,
        port: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        first = b""
        while source is None and (missing := missing_bytes(first)):
            first += await reader.readexactly(missing)
        sender = sender_of(first) if source is None else source
        link = link_between(to, CLIENTS if sender is None else sender)
        await self._until_open(link)
        far_reader, far_writer = await asyncio.open_connection(HOST, port)
        try:
            far_writer.write(first)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(link, reader, far_writer))
                group.create_task(self._pass(link, far_reader, writer))
        except* OSError:
            # One side is gone; the other one is closed below.
            pass
        finally:
            far_writer.close()

    async def _pass(
        self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Pass data in one direction until its end, and pass the end on."""
        while piece := await self._received(reader):
            if delay_s := self._links.delay_s(link):
                await asyncio.sleep(delay_s)
            await self._until_open(link)
            writer.write(piece)
            await writer.drain()
        await self._until_open(link)
        # Kafka's connections have no half: the other direction ends with this one.
        raise ConnectionResetError

    async def _received(self, reader: asyncio.StreamReader) -> bytes:
        try:
            return await reader.read(PIECE_BYTES)
        except OSError:
            # A connection that was reset ends, too, and on a cut link later.
            return b""

    async def _until_open(self, link: Link) -> None:
        while self._links.is_cut(link):
            await self._changed.wait()


async def _serve(path: str) -> None:
    network = Network()
    ended = asyncio.Event()

    async def on_control(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                reply = await network.carry_out(json.loads(line))
                writer.write(json.dumps(reply).encode() + b"\n")
        finally:
            writer.close()
            ended.set()

    await asyncio.start_unix_server(on_control, path)
    sys.stderr.write(READY_LINE + "\n")
    sys.stderr.flush()
    await ended.wait()


def main(arguments: Sequence[str]) -> int:
    """Serve until the end of the connection that controls the network."""
    # Without `asyncio.run`, which would wait for connections on cut links.
    asyncio.new_event_loop().run_until_complete(_serve(arguments[0]))
    return 0

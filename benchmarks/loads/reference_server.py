"""The reference servers: an echo, a sink and a bare sendfile (edge).

`python -m benchmarks.loads.reference_server echo|sink|sendfile PORT [FILE]`. Each does the minimum
over the same loopback socket, so that its cost is a lower bound for any broker.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Final, cast

import uvloop

from benchmarks.loads.pipeline import SIZE_FIELD
from benchmarks.loads.process import HOST

CHUNK_BYTES: Final = 1024 * 1024


class Echo(asyncio.Protocol):
    """A server that echoes each frame separately, the minimum for any request handling.

    A frame is a size (int32) and that number of bytes, as in Kafka's protocol.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's, so there is nothing to check.
        self._transport = cast(asyncio.Transport, transport)
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        start, end = 0, len(data)
        while end - start >= SIZE_FIELD.size:
            next_start = start + SIZE_FIELD.size + SIZE_FIELD.unpack_from(data, start)[0]
            if next_start > end:
                break
            self._transport.write(data[start:next_start])
            start = next_start
        self._rest = data[start:]


async def serve_echo(port: int) -> None:
    """Echo frames on a uvloop transport until killed."""
    server = await asyncio.get_running_loop().create_server(Echo, HOST, port)
    await server.serve_forever()


def serve_sink(port: int) -> None:
    """Read and discard; send one byte at the end of each stream."""
    buffer = bytearray(CHUNK_BYTES)
    with socket.create_server((HOST, port)) as listener:
        while True:
            connection, _ = listener.accept()
            with connection:
                while connection.recv_into(buffer):
                    pass
                connection.sendall(b".")


def serve_sendfile(port: int, path: Path) -> None:
    """For each received byte, send one complete chunk of `path`, cycling through the file."""
    size_bytes = path.stat().st_size
    with path.open("rb") as file, socket.create_server((HOST, port)) as listener:
        while True:
            connection, _ = listener.accept()
            position = 0
            with connection:
                while asked := connection.recv(64):
                    for _ in asked:
                        _send_chunk(connection, file.fileno(), position)
                        position = (position + CHUNK_BYTES) % (size_bytes - CHUNK_BYTES + 1)


def _send_chunk(connection: socket.socket, file_descriptor: int, position: int) -> None:
    end = position + CHUNK_BYTES
    while position < end:
        position += os.sendfile(connection.fileno(), file_descriptor, position, end - position)


def main(arguments: list[str]) -> None:
    """Run the kind of server in the first argument until killed."""
    kind, port = arguments[0], int(arguments[1])
    if kind == "echo":
        uvloop.run(serve_echo(port))
    elif kind == "sink":
        serve_sink(port)
    elif kind == "sendfile":
        serve_sendfile(port, Path(arguments[2]))
    else:
        raise SystemExit(f"unknown reference server {kind!r}; use echo, sink or sendfile")


if __name__ == "__main__":
    main(sys.argv[1:])

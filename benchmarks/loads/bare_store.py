"""The least that a server in Python can do with records that it has to keep. Kind: edge.

`python -m benchmarks.loads.bare_store PORT FILE ANSWER_BYTES`. Blocking calls over one epoll:
receive, check a CRC-32C, write to a file, answer. No protocol is parsed but the size of a frame,
nothing is validated, indexed or shared out. What a broker costs beyond this is the broker; what
this costs beyond a plain stream is the operating system, and nobody's to save.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from pathlib import Path
from typing import Final

import crc32c

from benchmarks.loads.pipeline import SIZE_FIELD
from benchmarks.loads.process import HOST

BUFFER_BYTES: Final = 1024 * 1024


class _Connection:
    """One client: what it sent and was not yet kept."""

    def __init__(self, client: socket.socket) -> None:
        self.client = client
        self.view = memoryview(bytearray(BUFFER_BYTES))
        self.end = 0

    def receive(self) -> bool:
        """Take in what is there; return whether the client is still there."""
        received = self.client.recv_into(self.view[self.end :])
        self.end += received
        return received > 0


class _Store:
    """Keeps all frames of all clients in one file, one after the other."""

    def __init__(self, file_descriptor: int, answer_bytes: int) -> None:
        self._file_descriptor = file_descriptor
        self._answer = bytes(answer_bytes)
        self._position = 0

    def keep(self, connection: _Connection) -> None:
        """Write what frames are whole, and answer them all at once."""
        start, end, view = 0, connection.end, connection.view
        answers = 0
        while end - start >= SIZE_FIELD.size:
            frame_end = start + SIZE_FIELD.size + SIZE_FIELD.unpack_from(view, start)[0]
            if frame_end > end:
                break
            frame = view[start:frame_end]
            crc32c.crc32c(frame)
            self._position += os.pwrite(self._file_descriptor, frame, self._position)
            answers += 1
            start = frame_end
        view[: end - start] = view[start:end]
        connection.end = end - start
        if answers:
            connection.client.sendall(self._answer * answers)


def serve(port: int, path: Path, answer_bytes: int) -> None:
    """Serve for ever."""
    connections: dict[int, _Connection] = {}
    with (
        path.open("wb", buffering=0) as file,
        socket.create_server((HOST, port)) as listener,
        select.epoll() as ready,
    ):
        store = _Store(file.fileno(), answer_bytes)
        ready.register(listener.fileno(), select.EPOLLIN)
        while True:
            for descriptor, _ in ready.poll():
                if descriptor == listener.fileno():
                    client, _ = listener.accept()
                    connections[client.fileno()] = _Connection(client)
                    ready.register(client.fileno(), select.EPOLLIN)
                elif connections[descriptor].receive():
                    store.keep(connections[descriptor])
                else:
                    ready.unregister(descriptor)
                    connections.pop(descriptor).client.close()


def main(arguments: list[str]) -> None:
    """Serve until killed."""
    serve(int(arguments[0]), Path(arguments[1]), int(arguments[2]))


if __name__ == "__main__":
    main(sys.argv[1:])

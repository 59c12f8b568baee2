"""A minimal loop that serves frames to many clients: blocking calls over one epoll (edge)."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from typing import Final

from benchmarks.loads.pipeline import SIZE_FIELD
from benchmarks.loads.process import HOST

BUFFER_BYTES: Final = 4 * 1024 * 1024

Answer = Callable[[memoryview], bytes]
"""Maps a request frame to a response frame; both include their sizes."""


class _Connection:
    """One client, with its bytes that have no response yet."""

    def __init__(self, client: socket.socket) -> None:
        self.client = client
        self._view = memoryview(bytearray(BUFFER_BYTES))
        self._end = 0

    def receive(self) -> bool:
        """Receive available bytes; return whether the client is still connected."""
        received = self.client.recv_into(self._view[self._end :])
        self._end += received
        return received > 0

    def serve(self, answer: Answer) -> None:
        """Respond to all complete frames in one call."""
        start, end, view = 0, self._end, self._view
        answers = []
        while end - start >= SIZE_FIELD.size:
            frame_end = start + SIZE_FIELD.size + SIZE_FIELD.unpack_from(view, start)[0]
            if frame_end > end:
                break
            answers.append(answer(view[start:frame_end]))
            start = frame_end
        view[: end - start] = view[start:end]
        self._end = end - start
        if answers:
            self.client.sendall(b"".join(answers))


def serve_frames(port: int, answer: Answer) -> None:
    """Serve until killed."""
    connections: dict[int, _Connection] = {}
    with socket.create_server((HOST, port)) as listener, select.epoll() as ready:
        ready.register(listener.fileno(), select.EPOLLIN)
        while True:
            for descriptor, _ in ready.poll():
                if descriptor == listener.fileno():
                    client, _ = listener.accept()
                    connections[client.fileno()] = _Connection(client)
                    ready.register(client.fileno(), select.EPOLLIN)
                elif connections[descriptor].receive():
                    connections[descriptor].serve(answer)
                else:
                    ready.unregister(descriptor)
                    connections.pop(descriptor).client.close()

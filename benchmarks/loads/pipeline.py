"""A raw generator: pre-encoded frames over several sockets, several in flight (edge).

It does as little as Python allows per request, so that a load measures the server.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

READ_BUFFER_BYTES: Final = 4 * 1024 * 1024
SOCKET_TIMEOUT_S: Final = 30.0
SIZE_FIELD: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineResult:
    """Result of a run: number of requests with a response, and size of all responses."""

    request_count: int
    received_bytes: int
    elapsed_s: float


def connect(host: str, port: int) -> socket.socket:
    """Open one connection with Nagle's algorithm off."""
    connection = socket.create_connection((host, port), timeout=SOCKET_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def exchange(connection: socket.socket, frame: bytes) -> bytes:
    """Send one frame, and return the response without its size field."""
    connection.sendall(frame)
    (size,) = SIZE_FIELD.unpack(_receive_exactly(connection, SIZE_FIELD.size))
    return _receive_exactly(connection, size)


def _receive_exactly(connection: socket.socket, size_bytes: int) -> bytes:
    data = bytearray()
    while len(data) < size_bytes:
        chunk = connection.recv(size_bytes - len(data))
        if not chunk:
            raise ConnectionError("the server closed the connection")
        data += chunk
    return bytes(data)


class _Stream:
    """One socket of a run, with its remaining requests and partial response."""

    def __init__(
        self, connection: socket.socket, frames: Sequence[bytes], request_count: int
    ) -> None:
        self.connection = connection
        self.unsent_count = request_count
        self.unanswered_count = request_count
        self._frames = frames
        self._next_frame = 0
        self._missing_bytes = 0
        self._head = b""

    def send(self, count: int) -> None:
        """Send up to `count` more frames in one call."""
        count = min(count, self.unsent_count)
        if count:
            self.unsent_count -= count
            self.connection.sendall(b"".join(self._take() for _ in range(count)))

    def _take(self) -> bytes:
        frame = self._frames[self._next_frame]
        self._next_frame = (self._next_frame + 1) % len(self._frames)
        return frame

    def on_fixed(self, received_bytes: int, answer_bytes: int) -> int:
        """Count complete responses if all have the same size."""
        self._missing_bytes += received_bytes
        answered, self._missing_bytes = divmod(self._missing_bytes, answer_bytes)
        self.unanswered_count -= answered
        return answered

    def on_framed(self, data: memoryview) -> int:
        """Count complete responses by their size fields."""
        answered, position = 0, 0
        while position < len(data):
            if self._missing_bytes:
                step = min(self._missing_bytes, len(data) - position)
                position += step
                self._missing_bytes -= step
                answered += not self._missing_bytes
                continue
            take = SIZE_FIELD.size - len(self._head)
            self._head += bytes(data[position : position + take])
            position = min(position + take, len(data))
            if len(self._head) == SIZE_FIELD.size:
                (self._missing_bytes,) = SIZE_FIELD.unpack(self._head)
                self._head = b""
        self.unanswered_count -= answered
        return answered


def run_pipeline(
    host: str,
    port: int,
    frames: Sequence[bytes],
    *,
    request_count: int,
    connection_count: int,
    in_flight: int,
    answer_bytes: int | None = None,
) -> PipelineResult:
    """Send `request_count` frames over each of the connections, `in_flight` at a time.

    `frames` are sent in turn. `answer_bytes` is the complete size of every response if it is
    constant (cheaper to count); None reads the size fields.
    """
    poll = select.epoll()
    streams: dict[int, _Stream] = {}
    for _ in range(connection_count):
        connection = connect(host, port)
        streams[connection.fileno()] = _Stream(connection, frames, request_count)
        poll.register(connection.fileno(), select.EPOLLIN)
    buffer = memoryview(bytearray(READ_BUFFER_BYTES))
    received_bytes, busy_count = 0, connection_count
    started_s = time.perf_counter()
    for stream in streams.values():
        stream.send(in_flight)
    while busy_count:
        for descriptor, _ in poll.poll(SOCKET_TIMEOUT_S) or [(-1, 0)]:
            if descriptor < 0:
                raise TimeoutError("the server stopped answering")
            stream = streams[descriptor]
            count = stream.connection.recv_into(buffer)
            if not count:
                raise ConnectionError("the server closed the connection")
            received_bytes += count
            if answer_bytes:
                answered = stream.on_fixed(count, answer_bytes)
            else:
                answered = stream.on_framed(buffer[:count])
            stream.send(answered)
            if not stream.unanswered_count:
                busy_count -= 1
                poll.unregister(descriptor)
    elapsed_s = time.perf_counter() - started_s
    for stream in streams.values():
        stream.connection.close()
    return PipelineResult(
        request_count=request_count * connection_count,
        received_bytes=received_bytes,
        elapsed_s=elapsed_s,
    )


def measure_round_trips(
    host: str, port: int, frame: bytes, answer_bytes: int, count: int
) -> list[float]:
    """Return `count` round-trip times in microseconds, one request in flight."""
    buffer = bytearray(READ_BUFFER_BYTES)
    times_us = []
    with connect(host, port) as connection:
        for _ in range(count):
            started_ns = time.perf_counter_ns()
            connection.sendall(frame)
            received = 0
            while received < answer_bytes:
                received += connection.recv_into(buffer)
            times_us.append((time.perf_counter_ns() - started_ns) / 1000)
    return times_us

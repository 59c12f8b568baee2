"""Frames of several connections arrive for any chunks and any interleaving of their bytes."""

from __future__ import annotations

import struct

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.network.buffer_pool import BufferPool
from broker.network.frame_receiver import LARGE_FRAME_BYTES, FrameReceiver
from broker.network.limits import NetworkLimits
from broker.network.receive_memory import ReceiveMemory

MAX_FRAME_BYTES = 3 * LARGE_FRAME_BYTES
CONNECTIONS = 3

frame_sizes = st.one_of(
    st.integers(0, 40),
    st.integers(LARGE_FRAME_BYTES - 8, LARGE_FRAME_BYTES + 8),
    st.just(MAX_FRAME_BYTES),
)
# The connection that reads next, the number of bytes, the number of frames taken, and whether all
# pending requests are handled after that.
steps = st.lists(
    st.tuples(
        st.integers(0, CONNECTIONS - 1),
        st.one_of(st.integers(1, 12), st.integers(1, 100_000)),
        st.integers(0, 4),
        st.booleans(),
    ),
    max_size=60,
)


class Connection:
    """Sent and received bytes of a connection, and the frames that no handler has seen yet."""

    def __init__(self, number: int, sizes: list[int], pool: BufferPool, memory: ReceiveMemory):
        fill = [bytes([number * 64 + index % 64]) for index in range(len(sizes))]
        self.sent = [byte * size for byte, size in zip(fill, sizes, strict=True)]
        self.input = b"".join(struct.pack(">i", len(body)) + body for body in self.sent)
        self.position = 0
        self.receiver = FrameReceiver(
            pool, memory, NetworkLimits(socket_request_max_bytes=MAX_FRAME_BYTES)
        )
        self.waiting: list[tuple[memoryview, object]] = []
        self.arrived: list[bytes] = []

    def read(self, limit_bytes: int, frame_count: int) -> None:
        buffer = self.receiver.get_buffer()
        count = min(len(buffer), limit_bytes, len(self.input) - self.position)
        if count:
            buffer[:count] = self.input[self.position : self.position + count]
            self.position += count
            self.note(self.receiver.receive(count, frame_count))

    def take(self, frame_count: int) -> None:
        self.note(self.receiver.take(frame_count))

    def note(self, frames: list[memoryview]) -> None:
        self.waiting += [(frame, self.receiver.release_frame) for frame in frames]

    def handle(self) -> None:
        """Read the frames only now, and write into them, as a handler may."""
        for frame, release in self.waiting:
            self.arrived.append(bytes(frame))
            frame[:] = b"\xff" * len(frame)
            if callable(release):
                release()
        self.waiting.clear()


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=150)
@given(st.lists(st.lists(frame_sizes, max_size=6), min_size=3, max_size=3), steps)
def test_frames_of_interleaved_connections_arrive_complete_and_in_order(
    sizes: list[list[int]], schedule: list[tuple[int, int, int, bool]]
) -> None:
    pool, memory = BufferPool(), ReceiveMemory(1 << 30)
    connections = [Connection(n, each, pool, memory) for n, each in enumerate(sizes)]

    def handle_all() -> None:
        for connection in connections:
            connection.handle()
        pool.recycle()

    for number, limit_bytes, frame_count, is_handled in schedule:
        connections[number].read(limit_bytes, frame_count)
        if is_handled:
            handle_all()
    for connection in connections:
        while connection.position < len(connection.input):
            connection.read(1 << 30, 1 << 30)
            connection.take(1 << 30)
        connection.take(1 << 30)
    handle_all()

    assert [connection.arrived for connection in connections] == [
        connection.sent for connection in connections
    ]
    assert (memory.reserved_bytes, memory.kept_bytes) == (0, 0)
